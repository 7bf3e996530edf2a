"""Expectations that are a weighted sum over points.

E g(y) = Σ w_i g(y_i), and log E u = log Σ w_i u(y_i) in log space. Gradients reach the outcome's
parameters through the weights (enumeration, quadrature: the points are fixed) or through the points
(Monte Carlo: the points are reparameterised draws).

A sum that is not known to be right is nan: the loss overflowed where it matters, or the rule does
not trust its own points. A fit leaves such a step out and says so.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Bool, Distribution, Float, Key
from stakes.errors import NoClosedForm
from stakes.expectation import stats
from stakes.expectation.predicted import Mixture
from stakes.expectation.sums import (
    COARSE,
    Rule,
    Terms,
    flushed_exp,
    largest_of,
    log_sum_exp,
    too_large,
)
from stakes.protocols import Cost, Expectation, Gain, Loss, PositiveUtility, Predicted, Tabled

# How much of an expected loss may lie where the loss overflows, or is cut off to prevent that.
LOST = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-6}
# A logarithm that is known well enough even where its peak is hit by a single point.
LARGE = 30.0

# Tables: so many values are all among the points to begin a search with, however unlikely they are;
FEW = 8
# otherwise those less likely than this, relative to the likeliest, are not.
UNLIKELY = 0.03
# From the least to the largest of them.
STEPS = 6

# Mixtures as one table: points on either side of all draws, out to half of their range,
BEYOND = 16
# and how far the mass of all points may be from one.
ASTRAY = 0.1

still = jax.lax.stop_gradient


def kink(decision: Array | tuple[Array, ...]) -> Array:
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
        """E ℓ(y, h), or nan where the sum is not to be trusted.

        A loss is never evaluated at points of weight zero: it may overflow there, and 0·inf is nan,
        in derivatives, too.
        """
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
        """log E u(y, h), or nan where the sum is not to be trusted."""
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
    def cost(self) -> Cost:
        """Override it where there may be more points."""
        return Cost(points=512)

    def mixture(self, outcomes: Distribution) -> Predicted:
        """Return outcomes stacked over draws of θ, with the statistics that are known of them."""
        return Mixture(outcomes)

    def table(self, key: Key | None, outcome: Distribution, decision: Array) -> "PointTable":
        """The points and weights for one outcome, fixed, to search among decisions near this."""
        if outcome.event_shape:
            raise NoClosedForm("A table has the values of a number, not of a vector.")
        return PointTable.of(self, still(self.rule(key, outcome, decision)))


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
    """Return the sum where it is fine, and nan elsewhere, with slopes of nan."""
    return total * jnp.where(fine, 1.0, jnp.nan).astype(total.dtype)


# Tables ------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class PointTable(Tabled):
    """Fixed values of one outcome and their probabilities, for searches among decisions.

    They were chosen for one decision: sums for others are rough where the loss has a kink between
    two of the values, and are not checked.
    """

    behind: Expectation
    points: Float[Array, "point *instance"]
    weights: Float[Array, "point *instance"]
    log_weights: Float[Array, "point *instance"]

    @classmethod
    def of(cls, behind: Expectation, rule: Rule) -> "PointTable":
        """Keep the points and weights of a rule."""
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
        """Whether there are so few values that all of them are tried as decisions.

        The best decision about labels is one of these, or as good as one.
        """
        return len(self.points) <= FEW

    def places(self) -> Array:
        """Return where to begin a search: evenly over the values that matter and one step beyond.

        Of few values, at all of them and between.
        """
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


def pooled_rule(outcomes: Distribution, drawn: Float[Array, "draw *instance"], most: int) -> Rule:
    """Points and log weights of a continuous outcome, stacked over draws of θ.

    The points are quantiles of what was drawn, and each stands for the way to its neighbours: a
    trapezoidal rule, good to a thousandth or so, for hundreds of components at the price of one.
    Where it is not, as with a density that is infinite at an end or has very heavy tails, the
    weights do not add up to one before they are made to. They are nan there.
    """
    levels = jnp.linspace(0, 1, most - 2 * BEYOND)
    inner = jnp.quantile(drawn, levels, axis=0)
    out = jnp.arange(1, BEYOND + 1) / (2 * BEYOND)
    further = out.reshape(-1, *(1 for _ in inner.shape[1:])) * (inner[-1] - inner[0])
    points = jnp.concatenate([inner[0] - further[::-1], inner, inner[-1] + further])

    def add(so_far: Array, outcome: Distribution) -> tuple[Array, None]:
        log_density = _log_density(outcome, points, inner[len(inner) // 2])
        return jnp.logaddexp(so_far, log_density), None

    nothing = jnp.full_like(points, -jnp.inf)
    log_density, _ = jax.lax.scan(add, nothing, jax.tree.map(jnp.asarray, outcomes))
    # No point stands for what lies beyond the ends of all supports.
    held = log_density > -jnp.inf
    least = jnp.min(jnp.where(held, points, jnp.inf), axis=0)
    ends = jnp.clip(points, least, jnp.max(jnp.where(held, points, -jnp.inf), axis=0))
    gaps = jnp.pad(jnp.diff(ends, axis=0), ((1, 1), *((0, 0) for _ in inner.shape[1:])))
    log_weights = log_density + jnp.log((gaps[1:] + gaps[:-1]) / 2)
    total = jax.nn.logsumexp(log_weights, axis=0)
    mass = jnp.exp(total - jnp.log(len(jax.tree.leaves(outcomes)[0])))
    return Rule(points, jnp.where(jnp.abs(mass - 1) < ASTRAY, log_weights - total, jnp.nan))


def _log_density(outcome: Distribution, points: Array, middle: Array) -> Array:
    """Of all points, also those at which there is nothing; the middle stands in for these."""
    if (line := stats.line(outcome)) is not None:  # its own support is not to be asked
        behind = _log_density(line.of, line.back(points), line.back(middle))
        return behind - jnp.log(jnp.abs(line.slope))
    inside = outcome.support(points)
    held = jnp.where(inside, points, middle)
    return jnp.where(inside, stats.log_density(outcome, held), -jnp.inf)
