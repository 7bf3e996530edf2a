"""Bernoulli and categorical outcomes."""

import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from stakes._types import Array
from stakes.expectation.stats import few_values, log_mass, mean, variance


@few_values.register(dist.BernoulliProbs)
@few_values.register(dist.BernoulliLogits)
def _(outcome: Distribution) -> int:
    return 2


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
