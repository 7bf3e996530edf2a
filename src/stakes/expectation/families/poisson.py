"""Poisson counts."""

import math
from functools import partial
from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from stakes._types import Array
from stakes.expectation.families.common import LEAST, floats, whole
from stakes.expectation.poisson import poisson_tail
from stakes.expectation.stats import cdf, cumulant, least_tails, tails
from stakes.host.loops import once


@tails.register
def _(outcome: dist.Poisson, decision: Array, above: float, below: float) -> Array:
    return _poisson_tails(*floats(outcome.rate, decision), above, below)


@least_tails.register
def _(outcome: dist.Poisson, above: float, below: float) -> Array:
    return _poisson_least(*floats(outcome.rate), above, below)


@cdf.register
def _(outcome: dist.Poisson, value: Array) -> Array:
    rate, value = jnp.broadcast_arrays(*floats(outcome.rate, value))
    return jnp.where(value < 0, 0.0, _reached(whole(value), jnp.maximum(rate, LEAST)))


@cumulant.register
def _(outcome: dist.Poisson, t: float) -> Array:
    return outcome.rate * (math.expm1(t) - t)


@jax.custom_jvp
def _reached(count: Array, rate: Array) -> Array:
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
    """Value, and derivatives by λ and h.

    With k the whole part of h and w = above + below, the value is w λ p(k) + (h-λ) s, where
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


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _poisson_least(rate: Array, above: float, below: float) -> Array:
    return _poisson_least_and_slope(rate, above, below)[0]


@_poisson_least.defjvp
def _(above, below, primals, tangents):  # type: ignore[no-untyped-def]
    [rate], [d_rate] = primals, tangents
    value, by_rate = _poisson_least_and_slope(rate, above, below)
    return value, by_rate * d_rate


def _poisson_least_and_slope(rate: Array, above: float, below: float) -> tuple[Array, Array]:
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
