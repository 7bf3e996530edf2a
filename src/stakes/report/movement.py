"""How calibration moved the posterior: the latents that moved most, one by one and in pairs."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Protocol, runtime_checkable

import numpy as np

from stakes.predicting import SampledPosterior
from stakes.report.content import Marginal, Moments, Movement, Pair
from stakes.report.density import centres, smoothed
from stakes.study import Calibration

MARGINALS = 6
PAIRED = 3
"""All pairs of this many latents are shown."""
DRAWS = 4000
GRID = 120
MOST_VALUES = 20_000_000
"""Draws of all latents together held at once."""
MOST_ROUNDS = 20

Element = tuple[str, int]
"""A latent, and which of its members."""
Draws = dict[Element, np.ndarray]


@runtime_checkable
class HasEffects(Protocol):
    """A model whose latents stand for something that has a name of its own."""

    def effects(self, draws: Mapping[str, Any]) -> dict[str, np.ndarray]: ...

    def title(
        self, name: str, place: tuple[int, ...], coords: Mapping[str, Sequence[Any]]
    ) -> str: ...


def movement(result: Calibration, nuts: SampledPosterior | None) -> Movement:
    """The marginals and pairs of the latents that calibration moved most."""
    latents = result.approximation.latents
    total = sum(int(np.prod(latent.shape)) for latent in latents.values())
    methods, names = _draws(result, total)
    chosen = list(names)
    if nuts is not None:
        sampled = _effects(result, nuts.samples)
        methods["NUTS"] = {e: _element(np.asarray(sampled[e[0]]), e[1]) for e in chosen}
    return Movement(
        marginals=tuple(
            _marginal(names[e], e, {m: d[e] for m, d in methods.items()}) for e in chosen
        ),
        pairs=tuple(
            _pair(names[a], names[b], {m: (d[a], d[b]) for m, d in methods.items()})
            for a, b in combinations(chosen[:PAIRED], 2)
        ),
        total=total,
        draws=len(next(iter(methods["VI"].values()))),
    )


def before_data(result: Calibration, where: Element, draws: int) -> np.ndarray | None:
    """Draws of one value from its prior; None where it has none of its own."""
    found = result.prior(draws=draws).squeeze("chain")
    drawn = _effects(result, {str(name): found[name].values for name in found})
    return _element(drawn[where[0]], where[1]) if where[0] in drawn else None


def _effects(result: Calibration, latents: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draws of latents, or of what a formula calls them and in its units."""
    model = result.problem.model
    if isinstance(model, HasEffects):
        return model.effects(latents)
    return latents


def _element(draws: np.ndarray, member: int) -> np.ndarray:
    """Draws of one of the values of a site."""
    return draws.reshape(len(draws), -1)[:, member]


def _draws(result: Calibration, total: int) -> tuple[dict[str, Draws], dict[Element, str]]:
    """Draws in rounds, each of all latents; only the chosen ones are kept, with their names."""
    each = int(np.clip(MOST_VALUES // max(total, 1), 20, DRAWS))
    chosen: dict[Element, str] = {}
    kept: dict[str, list[Draws]] = {method: [] for method in result.fits}
    for part in range(min(-(-DRAWS // each), MOST_ROUNDS)):
        # The same part of both posteriors, so that most of the noise in what moved cancels.
        found = {
            method: _effects(result, result.latent_draws(fit, each, part=part))
            for method, fit in result.fits.items()
        }
        chosen = chosen or {
            e: _name(result, *e, found["VI"][e[0]].shape[1:])
            for e in _telling(found["VI"], found.get("LCVI"))
        }
        for method, draws in found.items():
            kept[method].append({e: _element(draws[e[0]], e[1]).copy() for e in chosen})
    whole = {
        method: {e: np.concatenate([part[e] for part in parts]) for e in chosen}
        for method, parts in kept.items()
    }
    return whole, chosen


def _telling(
    before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray] | None
) -> list[Element]:
    """Those that moved most, judged by the change of mean and spread, in plain VI's standard
    deviations; those furthest from zero in this unit, where there is no other fit.
    """
    found: list[tuple[float, Element]] = []
    for name in before:
        sd = before[name].std(axis=0)
        unit = np.where(sd > 0, sd, 1.0)
        mean, spread = (0.0, sd) if after is None else (after[name].mean(0), after[name].std(0))
        shift = np.abs(mean - before[name].mean(axis=0)) / unit
        moved = np.ravel(shift + np.abs(spread - sd) / unit)
        for member in np.argsort(-moved, kind="stable")[:MARGINALS]:
            found.append((float(moved[member]), (name, int(member))))
    found.sort(key=lambda one: -one[0])
    return [element for _, element in found[:MARGINALS]]


def _name(result: Calibration, name: str, member: int, shape: tuple[int, ...]) -> str:
    """theta[A]: members by their labels, where they have some; or as a formula says it."""
    place, model = tuple(map(int, np.unravel_index(member, shape))), result.problem.model
    if isinstance(model, HasEffects):
        return model.title(name, place, result.coords)
    members = [
        str(result.coords[dim][i]) if dim in result.coords else str(i)
        for dim, i in zip(result.approximation.latents[name].dims, place, strict=True)
    ]
    return f"{name}[{', '.join(members)}]" if members else name


def _marginal(name: str, where: Element, draws: Mapping[str, np.ndarray]) -> Marginal:
    ends = [np.quantile(values, (0.003, 0.997)) for values in draws.values()]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    if not low < high:
        low, high = low - 0.5, high + 0.5
    grid = centres(low, high, GRID)
    return Marginal(
        name=name,
        element=where,
        grid=grid,
        density={method: smoothed(values[:, None], [grid]) for method, values in draws.items()},
        moments={method: _moments(values) for method, values in draws.items()},
    )


def _moments(values: np.ndarray) -> Moments:
    low, high = np.quantile(values, (0.05, 0.95))
    return Moments(float(values.mean()), float(values.std()), float(low), float(high))


def _pair(x: str, y: str, draws: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Pair:
    return Pair(
        x=x,
        y=y,
        points={method: np.stack(both, axis=1) for method, both in draws.items()},
        correlation={method: _correlation(*both) for method, both in draws.items()},
    )


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    if x.std() == 0 or y.std() == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])
