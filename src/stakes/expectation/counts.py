"""The values of discrete outcomes, and their probabilities, also for values outside the support."""

import jax.numpy as jnp

from stakes._types import Array, Distribution
from stakes.expectation import stats
from stakes.expectation.sums import Rule


def log_mass(outcome: Distribution, values: Array) -> Rule:
    """Log probabilities of counts: -inf outside the support, with a legal count as a stand-in."""
    lowest = smallest_value(outcome)
    inside = outcome.support(values) & (values >= lowest)
    legal = jnp.where(inside, values, lowest)
    log_masses = stats.log_mass(outcome, legal)
    return Rule(legal, jnp.where(inside, log_masses, -jnp.inf))


def smallest_value(outcome: Distribution) -> Array:
    """The least value of a discrete outcome: zero, unless its support begins elsewhere."""
    lowest = getattr(outcome.support, "lower_bound", 0)
    return jnp.asarray(lowest, jnp.result_type(float))


def largest_value(outcome: Distribution) -> Array | None:
    """The largest value of a discrete outcome; None where there is no end to them."""
    largest = stats.largest_value(outcome)
    if largest is None:
        largest = getattr(outcome.support, "upper_bound", None)
    return None if largest is None else jnp.asarray(largest, jnp.result_type(float))
