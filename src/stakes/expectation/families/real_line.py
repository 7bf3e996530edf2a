"""Laplace, logistic, Student's t, Cauchy and Gumbel: locations and scales on the whole line.

Each formula is for the standard member of the family, with z = (h - location)/scale. Cumulants have
poles: beyond them E exp(ty) is infinite, and so is the answer. Near t = 0 they are written as
series, since log E exp(ty) and t E y are nearly the same there.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from numpyro.distributions import Distribution

from stakes._types import Array
from stakes.expectation import stats
from stakes.expectation.families.guards import finite_below_one, floats
from stakes.expectation.incomplete import beta_above, exponential_integral
from stakes.expectation.special import horner, log_less_tangent, stirling_error, with_slopes
from stakes.expectation.sums import flushed_exp

EULER = 0.5772156649015329


def _standard(outcome: Distribution, decision: Array) -> tuple[Array, Array]:
    """The decision in units of the scale from the location, and the scale."""
    loc, scale, decision = floats(outcome.loc, outcome.scale, decision)
    return (decision - loc) / scale, scale


# Laplace -----------------------------------------------------------------------------------


@stats.excess.register
def _(outcome: dist.Laplace, decision: Array) -> Array:
    """The scale times exp(-|z|)/2 + (-z)+."""
    z, scale = _standard(outcome, decision)
    return scale * _laplace_excess(z)


@with_slopes
def _laplace_excess(z: Array) -> tuple[Array, Array]:
    """exp(-|z|)/2 + (-z)+, and its derivative -P(y > z)."""
    beyond = flushed_exp(-jnp.abs(z)) / 2
    return beyond + jnp.maximum(-z, 0.0), -jnp.where(z > 0, beyond, 1 - beyond)


@stats.cumulant.register
def _(outcome: dist.Laplace, t: float) -> Array:
    """-log(1 - (ts)²); infinite from ts = 1 on."""
    return finite_below_one(jnp.square(t * outcome.scale), lambda v: -jnp.log1p(-v))


# Logistic ----------------------------------------------------------------------------------


@stats.excess.register
def _(outcome: dist.Logistic, decision: Array) -> Array:
    """s log(1 + exp(-z))."""
    z, scale = _standard(outcome, decision)
    return scale * jax.nn.softplus(-z)


@stats.cumulant.register
def _(outcome: dist.Logistic, t: float) -> Array:
    """log (πv/sin πv) at v = ts."""
    return finite_below_one(jnp.abs(t * outcome.scale), _log_over_sine)


def _log_over_sine(v: Array) -> Array:
    """log(πv/sin πv), the cumulant of a standard logistic outcome.

    Below one quarter by its series Σ ζ(2k) v^2k/k, since the quotient is nearly one there.
    """
    near = v < 0.25
    small, large = jnp.where(near, v, 0.0), jnp.where(near, 0.5, v)
    squared = jnp.square(small)
    series = squared * horner(squared, [_zeta(2 * k) / k for k in range(1, 13)])
    # The sine of π(1-v), which does not lose its digits near one.
    half = jnp.minimum(large, 1 - large)
    return jnp.where(near, series, jnp.log(math.pi * large / jnp.sin(math.pi * half)))


# Student's t and Cauchy --------------------------------------------------------------------


@stats.excess.register
def _(outcome: dist.StudentT, decision: Array) -> Array:
    """See `_student_excess`; infinite with ν ≤ 1, where there is no mean."""
    z, scale = _standard(outcome, decision)
    (df,) = floats(outcome.df)
    return scale * _student_excess(*jnp.broadcast_arrays(df, z))


@stats.cdf.register
def _(outcome: dist.StudentT, value: Array) -> Array:
    """P(y > -z), by symmetry."""
    z, _ = _standard(outcome, value)
    (df,) = floats(outcome.df)
    return _student_above(*jnp.broadcast_arrays(df, -z))


def _student_excess(df: Array, z: Array) -> Array:
    """(ν + z²)/(ν - 1) p(z) - z P(y > z), for z in units of the scale.

    It is Pearson's formula: for Student's t, k(z) is (ν + z²)/(ν - 1).
    """
    kernel = (df + jnp.square(z)) / jnp.where(df > 1, df - 1, 1.0)
    return kernel * _student_density(df, z) - z * _student_above(df, z)


def _student_density(df: Array, z: Array) -> Array:
    """The density at z, by Stirling errors: its gamma functions would cancel for large ν."""
    half = df / 2
    constant = half * log_less_tangent(1 + 1 / df, 1 / df) + stirling_error(half + 0.5)
    log_density = constant - stirling_error(half) - (df + 1) / 2 * jnp.log1p(jnp.square(z) / df)
    return flushed_exp(log_density) / math.sqrt(2 * math.pi)


@jax.custom_jvp
def _student_above(df: Array, z: Array) -> Array:
    """P(y > z): half of an incomplete beta function, with its slope at zero by hand."""
    beyond = _student_beyond(df, jnp.abs(z))
    return jnp.where(z < 0, 1 - beyond, beyond)


@_student_above.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    df, z = primals
    beyond, by_df = jax.jvp(lambda df: _student_beyond(df, jnp.abs(z)), (df,), (jnp.ones_like(df),))
    above = jnp.where(z < 0, 1 - beyond, beyond)
    by_df = jnp.where(z < 0, -by_df, by_df)
    return above, by_df * tangents[0] - _student_density(df, z) * tangents[1]


def _student_beyond(df: Array, distance: Array) -> Array:
    """P(y > z) for z ≥ 0: half of an incomplete beta function of z²/(ν + z²)."""
    squared = jnp.maximum(jnp.square(distance), np.finfo(df.dtype).tiny ** 0.5)
    rest, x = df / (df + squared), squared / (df + squared)
    return beta_above(jnp.full_like(df, 0.5), df / 2, x, rest) / 2


@stats.cumulant.register
def _(outcome: dist.StudentT | dist.Cauchy, t: float) -> Array:
    """Infinite: both tails fall off as powers."""
    return jnp.full(outcome.batch_shape, jnp.inf)


@stats.excess.register
def _(outcome: dist.Cauchy, decision: Array) -> Array:
    """Infinite: there is no mean."""
    return jnp.full(jnp.broadcast_shapes(outcome.batch_shape, jnp.shape(decision)), jnp.inf)


# Gumbel ------------------------------------------------------------------------------------


@stats.excess.register
def _(outcome: dist.Gumbel, decision: Array) -> Array:
    """s [E1(w) + γ + log w] at w = exp(-z), where E1 is the exponential integral."""
    z, scale = _standard(outcome, decision)
    return scale * _gumbel_excess(z)


@with_slopes
def _gumbel_excess(z: Array) -> tuple[Array, Array]:
    """E1(w) + γ + log w at w = exp(-z); where w is small, w - w²/4 + w³/18 - ..."""
    w = jnp.exp(jnp.minimum(-z, 5.0))
    small, large = jnp.minimum(w, 1.0), jnp.maximum(w, 1.0)
    series = small * horner(
        small, [(-1) ** (k + 1) / (k * math.factorial(k)) for k in range(1, 18)]
    )
    value = jnp.where(w < 1, series, exponential_integral(large) + EULER - z)
    return value, jnp.expm1(-flushed_exp(jnp.minimum(-z, 80.0)))


@stats.cumulant.register
def _(outcome: dist.Gumbel, t: float) -> Array:
    """log Γ(1-v) - γv at v = ts."""
    return finite_below_one(t * outcome.scale, _log_gamma_about_one)


def _log_gamma_about_one(v: Array) -> Array:
    """log Γ(1-v) - γv: by its series Σ ζ(k) v^k/k where the difference would cancel."""
    near = jnp.abs(v) < 0.2
    small, large = jnp.where(near, v, 0.0), jnp.where(near, 0.5, v)
    series = small * horner(small, [_zeta(k) / k for k in range(2, 17)])
    return jnp.where(near, series * small, gammaln(1 - large) - EULER * large)


def _zeta(k: int) -> float:
    """Σ n^-k, the terms from ten on by the Euler-Maclaurin formula."""
    far = 10 / (k - 1) + 1 / 2 + k / 120 - k * (k + 1) * (k + 2) / 720_000
    return sum(float(n) ** -k for n in range(1, 10)) + far * 10.0**-k
