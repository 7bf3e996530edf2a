"""Expectations that are a weighted sum over points.

Gradients reach the outcome's parameters through the weights (enumeration, quadrature: the points
are fixed) or through the points (Monte Carlo: the points are reparameterised draws).
"""

from abc import abstractmethod
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Bool, Distribution, Float, Key
from stakes.expectation.mixture import Mixture
from stakes.expectation.sums import Rule, Terms, flushed_exp, log_sum_exp
from stakes.protocols import Expectation, Loss, PositiveUtility, Predicted

LOST = 1e-6
"""How much of an expected loss may lie where the loss overflows."""

still = jax.lax.stop_gradient


class ByPoints(Expectation, Protocol):
    """An expectation that has to define only its points and what it objects to."""

    @abstractmethod
    def rule(
        self, key: Key | None, outcome: Distribution, decision: Float[Array, "*instance"]
    ) -> Rule:
        """Points and log weights for this outcome; the loss may have a kink at the decision."""

    def trusted(self, outcome: Distribution, terms: Terms) -> Bool[Array, "*instance"] | bool:
        """Whether the sum of these terms is as good as the expectation; where not, it is nan."""
        return True

    def expected(
        self, key: Key | None, outcome: Distribution, loss: Loss, decision: Array
    ) -> Array:
        points, log_weights = self.rule(key, outcome, decision)
        weights = flushed_exp(log_weights)
        terms = _terms(*still((points, log_weights, weights, loss(points, decision))))
        # A loss may overflow, and 0·inf is nan in slopes too: it never sees points of weight zero.
        losses = loss(_held_to(points, weights), decision)
        lost = jnp.sum(jnp.where(terms.overflown, terms.shares, 0.0), axis=0)
        fine = self.trusted(outcome, terms) & ~(lost > LOST * jnp.sum(terms.shares, axis=0))
        return _known(jnp.sum(weights * losses, axis=0), fine)

    def log_expected(
        self, key: Key | None, outcome: Distribution, utility: PositiveUtility, decision: Array
    ) -> Array:
        points, log_weights = self.rule(key, outcome, decision)
        log_sizes = still(utility.log(points, decision))
        shares = flushed_exp(_below_largest(still(log_weights) + log_sizes))
        # What adds nothing may have overflowed, and has no finite slope then.
        log_terms = log_weights + utility.log(_held_to(points, shares), decision)
        total = log_sum_exp(jnp.where(shares == 0, -jnp.inf, log_terms))
        weightless = still(log_weights) == -jnp.inf
        fits = jnp.zeros_like(weightless)
        terms = Terms(still(points), still(log_weights), log_sizes, shares, weightless, fits)
        return _known(total, self.trusted(outcome, terms))

    @property
    def held(self) -> int:
        """Override it where there may be more points."""
        return 512

    def mixture(self, outcomes: Distribution) -> Predicted:
        return Mixture(outcomes)


def _terms(points: Array, log_weights: Array, weights: Array, losses: Array) -> Terms:
    sizes = jnp.where(jnp.isnan(losses), jnp.inf, jnp.abs(losses)).astype(weights.dtype)
    weightless = weights == 0
    shares = jnp.where(weightless, 0.0, weights * sizes)
    overflown = sizes > 0.9 * np.finfo(weights.dtype).max ** 0.75
    return Terms(points, log_weights, jnp.log(sizes), shares, weightless, overflown)


def _held_to(points: Array, weights: Array) -> Array:
    """The points, with one of the largest weight in place of those that have none."""
    largest = jnp.max(weights, axis=0)
    heaviest = jnp.max(jnp.where(weights == largest, points, -jnp.inf), axis=0)
    return jnp.where(weights == 0, jax.lax.stop_gradient(heaviest), points)


def _below_largest(terms: Array) -> Array:
    largest = jnp.max(terms, axis=0)
    return terms - jnp.where(jnp.isfinite(largest), largest, 0.0)


def _known(total: Array, fine: Array | bool) -> Array:
    """nan, with slopes of nan, where it is not fine."""
    return total * jnp.where(fine, 1.0, jnp.nan).astype(total.dtype)


def column(values: Array, shape: tuple[int, ...]) -> Array:
    """Values along a leading axis, before those of the instances."""
    return values.reshape(-1, *(1 for _ in shape))


def column_like(array: Array, values: np.ndarray) -> Array:
    return column(jnp.asarray(values, array.dtype), array.shape)
