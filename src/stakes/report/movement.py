"""How calibration moved the posterior: the latents that moved most, one by one and in pairs.

Both posteriors are drawn with the same random numbers, so that most of the noise in their
difference cancels. Densities are kernel estimates on a grid, reflected at its ends.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
from scipy.stats import gaussian_kde

from stakes.predicting import SampledPosterior
from stakes.study import Calibration

# Latents shown, those that moved most.
MARGINALS = 6
# All pairs of this many latents are shown.
PAIRED = 3
# Draws of each posterior, from which densities and moments come.
DRAWS = 4000
# Points at which a density is drawn.
GRID = 120
# Draws of all latents together held at once: 80 MB in single precision.
MOST_VALUES = 20_000_000
# Rounds of draws for a model with many latents, which have fewer draws in the end.
MOST_ROUNDS = 20
# The most draws times grid points in a density; draws are thinned to that.
MOST_TERMS = 5_000_000
# The fewest draws for a density; where there are fewer, they are repeated.
FEWEST = 10
# An eighth of a grid is added at each end, and reflected: a density does not dip at a bound.
MARGIN = 8

# A latent, and which of its members.
Element: TypeAlias = tuple[str, int]


@final
@dataclass(frozen=True)
class Moments:
    """A marginal of one posterior in four numbers.

    Attributes:
        low: 5 % quantile.
        high: 95 % quantile.
    """

    mean: float
    sd: float
    low: float
    high: float


@final
@dataclass(frozen=True, eq=False)
class Marginal:
    """The distribution of one latent under each method.

    Attributes:
        name: for readers.
        element: the site, and the number among its values.
        grid: values at which densities are known.
        density: by method, on the grid.
        moments: by method.
    """

    name: str
    element: tuple[str, int]
    grid: np.ndarray
    density: Mapping[str, np.ndarray]
    moments: Mapping[str, Moments]


@final
@dataclass(frozen=True, eq=False)
class Pair:
    """Two latents together, under each method.

    Attributes:
        points: method -> draws x 2.
    """

    x: str
    y: str
    points: Mapping[str, np.ndarray]
    correlation: Mapping[str, float]


@final
@dataclass(frozen=True, eq=False)
class Movement:
    """How calibration moved the posterior; the latents that moved most come first.

    If plain VI is the only fit, the latents furthest from zero in standard deviations come first.

    Attributes:
        total: the number of latents of the model, counting each member of a plate.
    """

    marginals: tuple[Marginal, ...]
    pairs: tuple[Pair, ...]
    total: int
    draws: int


@runtime_checkable
class HasEffects(Protocol):
    """A model whose latents stand for something that has a name of its own."""

    def effects(self, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return draws of the effects, by name."""
        ...

    def title(
        self, name: str, place: tuple[int, ...], coords: Mapping[str, Sequence[object]]
    ) -> str:
        """Return the name of one value of a site, for readers."""
        ...


def moved_latents(result: Calibration, nuts: SampledPosterior | None) -> Movement:
    """Return the marginals and pairs of the latents that calibration moved most."""
    total = sum(int(np.prod(latent.shape)) for latent in result.approximation.latents.values())
    methods, names = _draws(result, total)
    if nuts is not None:
        sampled = _effects(result, nuts.samples)
        methods["NUTS"] = {e: _element(np.asarray(sampled[e[0]]), e[1]) for e in names}

    def together(*elements: Element) -> dict[str, np.ndarray]:
        """Method -> draws x latent."""
        return {m: np.stack([draws[e] for e in elements], axis=1) for m, draws in methods.items()}

    pairs = combinations(list(names)[:PAIRED], 2)
    return Movement(
        marginals=tuple(_marginal(name, e, together(e)) for e, name in names.items()),
        pairs=tuple(_pair(names[x], names[y], together(x, y)) for x, y in pairs),
        total=total,
        draws=len(next(iter(methods["VI"].values()))),
    )


def before_data(result: Calibration, where: Element, draws: int) -> np.ndarray | None:
    """Return draws of one value from its prior; None where it has none of its own."""
    prior = result.prior(draws=draws).squeeze("chain")
    drawn = _effects(result, {str(name): prior[name].values for name in prior})
    return _element(drawn[where[0]], where[1]) if where[0] in drawn else None


def _effects(result: Calibration, latents: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return draws of latents, or of what a formula calls them, in its units."""
    model = _model_of_effects(result)
    return latents if model is None else model.effects(latents)


def _model_of_effects(result: Calibration) -> HasEffects | None:
    """Return the model, if its latents have names of their own."""
    model: object = result.problem.model
    return model if isinstance(model, HasEffects) else None


def _element(draws: np.ndarray, member: int) -> np.ndarray:
    """Return the draws of one element of a site."""
    return draws.reshape(len(draws), -1)[:, member]


def _draws(
    result: Calibration, total: int
) -> tuple[dict[str, dict[Element, np.ndarray]], dict[Element, str]]:
    """Draws in rounds, each of all latents; only the chosen ones are kept, with their names."""
    count = int(np.clip(MOST_VALUES // max(total, 1), 20, DRAWS))
    names: dict[Element, str] = {}
    kept: dict[str, list[dict[Element, np.ndarray]]] = {method: [] for method in result.fits}
    for part in range(min(-(-DRAWS // count), MOST_ROUNDS)):
        # The same part of both posteriors, so that most of the noise in what moved cancels.
        drawn = {
            method: _effects(result, result.latent_draws(fit, count, part=part))
            for method, fit in result.fits.items()
        }
        names = names or {
            e: _name(result, *e, drawn["VI"][e[0]].shape[1:])
            for e in _most_moved(drawn["VI"], drawn.get("LCVI"))
        }
        for method, draws in drawn.items():
            kept[method].append({e: _element(draws[e[0]], e[1]).copy() for e in names})
    methods = {
        method: {e: np.concatenate([part[e] for part in parts]) for e in names}
        for method, parts in kept.items()
    }
    return methods, names


def _most_moved(
    before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray] | None
) -> list[Element]:
    """Return the latents that moved most, or those furthest from zero if there is no other fit.

    A move is the change of mean and of standard deviation, in plain VI's standard deviations.
    Without another fit, it is how far the mean is from zero in this unit.
    """
    moves: list[tuple[float, Element]] = []
    for name in before:
        sd = before[name].std(axis=0)
        unit = np.where(sd > 0, sd, 1.0)
        mean, spread = (0.0, sd) if after is None else (after[name].mean(0), after[name].std(0))
        shift = np.abs(mean - before[name].mean(axis=0)) / unit
        moved = np.ravel(shift + np.abs(spread - sd) / unit)
        for member in np.argsort(-moved, kind="stable")[:MARGINALS]:
            moves.append((float(moved[member]), (name, int(member))))
    moves.sort(key=lambda move: -move[0])
    return [element for _, element in moves[:MARGINALS]]


def _name(result: Calibration, name: str, member: int, shape: tuple[int, ...]) -> str:
    """Return a name such as theta[A]: members by their labels, or as a formula says it."""
    place, model = tuple(map(int, np.unravel_index(member, shape))), _model_of_effects(result)
    if model is not None:
        return model.title(name, place, result.plan.coords)
    members = [
        str(result.plan.coords[dim][i]) if dim in result.plan.coords else str(i)
        for dim, i in zip(result.approximation.latents[name].dims, place, strict=True)
    ]
    return f"{name}[{', '.join(members)}]" if members else name


def _marginal(name: str, element: Element, draws: Mapping[str, np.ndarray]) -> Marginal:
    """Return densities and moments of one latent under each method."""
    ends = np.array([np.quantile(values, (0.003, 0.997)) for values in draws.values()])
    low, high = float(np.min(ends[:, 0])), float(np.max(ends[:, 1]))
    if not low < high:
        low, high = low - 0.5, high + 0.5
    grid = centres(low, high, GRID)
    moments = {}
    for method, values in draws.items():
        fifth, last = map(float, np.quantile(values, (0.05, 0.95)))
        moments[method] = Moments(float(values.mean()), float(values.std()), fifth, last)
    density = {method: density_of(values, [grid]) for method, values in draws.items()}
    return Marginal(name, element, grid, density, moments)


def _pair(x: str, y: str, points: Mapping[str, np.ndarray]) -> Pair:
    """Return draws of two latents under each method, and their correlation."""
    return Pair(x, y, points, {method: _correlation(*xy.T) for method, xy in points.items()})


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Return the correlation; nan where one of them does not vary."""
    return float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else math.nan


def centres(low: float, high: float, count: int) -> np.ndarray:
    """Return middles of that many cells of equal width."""
    edges = np.linspace(low, high, count + 1)
    return (edges[:-1] + edges[1:]) / 2


def density_of(draws: np.ndarray, axes: Sequence[np.ndarray]) -> np.ndarray:
    """Density of draws x variable on a grid with one even axis for each variable.

    It is reflected at the ends of the grid, so that the density of a latent with a bound, such as
    a scale, does not dip there.
    """
    steps = np.array([float(axis[1] - axis[0]) for axis in axes])
    margins = [len(axis) // MARGIN for axis in axes]
    wider = [
        np.arange(-margin, len(axis) + margin) * step + axis[0]
        for axis, margin, step in zip(axes, margins, steps, strict=True)
    ]
    points = np.meshgrid(*wider, indexing="ij")
    kept = _suitable(draws, axes, steps / 2, MOST_TERMS // points[0].size)
    # Noise too small to show, so that constant and collinear draws have a density, too.
    kept = kept + steps / 2 * np.random.default_rng(0).normal(size=kept.shape)
    kernels = gaussian_kde(kept.T, bw_method=_bandwidth(kept, steps / 2))
    values = kernels(np.stack([x.ravel() for x in points]))
    density: np.ndarray = values.reshape(points[0].shape)
    for number, margin in enumerate(margins):
        wide = np.moveaxis(density, number, 0)
        inner = wide[margin:-margin].copy()
        inner[:margin] += wide[:margin][::-1]
        inner[-margin:] += wide[-margin:][::-1]
        density = np.moveaxis(inner, 0, number)
    return density


def _suitable(
    draws: np.ndarray, axes: Sequence[np.ndarray], half_cell: np.ndarray, most: int
) -> np.ndarray:
    """Return the draws on the grid, thinned or repeated; all where hardly any lie there."""
    low = np.array([axis[0] for axis in axes]) - half_cell
    high = np.array([axis[-1] for axis in axes]) + half_cell
    inside = draws[((low <= draws) & (draws <= high)).all(axis=1)]
    kept = inside if len(inside) >= FEWEST else draws
    thinned = kept[np.linspace(0, len(kept) - 1, min(len(kept), most)).astype(int)]
    return np.resize(thinned, (max(len(thinned), FEWEST), draws.shape[1]))


def _bandwidth(draws: np.ndarray, least: np.ndarray) -> float:
    """Scott's factor, less where a few draws far out make up most of the standard deviation.

    No kernel is narrower than `least`, or it could fall between two points of the grid.
    """
    count, variables = draws.shape
    sd = draws.std(axis=0)
    lower, upper = np.quantile(draws, (0.25, 0.75), axis=0)
    typical = min(np.max((upper - lower) / 1.34 / sd), 1.0)
    return float(max(count ** (-1 / (variables + 4)) * typical, np.max(least / sd)))


def levels(density: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """Return for each share the density on the contour of the densest region that holds it."""
    falling: np.ndarray = np.sort(density.ravel())[::-1]
    held = np.cumsum(falling) / falling.sum()
    return falling[np.searchsorted(held, np.array(shares))]
