"""Counts: Poisson, negative binomial, geometric, binomial, and those with more zeros.

With k the whole part of h, E (y-h)+ = (E y - h) P(y > k) + c(k) p(k), where c(k) p(k) is the sum of
(y - E y) p(y) over y > k; P(y > k) is an incomplete gamma or beta function.
"""

import math
from functools import partial
from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution
from numpyro.distributions.discrete import ZeroInflatedProbs

from stakes._types import Array
from stakes.expectation.families.common import LEAST, finite_below_one, floats, not_zero
from stakes.expectation.families.masses import chances, inflated
from stakes.expectation.incomplete import beta_above, beta_weight, gamma_above, gamma_tail
from stakes.expectation.special import exp_less_tangent, log_less_tangent
from stakes.expectation.stats import (
    cdf,
    cumulant,
    excess,
    largest_value,
    least_tails,
    mean,
    tails,
    variance,
)
from stakes.expectation.sums import flushed_exp

# Poisson -----------------------------------------------------------------------------------


@tails.register
def _(outcome: dist.Poisson, decision: Array, above: float, below: float) -> Array:
    return _poisson_tails(*floats(outcome.rate, decision), above, below)


@least_tails.register
def _(outcome: dist.Poisson, above: float, below: float) -> Array:
    return _poisson_least(*floats(outcome.rate), above, below)


@cdf.register
def _(outcome: dist.Poisson, value: Array) -> Array:
    rate, value = jnp.broadcast_arrays(*floats(outcome.rate, value))
    return jnp.where(value < 0, 0.0, gamma_above(_whole(value) + 1, rate))


@cumulant.register
def _(outcome: dist.Poisson, t: float) -> Array:
    return outcome.rate * (math.expm1(t) - t)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _poisson_tails(rate: Array, decision: Array, above: float, below: float) -> Array:
    return _poisson_tails_and_slopes(rate, decision, above, below)[0]


@_poisson_tails.defjvp
def _(above, below, primals, tangents):  # type: ignore[no-untyped-def]
    rate, decision = primals
    d_rate, d_decision = tangents
    value, by_rate, by_decision = _poisson_tails_and_slopes(rate, decision, above, below)
    return value, by_rate * d_rate + by_decision * d_decision


def _poisson_tails_and_slopes(
    rate: Array, decision: Array, above: float, below: float
) -> tuple[Array, Array, Array]:
    """Value, and derivatives by λ and h. With k the whole part of h,

    E (y-h)+ = λ p(k) + (λ-h) P(y > k) and E (h-y)+ = λ p(k) + (h-λ) P(y ≤ k); the slope in λ is
    E g(y+1) - g(y), as for any function g of a Poisson count.
    """
    negative, whole, rate = decision < 0, _whole(decision), jnp.maximum(rate, LEAST)
    tail = gamma_tail(*jnp.broadcast_arrays(whole + 1, rate))
    here = jnp.where(negative, 0.0, tail.weight)  # λ p(k)
    less = jnp.where(negative, 0.0, tail.above)
    more = 1 - less
    excess = jnp.maximum(here + (rate - decision) * more, 0.0)
    shortfall = jnp.maximum(here + (decision - rate) * less, 0.0)
    rest = (whole + 1 - decision) * here / rate
    by_rate = above * (more + rest) - below * (less - rest)
    return above * excess + below * shortfall, by_rate, below * less - above * more


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _poisson_least(rate: Array, above: float, below: float) -> Array:
    return _poisson_least_and_slope(rate, above, below)[0]


@_poisson_least.defjvp
def _(above, below, primals, tangents):  # type: ignore[no-untyped-def]
    [rate], [d_rate] = primals, tangents
    value, by_rate = _poisson_least_and_slope(rate, above, below)
    return value, by_rate * d_rate


def _poisson_least_and_slope(rate: Array, above: float, below: float) -> tuple[Array, Array]:
    """Value and derivative by λ of the expected tails at the best count.

    A Cornish-Fisher quantile is at most two counts off; the distribution function there gives those
    of its neighbours by the ratio of their probabilities.
    """
    level = above / (above + below)
    z, rate = NormalDist().inv_cdf(level), jnp.maximum(rate, LEAST)
    lowest = _whole(rate + z * jnp.sqrt(rate) + (z * z - 1) / 6 - 2)
    count, tail = lowest, gamma_tail(lowest + 1, rate)
    here, reached = tail.weight, tail.above  # λ p(k) and P(y ≤ k)
    for step in range(5):
        short = (reached < level) & (count == lowest + step)
        here = jnp.where(short, here * rate / (count + 1), here)
        reached = jnp.where(short, reached + here / rate, reached)
        count = count + short
    value = (above + below) * here + (rate - count) * (above * (1 - reached) - below * reached)
    mass = here / rate
    return value, above * (1 - reached + mass) - below * (reached - mass)


def _whole(value: Array) -> Array:
    """The largest count that is not above the value, or zero."""
    return jnp.maximum(jnp.floor(value), 0.0)


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
    places = (shape, _whole(value) + 1, 1 / (1 + 1 / rate), not_zero(1 / (1 + rate)))
    return jnp.broadcast_arrays(*places)


@cumulant.register
def _(outcome: dist.GammaPoisson, t: float) -> Array:
    return outcome.concentration * _geometric_cumulant(1 / outcome.rate, t)


@excess.register(dist.GeometricProbs)
@excess.register(dist.GeometricLogits)
def _(outcome: Distribution, decision: Array) -> Array:
    """After any count, the distribution begins anew."""
    centre, decision = floats(mean(outcome), decision)
    first = _whole(decision) + 1
    beyond = flushed_exp(-first * jnp.log1p(1 / centre))
    return jnp.where(decision < 0, centre - decision, beyond * (first - decision + centre))


@cdf.register(dist.GeometricProbs)
@cdf.register(dist.GeometricLogits)
def _(outcome: Distribution, value: Array) -> Array:
    centre, value = floats(mean(outcome), value)
    at_most = -jnp.expm1(-(_whole(value) + 1) * jnp.log1p(1 / centre))
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
    whole = jnp.clip(jnp.floor(value), 0.0, jnp.maximum(total - 1, 0.0))
    places = (whole + 1, jnp.maximum(total, 1.0) - whole, *map(not_zero, both))
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
