"""Draws of the outcome, through which gradients flow."""

import math
from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Array, Distribution, Key
from stakes.expectation.points import ByPoints, kink
from stakes.expectation.spread_draws import draws_of
from stakes.expectation.sums import Rule
from stakes.protocols import Gain, PositiveUtility


@final
@dataclass(frozen=True)
class MonteCarlo(ByPoints):
    """Reparameterised draws of y, as in the paper (eq. 5); the last resort.

    Examples:
        >>> import jax, numpyro.distributions as dist, stakes
        >>> spread = stakes.MonteCarlo(draws=100_000).expected(
        ...     jax.random.key(0), dist.Normal(0.0, 1.0), stakes.Squared(), 0.0
        ... )
        >>> round(float(spread), 1)
        1.0
    """

    draws: int = 30

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", checks.whole("`MonteCarlo(draws=...)`", self.draws))

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        if not outcome.has_rsample:
            return "its draws cannot be reparameterised, so no gradient would flow"
        return None

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        outcome, shape = drawn_shape(outcome, decision)
        points = draws_of(outcome, key, self.draws)
        points = jnp.broadcast_to(points, (self.draws, *shape, *outcome.event_shape))
        log_weights = jnp.full((self.draws, *shape), -math.log(self.draws), points.dtype)
        return Rule(points, log_weights)

    def relative_variance(
        self, key: Key | None, outcome: Distribution, utility: PositiveUtility, decision: Array
    ) -> Array:
        points, _ = self.rule(key, outcome, kink(decision))
        log_u = utility.log(points, decision)
        u = jnp.exp(log_u - log_u.max(axis=0))
        mean = u.mean(axis=0)
        variance_of_mean = jnp.square(u - mean).mean(axis=0) / max(self.draws - 1, 1)
        return variance_of_mean / jnp.square(mean)

    @property
    def held(self) -> int:
        return self.draws

    @property
    def drawn(self) -> bool:
        return True


def drawn_shape(outcome: Distribution, decision: Array) -> tuple[Distribution, tuple[int, ...]]:
    """The outcome with as many axes as there are instances, and their shape."""
    shape = np.broadcast_shapes(outcome.batch_shape, jnp.shape(decision))
    missing = shape[: len(shape) - len(outcome.batch_shape)]
    return outcome.expand(missing + tuple(outcome.batch_shape)), shape
