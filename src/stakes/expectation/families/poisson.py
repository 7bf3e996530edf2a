"""Poisson counts, by their distribution function.

P(y ≤ k) = P(g > λ) for g ~ Gamma(a, 1), with a = k + 1. In single precision it comes from Temme's
uniform expansion. With η²/2 = λ/a - 1 - log(λ/a), the sign of η that of λ - a, and r = η√a,

    P(g > λ) = Φ(-r) + φ(r) S(η, 1/a)/√a,    λ p(k) = φ(r) √a / Γ*(a).

S and 1/Γ*, where Γ* is the gamma function over Stirling's formula, are smooth; polynomials are
fitted to SciPy's functions on first use. The error is 1e-6 of the whole mass, the cost a sixth of
that of integrating the tail, as in double precision.
"""

import math
from functools import cache, partial
from itertools import zip_longest
from statistics import NormalDist
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from stakes._types import Array
from stakes.expectation import stats
from stakes.expectation.families.guards import LEAST, floats, not_zero, whole
from stakes.expectation.incomplete import gamma_tail
from stakes.expectation.special import horner, log_less_tangent, mills, stirling_error, with_slopes
from stakes.expectation.sums import flushed_exp
from stakes.host.compiling import once


@stats.tails.register
def _(outcome: dist.Poisson, decision: Array, above: float, below: float) -> Array:
    """E g for g = above·(y-h)+ + below·(h-y)+, in single precision with an error of 1e-6."""
    return _poisson_tails(*floats(outcome.rate, decision), above, below)


@stats.least_tails.register
def _(outcome: dist.Poisson, above: float, below: float) -> Array:
    """E g at the best count."""
    return _poisson_least(*floats(outcome.rate), above, below)


@stats.cdf.register
def _(outcome: dist.Poisson, value: Array) -> Array:
    """P(g > λ) for g ~ Gamma(k+1, 1)."""
    rate, value = jnp.broadcast_arrays(*floats(outcome.rate, value))
    return jnp.where(value < 0, 0.0, _reached(whole(value), jnp.maximum(rate, LEAST)))


@stats.cumulant.register
def _(outcome: dist.Poisson, t: float) -> Array:
    """λ (exp t - 1 - t)."""
    return outcome.rate * (math.expm1(t) - t)


@jax.custom_jvp
def _reached(count: Array, rate: Array) -> Array:
    """Return P(y ≤ k), whose derivative with respect to λ is -p(k)."""
    return poisson_tail(count, rate).reached


@_reached.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    tail = poisson_tail(*primals)
    return tail.reached, -tail.weight / primals[1] * tangents[1]


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _poisson_tails(rate: Array, decision: Array, above: float, below: float) -> Array:
    return _poisson_tails_and_slopes(rate, decision, above, below)[0]


@_poisson_tails.defjvp
def _(above, below, primals, tangents):  # type: ignore[no-untyped-def]
    rate, decision = primals
    d_rate, d_decision = tangents
    # Slopes are those of a step, in which all draws of θ share the decisions.
    value, by_rate, by_decision = _poisson_tails_and_slopes(rate, decision, above, below, True)
    return value, by_rate * d_rate + by_decision * d_decision


def _poisson_tails_and_slopes(
    rate: Array, decision: Array, above: float, below: float, shared: bool = False
) -> tuple[Array, Array, Array]:
    """Return the value, and its derivatives with respect to λ and h.

    If k is the integer part of h and w = above + below, the value is w λ p(k) + (h-λ) s, where
    s = w P(y ≤ k) - above is the slope in h. The slope in λ is E g(y+1) - g(y), as for any function
    g of a Poisson count.
    """
    negative, count, rate = decision < 0, whole(decision), jnp.maximum(rate, LEAST)
    tail = poisson_tail(count, rate, shared=shared)
    here = jnp.where(negative, 0.0, (above + below) * tail.weight)
    by_decision = jnp.where(negative, 0.0, (above + below) * tail.reached) - above
    value = jnp.maximum(here + (decision - rate) * by_decision, 0.0)
    by_rate = (count + 1 - decision) * here / rate - by_decision
    return value, by_rate, by_decision


@partial(with_slopes, settings=2)
def _poisson_least(rate: Array, above: float, below: float) -> tuple[Array, Array]:
    """Value and derivative by λ of the expected tails at the best count.

    A Cornish-Fisher quantile, rounded down, is the best count or the one below it, and at extreme
    levels up to two off; the distribution function there gives those of its neighbours by the
    ratio of their probabilities.
    """
    level = above / (above + below)
    z, rate = NormalDist().inv_cdf(level), jnp.maximum(rate, LEAST)
    down, steps = (0, 1) if 0.01 <= level <= 0.99 else (2, 5)
    lowest = once(whole(rate + z * jnp.sqrt(rate) + (z * z - 1) / 6 - down))
    count, (reached, here) = lowest, poisson_tail(lowest, rate)
    chance = here / rate
    for step in range(steps):
        more = here / (count + 1)
        short = (reached < level) & (count == lowest + step)
        reached = reached + jnp.where(short, more, 0.0)
        chance, here = jnp.where(short, more, chance), jnp.where(short, rate * more, here)
        count = count + short
    by_count = (above + below) * reached - above
    value = (above + below) * here + (count - rate) * by_count
    return value, (above + below) * chance - by_count


@stats.log_mass.register
def _(outcome: dist.Poisson, count: Array) -> Array:
    """By Loader's saddle-point form: small terms, where k log λ - λ - log k! is a difference of
    large ones."""
    rate, count = floats(outcome.rate, count)
    some, rate = jnp.maximum(count, 1.0), not_zero(rate)
    away = some * log_less_tangent(rate / some, (rate - some) / some)
    inside = away - stirling_error(some) - 0.5 * jnp.log(2 * math.pi * some)
    return jnp.where(count > 0, inside, -rate)


# The distribution function -----------------------------------------------------------------

# In η, of the coefficients of 1, 1/a, 1/a², 1/a³.
_DEGREES = (10, 8, 6, 4)
# Beyond so many standard deviations r, φ(r) is nothing beside the whole mass.
_FURTHEST = 5.6
_STIRLING_DEGREE = 6


class PoissonTail(NamedTuple):
    """P(y ≤ k), and λ p(k)."""

    reached: Array
    weight: Array


def poisson_tail(count: Array, rate: Array, *, shared: bool = False) -> PoissonTail:
    """P(y ≤ k) and λ p(k), for whole counts from zero and rates above zero.

    Args:
        count: k.
        rate: λ.
        shared: whether many rates share a count, as draws of θ share a decision. What depends on
            the count alone is then computed once for all of them, and kept: eleven numbers for each
            count.
    """
    if rate.dtype != jnp.float32:
        tail = gamma_tail(*jnp.broadcast_arrays(count + 1, rate))
        return PoissonTail(tail.above, tail.weight)
    shape = count + 1
    inverse, root = once(1 / shape), once(jnp.sqrt(shape))
    off = (rate - shape) * inverse
    drop = once(jnp.maximum(-log_less_tangent(rate * inverse, off), 0.0))
    eta = jnp.sign(off) * jnp.sqrt(2 * drop)
    phi = once(flushed_exp(-shape * drop) / math.sqrt(2 * math.pi))
    beyond, upper = mills(jnp.abs(eta) * root), off > 0
    near = jnp.clip(eta, -_FURTHEST, _FURTHEST)
    rest = _rest(near, inverse, root * inverse, shared)
    top = root * horner(inverse, _stirling())
    return PoissonTail(
        once(jnp.where(upper, 0.0, 1.0) + phi * (jnp.where(upper, beyond, -beyond) + rest)),
        once(phi * (once(top) if shared else top)),
    )


def _rest(eta: Array, inverse: Array, factor: Array, shared: bool) -> Array:
    """S(η, 1/a) times a factor."""
    if not shared:
        return factor * horner(inverse, [horner(eta, terms) for terms in _temme()])
    by_power = zip_longest(*_temme(), fillvalue=0.0)
    return horner(eta, [once(factor * horner(inverse, terms)) for terms in by_power])


@cache
def _temme() -> tuple[tuple[float, ...], ...]:
    """S as polynomials in η, one for each power of 1/a: least squares, weighted as in P(g > λ)."""
    from scipy.special import gammainc, gammaincc, lambertw, ndtr

    grid = np.meshgrid(_FURTHEST * _chebyshev(100), 0.505 + 0.495 * _chebyshev(25))
    r, s = (part.ravel() for part in grid)
    a = 1 / s**2
    # Where λ/a - 1 - log(λ/a) has a given value; then η again, without what cancels in that.
    branches = [lambertw(-np.exp(-1 - np.square(r * s) / 2), branch).real for branch in (-1, 0)]
    away = -np.where(r > 0, *branches) - 1
    series = sum((-away) ** k / k for k in range(2, 12))
    half_square = np.where(np.abs(away) < 0.01, series, away - np.log1p(away))
    eta = np.sign(away) * np.sqrt(2 * half_square)
    x, r = a * (1 + away), eta / s
    known = np.where(r > 0, gammaincc(a, x) - ndtr(-r), ndtr(r) - gammainc(a, x))
    weight = np.exp(-np.square(r) / 2) / math.sqrt(2 * math.pi) * s
    powers = [(i, k) for k, degree in enumerate(_DEGREES) for i in range(degree + 1)]
    columns = np.stack([(eta / _FURTHEST) ** i / a**k for i, k in powers], axis=1)
    found = np.linalg.lstsq(columns * weight[:, None], known, rcond=1e-15)[0]
    terms: list[list[float]] = [[] for _ in _DEGREES]
    for (i, k), term in zip(powers, found, strict=True):
        terms[k].append(float(term) / _FURTHEST**i)
    return tuple(map(tuple, terms))


@cache
def _stirling() -> tuple[float, ...]:
    """1/Γ*(a) as a polynomial in 1/a."""
    from scipy.special import gammaln

    inverse = 0.5 + 0.5 * _chebyshev(40)
    a = 1 / inverse
    log_stirling = (a - 0.5) * np.log(a) - a + math.log(2 * math.pi) / 2
    target = np.exp(log_stirling - gammaln(a))
    return tuple(np.polynomial.polynomial.polyfit(inverse, target, _STIRLING_DEGREE).tolist())


def _chebyshev(count: int) -> np.ndarray:
    """Return the zeros of a Chebyshev polynomial, where a fit is nearly the best one."""
    nodes: np.ndarray = np.polynomial.chebyshev.chebpts1(count)
    return nodes
