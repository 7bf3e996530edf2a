"""Outcomes between two ends: uniform, beta and truncated."""

import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from stakes._types import Array
from stakes.expectation.families.common import floats, fraction
from stakes.expectation.incomplete import beta_above, beta_weight
from stakes.expectation.special import horner, log_gamma_bend
from stakes.expectation.stats import cdf, cumulant, excess, mean, unknown, variance


@excess.register
def _(outcome: dist.Uniform, decision: Array) -> Array:
    low, high, decision = floats(outcome.low, outcome.high, decision)
    width = high - low
    return width * jnp.square(jnp.clip((high - decision) / width, 0.0, 1.0)) / 2 + jnp.maximum(
        low - decision, 0.0
    )


@cumulant.register
def _(outcome: dist.Uniform, t: float) -> Array:
    """log (sinh(v)/v) where v is half of t times the width: its series where v is small."""
    v = jnp.abs(t * (outcome.high - outcome.low)) / 2
    near = v < 0.5
    small, large = jnp.square(jnp.where(near, v, 0.0)), jnp.where(near, 1.0, v)
    terms = [1 / 6, -1 / 180, 1 / 2835, -1 / 37800, 1 / 467775, -691 / 3831077250]
    series = small * horner(small, terms)
    far = large + jnp.log(-jnp.expm1(-2 * large) / (2 * large))
    return jnp.where(near, series, far)


@excess.register
def _(outcome: dist.Beta, decision: Array) -> Array:
    a, b, decision = floats(outcome.concentration1, outcome.concentration0, decision)
    centre = a / (a + b)

    def inside(h: Array) -> Array:
        places = jnp.broadcast_arrays(a, b, h, 1 - h)
        return (centre - h) * beta_above(*places) + beta_weight(*places) / (a + b)

    return fraction(decision, centre - decision, inside)


@cdf.register
def _(outcome: dist.Beta, value: Array) -> Array:
    a, b, value = floats(outcome.concentration1, outcome.concentration0, value)
    above = lambda h: beta_above(*jnp.broadcast_arrays(a, b, h, 1 - h))  # noqa: E731
    return 1 - fraction(value, 1.0, above)


@variance.register(dist.LeftTruncatedDistribution)
@variance.register(dist.RightTruncatedDistribution)
@variance.register(dist.TwoSidedTruncatedDistribution)
@variance.register(dist.LeftTruncatedGamma)
@variance.register(dist.RightTruncatedGamma)
@variance.register(dist.TwoSidedTruncatedGamma)
@variance.register(dist.LogUniform)
@variance.register(dist.Dagum)
def _(outcome: Distribution) -> Array:
    """NumPyro's cancels in single precision where little of a base is left, or the spread small."""
    raise unknown("variance", outcome)


@variance.register
def _(outcome: dist.Kumaraswamy) -> Array:
    """By the logarithms of the two moments: NumPyro's difference of them cancels."""
    a, b = floats(outcome.concentration1, outcome.concentration0)
    away = log_gamma_bend(jnp.ones(()), 1 / a) - log_gamma_bend(1 + b, 1 / a)
    return jnp.square(mean(outcome)) * jnp.expm1(away)


@variance.register
def _(outcome: dist.DiscreteUniform) -> Array:
    """NumPyro's is one of whole numbers, which overflow."""
    low, high = floats(outcome.low, outcome.high)
    return (jnp.square(high - low + 1) - 1) / 12


@cdf.register(dist.LeftTruncatedDistribution)
@cdf.register(dist.TwoSidedTruncatedDistribution)
def _(outcome: Distribution, value: Array) -> Array:
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
