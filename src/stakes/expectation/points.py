"""Expectations that are a weighted sum over points.

Gradients reach the outcome's parameters through the weights (enumeration, quadrature: the points
are fixed) or through the points (Monte Carlo: the points are reparameterised draws).
"""

from abc import abstractmethod
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Bool, Distribution, Float, Key
from stakes.errors import NoClosedForm
from stakes.expectation.mixture import Mixture
from stakes.expectation.sums import (
    COARSE,
    Rule,
    Terms,
    flushed_exp,
    largest_of,
    log_sum_exp,
    too_large,
)
from stakes.expectation.table import Table
from stakes.protocols import Expectation, Loss, PositiveUtility, Predicted

LOST = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-6}
"""How much of an expected loss may lie where the loss overflows, or is cut off to prevent that."""

LARGE = 30.0
"""A logarithm that is known well enough even where its peak is hit by a single point."""

still = jax.lax.stop_gradient


def kink(decision: Any) -> Array:
    """Where a loss may have a kink: at the decision, or at the first of its parts."""
    return decision[0] if isinstance(decision, tuple) else decision


class ByPoints(Expectation, Protocol):
    """An expectation that has to define only its points and what it objects to."""

    @abstractmethod
    def rule(
        self, key: Key | None, outcome: Distribution, decision: Float[Array, "*instance"]
    ) -> Rule:
        """Points and log weights for this outcome; the loss may have a kink at the decision."""

    def typical(self, outcome: Distribution) -> Float[Array, "*instance"] | None:
        """A value where the outcome has mass, to replace points whose weight underflows."""
        return None

    def trusted(self, outcome: Distribution, terms: Terms) -> Bool[Array, "*instance"] | bool:
        """Whether the sum of these terms is as good as the expectation; where not, it is nan."""
        return True

    def expected(
        self, key: Key | None, outcome: Distribution, loss: Loss, decision: Array
    ) -> Array:
        points, log_weights = self.rule(key, outcome, kink(decision))
        typical = self.typical(outcome)
        weights = flushed_exp(log_weights)
        weightless = weights == 0
        # A loss may overflow, and 0·inf is nan in slopes too: it never sees points of weight zero.
        held = points if typical is None else jnp.where(weightless, typical, points)
        losses = jnp.where(weightless, 0.0, loss(held, decision))
        shares = still(weights * jnp.abs(losses))
        lost = jnp.sum(jnp.where(too_large(jnp.abs(losses)), shares, 0.0), axis=0)

        def size(points: Array) -> Array:
            return jnp.abs(still(loss(points, decision))).astype(weights.dtype)

        terms = Terms(still(points), still(log_weights), shares, weightless, size)
        fine = self.trusted(outcome, terms) & ~(
            lost > LOST[weights.dtype] * jnp.sum(shares, axis=0)
        )
        return _known(jnp.sum(weights * losses, axis=0), fine)

    def log_expected(
        self, key: Key | None, outcome: Distribution, utility: PositiveUtility, decision: Array
    ) -> Array:
        points, log_weights = self.rule(key, outcome, kink(decision))
        log_shares = still(log_weights + utility.log(points, decision))
        shares = flushed_exp(log_shares - largest_of(log_shares))
        # What adds nothing may have overflowed, and has no finite slope then.
        log_utility = utility.log(_finite(points, shares), decision)
        total = log_sum_exp(jnp.where(shares == 0, -jnp.inf, log_weights + log_utility))
        weightless = still(log_weights) == -jnp.inf
        # A utility is smooth, and of a logarithm that is large a small part matters little.
        coarse = jnp.where(jnp.abs(still(total)) > LARGE, 2.0, 3 * COARSE)
        terms = Terms(still(points), still(log_weights), shares, weightless, coarse=coarse)
        return _known(total, self.trusted(outcome, terms))

    @property
    def held(self) -> int:
        """Override it where there may be more points."""
        return 512

    def mixture(self, outcomes: Distribution) -> Predicted:
        return Mixture(outcomes)

    def table(self, key: Key | None, outcome: Distribution, decision: Array) -> Table:
        """The points and weights for one outcome, fixed, to search among decisions near this."""
        if outcome.event_shape:
            raise NoClosedForm("A table has the values of a number, not of a vector.")
        return Table.of(self, still(self.rule(key, outcome, decision)))


def _finite(points: Array, shares: Array) -> Array:
    """The points, of which the heaviest stands in for those that add nothing."""
    if points.ndim > shares.ndim:  # vectors
        heaviest = jnp.take_along_axis(
            still(points), jnp.argmax(shares, axis=0)[None, ..., None], axis=0
        )
        return jnp.where(shares[..., None] == 0, heaviest, points)
    heaviest = largest_of(jnp.where(shares == 1, still(points), -jnp.inf))
    return jnp.where(shares == 0, heaviest, points)


def _known(total: Array, fine: Array | bool) -> Array:
    """nan, with slopes of nan, where it is not fine."""
    return total * jnp.where(fine, 1.0, jnp.nan).astype(total.dtype)


def column(values: Array, shape: tuple[int, ...]) -> Array:
    """Values along a leading axis, before those of the instances."""
    return values.reshape(-1, *(1 for _ in shape))


def column_like(array: Array, values: np.ndarray) -> Array:
    return column(jnp.asarray(values, array.dtype), array.shape)
