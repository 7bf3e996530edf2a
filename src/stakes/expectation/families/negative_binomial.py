"""Negative binomial and geometric counts.

NumPyro's `GammaPoisson(r, b)` mixes Poisson rates over a gamma distribution; its mean is r/b. With
k the whole part of h, E (y-h)+ = (E y - h) P(y > k) + c(k) p(k), where c(k) p(k) is the sum of (y -
E y) p(y) over y > k. P(y > k) is an incomplete beta function, P(g > 1/(1+1/b)) for g ~ Beta(r,
k+1).

Slopes are written out: JAX would differentiate the quadrature inside of the incomplete beta
function, at several times the price.
"""

from functools import partial
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
import numpyro.distributions as dist

from stakes._types import Array
from stakes.expectation import stats
from stakes.expectation.families.finite import log_binomial
from stakes.expectation.families.guards import finite_below_one, floats, not_zero, whole
from stakes.expectation.incomplete import beta_above, beta_score, beta_tail
from stakes.expectation.quantiles import newton
from stakes.expectation.special import exp_less_tangent, log_less_tangent, with_slopes
from stakes.expectation.sums import flushed_exp
from stakes.host.compiling import once

Geometric: TypeAlias = dist.GeometricProbs | dist.GeometricLogits

# Counts on either side of a guess among which the best one is looked for exactly.
NEAR = 4


@stats.tails.register
def _(outcome: dist.GammaPoisson, decision: Array, above: float, below: float) -> Array:
    """(above + below) E (y-h)+ + below (h - E y)."""
    shape, rate, decision = floats(outcome.concentration, outcome.rate, decision)
    more = _negative_binomial_excess(shape, rate, decision)
    return (above + below) * more + below * (decision - shape / rate)


@stats.excess.register
def _(outcome: dist.GammaPoisson, decision: Array) -> Array:
    """E (y-h)+, by the incomplete beta function: see the module."""
    return _negative_binomial_excess(*floats(outcome.concentration, outcome.rate, decision))


@with_slopes
def _negative_binomial_excess(
    shape: Array, rate: Array, decision: Array
) -> tuple[Array, Array, Array, Array]:
    """E (y-h)+, and its derivatives by shape, rate and h."""
    places = _negative_binomial_places(shape, rate, decision)
    tail, centre, negative = beta_tail(*places), shape / rate, decision < 0
    beyond = _Beyond(whole(decision), tail.above, tail.by_a, tail.weight, beta_score(*places))
    value, by_shape, by_rate = beyond.excess(shape, rate, decision)
    return (
        jnp.where(negative, centre - decision, value),
        jnp.where(negative, 1 / rate, by_shape),
        jnp.where(negative, -centre / rate, by_rate),
        -jnp.where(negative, 1.0, tail.above),
    )


class _Beyond(NamedTuple):
    """What lies beyond a count k of a negative binomial distribution.

    Attributes:
        value: the count.
        mass: P(y > k).
        by_shape: its derivative by the shape; that by the rate is minus the weight over the rate.
        weight: (r + k) p(k) / (1 + rate), with r the shape.
        score: the derivative of the logarithm of that by the shape.
    """

    value: Array
    mass: Array
    by_shape: Array
    weight: Array
    score: Array

    def excess(self, shape: Array, rate: Array, decision: Array) -> tuple[Array, Array, Array]:
        """E (y-h)+ = (E y - h) P(y > k) + w, and its derivatives by shape and rate."""
        centre = shape / rate
        here, away = self.weight * (1 + 1 / rate), centre - decision
        by_rate = here / (1 + rate) * ((shape - 1) / rate - self.value - 1)
        return (
            away * self.mass + here,
            self.mass / rate + away * self.by_shape + here * self.score,
            by_rate - (away * self.weight + centre * self.mass) / rate,
        )


@stats.cdf.register
def _(outcome: dist.GammaPoisson, value: Array) -> Array:
    """1 - P(y > k)."""
    shape, rate, value = floats(outcome.concentration, outcome.rate, value)
    places = _negative_binomial_places(shape, rate, value)
    return jnp.where(value < 0, 0.0, 1 - beta_above(*places))


def _negative_binomial_places(shape: Array, rate: Array, value: Array) -> list[Array]:
    """P(y > k) is P(g > p) for g ~ Beta(r, k+1)."""
    return [shape, whole(value) + 1, 1 / (1 + 1 / rate), not_zero(1 / (1 + rate))]


@stats.least_tails.register
def _(outcome: dist.GammaPoisson, above: float, below: float) -> Array:
    """The expected tails at the quantile, with slopes by the envelope theorem."""
    return _negative_binomial_least(*floats(outcome.concentration, outcome.rate), above, below)


@partial(with_slopes, settings=2)
def _negative_binomial_least(
    shape: Array, rate: Array, above: float, below: float
) -> tuple[Array, Array, Array]:
    """Value and derivatives by shape and rate of the expected tails at the best count.

    From the quantile of a gamma distribution with the same mean and variance, by a step of Newton's
    method; then among its neighbours, by the ratio of their probabilities. Where the best count is
    further, it is far closer than a standard deviation, and a parabola leads there.
    """
    level, both = above / (above + below), above + below
    odds = 1 / (1 + rate)

    def beyond(count: Array, rough: bool) -> _Beyond:
        places = _negative_binomial_places(shape, rate, count)
        tail = beta_tail(*places, rough=rough)
        return _Beyond(count, *map(once, (tail.above, tail.by_a, tail.weight, beta_score(*places))))

    def missing(at: _Beyond) -> tuple[Array, Array]:
        """How much of the level is not reached, and the chance of the count."""
        return level - (1 - at.mass), at.weight / ((shape + at.value) * odds)

    guess = jnp.floor(_gamma_quantile(shape * odds, level) * (1 + 1 / rate))
    rough = beyond(guess, True)
    short, chance = missing(rough)
    here = beyond(once(whole(guess + newton(level, level - short, chance) + 0.5)), False)
    for _ in range(NEAR):
        short, chance = missing(here)
        here = _where((short + chance <= 0) & (here.value > 0), _down(here, shape, odds), here)
    for _ in range(NEAR):
        here = _where(missing(here)[0] > 0, _up(here, shape, odds), here)
    value, by_shape, by_rate = here.excess(shape, rate, here.value)
    short, chance = missing(here)
    found = (short <= 0) & ((short + chance > 0) | (here.value == 0))
    further = jnp.where(found, 0.0, newton(level, level - short, chance))
    return (
        both * (value - further * short / 2) + below * (here.value - shape / rate),
        both * (by_shape - further * here.by_shape) - below / rate,
        both * (by_rate + further * here.weight / rate) + below * shape / rate**2,
    )


def _up(at: _Beyond, shape: Array, odds: Array) -> _Beyond:
    """Return the same for the next count.

    By p(k+1) = p(k) (r + k)/((1 + b) (k + 1)): neighbours need no further incomplete beta function.
    """
    count = at.value + 1
    chance = at.weight / count
    weight = chance * (shape + count) * odds
    score = at.score + 1 / (shape + count)
    return _Beyond(count, at.mass - chance, at.by_shape - chance * at.score, weight, score)


def _down(at: _Beyond, shape: Array, odds: Array) -> _Beyond:
    """Return the same for the count before; from zero, whatever."""
    chance, score = at.weight / ((shape + at.value) * odds), at.score - 1 / (shape + at.value)
    return _Beyond(
        at.value - 1, at.mass + chance, at.by_shape + chance * score, chance * at.value, score
    )


def _where(condition: Array, first: _Beyond, second: _Beyond) -> _Beyond:
    """The first where the condition holds, and the second elsewhere."""
    return _Beyond(*(jnp.where(condition, *each) for each in zip(first, second, strict=True)))


def _gamma_quantile(shape: Array, level: float) -> Array:
    """A guess: by a cube, and for small shapes by the first terms at either end."""
    z = NormalDist().inv_cdf(level)
    cube = 1 - 1 / (9 * shape) + z / (3 * jnp.sqrt(shape))
    usual, small = shape * jnp.maximum(cube, 0.1) ** 3, jnp.minimum(shape, 1.0)
    if level > 0.5:  # what lies above x is nearly the shape times ∫ exp(-s)/s ds
        beyond = (1 - level) / small
        far = jnp.maximum(-jnp.log(beyond), 0.1)
        for _ in range(3):
            far = jnp.maximum(-jnp.log(beyond) - jnp.log1p(far), 0.1)
        near = jnp.exp(-0.5772 - beyond)
        return jnp.where(shape < 0.4, jnp.where(beyond < 0.5, far, near), usual)
    # What lies below x is nearly x^a/Γ(a+1), a polynomial for a from 0 to 1.
    terms = (-0.1010678, 0.4245549, -0.6998588, 0.9512363, -0.5748646, 1.0)
    low = jnp.exp(jnp.log(level * jnp.polyval(jnp.array(terms, small.dtype), small)) / small)
    return jnp.where(shape < 1, low * (1 + low / (small + 1)), usual)


@stats.cumulant.register
def _(outcome: dist.GammaPoisson, t: float) -> Array:
    """r times that of a geometric count with mean 1/b."""
    return outcome.concentration * _geometric_cumulant(1 / outcome.rate, t)


@stats.excess.register
def _(outcome: Geometric, decision: Array) -> Array:
    """After any count, the distribution begins anew."""
    centre, decision = floats(stats.mean(outcome), decision)
    first = whole(decision) + 1
    beyond = flushed_exp(-first * jnp.log1p(1 / centre))
    return jnp.where(decision < 0, centre - decision, beyond * (first - decision + centre))


@stats.cdf.register
def _(outcome: Geometric, value: Array) -> Array:
    """1 - (m/(1+m))^(k+1), with m the mean."""
    centre, value = floats(stats.mean(outcome), value)
    at_most = -jnp.expm1(-(whole(value) + 1) * jnp.log1p(1 / centre))
    return jnp.where(value < 0, 0.0, at_most)


@stats.mean.register
def _(outcome: dist.GeometricLogits) -> Array:
    """exp(-logits)."""
    return jnp.exp(-outcome.logits)


@stats.cumulant.register
def _(outcome: Geometric, t: float) -> Array:
    """That of a negative binomial count with r = 1."""
    return _geometric_cumulant(stats.mean(outcome), t)


def _geometric_cumulant(centre: Array, t: float) -> Array:
    """-log(1 - m(exp t - 1)) - mt: a sum of two that are not negative."""
    grown = lambda v: -log_less_tangent(1 - v, -v)  # noqa: E731
    centre, by = floats(centre, t)
    return finite_below_one(centre * jnp.expm1(by), grown) + centre * exp_less_tangent(by)


@stats.log_mass.register
def _(outcome: dist.GammaPoisson, count: Array) -> Array:
    """r/n times the probability of r successes in n = r + k trials, for any r > 0."""
    shape, rate, count = floats(outcome.concentration, outcome.rate, count)
    some = jnp.maximum(count, 1.0)
    chances = not_zero(1 / (1 + 1 / rate)), not_zero(1 / (1 + rate))
    inside = log_binomial(shape, some, *chances) + jnp.log(shape / (shape + some))
    return jnp.where(count > 0, inside, -shape * jnp.log1p(1 / rate))
