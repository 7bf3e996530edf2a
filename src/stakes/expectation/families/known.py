"""Outcomes that are known: a point that holds all of the probability."""

import jax.numpy as jnp
import numpyro.distributions as dist

from stakes._types import Array, Number
from stakes.expectation import stats


@stats.mean.register
def _(outcome: dist.Delta) -> Array:
    return jnp.asarray(outcome.v)


@stats.variance.register
def _(outcome: dist.Delta) -> Array:
    return jnp.zeros_like(outcome.v)


@stats.cdf.register
def _(outcome: dist.Delta, value: Array) -> Array:
    return (value >= outcome.v).astype(jnp.result_type(float))


@stats.below.register
def _(outcome: dist.Delta, value: Array) -> Array:
    return (value > outcome.v).astype(jnp.result_type(float))


@stats.tails.register
def _(outcome: dist.Delta, decision: Array, above: float, below: float) -> Array:
    short = outcome.v - decision
    return jnp.maximum(above * short, -below * short)


@stats.least_tails.register
def _(outcome: dist.Delta, above: float, below: float) -> Array:
    return jnp.zeros_like(outcome.v)


@stats.cumulant.register
def _(outcome: dist.Delta, t: float) -> Array:
    return jnp.zeros_like(outcome.v)


@stats.log_tails.register
def _(outcome: dist.Delta, decision: Array, above: Number, below: Number) -> Array:
    short = outcome.v - decision
    return -jnp.maximum(above * short, -below * short)


@stats.log_kernel.register
def _(outcome: dist.Delta, decision: Array, width: Number) -> Array:
    return -jnp.square(outcome.v - decision) / width


@stats.best_in_log_tails.register
def _(outcome: dist.Delta, above: Number, below: Number) -> Array:
    return jnp.asarray(outcome.v)


@stats.best_in_log_kernel.register
def _(outcome: dist.Delta, width: Number) -> Array:
    return jnp.asarray(outcome.v)
