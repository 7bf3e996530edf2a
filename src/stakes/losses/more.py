"""Losses beyond those of the paper."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import jax.numpy as jnp

from stakes import varying
from stakes._types import Array
from stakes.protocols import Predicted
from stakes.varying import CanVary

HALVINGS = 50


@final
@dataclass(frozen=True)
class Expectile(CanVary):
    """q·(y-h)² when y ≥ h, (1-q)·(h-y)² otherwise; minimised by the q-expectile.

    With q = 0.5 it is half of the squared loss.

    Examples:
        >>> import stakes
        >>> float(stakes.Expectile(0.75)(3.0, 1.0))  # short by two
        3.0
    """

    q: Any

    convex: ClassVar[bool] = True
    numbers: ClassVar[tuple[str, ...]] = ("q",)

    def __post_init__(self) -> None:
        q = varying.checked("`Expectile(q=...)`", self.q, above=0, below=1)
        object.__setattr__(self, "q", q)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        short = jnp.asarray(outcome) - decision
        return jnp.where(short > 0, self.q, 1 - self.q) * jnp.square(short)

    def bayes_decision(self, draws: Array) -> Array:
        """Where shortfalls and excesses, weighted, are equal on average: by bisection."""
        low, high = draws.min(axis=0), draws.max(axis=0)
        for _ in range(HALVINGS):
            middle = low + (high - low) / 2
            short = draws - middle
            weighted = jnp.where(short > 0, self.q, 1 - self.q) * short
            rising = weighted.mean(axis=0) > 0
            low, high = jnp.where(rising, middle, low), jnp.where(rising, high, middle)
        return high


@final
@dataclass(frozen=True)
class Huber(CanVary):
    """(h-y)²/2 up to a distance of `delta`, then on along its tangent.

    Examples:
        >>> import stakes
        >>> float(stakes.Huber(1.0)(3.0, 0.0))  # 1 * (3 - 1/2)
        2.5
    """

    delta: Any

    convex: ClassVar[bool] = True
    numbers: ClassVar[tuple[str, ...]] = ("delta",)

    def __post_init__(self) -> None:
        delta = varying.checked("`Huber(delta=...)`", self.delta, above=0)
        object.__setattr__(self, "delta", delta)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        away = jnp.abs(jnp.asarray(decision) - outcome)
        near = jnp.minimum(away, self.delta)
        return near * (away - near / 2)


@final
@dataclass(frozen=True)
class ZeroOne(CanVary):
    """One where the outcome is further than `width` from the decision, and nothing otherwise.

    With a width of zero, the default, it counts wrong classes.

    Examples:
        >>> import stakes
        >>> float(stakes.ZeroOne(width=0.5)(3.2, 3.0)), float(stakes.ZeroOne()(1, 0))
        (0.0, 1.0)
    """

    width: Any = 0.0

    def __post_init__(self) -> None:
        width = varying.checked("`ZeroOne(width=...)`", self.width, least=0)
        object.__setattr__(self, "width", width)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        missed = jnp.abs(jnp.asarray(decision) - outcome) > self.width
        return jnp.asarray(missed, jnp.result_type(float))

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        low, high = decision - self.width, decision + self.width
        held: Array = predicted.cdf(high) - predicted.below(low)
        return 1 - held
