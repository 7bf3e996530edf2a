"""What a decision costs: by NumPy in double precision for the judge, and as a loss of `stakes`.

The judge's formulas are written out here once more, so that no tool is judged by its own code.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np

import stakes


class Cost(Protocol):
    """A cost of deciding `decision` when the outcome is `outcome`, elementwise."""

    @property
    def name(self) -> str: ...

    @property
    def quantile(self) -> float | None:
        """The level whose quantile is best; None where the best decision is no quantile."""
        ...

    def __call__(self, outcome: np.ndarray, decision: np.ndarray) -> np.ndarray: ...

    def loss(self) -> Any:
        """The same as a loss of `stakes`, up to a constant factor."""
        ...


@final
@dataclass(frozen=True)
class Newsvendor:
    """A unit short costs `total * q`, a unit too many `total * (1 - q)`."""

    q: float
    total: float = 1.0

    @property
    def name(self) -> str:
        return f"tilted {self.q:g}"

    @property
    def quantile(self) -> float:
        return self.q

    def __call__(self, outcome: np.ndarray, decision: np.ndarray) -> np.ndarray:
        short = np.maximum(outcome - decision, 0)
        over = np.maximum(decision - outcome, 0)
        return self.total * (self.q * short + (1 - self.q) * over)

    def loss(self) -> stakes.Tilted:
        return stakes.Tilted(self.q)


@final
@dataclass(frozen=True)
class Exponential:
    """exp(c(h-y)) - c(h-y) - 1: with c < 0 a decision too low costs exponentially."""

    c: float
    quantile: None = None

    @property
    def name(self) -> str:
        return f"LinEx {self.c:g}"

    def __call__(self, outcome: np.ndarray, decision: np.ndarray) -> np.ndarray:
        over = self.c * (decision - outcome)
        return np.expm1(over) - over

    def loss(self) -> stakes.LinEx:
        return stakes.LinEx(self.c)


@final
@dataclass(frozen=True)
class Square:
    """The square of what was missed; times `short` where the decision was too low."""

    short: float = 1.0
    quantile: None = None

    @property
    def name(self) -> str:
        return "squared" if self.short == 1 else f"squared {self.short:g}:1"

    def __call__(self, outcome: np.ndarray, decision: np.ndarray) -> np.ndarray:
        missed = outcome - decision
        return np.where(missed > 0, self.short, 1.0) * missed**2

    @property
    def total(self) -> float:
        """How many times the loss it is."""
        return 1 + self.short

    def loss(self) -> stakes.Expectile:
        return stakes.Expectile(self.short / self.total)


def best_for_samples(sample: np.ndarray, cost: Cost) -> np.ndarray:
    """For each row of equally likely outcomes, the decision with the least average cost."""
    if cost.quantile is not None:
        return np.quantile(sample, cost.quantile, axis=1, method="inverted_cdf")
    return _golden_section(
        lambda decision: cost(sample, decision[:, None]).mean(axis=1),
        sample.min(axis=1),
        sample.max(axis=1),
    )


def _golden_section(
    risk: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray, steps: int = 60
) -> np.ndarray:
    """Where each row of a convex risk is least."""
    ratio = (np.sqrt(5) - 1) / 2
    for _ in range(steps):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        lower = risk(left) < risk(right)
        low, high = np.where(lower, low, left), np.where(lower, right, high)
    return (low + high) / 2
