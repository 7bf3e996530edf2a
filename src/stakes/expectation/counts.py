"""The probabilities of counts, also for values outside the support."""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from stakes._types import Array, Distribution
from stakes.expectation import stats
from stakes.expectation.sums import Rule


def log_mass(outcome: Distribution, values: Array) -> Rule:
    """Log probabilities of counts: -inf outside the support, with a legal count as a stand-in."""
    inside = outcome.support(values) & (values >= 0)
    legal = jnp.where(inside, values, jnp.floor(jax.lax.stop_gradient(_middle(outcome))))
    return Rule(legal, jnp.where(inside, outcome.log_prob(_as_outcome(outcome, legal)), -jnp.inf))


def _middle(outcome: Distribution) -> Array:
    return jnp.zeros(()) if stats.few_values(outcome) is not None else stats.mean(outcome)


def _as_outcome(outcome: Distribution, values: Array) -> Array:
    categorical = isinstance(outcome, dist.CategoricalProbs | dist.CategoricalLogits)
    return values.astype(int) if categorical else values
