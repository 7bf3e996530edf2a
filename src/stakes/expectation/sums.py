"""Weighted sums over points, in log space and without denormal numbers."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from stakes.typing import Array


def weighted_sum(log_weights: Array, values: Array) -> Array:
    """Σ_k exp(log_weight_k) value_k; a point of weight zero counts for nothing."""
    weights = flushed_exp(log_weights)
    return jnp.sum(weights * jnp.where(weights == 0, 0.0, values), axis=0)


def log_sum_exp(terms: Array) -> Array:
    """log Σ_k exp(term_k)."""
    largest = jax.lax.stop_gradient(jnp.max(terms, axis=0))
    finite = jnp.where(jnp.isfinite(largest), largest, 0.0)
    return jnp.log(jnp.sum(flushed_exp(terms - finite), axis=0)) + finite


def flushed_exp(x: Array) -> Array:
    """exp(x), but zero where it would be a denormal number: those slow a CPU down a hundredfold."""
    lowest = math.log(np.finfo(x.dtype).tiny) + 17
    return jnp.where(x < lowest, 0.0, jnp.exp(jnp.maximum(x, lowest)))
