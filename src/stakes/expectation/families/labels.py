"""Bernoulli and categorical outcomes.

Whatever grows on either side of a decision about zero or one, exponentially or not, the best one is
zero or one: between the two, the expectation is as for the decisions next to it, or less good.
"""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from stakes._types import Array, Number
from stakes.expectation.families.common import floats, not_zero
from stakes.expectation.families.masses import chances
from stakes.expectation.stats import (
    best_in_log_tails,
    cdf,
    few_values,
    least_tails,
    log_mass,
    log_tails,
    mean,
    most_log_tails,
    tails,
    variance,
)


@few_values.register(dist.BernoulliProbs)
@few_values.register(dist.BernoulliLogits)
def _(outcome: Distribution) -> int:
    return 2


@tails.register(dist.BernoulliProbs)
@tails.register(dist.BernoulliLogits)
def _(outcome: Distribution, decision: Array, above: float, below: float) -> Array:
    one, zero, decision = floats(*chances(outcome), decision)
    if_one = jnp.maximum(above * (1 - decision), below * (decision - 1))
    return one * if_one + zero * jnp.maximum(-above * decision, below * decision)


@least_tails.register(dist.BernoulliProbs)
@least_tails.register(dist.BernoulliLogits)
def _(outcome: Distribution, above: float, below: float) -> Array:
    one, zero = floats(*chances(outcome))
    return jnp.minimum(above * one, below * zero)


@cdf.register(dist.BernoulliProbs)
@cdf.register(dist.BernoulliLogits)
def _(outcome: Distribution, value: Array) -> Array:
    zero, value = floats(chances(outcome)[1], value)
    return jnp.where(value < 0, 0.0, jnp.where(value < 1, zero, 1.0))


@log_tails.register(dist.BernoulliProbs)
@log_tails.register(dist.BernoulliLogits)
def _(outcome: Distribution, decision: Array, above: Number, below: Number) -> Array:
    log_one, log_zero = _log_chances(outcome)
    (decision,) = floats(decision)
    if_one = -jnp.maximum(above * (1 - decision), below * (decision - 1))
    if_zero = -jnp.maximum(-above * decision, below * decision)
    return jnp.logaddexp(log_one + if_one, log_zero + if_zero)


@best_in_log_tails.register(dist.BernoulliProbs)
@best_in_log_tails.register(dist.BernoulliLogits)
def _(outcome: Distribution, above: Number, below: Number) -> Array:
    at_zero, at_one = (log_tails(outcome, jnp.asarray(at), above, below) for at in (0.0, 1.0))
    return jnp.where(at_zero >= at_one, 0.0, jnp.where(at_one > at_zero, 1.0, jnp.nan))


@most_log_tails.register(dist.BernoulliProbs)
@most_log_tails.register(dist.BernoulliLogits)
def _(outcome: Distribution, above: Number, below: Number) -> Array:
    return jnp.maximum(*(log_tails(outcome, jnp.asarray(at), above, below) for at in (0.0, 1.0)))


def _log_chances(outcome: Distribution) -> tuple[Array, Array]:
    """Of one and of zero."""
    if isinstance(outcome, dist.BernoulliLogits):
        (logits,) = floats(outcome.logits)
        return jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits)
    one, zero = floats(*chances(outcome))
    return jnp.log(not_zero(one)), jnp.log(not_zero(zero))


@few_values.register
def _(outcome: dist.CategoricalProbs) -> int:
    return int(outcome.probs.shape[-1])


@few_values.register
def _(outcome: dist.CategoricalLogits) -> int:
    return int(outcome.logits.shape[-1])


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


@log_mass.register(dist.CategoricalProbs)
@log_mass.register(dist.CategoricalLogits)
def _(outcome: Distribution, count: Array) -> Array:
    """Labels are looked up, and so have to be whole numbers for JAX, too."""
    return outcome.log_prob(count.astype(int))
