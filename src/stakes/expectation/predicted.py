"""A predicted outcome, as a loss sees it: one distribution, or a mixture over draws of θ.

A statistic of a mixture that is an expectation is the mean over its components. A quantile is not:
it is found by bisection of the mixture's distribution function, within a bracket that the
components' quantiles give, to the last digit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from numpyro.distributions import constraints

from stakes._types import Array, Bool, Distribution, Float, Key, Number
from stakes.errors import NoClosedForm
from stakes.expectation import stats
from stakes.expectation.quantiles import quick_quantile
from stakes.expectation.sums import Rule, weighted_sum

# Quantiles of counts up to this are searched for one count at a time.
WALK = 256


class Values(Protocol):
    """The values of a discrete outcome and their probabilities, as `Enumeration` gives them."""

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        """Return the values, with log probabilities."""


@final
@dataclass(frozen=True)
class Single:
    """p(y|θ) for one θ, as a loss sees it.

    Attributes:
        distribution: the NumPyro distribution, without masks and expansions.
        values: an enumeration of a discrete outcome that has no fast distribution function.
    """

    distribution: Distribution
    values: Values | None = None

    def mean(self) -> Array:
        return stats.mean(self.distribution)

    def variance(self) -> Array:
        return stats.variance(self.distribution)

    def cdf(self, value: Array) -> Array:
        """P(y ≤ value), zero below the support and one above it."""
        if self.values is None:
            return _within_support(self.distribution, value, stats.cdf(self.distribution, value))
        points, log_weights = self.values.rule(None, self.distribution, value)
        return weighted_sum(log_weights, (points <= value).astype(log_weights.dtype))

    def below(self, value: Array) -> Array:
        """P(y < value)."""
        if self.values is not None:
            return self.cdf(jnp.ceil(value) - 1)
        return _within_support(self.distribution, value, stats.below(self.distribution, value))

    def tails(self, decision: Array, above: float, below: float) -> Array:
        return stats.tails(self.distribution, decision, above, below)

    def square_tails(self, decision: Array, above: Number, below: Number) -> Array:
        return stats.square_tails(self.distribution, decision, above, below)

    def least_tails(self, above: float, below: float) -> Array:
        """The least value of `tails`: by a formula, or at a quick quantile, under which slopes stay
        right."""
        try:
            return stats.least_tails(self.distribution, above, below)
        except NoClosedForm:
            best = jax.lax.stop_gradient(quick_quantile(self.distribution, above / (above + below)))
            return self.tails(best, above, below)

    def best_in_log_tails(self, above: Number, below: Number) -> Array:
        return stats.best_in_log_tails(self.distribution, above, below)

    def most_log_tails(self, above: Number, below: Number) -> Array:
        return stats.most_log_tails(self.distribution, above, below)

    def best_in_log_kernel(self, width: Number) -> Array:
        return stats.best_in_log_kernel(self.distribution, width)

    def cumulant(self, t: float) -> Array:
        return stats.cumulant(self.distribution, t)

    def log_mgf(self, t: float) -> Array:
        """log E exp(ty), from the cumulant about the mean."""
        return t * self.mean() + self.cumulant(t)

    def log_tails(self, decision: Array, above: Number, below: Number) -> Array:
        return stats.log_tails(self.distribution, decision, above, below)

    def log_kernel(self, decision: Array, width: Number) -> Array:
        return stats.log_kernel(self.distribution, decision, width)

    def bracket(self, level: float) -> tuple[Array, Array]:
        """Two values between which the quantile lies: by the icdf, or by Cantelli's inequality.

        They are not finite where the variance is not.
        """
        try:
            quantile = self.distribution.icdf(level)
            # NumPyro's inverses of discrete distributions are not exact.
            room = 1.0 if stats.is_discrete(self.distribution) else 0.0
            return quantile - room, quantile + room
        except (NotImplementedError, ImportError):
            sd = jnp.sqrt(self.variance())
            odds = (level / (1 - level)) ** 0.5
            return self.mean() - sd / odds - 1, self.mean() + sd * odds + 1

    def quantile(self, level: float) -> Array:
        """The least value whose distribution function reaches the level, exactly."""
        stacked = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], self.distribution)
        return Mixture(stacked, self.values).quantile(level)


@final
@dataclass(frozen=True)
class Mixture:
    """p(y) = mean of p(y|θ) over draws of θ.

    `components` is one distribution whose arrays carry the draws along a leading axis, as a
    vmap returns it. Its own batch shape is stale: it is only ever used inside another vmap.
    """

    components: Distribution
    values: Values | None = None

    def _over(self, question: Callable[[Single], Array]) -> Array:
        """Ask each component, and return the answers along a leading axis."""
        # Inside of a program, an array of NumPy's would keep a precision that JAX has switched off.
        components = jax.tree.map(jnp.asarray, self.components)
        return jax.vmap(lambda component: question(Single(component, self.values)))(components)

    def mean(self) -> Array:
        """The mean of the components' means."""
        return self._over(Single.mean).mean(axis=0)

    def variance(self) -> Array:
        """The mean of the components' variances, and the variance of their means."""
        return self._over(Single.variance).mean(axis=0) + self._over(Single.mean).var(axis=0)

    def cdf(self, value: Array) -> Array:
        return self._over(lambda one: one.cdf(value)).mean(axis=0)

    def below(self, value: Array) -> Array:
        return self._over(lambda one: one.below(value)).mean(axis=0)

    def tails(self, decision: Array, above: float, below: float) -> Array:
        return self._over(lambda one: one.tails(decision, above, below)).mean(axis=0)

    def square_tails(self, decision: Array, above: Number, below: Number) -> Array:
        return self._over(lambda one: one.square_tails(decision, above, below)).mean(axis=0)

    def least_tails(self, above: float, below: float) -> Array:
        """The value of `tails` at the quantile, which is the best decision."""
        return self.tails(self.quantile(above / (above + below)), above, below)

    def best_in_log_tails(self, above: Number, below: Number) -> Array:
        return self._alone().best_in_log_tails(above, below)

    def most_log_tails(self, above: Number, below: Number) -> Array:
        return self._alone().most_log_tails(above, below)

    def best_in_log_kernel(self, width: Number) -> Array:
        return self._alone().best_in_log_kernel(width)

    def _alone(self) -> Single:
        """The only component, where there is but one."""
        if jax.tree.leaves(self.components)[0].shape[0] > 1:
            raise NoClosedForm("No closed form is known for this decision under a mixture.")
        return Single(jax.tree.map(lambda leaf: leaf[0], self.components), self.values)

    def log_mgf(self, t: float) -> Array:
        """log of the mean of E exp(ty) over components."""
        return _log_mean_exp(self._over(lambda one: one.log_mgf(t)))

    def cumulant(self, t: float) -> Array:
        return self.log_mgf(t) - t * self.mean()

    def log_tails(self, decision: Array, above: Number, below: Number) -> Array:
        return _log_mean_exp(self._over(lambda one: one.log_tails(decision, above, below)))

    def log_kernel(self, decision: Array, width: Number) -> Array:
        return _log_mean_exp(self._over(lambda one: one.log_kernel(decision, width)))

    def quantile(self, level: float) -> Array:
        """The least value at which the distribution function reaches the level.

        Of counts up to a few hundred by adding up probabilities from zero; otherwise by bisection.
        """
        if stats.few_values(self.components) == 2:
            none = self.cdf(jnp.zeros(jax.eval_shape(self.mean).shape))
            return jnp.where(jnp.isnan(none), jnp.nan, jnp.where(none >= level, 0.0, 1.0))
        bracket = self._bracket(level)
        if not stats.is_discrete(self.components):
            return self._narrowed(level, bracket, 0.0)
        # Down to neighbouring counts.
        narrowed = partial(self._narrowed, level, bracket, 0.5)
        if not _from_zero(self.components):
            return jnp.floor(narrowed())
        low, high = bracket.low, bracket.high
        count, reached = jax.lax.cond(
            jnp.all(high <= WALK),
            lambda: self._walked(level, high),
            lambda: _Walk(low, jnp.zeros_like(low)),
        )
        arrived = reached >= level
        return jax.lax.cond(
            jnp.all(arrived),
            lambda: count,
            lambda: jnp.where(arrived, count, jnp.floor(narrowed())),
        )

    def _bracket(self, level: float) -> "_Bracket":
        """From the brackets of the components; a guess where one of these is not finite."""
        lows, highs = jax.vmap(lambda component: Single(component).bracket(level))(self.components)
        known = jnp.isfinite(lows) & jnp.isfinite(highs)
        some, sure = known.any(axis=0), known.all(axis=0)
        room = jnp.where(sure, 0.0, 1.0).astype(lows.dtype)
        low = jnp.where(some, jnp.where(known, lows, jnp.inf).min(axis=0), 0.0) - room
        high = jnp.where(some, jnp.where(known, highs, -jnp.inf).max(axis=0), 0.0) + room
        return _Bracket(low, high, sure, sure, jnp.zeros_like(sure), 0, 0)

    def _narrowed(self, level: float, bracket: "_Bracket", width: float) -> Array:
        """The upper end of a bracket of at most this width, or narrowed to the last digit.

        An end that is not sure is looked at first, and the bracket moved on, to three times its
        width, if the quantile lies beyond. One loop does both, since the distribution function is
        expensive to compile.
        """
        halvings = 60 if bracket.low.dtype == jnp.float64 else 32
        most = halvings + np.finfo(bracket.low.dtype).maxexp

        def unfinished(at: _Bracket) -> Array:
            open_ = ~at.lost & (~at.below | ~at.reached | (at.high - at.low > width))
            return (at.halvings < halvings) & (at.looks < most) & jnp.any(open_)

        def look(at: _Bracket) -> _Bracket:
            low, high, both = at.low, at.high, at.below & at.reached
            span = high - low
            place = jnp.where(both, low + span / 2, jnp.where(at.reached, low, high))
            value = self.cdf(place)
            reached = value >= level
            below_low = at.reached & ~at.below & reached
            return _Bracket(
                low=jnp.where(reached, jnp.where(below_low, low - 2 * span, low), place),
                high=jnp.where(reached, place, jnp.where(at.reached, high, high + 2 * span)),
                below=at.below | ~reached,
                reached=at.reached | reached,
                lost=jnp.isnan(value),
                looks=at.looks + 1,
                halvings=at.halvings + jnp.all(both | at.lost),
            )

        end = jax.lax.while_loop(unfinished, look, bracket)
        return jnp.where(end.lost, jnp.nan, end.high)

    def _walked(self, level: float, high: Array) -> "_Walk":
        """Up from zero, count by count, to the first that reaches the level; and what it reaches.

        For counts below a few hundred, this is less work than computing the distribution function.
        """
        # The body of a loop takes only JAX's arrays as constants.
        components = jax.tree.map(jnp.asarray, self.components)

        def mass(count: Array) -> Array:
            log_masses: Array = jax.vmap(lambda one: stats.masses(one, count).log_weights)(
                components
            )
            return jnp.exp(log_masses).mean(axis=0)

        def on(at: _Walk) -> Array:
            return (at.reached < level) & (at.value < high)

        def walk(at: _Walk) -> _Walk:
            further = on(at)
            count = at.value + further
            return _Walk(count, at.reached + jnp.where(further, mass(count), 0.0))

        start = _Walk(jnp.full_like(high, -1.0), jnp.zeros_like(high))
        return jax.lax.while_loop(lambda at: jnp.any(on(at)), walk, start)


class _Bracket(NamedTuple):
    """The quantile of each instance lies between these two, as far as that is known.

    Attributes:
        below: whether the distribution function is known not to reach the level at the lower end.
        reached: whether it is known to reach it at the upper end.
        lost: whether it was not a number where it was last looked at.
        halvings: looks since both ends of all brackets were sure.
    """

    low: Float[Array, "*instance"]
    high: Float[Array, "*instance"]
    below: Bool[Array, "*instance"]
    reached: Bool[Array, "*instance"]
    lost: Bool[Array, "*instance"]
    looks: Array | int
    halvings: Array | int


class _Walk(NamedTuple):
    """Counts on the way up to a quantile, for each instance.

    Attributes:
        value: the count.
        reached: the probability of at most that many.
    """

    value: Float[Array, "*instance"]
    reached: Float[Array, "*instance"]


def _from_zero(outcome: Distribution) -> bool:
    """Whether the values of a discrete outcome are surely 0, 1, 2, ..."""
    lowest = stats.ends(outcome).lower
    return outcome.support is constraints.boolean or (isinstance(lowest, int) and lowest == 0)


def _within_support(outcome: Distribution, value: Array, reached: Array) -> Array:
    """Zero below the support and one above it, where NumPyro may give anything."""
    if stats.line(outcome) is not None:
        return reached
    lower, upper = stats.ends(outcome)
    reached = reached if lower is None else jnp.where(value < lower, 0.0, reached)
    return reached if upper is None else jnp.where(value >= upper, 1.0, reached)


def _log_mean_exp(values: Array) -> Array:
    """log of the mean of exponentials over components."""
    return logsumexp(values, axis=0) - jnp.log(values.shape[0])
