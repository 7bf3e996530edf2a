"""Statistics of outcome distributions that losses need, one function each.

Each function dispatches on the type of the NumPyro distribution; an unknown type raises
`NoClosedForm`, and the next best expectation is taken. A new outcome distribution takes a
handful of `register` lines, here or in your own code.
"""

import math
from functools import partial, singledispatch
from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.custom_derivatives import SymbolicZero
from jax.scipy.special import gammainc, ndtri
from numpyro.distributions import Distribution, constraints

from stakes import checks
from stakes._types import Array, Number
from stakes.errors import NoClosedForm
from stakes.expectation.mills import density, mills, mills_and_slope
from stakes.expectation.sums import flushed_exp

LOG_ROOT_TAU = math.log(2 * math.pi) / 2


def _floats(*values: Array) -> tuple[Array, ...]:
    """The values in one floating type: a whole number has no derivative."""
    dtype = jnp.result_type(float, *values)
    return tuple(jnp.asarray(value, dtype) for value in values)


def _check(outcome: Distribution) -> None:
    checks.instance("`outcome`", outcome, Distribution, "a NumPyro distribution")


def _unknown(question: str, outcome: Distribution) -> NoClosedForm:
    _check(outcome)
    return NoClosedForm(f"No closed form is known for the {question} of {type(outcome).__name__}.")


@singledispatch
def mean(outcome: Distribution) -> Array:
    _check(outcome)
    try:
        return outcome.mean
    except NotImplementedError:
        raise _unknown("mean", outcome) from None


@singledispatch
def variance(outcome: Distribution) -> Array:
    """Unknown for an angle, whose variance NumPyro measures around the circle."""
    _check(outcome)
    if outcome.support is constraints.circular:
        raise _unknown("variance", outcome)
    try:
        return outcome.variance
    except NotImplementedError:
        raise _unknown("variance", outcome) from None


@singledispatch
def cdf(outcome: Distribution, value: Array) -> Array:
    """P(y ≤ value)."""
    _check(outcome)
    try:
        return outcome.cdf(jnp.floor(value) if is_discrete(outcome) else value)
    except NotImplementedError:
        raise _unknown("distribution function", outcome) from None


@singledispatch
def tails(outcome: Distribution, decision: Array, above: float, below: float) -> Array:
    """E above·(y-h)+ + below·(h-y)+."""
    raise _unknown("expected excess", outcome)


@singledispatch
def least_tails(outcome: Distribution, above: float, below: float) -> Array:
    """The least value of `tails` over all decisions."""
    raise _unknown("least expected excess", outcome)


@singledispatch
def cumulant(outcome: Distribution, t: float) -> Array:
    """log E exp(t (y - E y))."""
    raise _unknown("moment generating function", outcome)


@singledispatch
def log_tails(outcome: Distribution, decision: Array, above: Number, below: Number) -> Array:
    """log E exp(-above·(y-h)+ - below·(h-y)+)."""
    raise _unknown("exponential tails", outcome)


@singledispatch
def log_kernel(outcome: Distribution, decision: Array, width: Number) -> Array:
    """log E exp(-(y-h)²/width)."""
    raise _unknown("Gaussian kernel", outcome)


@singledispatch
def best_in_log_tails(outcome: Distribution, above: Number, below: Number) -> Array:
    """The decision at which `log_tails` is largest."""
    raise _unknown("best decision of exponential tails", outcome)


@singledispatch
def best_in_log_kernel(outcome: Distribution, width: Number) -> Array:
    """The decision at which `log_kernel` is largest."""
    raise _unknown("best decision of a Gaussian kernel", outcome)


@singledispatch
def few_values(outcome: Distribution) -> int | None:
    """How many values the outcome can take, where its type says so; they are 0, 1, ..."""
    _check(outcome)
    return None


@singledispatch
def largest_value(outcome: Distribution) -> Array | None:
    """The largest count, where there are many; None where they have no end."""
    _check(outcome)
    return None


def is_discrete(outcome: Distribution) -> bool:
    _check(outcome)
    return bool(outcome.support.is_discrete)


# Normal ------------------------------------------------------------------------------------


@tails.register
def _(outcome: dist.Normal, decision: Array, above: float, below: float) -> Array:
    return _normal_tails(*_floats(outcome.loc, outcome.scale, decision), above, below)


@least_tails.register
def _(outcome: dist.Normal, above: float, below: float) -> Array:
    z = NormalDist().inv_cdf(above / (above + below))
    return outcome.scale * ((above + below) * NormalDist().pdf(z))


@best_in_log_kernel.register
def _(outcome: dist.Normal, width: Number) -> Array:
    return jnp.asarray(outcome.loc)


@best_in_log_tails.register
def _(outcome: dist.Normal, above: Number, below: Number) -> Array:
    return outcome.loc - outcome.scale * _best_distance(
        *_floats(above * outcome.scale, below * outcome.scale)
    )


@cumulant.register
def _(outcome: dist.Normal, t: float) -> Array:
    return jnp.square(t * outcome.scale) / 2


@log_kernel.register
def _(outcome: dist.Normal, decision: Array, width: Number) -> Array:
    root = jnp.sqrt(width)
    spread = 2 * jnp.square(outcome.scale / root)
    return -jnp.log1p(spread) / 2 - jnp.square((outcome.loc - decision) / root) / (1 + spread)


@log_tails.register
def _(outcome: dist.Normal, decision: Array, above: Number, below: Number) -> Array:
    loc, scale, decision = _floats(outcome.loc, outcome.scale, decision)
    return _log_tails(*_floats((loc - decision) / scale, above * scale, below * scale))


@jax.custom_jvp
def _log_tails(distance: Array, above: Array, below: Array) -> Array:
    """log E exp(-above·z₊ - below·z₋) for z ~ Normal(distance, 1)."""
    return _log_tails_and_slopes(distance, above, below)[0]


@partial(_log_tails.defjvp, symbolic_zeros=True)
def _(primals, tangents):  # type: ignore[no-untyped-def]
    # By hand: this takes a third of the work and memory of differentiating the two polynomials,
    # and none for rates that are constants, whose slopes are not used.
    value, *slopes = _log_tails_and_slopes(*primals)
    moving = [
        slope * tangent
        for slope, tangent in zip(slopes, tangents, strict=True)
        if not isinstance(tangent, SymbolicZero)
    ]
    return value, sum(moving, jnp.zeros_like(value))


def _log_tails_and_slopes(
    distance: Array, above: Array, below: Array
) -> tuple[Array, Array, Array, Array]:
    """Value, and derivatives by distance, above and below.

    With x₊ = above - δ and x₋ = below + δ, of which at most one is negative, the expectation is
    φ(δ) [mills(x₊) + mills(x₋)]; a negative x is reflected and factored out. Each tail's share of
    the sum is the weight of its rate in the slope.
    """
    first = above - distance < below + distance  # the upper tail has the smaller x
    least = jnp.minimum(above - distance, below + distance)
    most = jnp.maximum(above - distance, below + distance)
    inside = least < 0
    near_mills, near_slope = mills_and_slope(jnp.abs(least))
    far_mills, far_slope = mills_and_slope(most)
    factor = flushed_exp(jnp.where(inside, -jnp.square(least) / 2 - LOG_ROOT_TAU, 0.0))
    near = jnp.where(inside, 1 - factor * near_mills, near_mills)
    far = factor * far_mills
    total = near + far
    rate = jnp.where(first, above, below)
    offset = jnp.where(inside, rate * (least - rate / 2), -jnp.square(distance) / 2 - LOG_ROOT_TAU)
    by_near = jnp.where(inside, least * near - factor, near_slope) / total
    by_far = factor * far_slope / total
    by_above, by_below = jnp.where(first, by_near, by_far), jnp.where(first, by_far, by_near)
    upper, lower = jnp.where(first, near, far), jnp.where(first, far, near)
    by_distance = (below * lower - above * upper) / total
    return offset + jnp.log(total), by_distance, by_above, by_below


def _best_distance(above: Array, below: Array) -> Array:
    """The δ at which E exp(-above·z₊ - below·z₋), z ~ Normal(δ, 1), is largest.

    It is minus a quantile for small rates and 1/above - 1/below for large ones. Two steps of
    Newton's method from a curve between the two leave an error below 1e-3, and so of 1e-6 in the
    logarithm, which is concave in δ.
    """
    total = above + below
    level = above / total
    z = ndtri(level)
    skewed = jnp.abs(level - 0.5) > 1e-3
    odds = level * (1 - level) * jnp.where(skewed, z / jnp.where(skewed, 2 * level - 1, 1.0), 1.25)
    least, most = jnp.minimum(-z, 0.0), jnp.maximum(-z, 0.0)

    def newton(distance: Array) -> Array:
        upper, lower = _any_mills(above - distance), _any_mills(below + distance)
        slope = (below * lower - above * upper) / (upper + lower)
        bend = (below**2 * lower + above**2 * upper - total) / (upper + lower) - slope**2
        return jnp.clip(distance - slope / bend, least, most)

    return newton(newton(-z / (1 + total * odds)))


def _any_mills(x: Array) -> Array:
    """The Mills ratio, also of a negative number."""
    inside = mills(jnp.abs(x))
    return jnp.where(x < 0, 1 / density(x) - inside, inside)


@partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def _normal_tails(loc: Array, scale: Array, decision: Array, above: float, below: float) -> Array:
    return _normal_tails_and_slopes(loc, scale, decision, above, below)[0]


@_normal_tails.defjvp
def _(above, below, primals, tangents):  # type: ignore[no-untyped-def]
    # By hand, because terms in z·φ(z) that cancel exactly on paper do not in floating point.
    loc, scale, decision = primals
    d_loc, d_scale, d_decision = tangents
    value, by_decision, by_scale = _normal_tails_and_slopes(loc, scale, decision, above, below)
    return value, by_decision * (d_decision - d_loc) + by_scale * d_scale


def _normal_tails_and_slopes(
    loc: Array, scale: Array, decision: Array, above: float, below: float
) -> tuple[Array, Array, Array]:
    """Value, and derivatives by h (minus that by m) and by s."""
    z = (decision - loc) / scale
    phi = density(z)
    beyond = phi * mills(jnp.abs(z))
    slope = jnp.where(z > 0, below, above) - (above + below) * beyond
    value = scale * ((above + below) * phi + jnp.abs(z) * slope)
    return value, jnp.where(z > 0, slope, -slope), (above + below) * phi


# Poisson -----------------------------------------------------------------------------------


@tails.register
def _(outcome: dist.Poisson, decision: Array, above: float, below: float) -> Array:
    return _poisson_tails(*_floats(outcome.rate, decision), above, below)


@least_tails.register
def _(outcome: dist.Poisson, above: float, below: float) -> Array:
    return _poisson_least(*_floats(outcome.rate), above, below)


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
    negative, whole = decision < 0, jnp.maximum(jnp.floor(decision), 0.0)
    here = jnp.where(negative, 0.0, jnp.exp(dist.Poisson(rate).log_prob(whole)))
    more = jnp.where(negative, 1.0, gammainc(whole + 1, rate))
    less = 1 - more
    excess = jnp.maximum(rate * here + (rate - decision) * more, 0.0)
    shortfall = jnp.maximum(rate * here + (decision - rate) * less, 0.0)
    rest = (whole + 1 - decision) * here
    by_rate = above * (more + rest) - below * (less - rest)
    return above * excess + below * shortfall, by_rate, below * less - above * more


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _poisson_least(rate: Array, above: float, below: float) -> Array:
    return _poisson_least_and_slope(rate, above, below)[0]


@_poisson_least.defjvp
def _(above, below, primals, tangents):  # type: ignore[no-untyped-def]
    value, by_rate = _poisson_least_and_slope(*primals, above, below)
    return value, by_rate * tangents[0]


def _poisson_least_and_slope(rate: Array, above: float, below: float) -> tuple[Array, Array]:
    """Value and derivative by λ of the expected tails at the best count.

    A Cornish-Fisher quantile is at most two counts off; the distribution function there gives those
    of its neighbours by the ratio of their probabilities.
    """
    level = above / (above + below)
    z = NormalDist().inv_cdf(level)
    guess = rate + z * jnp.sqrt(rate) + (z * z - 1) / 6
    lowest = jnp.maximum(jnp.floor(guess) - 2, 0.0)
    mass = jnp.exp(dist.Poisson(rate).log_prob(lowest))
    reached = 1 - gammainc(lowest + 1, rate)
    count = lowest
    for step in range(1, 6):
        short = (reached < level) & (count == lowest + step - 1)
        mass = jnp.where(short, mass * rate / (count + 1), mass)
        reached = jnp.where(short, reached + mass, reached)
        count = count + short
    tail = (rate - count) * (above * (1 - reached) - below * reached)
    value = (above + below) * rate * mass + tail
    return value, above * (1 - reached + mass) - below * (reached - mass)


# Bernoulli, binomial -----------------------------------------------------------------------


@few_values.register(dist.BernoulliProbs)
@few_values.register(dist.BernoulliLogits)
def _(outcome: Distribution) -> int:
    return 2


@largest_value.register(dist.BinomialProbs)
@largest_value.register(dist.BinomialLogits)
def _(outcome: Distribution) -> Array:
    return jnp.asarray(outcome.total_count)


# Categorical -------------------------------------------------------------------------------


@few_values.register
def _(outcome: dist.CategoricalProbs) -> int:
    return int(outcome.probs.shape[-1])


@few_values.register
def _(outcome: dist.CategoricalLogits) -> int:
    return int(outcome.logits.shape[-1])


@mean.register(dist.CategoricalProbs)
@mean.register(dist.CategoricalLogits)
def _(outcome: Distribution) -> Array:
    return outcome.probs @ jnp.arange(outcome.probs.shape[-1], dtype=outcome.probs.dtype)


@variance.register(dist.CategoricalProbs)
@variance.register(dist.CategoricalLogits)
def _(outcome: Distribution) -> Array:
    labels = jnp.arange(outcome.probs.shape[-1], dtype=outcome.probs.dtype)
    away = labels - mean(outcome)[..., None]
    return jnp.sum(outcome.probs * jnp.square(away), axis=-1)
