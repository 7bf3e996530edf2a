"""Log probabilities of counts, without the large terms that cancel.

That of a Poisson count of a million is a difference of numbers around ten million, of which single
precision keeps one digit after the point. After Loader, Fast and accurate computation of binomial
probabilities (2000), it is a sum of small ones: how far the count is from its mean, and the errors
of Stirling's formula.
"""

import math
from functools import singledispatch

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution
from numpyro.distributions.discrete import ZeroInflatedProbs

from stakes._types import Array
from stakes.expectation.families.common import bare, floats, not_zero
from stakes.expectation.special import log_less_tangent, stirling_error
from stakes.expectation.stats import log_mass


@log_mass.register
def _(outcome: dist.Poisson, count: Array) -> Array:
    rate, count = floats(outcome.rate, count)
    some, rate = jnp.maximum(count, 1.0), not_zero(rate)
    away = some * log_less_tangent(rate / some, (rate - some) / some)
    inside = away - stirling_error(some) - 0.5 * jnp.log(2 * math.pi * some)
    return jnp.where(count > 0, inside, -rate)


@log_mass.register
def _(outcome: dist.GammaPoisson, count: Array) -> Array:
    """r/n times the probability of r successes in n = r + k trials, for any r > 0."""
    shape, rate, count = floats(outcome.concentration, outcome.rate, count)
    some = jnp.maximum(count, 1.0)
    chances = not_zero(1 / (1 + 1 / rate)), not_zero(1 / (1 + rate))
    inside = _log_binomial(shape, some, *chances) + jnp.log(shape / (shape + some))
    return jnp.where(count > 0, inside, -shape * jnp.log1p(1 / rate))


@log_mass.register(dist.BinomialProbs)
@log_mass.register(dist.BinomialLogits)
def _(outcome: Distribution, count: Array) -> Array:
    total, count = floats(outcome.total_count, count)
    chance, rest = map(not_zero, floats(*chances(outcome)))
    within = (count > 0) & (count < total)
    successes, failures = jnp.where(within, count, 1.0), jnp.where(within, total - count, 1.0)
    inside = _log_binomial(successes, failures, chance, rest)
    log_rest = jnp.where(chance < rest, jnp.log1p(-jnp.minimum(chance, 0.5)), jnp.log(rest))
    ends = jnp.where(count > 0, total * jnp.log(chance), total * log_rest)
    return jnp.where(within, inside, ends)


@log_mass.register
def _(outcome: ZeroInflatedProbs, count: Array) -> Array:
    others = jnp.log1p(-outcome.gate) + log_mass(inflated(outcome), count)
    more = (count == 0) & (outcome.gate > 0)
    return jnp.where(more, jnp.logaddexp(jnp.log(not_zero(outcome.gate)), others), others)


def _log_binomial(successes: Array, failures: Array, chance: Array, rest: Array) -> Array:
    """Of this many successes and failures, both above zero but not necessarily whole."""
    total = successes + failures
    off = chance * failures - rest * successes  # the mean, less the successes
    away = successes * log_less_tangent(chance * total / successes, off / successes)
    away += failures * log_less_tangent(rest * total / failures, -off / failures)
    error = stirling_error(total) - stirling_error(successes) - stirling_error(failures)
    return away + error - 0.5 * jnp.log(2 * math.pi * successes * (failures / total))


@singledispatch
def chances(outcome: Distribution) -> tuple[Array, Array]:
    """Of a success and of a failure, each to full precision."""
    return outcome.probs, 1 - outcome.probs


@chances.register(dist.BinomialLogits)
@chances.register(dist.BernoulliLogits)
def _(outcome: Distribution) -> tuple[Array, Array]:
    return jax.nn.sigmoid(outcome.logits), jax.nn.sigmoid(-outcome.logits)


def inflated(outcome: ZeroInflatedProbs) -> Distribution:
    """The distribution to which zeros were added."""
    return bare(outcome.base_dist)
