"""Outcomes between two ends: uniform, beta and truncated."""

import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from stakes._types import Array
from stakes.expectation.families.common import floats, fraction
from stakes.expectation.incomplete import beta_above, beta_weight
from stakes.expectation.stats import cdf, cumulant, excess, unknown, variance


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
    series = jnp.zeros_like(v)
    for term in reversed(terms):
        series = (series + term) * small
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
def _(outcome: Distribution) -> Array:
    """NumPyro's cancels in single precision where little of the base is left."""
    raise unknown("variance", outcome)
