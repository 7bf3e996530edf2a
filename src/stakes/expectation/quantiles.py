"""A quick quantile of one outcome, under which no gradient passes.

Where a quantile is needed at every step, as for regret, the bisection that serves mixtures would
cost more than all the rest. An explicit formula, or a guess and two steps of Newton's method, leave
an error of no account: the expected cost is flat at its best decision, so that an error of e in the
quantile changes it by e².
"""

import math
from functools import singledispatch
from statistics import NormalDist
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import digamma, polygamma
from numpyro.distributions.discrete import HurdleProbs

from stakes._types import Array, Distribution
from stakes.expectation import stats

# NumPyro has their quantiles as formulas.
Explicit: TypeAlias = (
    dist.Laplace
    | dist.Logistic
    | dist.Gumbel
    | dist.Cauchy
    | dist.LogNormal
    | dist.Exponential
    | dist.Pareto
    | dist.HalfNormal
    | dist.HalfCauchy
    | dist.Uniform
)

STEPS = 2
# How far a step may go: in standard deviations, or in the logarithm of a distance to an end.
FURTHEST = 3.0
HALVINGS = 16
# Counts on either side of the guess among which the quantile of a count is looked for.
NEAR = 2


def quick_quantile(outcome: Distribution, level: float) -> Array:
    """Return nearly the least value at which the distribution function reaches the level.

    Args:
        outcome: one distribution, not a mixture over draws of θ.
        level: a number of Python, strictly between zero and one.
    """
    return _quantile(jax.lax.stop_gradient(outcome), level)


@singledispatch
def _quantile(outcome: Distribution, level: float) -> Array:
    """By Newton's method from a guess, in coordinates in which a step cannot leave the support.

    A step that is not finite is not taken: the guess is good by itself.
    """
    guess, spread = _guess(outcome, NormalDist().inv_cdf(level))
    if stats.is_discrete(outcome):
        return _of_count(outcome, level, guess, spread)
    inward, outward = _coordinates(outcome, spread)
    x = inward(guess)
    for _ in range(STEPS):
        y, slope = outward(x)
        step = newton(level, stats.cdf(outcome, y), jnp.exp(outcome.log_prob(y)) * slope)
        after = x + jnp.clip(step, -FURTHEST, FURTHEST)
        x = jnp.where(jnp.isfinite(after), after, x)
    return outward(x)[0]


def newton(level: float, reached: Array, density: Array) -> Array:
    """A step towards the level, in the logarithm of the smaller tail, which bends the least.

    Args:
        level: the probability to reach.
        reached: the distribution function at the current place.
        density: its slope there.
    """
    tail, wanted = (1 - reached, 1 - level) if level > 0.5 else (reached, level)
    tail = jnp.maximum(tail, 1e-6)
    step = tail / jnp.maximum(density, 1e-15) * jnp.log(tail / wanted)
    return step if level > 0.5 else -step


@_quantile.register
def _(outcome: Explicit, level: float) -> Array:
    return jnp.asarray(outcome.icdf(level))


@_quantile.register
def _(outcome: dist.Weibull, level: float) -> Array:
    return outcome.scale * (-math.log1p(-level)) ** (1 / outcome.concentration)


@_quantile.register
def _(outcome: dist.Delta, level: float) -> Array:
    return jnp.asarray(outcome.v)


@_quantile.register
def _(outcome: dist.MixtureSameFamily | dist.MixtureGeneral, level: float) -> Array:
    """Between those of the components."""
    parts = stats.components(outcome)
    assert parts is not None
    quantiles = parts.answers(lambda part, _: _quantile(part, level))
    return _by_halving(outcome, level, quantiles.min(axis=-1), quantiles.max(axis=-1))


@_quantile.register
def _(outcome: HurdleProbs, level: float) -> Array:
    """By Cantelli's inequality, and at zero or above it."""
    above = jnp.sqrt(stats.variance(outcome)) * math.sqrt(level / (1 - level))
    high = stats.mean(outcome) + above
    return _by_halving(outcome, level, jnp.zeros_like(high), high)


def _by_halving(outcome: Distribution, level: float, low: Array, high: Array) -> Array:
    """By bisection between two ends, for outcomes with several peaks or with mass at single points.

    Sixteen halvings leave a part in 65,000 of the way between the ends.
    """
    reached = stats.cdf(outcome, low) >= level
    dtype = jnp.result_type(float)
    low, high = (jnp.asarray(end, dtype) for end in (low, high))
    low, high = jnp.broadcast_arrays(low, jnp.where(reached, low, high))

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = low + (high - low) / 2
        reached = stats.cdf(outcome, middle) >= level
        return jnp.where(reached, low, middle), jnp.where(reached, middle, high)

    quantile = jax.lax.fori_loop(0, HALVINGS, halve, (low, high))[1]
    return jnp.floor(quantile) if stats.is_discrete(outcome) else quantile


@singledispatch
def _guess(outcome: Distribution, z: float) -> tuple[Array, Array]:
    """Return a first guess, and the spread of the outcome.

    By the mean and variance of a normal or, for outcomes above zero, of a gamma distribution, whose
    cube root is nearly normal (Wilson and Hilferty, 1931).
    """
    mean, variance = stats.mean(outcome), stats.variance(outcome)
    known = jnp.isfinite(mean) & jnp.isfinite(variance) & (variance > 0)
    loc, scale = stats.parameter(outcome, "loc"), stats.parameter(outcome, "scale")
    centre = jnp.where(known, mean, 1.0 if loc is None else loc)
    spread = jnp.where(known, jnp.sqrt(variance), 1.0 if scale is None else scale)
    if stats.ends(outcome).lower is None:
        return centre + z * spread, spread
    shape = jnp.square(centre / spread)
    cube = jnp.maximum(1 - 1 / (9 * shape) + z / (3 * jnp.sqrt(shape)), 0.1)
    return centre * cube**3, spread


@_guess.register
def _(outcome: dist.StudentT, z: float) -> tuple[Array, Array]:
    """Between a Cauchy and a normal distribution."""
    cauchy = dist.Cauchy().icdf(NormalDist().cdf(z))
    place = z + (cauchy - z) / outcome.df**1.2
    return outcome.loc + outcome.scale * place, outcome.scale * (1 + jnp.abs(place))


@_guess.register
def _(outcome: dist.Beta, z: float) -> tuple[Array, Array]:
    """The log odds are nearly normal."""
    a, b = outcome.concentration1, outcome.concentration0
    spread = jnp.sqrt(polygamma(1, a) + polygamma(1, b))
    return jax.nn.sigmoid(digamma(a) - digamma(b) + z * spread), spread


def _coordinates(outcome: Distribution, spread: Array):  # type: ignore[no-untyped-def]
    """To and from a line without ends on which a step cannot leave the support; with its slope."""
    lower, upper = stats.ends(outcome)
    if lower is None:
        return (lambda y: y / spread), (lambda x: (spread * x, spread))
    tiny = float(np.finfo(np.float32).tiny)
    if upper is None:
        below = lambda y: jnp.log(jnp.maximum(y - lower, tiny))  # noqa: E731
        return below, lambda x: (lower + jnp.exp(x), jnp.exp(x))
    width = upper - lower

    def inward(y: Array) -> Array:
        part = jnp.clip((y - lower) / width, 1e-6, 1 - 1e-6)
        return jnp.log(part) - jnp.log1p(-part)

    def outward(x: Array) -> tuple[Array, Array]:
        part = jax.nn.sigmoid(x)
        return lower + width * part, width * part * jax.nn.sigmoid(-x)

    return inward, outward


def _of_count(outcome: Distribution, level: float, guess: Array, spread: Array) -> Array:
    """Return the quantile of a count: by steps of Newton's method, then among the counts around.

    The distribution function is computed for one of these; those of its neighbours follow by their
    probabilities.
    """
    lower, upper = stats.ends(outcome)
    lower = 0 if lower is None else lower
    upper = jnp.inf if upper is None else upper
    for _ in range(STEPS):
        place = jnp.clip(jnp.floor(guess), lower, upper)
        density = jnp.maximum(jnp.exp(outcome.log_prob(place)), 1e-3 / spread)
        step = jnp.clip((level - stats.cdf(outcome, place)) / density, -spread, spread)
        guess = jnp.where(jnp.isfinite(step), place + step, place)
    count = jnp.clip(jnp.floor(guess) - NEAR, lower, upper)
    reached = stats.cdf(outcome, count)
    for _ in range(2 * NEAR):
        short = (reached < level) & (count < upper)
        reached = reached + jnp.where(short, jnp.exp(outcome.log_prob(count + 1)), 0.0)
        count = count + short
    return count
