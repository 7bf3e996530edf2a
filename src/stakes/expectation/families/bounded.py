"""Outcomes with a lower end, or with two.

Those of Pearson's system (gamma, inverse gamma, beta and their kin) have a density with p'/p =
(linear)/(quadratic). For a polynomial k of degree two at most,

    E (y-h)+ = (E y - h) P(y > h) + k(h) p(h),

since the derivative of k p is (E y - y) p. For the gamma distribution with rate r, k(h) is h/r; for
the beta distribution, h (1-h)/(a+b). The tails P(y > h) are incomplete gamma and beta functions.

Each formula is written for the standardised outcome. Beyond an end the cost is linear, and the
formula, which may fail there, is not asked (`guards.positive`, `guards.fraction`). Variances of
NumPyro's that are differences of two moments are replaced where they would lose their digits.
"""

import math
from typing import TypeAlias

import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import gammaln

from stakes._types import Array
from stakes.expectation import stats
from stakes.expectation.families.guards import finite_below_one, floats, fraction, positive
from stakes.expectation.incomplete import beta_above, beta_weight, gamma_above, gamma_weight
from stakes.expectation.special import (
    density,
    horner,
    log_gamma_bend,
    log_less_tangent,
    mills,
    with_slopes,
)
from stakes.expectation.sums import flushed_exp

Truncated: TypeAlias = (
    dist.LeftTruncatedDistribution
    | dist.RightTruncatedDistribution
    | dist.TwoSidedTruncatedDistribution
    | dist.LeftTruncatedGamma
    | dist.RightTruncatedGamma
    | dist.TwoSidedTruncatedGamma
)

# Gamma, exponential ------------------------------------------------------------------------


@stats.excess.register
def _(outcome: dist.Gamma, decision: Array) -> Array:
    """[(a - x) P(g > x) + x^a exp(-x)/Γ(a)]/r, with shape a, rate r, x = rh and g ~ Gamma(a, 1)."""
    shape, rate, decision = floats(outcome.concentration, outcome.rate, decision)

    def inside(x: Array) -> Array:
        return (shape - x) * gamma_above(*jnp.broadcast_arrays(shape, x)) + gamma_weight(shape, x)

    x = rate * decision
    return positive(x, shape - x, inside) / rate


@stats.cdf.register
def _(outcome: dist.Gamma, value: Array) -> Array:
    """1 - P(g > rh), with g ~ Gamma(a, 1)."""
    shape, rate, value = floats(outcome.concentration, outcome.rate, value)
    above = lambda x: gamma_above(*jnp.broadcast_arrays(shape, x))  # noqa: E731
    return 1 - positive(rate * value, 1.0, above)


@stats.cumulant.register
def _(outcome: dist.Gamma, t: float) -> Array:
    """a (-log(1-v) - v) at v = t/r; infinite from v = 1 on."""
    return outcome.concentration * _exponential_cumulant(t / outcome.rate)


@stats.excess.register
def _(outcome: dist.Exponential, decision: Array) -> Array:
    """exp(-rh)/r above zero, and 1/r - h below."""
    rate, decision = floats(outcome.rate, decision)
    x = rate * decision
    return positive(x, 1 - x, lambda x: flushed_exp(-x)) / rate


@stats.cdf.register
def _(outcome: dist.Exponential, value: Array) -> Array:
    """1 - exp(-rh)."""
    return -jnp.expm1(-outcome.rate * jnp.maximum(value, 0.0))


@stats.cumulant.register
def _(outcome: dist.Exponential, t: float) -> Array:
    """That of a gamma distribution with shape one."""
    return _exponential_cumulant(t / outcome.rate)


def _exponential_cumulant(v: Array) -> Array:
    """-log(1-v) - v, without the part that cancels where v is small."""
    return finite_below_one(jnp.asarray(v), lambda v: -log_less_tangent(1 - v, -v))


# Inverse gamma, Pareto ---------------------------------------------------------------------


@stats.excess.register
def _(outcome: dist.InverseGamma, decision: Array) -> Array:
    """By y = r/g for g ~ Gamma(a, 1), and E 1/g = 1/(a-1), in units of the rate.

    Infinite with a ≤ 1, where there is no mean: `tails` sees to that.
    """
    shape, rate, decision = floats(outcome.concentration, outcome.rate, decision)
    less = jnp.where(shape > 1, shape - 1, 1.0)

    def inside(h: Array) -> Array:
        """By y = 1/g, with h in units of the rate."""
        below = 1 - gamma_above(*jnp.broadcast_arrays(shape, 1 / h))
        return (1 / less - h) * below + h / less * gamma_weight(shape, 1 / h)

    h = decision / rate
    return rate * positive(h, 1 / less - h, inside)


@stats.cdf.register
def _(outcome: dist.InverseGamma, value: Array) -> Array:
    """P(g > r/h) for g ~ Gamma(a, 1), since y = r/g."""
    shape, rate, value = floats(outcome.concentration, outcome.rate, value)
    above = lambda h: gamma_above(*jnp.broadcast_arrays(shape, 1 / h))  # noqa: E731
    return positive(value / rate, 0.0, above)


@stats.excess.register
def _(outcome: dist.Pareto, decision: Array) -> Array:
    """s x^(1-α)/(α-1) + (s - h)+, with x = h/s, or one where that is more."""
    scale, alpha, decision = floats(outcome.scale, outcome.alpha, decision)
    less, h = jnp.where(alpha > 1, alpha - 1, 1.0), decision / scale
    beyond = jnp.maximum(h, 1.0)
    tail = beyond * flushed_exp(-alpha * jnp.log(beyond)) / less
    return scale * (tail + jnp.maximum(1 - h, 0.0))


@stats.cdf.register
def _(outcome: dist.Pareto, value: Array) -> Array:
    """1 - (s/h)^α."""
    return -jnp.expm1(-outcome.alpha * jnp.log(jnp.maximum(value / outcome.scale, 1.0)))


@stats.cumulant.register
def _(
    outcome: dist.InverseGamma | dist.LogNormal | dist.Pareto | dist.HalfCauchy, t: float
) -> Array:
    """Infinite for t > 0: the upper tail falls off more slowly than any exponential.

    For t < 0 it is finite, and has no formula.
    """
    if t > 0:
        return jnp.full(outcome.batch_shape, jnp.inf)
    raise stats.unknown("moment generating function", outcome)


@stats.excess.register
def _(outcome: dist.HalfCauchy, decision: Array) -> Array:
    """Infinite, as the mean is."""
    return jnp.full(jnp.broadcast_shapes(outcome.batch_shape, jnp.shape(decision)), jnp.inf)


# Weibull -----------------------------------------------------------------------------------


@stats.excess.register
def _(outcome: dist.Weibull, decision: Array) -> Array:
    """s Γ(1 + 1/c) P(g > (h/s)^c), with g ~ Gamma(1/c, 1).

    It is the integral of P(y > u) from h on.
    """
    scale, power, decision = floats(outcome.scale, outcome.concentration, decision)
    shape, h = 1 / power, decision / scale
    centre = jnp.exp(gammaln(1 + shape))

    def inside(h: Array) -> Array:
        x = jnp.exp(jnp.clip(power * jnp.log(h), -80.0, 80.0))
        return centre * gamma_above(*jnp.broadcast_arrays(shape, x))

    return scale * positive(h, centre - h, inside)


@stats.cdf.register
def _(outcome: dist.Weibull, value: Array) -> Array:
    """1 - exp(-(h/s)^c)."""
    scale, power, value = floats(outcome.scale, outcome.concentration, value)
    return positive(value / scale, 0.0, lambda h: -jnp.expm1(-jnp.power(h, power)))


@stats.variance.register
def _(outcome: dist.Weibull) -> Array:
    """Use the logarithms of the two moments: their difference cancels where the shape is large."""
    scale, power = floats(outcome.scale, outcome.concentration)
    mean = scale * jnp.exp(gammaln(1 + 1 / power))
    return jnp.square(mean) * jnp.expm1(log_gamma_bend(jnp.ones(()), 1 / power))


# Log-normal, half-normal -------------------------------------------------------------------


@stats.excess.register
def _(outcome: dist.LogNormal, decision: Array) -> Array:
    """E y Φ(z + s) - h Φ(z), with z = (m - log h)/s.

    This is Black and Scholes' formula for the price of a call option.
    """
    loc, scale, decision = floats(outcome.loc, outcome.scale, decision)
    centre = jnp.exp(loc + jnp.square(scale) / 2)
    return positive(
        decision, centre - decision, lambda h: _lognormal_excess(loc, scale, jnp.log(h))
    )


@stats.cdf.register
def _(outcome: dist.LogNormal, value: Array) -> Array:
    """Φ((log h - m)/s)."""
    loc, scale, value = floats(outcome.loc, outcome.scale, value)
    return positive(value, 0.0, lambda h: _normal_cdf((jnp.log(h) - loc) / scale))


@stats.variance.register
def _(outcome: dist.LogNormal) -> Array:
    """(exp(s²) - 1) exp(2m + s²). NumPyro's difference cancels where s is small."""
    squared = jnp.square(outcome.scale)
    return jnp.expm1(squared) * jnp.exp(2 * outcome.loc + squared)


@with_slopes
def _lognormal_excess(
    loc: Array, scale: Array, log_decision: Array
) -> tuple[Array, Array, Array, Array]:
    """Black and Scholes' formula; derivatives by loc, scale and log h."""
    z = (loc - log_decision) / scale
    decision, centre = jnp.exp(log_decision), jnp.exp(loc + jnp.square(scale) / 2)
    held, paid = centre * _normal_cdf(z + scale), decision * _normal_cdf(z)
    return held - paid, held, scale * held + decision * density(z), -paid


def _normal_cdf(z: Array) -> Array:
    """Φ(z), by Mills' ratio in the smaller tail."""
    beyond = density(z) * mills(jnp.abs(z))
    return jnp.where(z > 0, 1 - beyond, beyond)


@stats.excess.register
def _(outcome: dist.HalfNormal, decision: Array) -> Array:
    """The scale times the excess of |ε| over z = h/s; √(2/π) - z below zero."""
    scale, decision = floats(outcome.scale, decision)
    z = decision / scale
    return scale * positive(z, math.sqrt(2 / math.pi) - z, _half_normal_excess)


@with_slopes
def _half_normal_excess(z: Array) -> tuple[Array, Array]:
    """2 [φ(z) - z (1 - Φ(z))], and its derivative -2 (1 - Φ(z))."""
    phi, ratio = density(z), mills(z)
    return 2 * phi * (1 - z * ratio), -2 * phi * ratio


@stats.cdf.register
def _(outcome: dist.HalfNormal | dist.HalfCauchy, value: Array) -> Array:
    """NumPyro's, which is negative below zero."""
    return outcome.cdf(jnp.maximum(value, 0.0))


# Between two ends: uniform, beta, truncated ------------------------------------------------


@stats.excess.register
def _(outcome: dist.Uniform, decision: Array) -> Array:
    """(b - h)²/(2 (b - a)) between the ends a and b, and the mean less h below."""
    low, high, decision = floats(outcome.low, outcome.high, decision)
    width = high - low
    return width * jnp.square(jnp.clip((high - decision) / width, 0.0, 1.0)) / 2 + jnp.maximum(
        low - decision, 0.0
    )


@stats.cumulant.register
def _(outcome: dist.Uniform, t: float) -> Array:
    """log (sinh(v)/v) where v is half of t times the width: its series where v is small."""
    v = jnp.abs(t * (outcome.high - outcome.low)) / 2
    near = v < 0.5
    small, large = jnp.square(jnp.where(near, v, 0.0)), jnp.where(near, 1.0, v)
    terms = [1 / 6, -1 / 180, 1 / 2835, -1 / 37800, 1 / 467775, -691 / 3831077250]
    series = small * horner(small, terms)
    far = large + jnp.log(-jnp.expm1(-2 * large) / (2 * large))
    return jnp.where(near, series, far)


@stats.excess.register
def _(outcome: dist.Beta, decision: Array) -> Array:
    """(E y - h) P(y > h) + h^a (1-h)^b/((a + b) B(a, b)).

    1 - h is passed on beside h: near one it would lose its digits.
    """
    a, b, decision = floats(outcome.concentration1, outcome.concentration0, decision)
    centre = a / (a + b)

    def inside(h: Array) -> Array:
        places = jnp.broadcast_arrays(a, b, h, 1 - h)
        return (centre - h) * beta_above(*places) + beta_weight(*places) / (a + b)

    return fraction(decision, centre - decision, inside)


@stats.cdf.register
def _(outcome: dist.Beta, value: Array) -> Array:
    """1 - P(y > h), the incomplete beta function."""
    a, b, value = floats(outcome.concentration1, outcome.concentration0, value)
    above = lambda h: beta_above(*jnp.broadcast_arrays(a, b, h, 1 - h))  # noqa: E731
    return 1 - fraction(value, 1.0, above)


@stats.variance.register
def _(outcome: Truncated | dist.LogUniform | dist.Dagum) -> Array:
    """NumPyro's cancels in single precision where little of a base is left, or the spread small."""
    raise stats.unknown("variance", outcome)


@stats.variance.register
def _(outcome: dist.Kumaraswamy) -> Array:
    """Use the logarithms of the two moments: NumPyro's difference of the moments cancels."""
    a, b = floats(outcome.concentration1, outcome.concentration0)
    away = log_gamma_bend(jnp.ones(()), 1 / a) - log_gamma_bend(1 + b, 1 / a)
    return jnp.square(stats.mean(outcome)) * jnp.expm1(away)


@stats.variance.register
def _(outcome: dist.DiscreteUniform) -> Array:
    """Use floats: NumPyro computes the variance with whole numbers, which overflow."""
    low, high = floats(outcome.low, outcome.high)
    return (jnp.square(high - low + 1) - 1) / 12


@stats.cdf.register
def _(
    outcome: dist.LeftTruncatedDistribution | dist.TwoSidedTruncatedDistribution, value: Array
) -> Array:
    """NumPyro's cancels where what is left lies above the middle of the base."""
    base, low = outcome.base_dist, outcome.low
    high = outcome.high if isinstance(outcome, dist.TwoSidedTruncatedDistribution) else None

    def above(y: Array) -> Array:
        """What lies above: the bases are symmetric around their location."""
        return jnp.asarray(base.cdf(2 * base.loc - y))

    at, upper = jnp.clip(value, low, high), low > base.loc
    rest, most = (0.0, 1.0) if high is None else (above(high), base.cdf(high))
    reached = jnp.where(upper, above(low) - above(at), base.cdf(at) - base.cdf(low))
    return reached / jnp.where(upper, above(low) - rest, most - base.cdf(low))


# Power laws --------------------------------------------------------------------------------


@stats.log_density.register
def _(outcome: dist.DoublyTruncatedPowerLaw, value: Array) -> Array:
    """NumPyro's slopes by the ends are those of the density itself."""
    power, low, high, value = floats(outcome.alpha, outcome.low, outcome.high, value)
    more = power + 1
    flat = jnp.abs(more) < 1e-4
    safe, width = jnp.where(flat, 1.0, more), jnp.log(high / low)
    # The integral of y^power from low to high, in units of low^(power + 1).
    mass = jnp.where(flat, width * (1 + more * width / 2), jnp.expm1(safe * width) / safe)
    return power * jnp.log(value) - more * jnp.log(low) - jnp.log(mass)
