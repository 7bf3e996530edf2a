"""Counts: negative binomial, geometric, binomial, and those with more zeros.

With k the whole part of h, E (y-h)+ = (E y - h) P(y > k) + c(k) p(k), where c(k) p(k) is the sum of
(y - E y) p(y) over y > k; P(y > k) is an incomplete beta function.
"""

import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution
from numpyro.distributions.discrete import ZeroInflatedProbs

from stakes._types import Array
from stakes.expectation.families.common import finite_below_one, floats, not_zero, whole
from stakes.expectation.families.masses import chances, inflated
from stakes.expectation.incomplete import beta_above, beta_weight
from stakes.expectation.special import exp_less_tangent, log_less_tangent
from stakes.expectation.stats import (
    cdf,
    cumulant,
    excess,
    largest_value,
    mean,
    tails,
    variance,
)
from stakes.expectation.sums import flushed_exp

# Negative binomial, geometric --------------------------------------------------------------


@excess.register
def _(outcome: dist.GammaPoisson, decision: Array) -> Array:
    shape, rate, decision = floats(outcome.concentration, outcome.rate, decision)
    centre, places = shape / rate, _negative_binomial_places(shape, rate, decision)
    inside = (centre - decision) * beta_above(*places) + beta_weight(*places) / places[2]
    return jnp.where(decision < 0, centre - decision, inside)


@cdf.register
def _(outcome: dist.GammaPoisson, value: Array) -> Array:
    shape, rate, value = floats(outcome.concentration, outcome.rate, value)
    places = _negative_binomial_places(shape, rate, value)
    return jnp.where(value < 0, 0.0, 1 - beta_above(*places))


def _negative_binomial_places(shape: Array, rate: Array, value: Array) -> list[Array]:
    """P(y > k) is P(g > p) for g ~ Beta(r, k+1)."""
    places = (shape, whole(value) + 1, 1 / (1 + 1 / rate), not_zero(1 / (1 + rate)))
    return jnp.broadcast_arrays(*places)


@cumulant.register
def _(outcome: dist.GammaPoisson, t: float) -> Array:
    return outcome.concentration * _geometric_cumulant(1 / outcome.rate, t)


@excess.register(dist.GeometricProbs)
@excess.register(dist.GeometricLogits)
def _(outcome: Distribution, decision: Array) -> Array:
    """After any count, the distribution begins anew."""
    centre, decision = floats(mean(outcome), decision)
    first = whole(decision) + 1
    beyond = flushed_exp(-first * jnp.log1p(1 / centre))
    return jnp.where(decision < 0, centre - decision, beyond * (first - decision + centre))


@cdf.register(dist.GeometricProbs)
@cdf.register(dist.GeometricLogits)
def _(outcome: Distribution, value: Array) -> Array:
    centre, value = floats(mean(outcome), value)
    at_most = -jnp.expm1(-(whole(value) + 1) * jnp.log1p(1 / centre))
    return jnp.where(value < 0, 0.0, at_most)


@mean.register
def _(outcome: dist.GeometricLogits) -> Array:
    return jnp.exp(-outcome.logits)


@cumulant.register(dist.GeometricProbs)
@cumulant.register(dist.GeometricLogits)
def _(outcome: Distribution, t: float) -> Array:
    return _geometric_cumulant(mean(outcome), t)


def _geometric_cumulant(centre: Array, t: float) -> Array:
    """-log(1 - m(exp t - 1)) - mt: a sum of two that are not negative."""
    grown = lambda v: -log_less_tangent(1 - v, -v)  # noqa: E731
    centre, by = floats(centre, t)
    return finite_below_one(centre * jnp.expm1(by), grown) + centre * exp_less_tangent(by)


# Binomial ----------------------------------------------------------------------------------


@largest_value.register(dist.BinomialProbs)
@largest_value.register(dist.BinomialLogits)
def _(outcome: Distribution) -> Array:
    return jnp.asarray(outcome.total_count)


@excess.register(dist.BinomialProbs)
@excess.register(dist.BinomialLogits)
def _(outcome: Distribution, decision: Array) -> Array:
    total, probs, decision = floats(outcome.total_count, outcome.probs, decision)
    places = _binomial_places(outcome, decision)
    away = total * probs - decision
    inside = away * (1 - beta_above(*places)) + beta_weight(*places)
    return jnp.where(decision < 0, away, jnp.where(decision < total, inside, 0.0))


@cdf.register(dist.BinomialProbs)
@cdf.register(dist.BinomialLogits)
def _(outcome: Distribution, value: Array) -> Array:
    total, value = floats(outcome.total_count, value)
    inside = beta_above(*_binomial_places(outcome, value))
    return jnp.where(value < 0, 0.0, jnp.where(value < total, inside, 1.0))


@cumulant.register(dist.BinomialProbs)
@cumulant.register(dist.BinomialLogits)
def _(outcome: Distribution, t: float) -> Array:
    """n (log(1 + p (exp t - 1)) - p t)."""
    total, probs, rest = floats(outcome.total_count, *chances(outcome))
    if abs(t) < 1:
        # Counting what is rarer, successes or failures, keeps the two parts apart.
        rare, by = jnp.minimum(probs, rest), jnp.where(probs > rest, -t, t)
        change = rare * jnp.expm1(by)
        return total * (log_less_tangent(1 + change, change) + rare * exp_less_tangent(by))
    log_probs, log_rest = jnp.log(not_zero(probs)), jnp.log(not_zero(rest))
    return total * (jnp.logaddexp(log_rest, log_probs + t) - probs * t)


def _binomial_places(outcome: Distribution, value: Array) -> list[Array]:
    """P(y ≤ k) is P(g > p) for g ~ Beta(k+1, n-k)."""
    total, *both, value = floats(outcome.total_count, *chances(outcome), value)
    count = jnp.clip(jnp.floor(value), 0.0, jnp.maximum(total - 1, 0.0))
    places = (count + 1, jnp.maximum(total, 1.0) - count, *map(not_zero, both))
    return jnp.broadcast_arrays(*places)


# More zeros --------------------------------------------------------------------------------


@mean.register
def _(outcome: ZeroInflatedProbs) -> Array:
    return (1 - outcome.gate) * mean(inflated(outcome))


@variance.register
def _(outcome: ZeroInflatedProbs) -> Array:
    base, gate = inflated(outcome), outcome.gate
    return (1 - gate) * (variance(base) + gate * jnp.square(mean(base)))


@cdf.register
def _(outcome: ZeroInflatedProbs, value: Array) -> Array:
    return outcome.gate * (value >= 0) + (1 - outcome.gate) * cdf(inflated(outcome), value)


@tails.register
def _(outcome: ZeroInflatedProbs, decision: Array, above: float, below: float) -> Array:
    at_zero = jnp.maximum(-above * decision, below * decision)
    others = tails(inflated(outcome), decision, above, below)
    return outcome.gate * at_zero + (1 - outcome.gate) * others


@cumulant.register
def _(outcome: ZeroInflatedProbs, t: float) -> Array:
    """The logarithm of one and terms that are not negative: nothing cancels when t is small."""
    base, gate = inflated(outcome), outcome.gate
    spread, centre = cumulant(base, t), mean(base)
    zero, other = -t * (1 - gate) * centre, t * gate * centre + spread
    small = jnp.maximum(zero, other) < 1
    by_zero, by_other = (exp_less_tangent(jnp.where(small, x, 0.0)) for x in (zero, other))
    near = jnp.log1p(gate * by_zero + (1 - gate) * (by_other + jnp.where(small, spread, 0.0)))
    far = jnp.logaddexp(jnp.log(not_zero(gate)) + zero, jnp.log(not_zero(1 - gate)) + other)
    return jnp.where(small, near, far)
