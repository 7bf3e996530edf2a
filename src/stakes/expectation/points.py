"""Expectations that are a weighted sum over points.

Gradients reach the outcome's parameters through the weights (enumeration, quadrature: the points
are fixed) or through the points (Monte Carlo: the points are reparameterised draws).
"""

from abc import abstractmethod
from typing import Protocol

import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Distribution, Float, Key
from stakes.expectation.mixture import Mixture
from stakes.expectation.sums import Rule, log_sum_exp, weighted_sum
from stakes.protocols import Expectation, Loss, PositiveUtility, Predicted


class ByPoints(Expectation, Protocol):
    """An expectation that has to define only its points and what it objects to."""

    @abstractmethod
    def rule(
        self, key: Key | None, outcome: Distribution, decision: Float[Array, "*instance"]
    ) -> Rule:
        """Points and log weights for this outcome; the loss may have a kink at the decision."""

    def expected(
        self, key: Key | None, outcome: Distribution, loss: Loss, decision: Array
    ) -> Array:
        points, log_weights = self.rule(key, outcome, decision)
        return weighted_sum(log_weights, loss(points, decision))

    def log_expected(
        self, key: Key | None, outcome: Distribution, utility: PositiveUtility, decision: Array
    ) -> Array:
        points, log_weights = self.rule(key, outcome, decision)
        return log_sum_exp(log_weights + utility.log(points, decision))

    @property
    def held(self) -> int:
        """Override it where there may be more points."""
        return 512

    def mixture(self, outcomes: Distribution) -> Predicted:
        return Mixture(outcomes)


def column(values: Array, shape: tuple[int, ...]) -> Array:
    """Values along a leading axis, before those of the instances."""
    return values.reshape(-1, *(1 for _ in shape))


def column_like(array: Array, values: np.ndarray) -> Array:
    return column(jnp.asarray(values, array.dtype), array.shape)
