"""Counts: negative binomial, geometric, binomial, and those with more zeros.

With k the whole part of h, E (y-h)+ = (E y - h) P(y > k) + c(k) p(k), where c(k) p(k) is the sum of
(y - E y) p(y) over y > k; P(y > k) is an incomplete beta function.
"""

from functools import partial
from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution
from numpyro.distributions.discrete import ZeroInflatedProbs

from stakes._types import Array
from stakes.expectation.families.common import finite_below_one, floats, not_zero, whole
from stakes.expectation.families.masses import chances, inflated
from stakes.expectation.incomplete import beta_above, beta_score, beta_tail, beta_weight
from stakes.expectation.quantiles import newton
from stakes.expectation.special import along, exp_less_tangent, log_less_tangent
from stakes.expectation.stats import (
    cdf,
    cumulant,
    excess,
    few_values,
    largest_value,
    least_tails,
    mean,
    tails,
    variance,
)
from stakes.expectation.sums import flushed_exp

NEAR = 4
"""Counts on either side of a guess among which the best one is looked for exactly."""

# Negative binomial, geometric --------------------------------------------------------------


@tails.register
def _(outcome: dist.GammaPoisson, decision: Array, above: float, below: float) -> Array:
    shape, rate, decision = floats(outcome.concentration, outcome.rate, decision)
    more = _negative_binomial_excess(*jnp.broadcast_arrays(shape, rate, decision))
    return (above + below) * more + below * (decision - shape / rate)


@excess.register
def _(outcome: dist.GammaPoisson, decision: Array) -> Array:
    shape, rate, decision = floats(outcome.concentration, outcome.rate, decision)
    return _negative_binomial_excess(*jnp.broadcast_arrays(shape, rate, decision))


@jax.custom_jvp
def _negative_binomial_excess(shape: Array, rate: Array, decision: Array) -> Array:
    return _excess_and_slopes(shape, rate, decision)[0]


@partial(_negative_binomial_excess.defjvp, symbolic_zeros=True)
def _(primals, tangents):  # type: ignore[no-untyped-def]
    value, *slopes = _excess_and_slopes(*primals)
    return value, along(tuple(slopes), tangents, value)


def _excess_and_slopes(
    shape: Array, rate: Array, decision: Array
) -> tuple[Array, Array, Array, Array]:
    """E (y-h)+ = (E y - h) P(y > k) + w, and its derivatives by shape, rate and h."""
    a, b, x, rest = places = _negative_binomial_places(shape, rate, decision)
    tail, centre = beta_tail(*places), shape / rate
    here, away = tail.weight / x, centre - decision
    negative = decision < 0
    beyond = jnp.where(negative, 1.0, tail.above)
    by_shape = away * tail.by_a + here * beta_score(*places)
    by_rate = here * rest * ((a - 1) / rate - b) - away * tail.weight / rate
    return (
        jnp.where(negative, away, away * beyond + here),
        beyond / rate + jnp.where(negative, 0.0, by_shape),
        jnp.where(negative, 0.0, by_rate) - centre / rate * beyond,
        -beyond,
    )


@cdf.register
def _(outcome: dist.GammaPoisson, value: Array) -> Array:
    shape, rate, value = floats(outcome.concentration, outcome.rate, value)
    places = _negative_binomial_places(shape, rate, value)
    return jnp.where(value < 0, 0.0, 1 - beta_above(*places))


def _negative_binomial_places(shape: Array, rate: Array, value: Array) -> list[Array]:
    """P(y > k) is P(g > p) for g ~ Beta(r, k+1)."""
    places = (shape, whole(value) + 1, 1 / (1 + 1 / rate), not_zero(1 / (1 + rate)))
    return jnp.broadcast_arrays(*places)


@least_tails.register
def _(outcome: dist.GammaPoisson, above: float, below: float) -> Array:
    shape, rate = jax.lax.stop_gradient(floats(outcome.concentration, outcome.rate))
    best = _negative_binomial_quantile(shape, rate, above / (above + below))
    return tails(outcome, jax.lax.stop_gradient(best), above, below)


def _negative_binomial_quantile(shape: Array, rate: Array, level: float) -> Array:
    """The least count at which the level is reached, or one that is hardly worse.

    From that of a gamma distribution with the same mean and variance, by a step of Newton's method;
    then exactly among its neighbours, by the ratio of their probabilities.
    """
    rest, scale = 1 / (1 + rate), 1 + 1 / rate
    count = jnp.floor(_gamma_quantile(shape / (1 + rate), level) * scale)

    def at(count: Array, rough: bool = False) -> tuple[Array, Array]:
        tail = beta_tail(*_negative_binomial_places(shape, rate, count), rough=rough)
        return 1 - tail.above, tail.weight / ((shape + count) * rest)

    def nearer(count: Array, reached: Array, here: Array) -> Array:
        return jnp.maximum(jnp.floor(count + newton(level, reached, here) + 0.5), 0.0)

    count = nearer(count, *at(count, rough=True))
    reached, here = at(count)
    for _ in range(NEAR):
        over = (reached - here >= level) & (count > 0)
        before = here * count / ((count - 1 + shape) * rest)
        reached, here = jnp.where(over, reached - here, reached), jnp.where(over, before, here)
        count = count - over
    for _ in range(NEAR):
        short = reached < level
        here = jnp.where(short, here * (count + shape) * rest / (count + 1), here)
        reached, count = jnp.where(short, reached + here, reached), count + short
    found = (reached >= level) & ((reached - here < level) | (count == 0))
    return jnp.where(found, count, nearer(count, reached, here))


def _gamma_quantile(shape: Array, level: float) -> Array:
    """A guess: by a cube, and for small shapes by the first terms at either end."""
    z = NormalDist().inv_cdf(level)
    cube = 1 - 1 / (9 * shape) + z / (3 * jnp.sqrt(shape))
    usual, small = shape * jnp.maximum(cube, 0.1) ** 3, jnp.minimum(shape, 1.0)
    if level > 0.5:  # what lies above x is nearly the shape times ∫ exp(-s)/s ds
        beyond = (1 - level) / small
        far = jnp.maximum(-jnp.log(beyond), 0.1)
        for _ in range(3):
            far = jnp.maximum(-jnp.log(beyond) - jnp.log1p(far), 0.1)
        near = jnp.exp(-0.5772 - beyond)
        return jnp.where(shape < 0.4, jnp.where(beyond < 0.5, far, near), usual)
    # What lies below x is nearly x^a/Γ(a+1), a polynomial for a from 0 to 1.
    terms = (-0.1010678, 0.4245549, -0.6998588, 0.9512363, -0.5748646, 1.0)
    low = jnp.exp(jnp.log(level * jnp.polyval(jnp.array(terms, small.dtype), small)) / small)
    return jnp.where(shape < 1, low * (1 + low / (small + 1)), usual)


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


@few_values.register
def _(outcome: ZeroInflatedProbs) -> int | None:
    return few_values(inflated(outcome))


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
