"""A predicted outcome, as a loss sees it: one distribution, or a mixture over draws of θ."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from numpyro.distributions import Distribution, constraints

from stakes.expectation import statistics
from stakes.expectation.rules import Enumeration, log_mass
from stakes.expectation.sums import weighted_sum
from stakes.typing import Array, Rate

WALK = 256
"""Counts up to which quantiles are looked for one by one."""


@final
@dataclass(frozen=True)
class Single:
    """p(y|θ) for one θ; `values` enumerates a discrete outcome, which has no quick cdf."""

    distribution: Distribution
    values: Enumeration | None = None

    def mean(self) -> Array:
        return statistics.mean(self.distribution)

    def variance(self) -> Array:
        return statistics.variance(self.distribution)

    def cdf(self, value: Array) -> Array:
        if self.values is None:
            return statistics.cdf(self.distribution, value)
        points, log_weights = self.values.rule(None, self.distribution, value)
        return weighted_sum(log_weights, (points <= value).astype(log_weights.dtype))

    def tails(self, decision: Array, above: float, below: float) -> Array:
        return statistics.tails(self.distribution, decision, above, below)

    def cumulant(self, t: float) -> Array:
        return statistics.cumulant(self.distribution, t)

    def log_mgf(self, t: float) -> Array:
        return t * self.mean() + self.cumulant(t)

    def log_tails(self, decision: Array, above: Rate, below: Rate) -> Array:
        return statistics.log_tails(self.distribution, decision, above, below)

    def log_kernel(self, decision: Array, width: Rate) -> Array:
        return statistics.log_kernel(self.distribution, decision, width)

    def bracket(self, level: float) -> tuple[Array, Array]:
        """Two values between which the quantile lies: itself, or by Cantelli's inequality."""
        try:
            quantile = self.distribution.icdf(level)
            # NumPyro's inverses of discrete distributions are not exact.
            room = 1.0 if statistics.is_discrete(self.distribution) else 0.0
            return quantile - room, quantile + room
        except (NotImplementedError, ImportError):
            sd = jnp.sqrt(self.variance())
            odds = (level / (1 - level)) ** 0.5
            return self.mean() - sd / odds - 1, self.mean() + sd * odds + 1

    def quantile(self, level: float) -> Array:
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
    values: Enumeration | None = None

    def _over(self, question: Callable[[Single], Array]) -> Array:
        return jax.vmap(lambda component: question(Single(component, self.values)))(self.components)

    def mean(self) -> Array:
        return self._over(Single.mean).mean(axis=0)

    def variance(self) -> Array:
        return self._over(Single.variance).mean(axis=0) + self._over(Single.mean).var(axis=0)

    def cdf(self, value: Array) -> Array:
        return self._over(lambda one: one.cdf(value)).mean(axis=0)

    def tails(self, decision: Array, above: float, below: float) -> Array:
        return self._over(lambda one: one.tails(decision, above, below)).mean(axis=0)

    def log_mgf(self, t: float) -> Array:
        return _log_mean_exp(self._over(lambda one: one.log_mgf(t)))

    def cumulant(self, t: float) -> Array:
        return self.log_mgf(t) - t * self.mean()

    def log_tails(self, decision: Array, above: Rate, below: Rate) -> Array:
        return _log_mean_exp(self._over(lambda one: one.log_tails(decision, above, below)))

    def log_kernel(self, decision: Array, width: Rate) -> Array:
        return _log_mean_exp(self._over(lambda one: one.log_kernel(decision, width)))

    def quantile(self, level: float) -> Array:
        """The least value whose distribution function reaches the level."""
        lows, highs = jax.vmap(lambda component: Single(component).bracket(level))(self.components)
        low, high = lows.min(axis=0), highs.max(axis=0)
        if not statistics.is_discrete(self.components):
            return self._bisected(level, low, high, 0.0)
        # Down to neighbouring counts.
        halved = partial(self._bisected, level, low, high, 0.5)
        if not _from_zero(self.components):
            return jnp.floor(halved())
        few = jnp.all(high <= WALK)
        count, reached = jax.lax.cond(
            few, lambda: self._walked(level, high), lambda: (low, jnp.zeros_like(low))
        )
        found = reached >= level
        return jax.lax.cond(
            jnp.all(found), lambda: count, lambda: jnp.where(found, count, jnp.floor(halved()))
        )

    def _bisected(self, level: float, low: Array, high: Array, width: float) -> Array:
        """The upper end of a bracket so narrow, or down to the last digit."""
        halvings = 60 if low.dtype == jnp.float64 else 32

        def unfinished(state: tuple[int, Array, Array]) -> Array:
            step, low, high = state
            return (step < halvings) & jnp.any(high - low > width)

        def halve(state: tuple[int, Array, Array]) -> tuple[int, Array, Array]:
            step, low, high = state
            middle = low + (high - low) / 2
            reached = self.cdf(middle) >= level
            return step + 1, jnp.where(reached, low, middle), jnp.where(reached, middle, high)

        _, _, high = jax.lax.while_loop(unfinished, halve, (0, low, high))
        return jnp.where(jnp.isnan(self.cdf(high)), jnp.nan, high)

    def _walked(self, level: float, high: Array) -> tuple[Array, Array]:
        """Up from zero, count by count, to the first that reaches the level; and what it reaches.

        For counts below a few hundred, less work than to ask for the distribution function.
        """
        # A loop's body takes JAX's arrays alone for constants.
        components = jax.tree.map(jnp.asarray, self.components)

        def mass(count: Array) -> Array:
            each = jax.vmap(lambda component: log_mass(component, count).log_weights)(components)
            return jnp.exp(each).mean(axis=0)

        def unfinished(state: tuple[Array, Array]) -> Array:
            count, reached = state
            return jnp.any((reached < level) & (count < high))

        def walk(state: tuple[Array, Array]) -> tuple[Array, Array]:
            count, reached = state
            on = (reached < level) & (count < high)
            count = count + on
            return count, reached + jnp.where(on, mass(count), 0.0)

        start = (jnp.full_like(high, -1.0), jnp.zeros_like(high))
        return jax.lax.while_loop(unfinished, walk, start)


def _from_zero(outcome: Distribution) -> bool:
    """Whether the values of a discrete outcome are surely 0, 1, 2, ..."""
    lowest = getattr(outcome.support, "lower_bound", None)
    return outcome.support is constraints.boolean or (isinstance(lowest, int) and lowest == 0)


def _log_mean_exp(values: Array) -> Array:
    return logsumexp(values, axis=0) - jnp.log(values.shape[0])
