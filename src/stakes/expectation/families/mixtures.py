"""Mixtures, and outcomes with a hurdle at zero: every statistic, from those of the components.

A mixture is asked component by component; their answers lie along a last axis, and E g = Σ w E_k g.
Counts with a hurdle are a base without its zeros: E g = gate g(0) + (1 - gate) E[g(base) | base >
0]. Written so that nothing cancels where the base is hardly ever more than zero.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from numpyro.distributions import Distribution
from numpyro.distributions.discrete import HurdleProbs

from stakes._types import Array, Number
from stakes.expectation import stats
from stakes.expectation.families.guards import floats, not_zero
from stakes.expectation.predicted import Single
from stakes.expectation.special import exp_less_tangent
from stakes.expectation.stats import Components, Widen

Mixed: TypeAlias = dist.MixtureSameFamily | dist.MixtureGeneral

# The logarithm of a chance that is as good as zero; where all are, it still has a slope.
NOTHING = -1e4
# Counts of which each is far less likely than the one before, where more than none are rare.
LIGHT = dist.Poisson | dist.BinomialProbs | dist.BinomialLogits
# The chance below which they are, and how many counts are then all.
RARE = 0.2
FIRST = 5
Asked = Callable[[Distribution, Widen], Array]
"""(component, how to lay out what each case has beside it) -> an answer."""


@stats.components.register
def _(outcome: dist.MixtureSameFamily) -> Components:
    """One distribution, with the components along its last axis."""
    weights = jnp.asarray(outcome.mixing_distribution.probs)
    return Components(weights, (stats.bare(outcome.component_distribution),), side_by_side=True)


@stats.components.register
def _(outcome: dist.MixtureGeneral) -> Components:
    """A list of distributions."""
    weights = jnp.asarray(outcome.mixing_distribution.probs)
    return Components(weights, tuple(map(stats.bare, outcome.component_distributions)))


@stats.components.register
def _(outcome: HurdleProbs) -> Components | None:
    """Only where the outcome is no count is the base a component: it has no zeros to take out."""
    base = stats.bare(outcome.base_dist)
    if base.support.is_discrete:
        return None
    weights = jnp.stack([outcome.gate, 1 - outcome.gate], axis=-1)
    return Components(weights, (dist.Delta(jnp.zeros(())), base))


def _asked(outcome: Distribution, question: Asked) -> tuple[Array, Array]:
    """Return the weights of the components, and their answers along a last axis."""
    parts = stats.components(outcome)
    assert parts is not None
    return parts.weights, parts.answers(question)


def _sum(outcome: Distribution, question: Asked) -> Array:
    """Σ w a over the components."""
    weights, answers = _asked(outcome, question)
    # What has no weight counts for nothing, even where it is infinite: 0·inf is nan.
    return jnp.sum(jnp.where(weights > 0, weights * answers, 0.0), axis=-1)


def _log_sum(outcome: Distribution, question: Asked) -> Array:
    """log Σ w exp(a) over the components."""
    weights, answers = _asked(outcome, question)
    return logsumexp(jnp.log(not_zero(weights)) + answers, axis=-1)


@stats.mean.register
def _(outcome: Mixed) -> Array:
    """Σ w E_k y."""
    return _sum(outcome, lambda part, _: stats.mean(part))


@stats.variance.register
def _(outcome: Mixed) -> Array:
    """Σ w Var_k y, and the variance of the components' means."""
    centre = stats.mean(outcome)[..., None]
    weights, means = _asked(outcome, lambda part, _: stats.mean(part))
    between = jnp.sum(weights * jnp.square(means - centre), axis=-1)
    return between + _sum(outcome, lambda part, _: stats.variance(part))


@stats.cdf.register
def _(outcome: Mixed, value: Array) -> Array:
    """Σ w P_k(y ≤ h)."""
    return _sum(outcome, lambda part, widen: Single(part).cdf(widen(value)))


@stats.below.register
def _(outcome: Mixed, value: Array) -> Array:
    """Σ w P_k(y < h)."""
    return _sum(outcome, lambda part, widen: Single(part).below(widen(value)))


@stats.log_mass.register
def _(outcome: Mixed, count: Array) -> Array:
    """log Σ w p_k(y)."""

    def within(part: Distribution, widen: Widen) -> Array:
        """As good as nothing outside the support of the component, where its formula may fail."""
        return jnp.maximum(stats.masses(part, widen(count)).log_weights, NOTHING)

    return _log_sum(outcome, within)


@stats.tails.register
def _(outcome: Mixed, decision: Array, above: float, below: float) -> Array:
    """Σ w times the expected cost under each component."""
    return _sum(outcome, lambda part, widen: stats.tails(part, widen(decision), above, below))


@stats.cumulant.register
def _(outcome: Mixed, t: float) -> Array:
    """The logarithm of one and terms that are not negative: nothing cancels when t is small."""
    weights, spreads = _asked(outcome, lambda part, _: stats.cumulant(part, t))
    _, means = _asked(outcome, lambda part, _: stats.mean(part))
    x = t * (means - stats.mean(outcome)[..., None]) + spreads
    small = jnp.max(x, axis=-1) < 1
    held = jnp.where(small[..., None], x, 0.0)
    spread = jnp.where(small[..., None], spreads, 0.0)
    near = jnp.log1p(jnp.sum(weights * (exp_less_tangent(held) + spread), axis=-1))
    return jnp.where(small, near, logsumexp(jnp.log(not_zero(weights)) + x, axis=-1))


@stats.log_tails.register
def _(outcome: Mixed, decision: Array, above: Number, below: Number) -> Array:
    """log Σ w exp of those of the components."""
    return _log_sum(
        outcome,
        lambda part, widen: stats.log_tails(part, *map(widen, floats(decision, above, below))),
    )


@stats.log_kernel.register
def _(outcome: Mixed, decision: Array, width: Number) -> Array:
    """log Σ w exp of those of the components."""
    return _log_sum(
        outcome, lambda part, widen: stats.log_kernel(part, *map(widen, floats(decision, width)))
    )


@stats.few_values.register
def _(outcome: Mixed) -> int | None:
    """The most of any component; None where one of them has many."""
    parts = stats.components(outcome)
    assert parts is not None
    counts = [stats.few_values(part) for part in parts.distributions]
    return max(count or 0 for count in counts) if all(counts) else None


@stats.largest_value.register
def _(outcome: Mixed) -> Array | None:
    """The largest of any component; None where one of them has none."""
    parts = stats.components(outcome)
    assert parts is not None
    if any(stats.largest_value(part) is None for part in parts.distributions):
        return None
    return jnp.max(parts.answers(lambda part, _: jnp.asarray(stats.largest_value(part))), axis=-1)


# Hurdles -----------------------------------------------------------------------------------


class _Counts(NamedTuple):
    """The counts behind a hurdle: the base, given that it is not zero.

    P(base > 0) may be tiny, and then E base and the like are as tiny: their ratio is formed at
    once, from the two to full precision.

    Attributes:
        gate: the chance of a zero.
        none: the chance that the base is zero, by which it is not there.
        some: the other chance: to full precision, however small.
    """

    gate: Array
    base: Distribution
    none: Array
    some: Array

    @property
    def mean(self) -> Array:
        """E[base | base > 0] = E base / P(base > 0)."""
        return stats.mean(self.base) / self.some

    @property
    def variance(self) -> Array:
        """Var base / P(base > 0), less P(base = 0) times the square of the mean."""
        return stats.variance(self.base) / self.some - self.none * jnp.square(self.mean)

    def cdf(self, value: Array) -> Array:
        """[P(base ≤ h) - P(base = 0)]/P(base > 0) from one on, both differences rounded alike."""
        # Both differences are rounded alike, so that all of the mass makes one.
        least = 1 - self.none
        part = (stats.cdf(self.base, value) - self.none) / jnp.where(least > 0, least, 1.0)
        return jnp.where(value < 1, 0.0, jnp.where(least > 0, part, 1.0))

    def tails(self, decision: Array, above: float, below: float) -> Array:
        """All counts lie above a decision below one; zeros of the base never do from there on."""
        more = jnp.where(decision < 1, self.mean - decision, self._excess(decision) / self.some)
        return (above + below) * more + below * (decision - self.mean)

    def _excess(self, decision: Array) -> Array:
        """E (base - h)+, by the first counts where more than none are rare.

        The formula takes the difference of two numbers that are nearly the same there. The first
        five counts are all that matters: each is far less likely than the one before.
        """
        usual = stats.tails(self.base, decision, 1.0, 0.0)
        if not isinstance(self.base, LIGHT):
            return usual
        counts = jnp.maximum(jnp.floor(decision), 0.0) + 1
        first = jnp.zeros(())
        for count in (counts + step for step in range(FIRST)):
            first = first + (count - decision) * jnp.exp(stats.masses(self.base, count).log_weights)
        return jnp.where(self.some < RARE, first, usual)


def _counts(outcome: HurdleProbs) -> _Counts | None:
    """The counts behind a hurdle; None where the outcome is no count, and so a mixture."""
    if stats.components(outcome) is not None:
        return None
    base = stats.bare(outcome.base_dist)
    log_none = stats.log_mass(base, jnp.zeros(()))
    return _Counts(outcome.gate, base, jnp.exp(log_none), -jnp.expm1(log_none))


# Where the outcome is no count, a hurdle is a mixture.
of_counts = stats.answers(HurdleProbs, _counts, dist.MixtureGeneral)


@stats.few_values.register
def _(outcome: HurdleProbs) -> int | None:
    """As many as the base has, which has zero among them."""
    return stats.few_values(stats.bare(outcome.base_dist))


@of_counts(stats.mean)
def _(counts: _Counts) -> Array:
    """(1 - gate) E[base | base > 0]."""
    return (1 - counts.gate) * counts.mean


@of_counts(stats.variance)
def _(counts: _Counts) -> Array:
    """(1 - gate) (Var + gate (E)²), both of the base given that it is not zero."""
    return (1 - counts.gate) * (counts.variance + counts.gate * jnp.square(counts.mean))


@of_counts(stats.cdf)
def _(counts: _Counts, value: Array) -> Array:
    """(1 - gate) P(base ≤ h | base > 0), and the gate more from zero on."""
    return counts.gate * (value >= 0) + (1 - counts.gate) * counts.cdf(value)


@of_counts(stats.log_mass)
def _(counts: _Counts, count: Array) -> Array:
    """log gate at zero, and log[(1 - gate) p(k)/P(base > 0)] above it."""
    gate = not_zero(jnp.asarray(counts.gate))
    beyond = jnp.where(count > 0, count, 1)
    others = stats.log_mass(counts.base, beyond) - jnp.log(not_zero(counts.some))
    return jnp.where(count > 0, jnp.log(not_zero(1 - gate)) + others, jnp.log(gate))


@of_counts(stats.tails)
def _(counts: _Counts, decision: Array, above: float, below: float) -> Array:
    """The gate times the cost at zero, and 1 - gate times the expected cost of the counts."""
    at_zero = jnp.maximum(-above * decision, below * decision)
    others = counts.tails(decision, above, below)
    return counts.gate * at_zero + (1 - counts.gate) * others


def _as_mixture(question: stats.Question) -> None:
    """Of counts, what is known of any outcome."""

    @question.register
    def _(outcome: HurdleProbs, *arguments: Number) -> Array:
        is_mixture = stats.components(outcome) is not None
        return question.dispatch(dist.MixtureGeneral if is_mixture else object)(outcome, *arguments)


for _question in (stats.below, stats.cumulant, stats.log_tails, stats.log_kernel):
    _as_mixture(_question)
