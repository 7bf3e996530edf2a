"""Points and weights, sums over them, and how far a sum can be trusted.

Sums are in log space and without denormal numbers.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Bool, Float

COARSE = 0.1
"""How much a sum may change, relative to its size, when every other point is left out. Where the
summand is smooth, the whole sum is far nearer: a bell curve that changes by this is off by 1e-5."""


class Rule(NamedTuple):
    """Points y_k and log weights so that E g(y) ≈ Σ_k exp(log_weight_k) g(y_k)."""

    points: Float[Array, "point *instance"]
    log_weights: Float[Array, "point *instance"]


class Terms(NamedTuple):
    """What is summed, as the size of the share of each point."""

    points: Float[Array, "point *instance"]
    log_weights: Float[Array, "point *instance"]
    log_sizes: Float[Array, "point *instance"]
    """Of losses or utilities."""
    shares: Float[Array, "point *instance"]
    """Weight times size, up to a factor that is the same for all; zero where it underflows."""
    weightless: Bool[Array, "point *instance"]
    """Where the weight underflows, or is zero."""
    overflown: Bool[Array, "point *instance"]
    """Where the loss is too large for a number, or was cut off to prevent that."""

    @property
    def beyond_last(self) -> Float[Array, "*instance"]:
        """An estimate of what the points after the last one would add.

        It takes the shares to go on as they end, or faster, and is infinite where they do not fall.
        Weights that end before, from one point to the next, are those of a density that overflowed.
        """
        before, last = self.shares[-2], self.shares[-1]
        falls = last < before
        rest = last * (last / jnp.where(falls, before - last, 1.0))
        rest = jnp.where(falls, rest, jnp.where(last > 0, jnp.inf, 0.0))
        cut_off = jnp.where(self.weightless[1:], self.shares[:-1], 0.0)
        return rest + jnp.max(cut_off, axis=0)

    @property
    def diverge(self) -> Bool[Array, "*instance"]:
        """Whether a loss that grows exponentially outgrows the weights, beyond where it overflows.

        It is taken to go on as it does at the last two points where it is still a number.
        """
        ends = ~self.overflown[1:-1] & self.overflown[2:]

        def last(array: Array) -> Array:
            return jnp.sum(jnp.where(ends, array[1:-1], 0.0), axis=0)

        def before(array: Array) -> Array:
            return jnp.sum(jnp.where(ends, array[:-2], 0.0), axis=0)

        size, rise = last(self.log_sizes), last(self.log_sizes) - before(self.log_sizes)
        run = jnp.abs(last(self.points) - before(self.points))
        exponential = (rise > 0.12 * size) & (run > 0)  # and not a power
        rate = rise / jnp.where(exponential, run, 1.0)
        beyond = size + rate * jnp.abs(self.points - last(self.points))
        inner = jnp.max(jnp.where(self.overflown, -jnp.inf, self.log_weights + self.log_sizes), 0)
        outgrows = self.overflown & (self.log_weights + beyond > inner)
        return exponential & jnp.any(outgrows, axis=0)

    def part(self, start: int | None, stop: int | None, step: int = 1) -> "Terms":
        return Terms(*(array[start:stop:step] for array in self))


def neglectable(dtype: np.dtype) -> float:
    """What may be left out of a sum, relative to its size.

    Slopes lose more, as a score grows with the distance: up to some fifty times this.
    """
    return 1e-4 if dtype == np.float32 else 1e-7


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


def normalised(
    log_weights: Float[Array, "point *instance"], tolerance: float
) -> Float[Array, "point *instance"]:
    """Weights that add up to one; nan where they were further from it than rounding explains."""
    log_mass = log_sum_exp(log_weights)
    whole = jnp.abs(jax.lax.stop_gradient(log_mass)) <= tolerance
    return (log_weights - log_mass) * jnp.where(whole, 1.0, jnp.nan)


def flushed_exp(x: Array) -> Array:
    """exp(x), but zero where it would be a denormal number: those slow a CPU down a hundredfold."""
    lowest = math.log(np.finfo(x.dtype).tiny) + 17
    return jnp.where(x < lowest, 0.0, jnp.exp(jnp.maximum(x, lowest)))
