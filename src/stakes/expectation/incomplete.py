"""The incomplete gamma and beta functions, with derivatives by their shapes too.

JAX's go through loops until the slowest element has converged, are wrong for large shapes in single
precision, and lack the derivatives of the beta function by its shapes. Here the smaller tail is
integrated by a Gauss-Legendre rule over the logarithm of the outcome (for the beta, of its odds).
There the density is log-concave and its tails fall off at the rate of the shape; adding one to that
shape, by the recurrence of the function, makes them fall off quickly. So a dozen points (28 in
double precision) serve for all shapes. The errors are 1e-6 and 1e-10 of the whole mass.
"""

import math
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array
from stakes.expectation.special import (
    along,
    exp_less_tangent,
    log_less_digamma,
    log_less_tangent,
    stirling_error,
)
from stakes.expectation.sums import column_like, flushed_exp
from stakes.host.compiling import once


class GammaTail(NamedTuple):
    """P(g > x) for g ~ Gamma(a, 1), its derivative by a, and x^a exp(-x)/Γ(a)."""

    above: Array
    by_shape: Array
    weight: Array


class BetaTail(NamedTuple):
    """P(g > x) for g ~ Beta(a, b), its derivatives by a and b, and x^a (1-x)^b/B(a, b)."""

    above: Array
    by_a: Array
    by_b: Array
    weight: Array


# Gamma -------------------------------------------------------------------------------------


@jax.custom_jvp
def gamma_above(shape: Array, x: Array) -> Array:
    """P(g > x) for g ~ Gamma(shape, 1) and x > 0."""
    return gamma_tail(shape, x).above


@partial(gamma_above.defjvp, symbolic_zeros=True)
def _(primals, tangents):  # type: ignore[no-untyped-def]
    tail = gamma_tail(*primals)
    return tail.above, along((tail.by_shape, -tail.weight / primals[1]), tangents, tail.above)


def gamma_weight(shape: Array, x: Array) -> Array:
    """x^a exp(-x)/Γ(a), for x > 0: the density of log g."""
    off = (x - shape) / shape
    log_ratio = shape * log_less_tangent(x / shape, off)
    return jnp.sqrt(shape / (2 * math.pi)) * flushed_exp(log_ratio - stirling_error(shape))


def gamma_tail(shape: Array, x: Array) -> GammaTail:
    """Return P(g > x) with its derivative by the shape, and the density of log g at x.

    The tail that is integrated is the smaller one. The derivative takes the same points: the shape
    enters the density through a factor exp(a u), whose slope is the mean of u.
    """
    weight, upper = gamma_weight(shape, x), x >= shape
    # The lower tail is x^a exp(-x)/Γ(a+1) more than that of the next shape.
    rate = jnp.where(upper, shape, shape + 1)
    away = x - rate
    drop, points, weights = _rule(x.dtype)
    reach = jnp.where(upper, _gamma_reach_up(rate, x, drop), -_gamma_reach_down(rate, x, drop))
    u = column_like(x, points) * reach
    mass = jnp.exp(-away * u - x * exp_less_tangent(u)) * column_like(x, weights) * jnp.abs(reach)
    total, moment = jnp.sum(mass, axis=0), jnp.sum(mass * u, axis=0)
    score = _log_quotient(x / shape, (x - shape) / shape) + log_less_digamma(shape)
    above = weight * total
    below = weight / shape * (1 + x * total)
    less = score - 1 / shape
    return GammaTail(
        jnp.where(upper, above, 1 - below),
        jnp.where(
            upper,
            weight * (score * total + moment),
            -weight / shape * (less + x * (less * total + moment)),
        ),
        weight,
    )


def _gamma_reach_up(shape: Array, x: Array, drop: float) -> Array:
    """Where x (exp u - 1) - a u is the drop, or a little further: bounded by a parabola."""
    away = jnp.maximum(x - shape, 0.0)
    reach = 2 * drop / (away + jnp.sqrt(jnp.square(away) + 2 * drop * x))
    for _ in range(3):
        reach = jnp.minimum(reach, jnp.log1p((drop + shape * reach) / x))
    return reach


def _gamma_reach_down(shape: Array, x: Array, drop: float) -> Array:
    """Where a u - x (1 - exp(-u)) is the drop, or a little further: exp(-u) - 1 + u > u²/(2+u)."""
    return _reach(jnp.maximum(shape - x, 0.0), x, drop)


def _reach(slope: Array, bend: Array, drop: float) -> Array:
    """The u > 0 at which slope·u + bend·u²/(2+u) is the drop."""
    least = 2 * slope - drop
    root = jnp.sqrt(jnp.square(least) + 8 * (slope + bend) * drop)
    return jnp.where(least < 0, (root - least) / (2 * (slope + bend)), 4 * drop / (root + least))


def exponential_integral(x: Array) -> Array:
    """∫ exp(-s)/s ds from x ≥ 1: what is left of the upper tail where the shape is zero."""
    drop, points, weights = _rule(x.dtype)
    reach = jnp.log1p(drop / x)
    mass = jnp.exp(-x * jnp.expm1(column_like(x, points) * reach)) * column_like(x, weights)
    return flushed_exp(-x) * reach * jnp.sum(mass, axis=0)


# Beta --------------------------------------------------------------------------------------


@jax.custom_jvp
def beta_above(a: Array, b: Array, x: Array, rest: Array) -> Array:
    """P(g > x) for g ~ Beta(a, b), given x and 1 - x to full precision, both above zero."""
    return beta_tail(a, b, x, rest).above


@partial(beta_above.defjvp, symbolic_zeros=True)
def _(primals, tangents):  # type: ignore[no-untyped-def]
    _, _, x, rest = primals
    tail = beta_tail(*primals)
    slopes = (tail.by_a, tail.by_b, -tail.weight / (x * rest))
    return tail.above, along(slopes, tangents[:3], tail.above)


def beta_weight(a: Array, b: Array, x: Array, rest: Array) -> Array:
    """x^a (1-x)^b/B(a, b): the density of the log odds."""
    n = a + b
    log_ratio = a * log_less_tangent(x * n / a, (x * b - rest * a) / a)
    log_ratio += b * log_less_tangent(rest * n / b, (rest * a - x * b) / b)
    error = stirling_error(a) + stirling_error(b) - stirling_error(n)
    return jnp.sqrt(a / n * b / (2 * math.pi)) * flushed_exp(log_ratio - error)


def beta_score(a: Array, b: Array, x: Array, rest: Array) -> Array:
    """The derivative of the logarithm of x^a (1-x)^b/B(a, b) by a."""
    n = a + b
    return (
        _log_quotient(x * n / a, (x * b - rest * a) / a) + log_less_digamma(a) - log_less_digamma(n)
    )


def beta_tail(a: Array, b: Array, x: Array, rest: Array, *, rough: bool = False) -> BetaTail:
    """Return P(g > x) with its derivatives by both shapes, and the density of the log odds at x.

    Shapes need not be as large as x: what depends on one of them alone is computed once for all x.

    Args:
        a: the first shape.
        b: the second shape.
        x: above zero.
        rest: 1 - x to full precision, which is lost near one.
        rough: whether a first guess will do, with errors of 1e-3 at half the price.
    """
    weight, upper = beta_weight(a, b, x, rest), x * b >= rest * a
    scores = beta_score(a, b, x, rest), beta_score(b, a, rest, x)
    mirrored = [(a, b), (b, a), (x, rest), (rest, x), scores, scores[::-1]]
    places = (jnp.where(upper, *pair) for pair in mirrored)
    above, by_a, by_b = _beta_upper(_rule(x.dtype, rough), weight, *places)
    return BetaTail(
        jnp.where(upper, above, 1 - above),
        jnp.where(upper, by_a, -by_b),
        jnp.where(upper, by_b, -by_a),
        weight,
    )


def _beta_upper(
    rule: "_Rule",
    weight: Array,
    a: Array,
    b: Array,
    x: Array,
    rest: Array,
    score_a: Array,
    score_b: Array,
) -> tuple[Array, Array, Array]:
    """The upper tail from beyond the mean: x^a (1-x)^b/(b B(a, b)) more than that of b + 1.

    At log odds that are larger by u, the logarithm of 1-x is less by L = log(1 - x + x exp u), and
    the log density by n·L - a·u. L and L - u are computed from the smaller of x and 1-x.
    """
    n = a + b
    slope = x * (b + 1) - rest * a
    drop, points, weights = rule
    reach = _beta_reach(a, n + 1, x, rest, slope, drop)
    u = column_like(x, points) * reach
    turned = x > rest
    part, v = jnp.where(turned, rest, x), jnp.where(turned, -u, u)
    bent = once(exp_less_tangent(v))
    change = part * (bent + v)
    log_change = once(log_less_tangent(1 + change, change))
    loss = (n + 1) * (log_change + part * bent) + slope * u
    mass = once(jnp.exp(-loss) * column_like(x, weights) * reach)
    total, moment = jnp.sum(mass, axis=0), jnp.sum(mass * u, axis=0)
    log_moment = jnp.sum(mass * (log_change + change), axis=0)
    # The moments of L - u and of L.
    less, more = (
        jnp.where(turned, log_moment, log_moment - moment),
        jnp.where(turned, log_moment + moment, log_moment),
    )
    next_weight = rest * n
    further = score_a + 1 / n, score_b - 1 / b + 1 / n
    share = weight / b
    return (
        share * (1 + next_weight * total),
        share * (score_a + next_weight * (further[0] * total - less)),
        share * (score_b - 1 / b + next_weight * (further[1] * total - more)),
    )


def _beta_reach(a: Array, n: Array, x: Array, rest: Array, slope: Array, drop: float) -> Array:
    """Where n·log(1 - x + x exp u) - a u is the drop, or a little further."""
    reach = _reach(jnp.maximum(slope, 0.0), n * x * rest, drop)
    for _ in range(3):
        power = (drop + a * reach) / n
        reach = jnp.minimum(reach, jnp.log1p(jnp.expm1(jnp.minimum(power, 60.0)) / x))
    return reach


def _log_quotient(quotient: Array, less_one: Array) -> Array:
    """log q, given q and q - 1 to full precision."""
    return log_less_tangent(quotient, less_one) + less_one


# The rule ----------------------------------------------------------------------------------


@cache
def _gauss(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points and weights of the Gauss-Legendre rule on [0, 1]."""
    places, weights = np.polynomial.legendre.leggauss(points)
    return (places + 1) / 2, weights / 2


class _Rule(NamedTuple):
    """A Gauss-Legendre rule, and how far it reaches.

    Attributes:
        drop: how far the log density falls before the tail is cut off.
        points: on [0, 1].
    """

    drop: float
    points: np.ndarray
    weights: np.ndarray


def _rule(dtype: np.dtype, rough: bool = False) -> _Rule:
    """Return the rule for a precision: how far to integrate, and at which points.

    The log density falls by 15 in single precision, which leaves 3e-7 of the tail, and by 26 in
    double precision, which leaves 5e-12.
    """
    drop, points = (15.0, 12) if dtype == jnp.float32 else (26.0, 28)
    return _Rule(7.0, *_gauss(5)) if rough else _Rule(drop, *_gauss(points))
