"""Draws of the outcome, weighed by how likely parameters make them."""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from stakes import checks
from stakes._types import Array, Distribution, Key
from stakes.expectation.monte_carlo import drawn_shape
from stakes.expectation.points import ByPoints, kink
from stakes.expectation.sums import Rule
from stakes.protocols import Gain

CENSORED = (
    dist.LeftCensoredDistribution,
    dist.RightCensoredDistribution,
    dist.IntervalCensoredDistribution,
)


@final
@dataclass(frozen=True)
class ScoreFunction(ByPoints):
    """Draws through which no gradient passes, for outcomes that allow nothing else.

    Their gradient is E (ℓ - mean ℓ) ∂ log p: unbiased, but noisy. A fit with it needs many draws
    and small steps, and says so before it starts.

    Examples:
        >>> import jax, numpyro.distributions as dist, stakes
        >>> def slope(rate):
        ...     return stakes.ScoreFunction(draws=100_000).expected(
        ...         jax.random.key(0), dist.Poisson(rate), stakes.Squared(), 0.0
        ...     )
        >>> round(float(jax.grad(slope)(2.0)))  # of λ + λ²
        5
    """

    draws: int = 200

    def __post_init__(self) -> None:
        draws = checks.whole("`ScoreFunction(draws=...)`", self.draws, least=2)
        object.__setattr__(self, "draws", draws)

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        if isinstance(outcome, CENSORED):
            return "what is drawn of a censored outcome is not what its density is of"
        try:
            jax.eval_shape(lambda: self.rule(jax.random.key(0), outcome, kink(decision)))
        except NotImplementedError:
            return "it cannot be drawn"
        return None

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        outcome, shape = drawn_shape(outcome, decision)
        points = jax.lax.stop_gradient(outcome.sample(key, (self.draws,)))
        log_p = outcome.log_prob(points)
        # Weights that add up to one take the mean off; the factor takes off what that biases.
        moved = (log_p - jax.lax.stop_gradient(log_p)) * (self.draws / (self.draws - 1))
        points = jnp.broadcast_to(points, (self.draws, *shape, *outcome.event_shape))
        log_weights = jnp.broadcast_to(jax.nn.log_softmax(moved, axis=0), (self.draws, *shape))
        return Rule(points.astype(log_weights.dtype), log_weights)

    @property
    def held(self) -> int:
        return self.draws

    @property
    def drawn(self) -> bool:
        return True
