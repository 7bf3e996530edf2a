"""Sums over the values of a discrete outcome."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Array, Distribution, Key
from stakes.errors import InputError
from stakes.expectation import stats
from stakes.expectation.counts import log_mass
from stakes.expectation.mixture import Mixture
from stakes.expectation.points import ByPoints, column
from stakes.expectation.sums import Rule, log_sum_exp
from stakes.protocols import Gain

LARGEST_WINDOW = 8192
TYPICAL_WINDOW = 512
BELOW, ABOVE = 8, 16
"""Standard deviations below and above the mean that a window holds: counts have a light lower
tail, and an upper tail that may fall off as slowly as a geometric one."""


@final
@dataclass(frozen=True)
class Enumeration(ByPoints):
    """Sum over the values of a discrete outcome.

    Outcomes without an upper end, and binomials, are summed over a window of `points` values
    that follows the mean; by default the window is sized from VI's fit. Where the window does not
    hold nearly all of the mass the result is nan, so a wrong sum never passes silently.

    Examples:
        >>> import numpyro.distributions as dist, stakes
        >>> short = stakes.Enumeration(points=64).expected(
        ...     None, dist.Poisson(2.0), lambda sold, order: (sold > order) * 1.0, 3.5
        ... )
        >>> round(float(short), 4)  # P(sold > 3)
        0.1429
    """

    points: int | None = None

    def __post_init__(self) -> None:
        if self.points is not None:
            points = checks.whole("`Enumeration(points=...)`", self.points)
            object.__setattr__(self, "points", points)

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        if not stats.is_discrete(outcome):
            return "only discrete outcomes can be enumerated"
        return None

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        shape = np.broadcast_shapes(outcome.batch_shape, jnp.shape(decision))
        values = self._values(outcome, decision, shape)
        legal, log_weights = log_mass(outcome, values)
        # The rounding error in the log probabilities of large counts is nearly the same for all.
        held_mass = log_sum_exp(log_weights)
        held = (jax.lax.stop_gradient(held_mass) > math.log(0.98)) & self._reaches(outcome, values)
        return Rule(legal, jnp.where(held, log_weights - held_mass, jnp.nan))

    def _reaches(self, outcome: Distribution, values: Array) -> Array:
        """Whether the window spans four standard deviations either way, or all values there are."""
        if stats.few_values(outcome) is not None:
            return jnp.ones((), bool)
        middle, reach = stats.mean(outcome), 4 * jnp.sqrt(stats.variance(outcome))
        low, high = jnp.maximum(middle - reach, 0.0), middle + reach
        if (largest := stats.largest_value(outcome)) is not None:
            high = jnp.minimum(high, largest)
        spans = (values[0] <= jnp.ceil(low)) & (values[-1] >= jnp.floor(high))
        return jax.lax.stop_gradient(spans)

    def _values(self, outcome: Distribution, decision: Array, shape: tuple[int, ...]) -> Array:
        dtype = jnp.result_type(float)
        size = stats.few_values(outcome)
        if size is not None:
            return jnp.broadcast_to(column(jnp.arange(size, dtype=dtype), shape), (size, *shape))
        if self.points is None:
            raise InputError(
                f"`Enumeration()` of {type(outcome).__name__} outcomes needs to know how many "
                f"values to sum over: say `Enumeration(points=...)`."
            )
        middle = jax.lax.stop_gradient(stats.mean(outcome))
        sd = jnp.sqrt(jax.lax.stop_gradient(stats.variance(outcome)))
        lowest = jnp.minimum(middle - BELOW * sd, jax.lax.stop_gradient(decision) - 5)
        # Where the window cannot hold both the decision and the outcome, it holds the outcome.
        lowest = jnp.maximum(lowest, middle + BELOW * sd - self.points)
        if (largest := stats.largest_value(outcome)) is not None:
            lowest = jnp.minimum(lowest, largest + 1.0 - self.points)
        lowest = jnp.floor(jnp.maximum(lowest, 0.0))
        return jnp.broadcast_to(lowest, shape) + column(jnp.arange(self.points, dtype=dtype), shape)

    def sized(self, outcomes: Iterable[Distribution]) -> "Enumeration":
        return self if self.points is not None else self.widened(outcomes)

    def widened(self, outcomes: Iterable[Distribution]) -> "Enumeration":
        """With a window wide enough for these outcomes, and room for them to spread."""
        wide = self
        for each in outcomes:
            wide = wide._holding(each)
        return wide

    def mixture(self, outcomes: Distribution) -> Mixture:
        return Mixture(outcomes, self)

    @property
    def held(self) -> int:
        return self.points or TYPICAL_WINDOW

    @property
    def summed(self) -> int:
        return self.points or 1

    def _holding(self, outcomes: Distribution) -> "Enumeration":
        if stats.few_values(outcomes) is not None:
            return self
        if (largest := stats.largest_value(outcomes)) is not None:
            widest = float(jnp.max(largest)) + 1
        else:
            middle = jax.vmap(stats.mean)(outcomes)
            sd = jnp.sqrt(jax.vmap(stats.variance)(outcomes))
            low = jnp.maximum(middle - BELOW * sd, 0.0)
            widest = float(jnp.max(middle + ABOVE * sd - low)) + 20
        if not widest <= LARGEST_WINDOW:
            raise InputError(
                f"The {type(outcomes).__name__} outcome spreads over {widest:.0f} values, more "
                f"than the limit of {LARGEST_WINDOW}. Say how many to sum: "
                f"`expectation=Enumeration(points=...)`, or rescale the outcome."
            )
        return Enumeration(points=max(self.points or 0, 32 * math.ceil(widest / 32)))
