"""Outcomes above zero: gamma, exponential, Weibull, log-normal, half-normal, inverse gamma, Pareto.

Those of Pearson's system have E (y-h)+ = (E y - h) P(y > h) + k(h) p(h) for a polynomial k.
"""

import math

import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from numpyro.distributions import Distribution

from stakes._types import Array
from stakes.expectation.families.common import finite_below_one, floats, positive
from stakes.expectation.incomplete import gamma_above, gamma_weight
from stakes.expectation.special import density, log_gamma_bend, log_less_tangent, mills, with_slopes
from stakes.expectation.stats import cdf, cumulant, excess, unknown, variance
from stakes.expectation.sums import flushed_exp

# Gamma, exponential ------------------------------------------------------------------------


@excess.register
def _(outcome: dist.Gamma, decision: Array) -> Array:
    shape, rate, decision = floats(outcome.concentration, outcome.rate, decision)

    def inside(x: Array) -> Array:
        return (shape - x) * gamma_above(*jnp.broadcast_arrays(shape, x)) + gamma_weight(shape, x)

    x = rate * decision
    return positive(x, shape - x, inside) / rate


@cdf.register
def _(outcome: dist.Gamma, value: Array) -> Array:
    shape, rate, value = floats(outcome.concentration, outcome.rate, value)
    above = lambda x: gamma_above(*jnp.broadcast_arrays(shape, x))  # noqa: E731
    return 1 - positive(rate * value, 1.0, above)


@cumulant.register
def _(outcome: dist.Gamma, t: float) -> Array:
    return outcome.concentration * _exponential_cumulant(t / outcome.rate)


@excess.register
def _(outcome: dist.Exponential, decision: Array) -> Array:
    rate, decision = floats(outcome.rate, decision)
    x = rate * decision
    return positive(x, 1 - x, lambda x: flushed_exp(-x)) / rate


@cumulant.register
def _(outcome: dist.Exponential, t: float) -> Array:
    return _exponential_cumulant(t / outcome.rate)


def _exponential_cumulant(v: Array) -> Array:
    """-log(1-v) - v."""
    return finite_below_one(jnp.asarray(v), lambda v: -log_less_tangent(1 - v, -v))


# Inverse gamma, Pareto ---------------------------------------------------------------------


@excess.register
def _(outcome: dist.InverseGamma, decision: Array) -> Array:
    shape, rate, decision = floats(outcome.concentration, outcome.rate, decision)
    less = jnp.where(shape > 1, shape - 1, 1.0)

    def inside(h: Array) -> Array:
        """By y = 1/g, with h in units of the rate."""
        below = 1 - gamma_above(*jnp.broadcast_arrays(shape, 1 / h))
        return (1 / less - h) * below + h / less * gamma_weight(shape, 1 / h)

    h = decision / rate
    return rate * positive(h, 1 / less - h, inside)


@cdf.register
def _(outcome: dist.InverseGamma, value: Array) -> Array:
    shape, rate, value = floats(outcome.concentration, outcome.rate, value)
    above = lambda h: gamma_above(*jnp.broadcast_arrays(shape, 1 / h))  # noqa: E731
    return positive(value / rate, 0.0, above)


@excess.register
def _(outcome: dist.Pareto, decision: Array) -> Array:
    scale, alpha, decision = floats(outcome.scale, outcome.alpha, decision)
    less, h = jnp.where(alpha > 1, alpha - 1, 1.0), decision / scale
    beyond = jnp.maximum(h, 1.0)
    tail = beyond * flushed_exp(-alpha * jnp.log(beyond)) / less
    return scale * (tail + jnp.maximum(1 - h, 0.0))


@cdf.register
def _(outcome: dist.Pareto, value: Array) -> Array:
    return -jnp.expm1(-outcome.alpha * jnp.log(jnp.maximum(value / outcome.scale, 1.0)))


@cumulant.register(dist.InverseGamma)
@cumulant.register(dist.LogNormal)
@cumulant.register(dist.Pareto)
@cumulant.register(dist.HalfCauchy)
def _(outcome: Distribution, t: float) -> Array:
    if t > 0:
        return jnp.full(outcome.batch_shape, jnp.inf)
    raise unknown("moment generating function", outcome)


@excess.register(dist.HalfCauchy)
def _(outcome: Distribution, decision: Array) -> Array:
    return jnp.full(jnp.broadcast_shapes(outcome.batch_shape, jnp.shape(decision)), jnp.inf)


# Weibull -----------------------------------------------------------------------------------


@excess.register
def _(outcome: dist.Weibull, decision: Array) -> Array:
    """The integral of P(y > h), an incomplete gamma function of (h/s)^c and shape 1/c."""
    scale, power, decision = floats(outcome.scale, outcome.concentration, decision)
    shape, h = 1 / power, decision / scale
    centre = jnp.exp(gammaln(1 + shape))

    def inside(h: Array) -> Array:
        x = jnp.exp(jnp.clip(power * jnp.log(h), -80.0, 80.0))
        return centre * gamma_above(*jnp.broadcast_arrays(shape, x))

    return scale * positive(h, centre - h, inside)


@cdf.register
def _(outcome: dist.Weibull, value: Array) -> Array:
    scale, power, value = floats(outcome.scale, outcome.concentration, value)
    return positive(value / scale, 0.0, lambda h: -jnp.expm1(-jnp.power(h, power)))


@variance.register
def _(outcome: dist.Weibull) -> Array:
    """By the logarithms of the two moments, whose difference cancels where the shape is large."""
    scale, power = floats(outcome.scale, outcome.concentration)
    mean = scale * jnp.exp(gammaln(1 + 1 / power))
    return jnp.square(mean) * jnp.expm1(log_gamma_bend(jnp.ones(()), 1 / power))


# Log-normal, half-normal -------------------------------------------------------------------


@excess.register
def _(outcome: dist.LogNormal, decision: Array) -> Array:
    loc, scale, decision = floats(outcome.loc, outcome.scale, decision)
    centre = jnp.exp(loc + jnp.square(scale) / 2)
    return positive(
        decision, centre - decision, lambda h: _lognormal_excess(loc, scale, jnp.log(h))
    )


@cdf.register
def _(outcome: dist.LogNormal, value: Array) -> Array:
    loc, scale, value = floats(outcome.loc, outcome.scale, value)
    return positive(value, 0.0, lambda h: _normal_cdf((jnp.log(h) - loc) / scale))


@variance.register
def _(outcome: dist.LogNormal) -> Array:
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
    beyond = density(z) * mills(jnp.abs(z))
    return jnp.where(z > 0, 1 - beyond, beyond)


@excess.register
def _(outcome: dist.HalfNormal, decision: Array) -> Array:
    scale, decision = floats(outcome.scale, decision)
    z = decision / scale
    return scale * positive(z, math.sqrt(2 / math.pi) - z, _half_normal_excess)


@with_slopes
def _half_normal_excess(z: Array) -> tuple[Array, Array]:
    phi, ratio = density(z), mills(z)
    return 2 * phi * (1 - z * ratio), -2 * phi * ratio
