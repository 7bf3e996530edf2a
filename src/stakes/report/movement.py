"""How calibration moved the posterior: the latents that moved most, alone and in pairs."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import jax
import numpy as np
from scipy.ndimage import gaussian_filter1d

from stakes import evaluation
from stakes.evaluation import Fitted
from stakes.report.content import Marginal, Moments, Movement, Pair
from stakes.result import Calibration

MARGINALS = 6
PAIRED = 3
"""All pairs of this many latents are shown."""
DRAWS = 4000
GRID = 120
MOST_VALUES = 20_000_000
"""Draws of all latents together held at once."""
MOST_ROUNDS = 20

Element = tuple[str, tuple[int, ...]]
"""A latent, and where in it."""
Draws = dict[Element, np.ndarray]


def movement(result: Calibration, nuts: Mapping[str, Any] | None) -> Movement:
    """The marginals and pairs of the latents that calibration moved most."""
    latents = result.approximation.structure.latents
    total = sum(int(np.prod(latent.shape)) for latent in latents.values())
    methods, chosen = _draws(result, total)
    if nuts is not None:
        methods["NUTS"] = {e: _element(np.asarray(nuts[e[0]]), e[1]) for e in chosen}
    names = {element: _name(result, element) for element in chosen}
    return Movement(
        marginals=tuple(_marginal(names[e], {m: d[e] for m, d in methods.items()}) for e in chosen),
        pairs=tuple(
            _pair(names[a], names[b], {m: (d[a], d[b]) for m, d in methods.items()})
            for a, b in combinations(chosen[:PAIRED], 2)
        ),
        total=total,
        draws=len(next(iter(methods["VI"].values()))),
    )


def _draws(result: Calibration, total: int) -> tuple[dict[str, Draws], list[Element]]:
    """In rounds that each hold all latents; after the first only the chosen ones are kept."""
    each = int(np.clip(MOST_VALUES // max(total, 1), 20, DRAWS))
    rounds = min(-(-DRAWS // each), MOST_ROUNDS)
    fits = {"VI": result.vi, "LCVI": result.calibrated}
    chosen: list[Element] = []
    kept: dict[str, list[Draws]] = {method: [] for method in fits}
    for i in range(rounds):
        # The same key for both posteriors, so that most of the noise in what moved cancels.
        key = jax.random.fold_in(result.key, i)
        found = {
            method: evaluation.latent_draws(Fitted(result.approximation, fit.params), key, each)
            for method, fit in fits.items()
        }
        chosen = chosen or _most_moved(found["VI"], found["LCVI"])
        for method, draws in found.items():
            kept[method].append({e: _element(draws[e[0]], e[1]).copy() for e in chosen})
    whole = {
        method: {e: np.concatenate([part[e] for part in parts]) for e in chosen}
        for method, parts in kept.items()
    }
    return whole, chosen


def _most_moved(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> list[Element]:
    """By the change of mean and spread, in standard deviations of plain VI."""
    found: list[tuple[float, Element]] = []
    for name in before:
        sd = before[name].std(axis=0)
        unit = np.where(sd > 0, sd, 1.0)
        shift = np.abs(after[name].mean(axis=0) - before[name].mean(axis=0)) / unit
        moved = np.ravel(shift + np.abs(after[name].std(axis=0) - sd) / unit)
        for place in np.argsort(-moved, kind="stable")[:MARGINALS]:
            at = tuple(int(i) for i in np.unravel_index(place, sd.shape))
            found.append((float(moved[place]), (name, at)))
    found.sort(key=lambda one: -one[0])
    return [element for _, element in found[:MARGINALS]]


def _element(draws: np.ndarray, at: tuple[int, ...]) -> np.ndarray:
    index: Any = (slice(None), *at)
    return draws[index]


def _name(result: Calibration, element: Element) -> str:
    """theta[A]: members by their labels, where they have some."""
    name, at = element
    dims = result.approximation.structure.latents[name].dims
    members = [
        str(result.coords[dim][i]) if dim in result.coords else str(i)
        for dim, i in zip(dims, at, strict=True)
    ]
    return f"{name}[{', '.join(members)}]" if members else name


def _marginal(name: str, draws: Mapping[str, np.ndarray]) -> Marginal:
    ends = [np.quantile(values, (0.003, 0.997)) for values in draws.values()]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    if not low < high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, GRID + 1)
    return Marginal(
        name=name,
        grid=(edges[:-1] + edges[1:]) / 2,
        density={method: _density(values, edges) for method, values in draws.items()},
        moments={method: _moments(values) for method, values in draws.items()},
    )


def _density(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """A histogram smoothed with Silverman's width, reflected at the ends of its range."""
    counts, _ = np.histogram(values, edges)
    bin_width = edges[1] - edges[0]
    quartiles = np.quantile(values, (0.25, 0.75))
    spread = min(float(values.std()), float(quartiles[1] - quartiles[0]) / 1.34)
    width = 1.06 * spread * len(values) ** -0.2 / bin_width
    return gaussian_filter1d(counts / (len(values) * bin_width), max(width, 1e-3), mode="reflect")


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
