"""Two sets of costs, and intervals of how they differ for few or heavy-tailed ones."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

LEVEL = 0.95
RESAMPLES = 1999
ALL_SIGNS = 12
"""Up to so many costs, every change of their signs is tried."""
NONE = 1e-12
"""What is smaller than this, as a share of the costs, is a rounding error."""


@final
@dataclass(frozen=True, eq=False)
class Costs:
    """What two sets of decisions cost for the same instances, or for groups of them."""

    base: np.ndarray
    other: np.ndarray

    @property
    def change(self) -> np.ndarray:
        return np.asarray(self.base - self.other)

    @property
    def size(self) -> np.ndarray:
        """The costs of the base, turned so that their mean is positive: those of gains are not."""
        return np.asarray(self.base * np.sign(self.base.mean()))

    @property
    def reduction(self) -> float:
        """By how much the other is lower, as a share of the base."""
        return float(self.change.mean() / self.size.mean())

    @property
    def residuals(self) -> np.ndarray:
        """What each contributes to the error of the reduction; they add up to zero."""
        return np.asarray((self.change - self.reduction * self.size) / self.size.mean())

    def summed(self, groups: np.ndarray) -> "Costs":
        """Of each group together."""
        return Costs(summed(self.base, groups), summed(self.other, groups))


def by_bootstrap(costs: Costs, rng: np.random.Generator) -> tuple[float, float]:
    """Studentised: errors in units of their own standard error are drawn anew."""
    count = len(costs.base)
    rows = rng.integers(count, size=(RESAMPLES, count))
    change, size = costs.change[rows], costs.size[rows]
    mean = size.mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        reduction = change.mean(axis=1) / mean
        spread = (change - reduction[:, None] * size).std(axis=1, ddof=1) / np.abs(mean)
        scores = (reduction - costs.reduction) / spread
    scores = np.where(np.isnan(scores), 0.0, scores)
    low = float(np.quantile(scores, (1 - LEVEL) / 2, method="lower"))
    high = float(np.quantile(scores, (1 + LEVEL) / 2, method="higher"))
    own = float(costs.residuals.std(ddof=1))
    return costs.reduction - high * own, costs.reduction - low * own


def by_signs(costs: Costs, rng: np.random.Generator) -> tuple[float, float]:
    """All reductions at which the residuals might as well have had the other sign.

    Exact where the two costs of an instance are exchangeable, however heavy their tails.
    """
    signs = _signs(len(costs.base), rng)
    changes, sizes = signs @ costs.change, signs @ costs.size
    change, size = float(costs.change.sum()), float(costs.size.sum())

    def plausible(reduction: float) -> bool:
        own = abs(change - reduction * size) * (1 - NONE)
        return float(np.mean(np.abs(changes - reduction * sizes) >= own)) > 1 - LEVEL

    return (
        _edge(plausible, costs.reduction, -1.0),
        _edge(plausible, costs.reduction, +1.0),
    )


def _signs(count: int, rng: np.random.Generator) -> np.ndarray:
    """All changes of sign, or many of them; none at all is among them."""
    if count <= ALL_SIGNS:
        return np.array(list(itertools.product([1.0, -1.0], repeat=count)))
    drawn = rng.choice([-1.0, 1.0], size=(RESAMPLES, count))
    return np.vstack([np.ones(count), drawn])


def _edge(plausible: Callable[[float], bool], start: float, sign: float) -> float:
    """How far one may go from the start; infinite where there is no end."""
    inside, outside = 0.0, 1e-3 + 0.1 * abs(start)
    while plausible(start + sign * outside):
        inside, outside = outside, 2 * outside
        if outside > 1e6:
            return sign * np.inf
    for _ in range(30):
        middle = (inside + outside) / 2
        inside, outside = (
            (middle, outside) if plausible(start + sign * middle) else (inside, middle)
        )
    return start + sign * outside


def summed(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    _, numbers = np.unique(groups, return_inverse=True)
    return np.bincount(numbers, values)
