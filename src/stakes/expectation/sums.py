"""Points and weights, and sums over them: in log space and without denormal numbers."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Float


class Rule(NamedTuple):
    """Points y_k and log weights so that E g(y) ≈ Σ_k exp(log_weight_k) g(y_k)."""

    points: Float[Array, "point *instance"]
    log_weights: Float[Array, "point *instance"]


def weighted_sum(
    log_weights: Float[Array, "point *instance"], values: Float[Array, "point *instance"]
) -> Float[Array, "*instance"]:
    """Σ_k exp(log_weight_k) value_k; a point of weight zero counts for nothing."""
    weights = flushed_exp(log_weights)
    return jnp.sum(weights * jnp.where(weights == 0, 0.0, values), axis=0)


def log_sum_exp(terms: Float[Array, "point *instance"]) -> Float[Array, "*instance"]:
    """log Σ_k exp(term_k)."""
    largest = jax.lax.stop_gradient(jnp.max(terms, axis=0))
    finite = jnp.where(jnp.isfinite(largest), largest, 0.0)
    return jnp.log(jnp.sum(flushed_exp(terms - finite), axis=0)) + finite


def flushed_exp(x: Array) -> Array:
    """exp(x), but zero where it would be a denormal number: those slow a CPU down a hundredfold."""
    lowest = math.log(np.finfo(x.dtype).tiny) + 17
    return jnp.where(x < lowest, 0.0, jnp.exp(jnp.maximum(x, lowest)))
