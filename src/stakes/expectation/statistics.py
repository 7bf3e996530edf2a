"""What a loss may ask of an outcome distribution, one function per question.

Each function dispatches on the type of the NumPyro distribution; an unknown type raises
`NoClosedForm`, and the next best expectation is taken. A new outcome distribution is a handful
of `register` lines here.
"""

import math
from functools import singledispatch

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import erfc, ndtr
from numpyro.distributions import Distribution

from stakes.errors import NoClosedForm
from stakes.typing import Array


def _unknown(question: str, outcome: Distribution) -> NoClosedForm:
    return NoClosedForm(f"No closed form is known for the {question} of {type(outcome).__name__}.")


@singledispatch
def mean(outcome: Distribution) -> Array:
    return outcome.mean


@singledispatch
def variance(outcome: Distribution) -> Array:
    return outcome.variance


@singledispatch
def cdf(outcome: Distribution, value: Array) -> Array:
    """P(y ≤ value)."""
    try:
        return outcome.cdf(jnp.floor(value) if is_discrete(outcome) else value)
    except NotImplementedError:
        raise _unknown("distribution function", outcome) from None


@singledispatch
def excess(outcome: Distribution, decision: Array) -> Array:
    """E (y-h)+."""
    raise _unknown("expected excess", outcome)


@singledispatch
def shortfall(outcome: Distribution, decision: Array) -> Array:
    """E (h-y)+."""
    raise _unknown("expected shortfall", outcome)


@singledispatch
def cumulant(outcome: Distribution, t: float) -> Array:
    """log E exp(t (y - E y))."""
    raise _unknown("moment generating function", outcome)


@singledispatch
def log_tails(outcome: Distribution, decision: Array, above: float, below: float) -> Array:
    """log E exp(-above·(y-h)+ - below·(h-y)+)."""
    raise _unknown("exponential two-sided tail", outcome)


@singledispatch
def log_kernel(outcome: Distribution, decision: Array, width: float) -> Array:
    """log E exp(-(y-h)²/width)."""
    raise _unknown("Gaussian kernel", outcome)


def is_discrete(outcome: Distribution) -> bool:
    return bool(outcome.support.is_discrete)


# Normal ------------------------------------------------------------------------------------


@excess.register
def _(outcome: dist.Normal, decision: Array) -> Array:
    return _normal_excess(outcome.loc, outcome.scale, decision)


@shortfall.register
def _(outcome: dist.Normal, decision: Array) -> Array:
    return _normal_excess(-outcome.loc, outcome.scale, -jnp.asarray(decision))


@cumulant.register
def _(outcome: dist.Normal, t: float) -> Array:
    return jnp.square(t * outcome.scale) / 2


@log_kernel.register
def _(outcome: dist.Normal, decision: Array, width: float) -> Array:
    root = jnp.sqrt(width)
    spread = 2 * jnp.square(outcome.scale / root)
    return -jnp.log1p(spread) / 2 - jnp.square((outcome.loc - decision) / root) / (1 + spread)


@log_tails.register
def _(outcome: dist.Normal, decision: Array, above: float, below: float) -> Array:
    distance = (outcome.loc - decision) / outcome.scale
    return jnp.logaddexp(
        _log_upper_tail(distance, above * outcome.scale),
        _log_upper_tail(-distance, below * outcome.scale),
    )


@jax.custom_jvp
def _normal_excess(loc: Array, scale: Array, decision: Array) -> Array:
    z = (decision - loc) / scale
    return scale * jnp.maximum(_normal_density(z) - z * ndtr(-z), 0.0)


@_normal_excess.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    # By hand, because z·φ(z) terms that cancel exactly on paper do not in floating point.
    loc, scale, decision = primals
    d_loc, d_scale, d_decision = tangents
    z = (decision - loc) / scale
    tangent = ndtr(-z) * (d_loc - d_decision) + _normal_density(z) * d_scale
    return _normal_excess(loc, scale, decision), tangent


def _normal_density(z: Array) -> Array:
    return jnp.exp(-jnp.square(z) / 2) / math.sqrt(2 * math.pi)


def _log_upper_tail(distance: Array, rate: Array) -> Array:
    """log E[exp(-rate·z); z > 0] for z ~ Normal(distance, 1).

    It is rate·(rate/2 - distance) + log Φ(-x) with x = rate - distance. For large x the two
    parts cancel, and the asymptotic series of Mills' ratio takes over.
    """
    x = rate - distance
    switch = 6.0 if x.dtype == jnp.float32 else 12.0
    near = jnp.minimum(x, switch)
    direct = rate * (rate / 2 - distance) + jnp.log(erfc(near / math.sqrt(2)) / 2)
    far = jnp.maximum(x, switch)
    series = -jnp.square(distance) / 2 - math.log(2 * math.pi) / 2 + _log_mills_series(far)
    return jnp.where(x < switch, direct, series)


def _log_mills_series(x: Array) -> Array:
    """log of (1 - Φ(x))/φ(x) for large x: 1/x · Σ_k (-1)^k (2k-1)!! x^(-2k)."""
    odd = [math.prod(range(1, 2 * k, 2)) for k in range(11)]
    signed = [(-1) ** k * value for k, value in enumerate(odd)]
    return jnp.log(jnp.polyval(jnp.array(signed[::-1], x.dtype), 1 / jnp.square(x))) - jnp.log(x)


# Categorical -------------------------------------------------------------------------------


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
