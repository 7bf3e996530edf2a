"""The points and weights of an expectation, worked out once and used for many decisions."""

from dataclasses import dataclass
from typing import final

import jax.numpy as jnp

from stakes._types import Array, Distribution, Float, Key
from stakes.expectation.mixture import Mixture
from stakes.expectation.sums import Rule, flushed_exp, log_sum_exp
from stakes.protocols import Expectation, Gain, Loss, PositiveUtility, Predicted, Tabled

FEW = 8
"""So many values are all among the places to begin with, however unlikely they are."""
UNLIKELY = 0.03
"""Otherwise those less likely than this, relative to the likeliest, are not."""
STEPS = 6
"""From the least to the largest of them."""


@final
@dataclass(frozen=True)
class Table(Tabled):
    """Fixed values of one outcome and their probabilities, for searches among decisions.

    They were chosen for one decision: sums for others are rough where the loss has a kink between
    two of the values, and are not checked.
    """

    behind: Expectation
    points: Float[Array, "point *instance"]
    weights: Float[Array, "point *instance"]
    log_weights: Float[Array, "point *instance"]

    @classmethod
    def of(cls, behind: Expectation, rule: Rule) -> "Table":
        return cls(behind, rule.points, flushed_exp(rule.log_weights), rule.log_weights)

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        return self.behind.objection(outcome, gain, decision)

    def expected(
        self, key: Key | None, outcome: Distribution, loss: Loss, decision: Array
    ) -> Array:
        shares = jnp.where(self.weights == 0, 0.0, self.weights * loss(self.points, decision))
        return jnp.sum(shares, axis=0)

    def log_expected(
        self, key: Key | None, outcome: Distribution, utility: PositiveUtility, decision: Array
    ) -> Array:
        return log_sum_exp(self.log_weights + utility.log(self.points, decision))

    def relative_variance(
        self, key: Key | None, outcome: Distribution, utility: PositiveUtility, decision: Array
    ) -> Array | float:
        return self.behind.relative_variance(key, outcome, utility, decision)

    @property
    def few(self) -> bool:
        return len(self.points) <= FEW

    def places(self) -> Array:
        if self.few:
            steps = max(len(self.points) - 1, 1)
            steps *= -(-STEPS // steps)
            low, high = self.points[0], self.points[-1]
        else:
            matters = self.weights > UNLIKELY * self.weights.max(axis=0)
            low = jnp.where(matters, self.points, jnp.inf).min(axis=0)
            high = jnp.where(matters, self.points, -jnp.inf).max(axis=0)
            steps = STEPS
        along = jnp.arange(-1.0, steps + 2).reshape(-1, *(1 for _ in low.shape)) / steps
        return low + along * (high - low)

    def mixture(self, outcomes: Distribution) -> Predicted:
        return Mixture(outcomes)
