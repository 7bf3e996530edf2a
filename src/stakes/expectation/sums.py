"""Points and weights, sums over them, and how far a sum can be trusted.

Sums are in log space and without denormal numbers.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Bool, Float

# How much a sum may change, relative to its size, when every other point is left out. Where the
# summand is smooth, the whole sum is far nearer: a bell curve that changes by this is off by 1e-5.
COARSE = 0.1
# Times the distance of the last point, at which a density is looked at once more.
FURTHER = (0.25, 1.0, 4.0)

Values = TypeVar("Values", Array, np.ndarray)


class Rule(NamedTuple):
    """Points y_k and log weights so that E g(y) ≈ Σ_k exp(log_weight_k) g(y_k)."""

    points: Float[Array, "point *instance"]
    log_weights: Float[Array, "point *instance"]


class Terms(NamedTuple):
    """What is summed, as the size of the share of each point."""

    points: Float[Array, "point *instance"]
    log_weights: Float[Array, "point *instance"]
    shares: Float[Array, "point *instance"]
    """Weight times size, up to a factor that is the same for all; zero where it underflows."""
    weightless: Bool[Array, "point *instance"]
    """Where the weight underflows, or is zero."""
    size: Callable[[Array], Array] | None = None
    """Of the loss, at points such as these."""
    coarse: Float[Array, "*instance"] | float = COARSE
    """How much of the sum may change when every other point is left out."""

    def beyond(self, sign: int) -> Float[Array, "*instance"]:
        """An estimate of what points beyond the last one, or the first, would add.

        It takes the shares to go on as they end, or faster, and is infinite where they do not fall.
        Weights that end before, from one point to the next, are those of a density that overflowed.
        """
        before, last = (self.shares[k] for k in ((-2, -1) if sign > 0 else (1, 0)))
        falls = last < before
        rest = last * (last / jnp.where(falls, before - last, 1.0))
        rest = jnp.where(falls, rest, jnp.where(last > 0, jnp.inf, 0.0))
        inner, outer = slice(1, -1), slice(2, None) if sign > 0 else slice(None, -2)
        cut_off = jnp.where(self.weightless[outer], self.shares[inner], 0.0)
        return rest + jnp.max(cut_off, axis=0)

    def diverge(
        self, sign: int, log_density: Callable[[Array], Array] | None = None
    ) -> Bool[Array, "*instance"] | bool:
        """Whether a loss that grows exponentially outgrows the weights, beyond where it overflows.

        It is taken to go on as it does where it is still a number, out to the last point, and far
        beyond it where the density is known there. Some of the points are enough to see it.
        """
        if self.size is None:
            return False
        some = max(len(self.points) // 27, 1)
        points = self.points[:: -sign * some][::-sign]
        start, end = (0, -1) if sign > 0 else (-1, 0)
        sizes = self.size(points)
        log_sizes, log_away = jnp.log(sizes), jnp.log(jnp.abs(points - self.points[start]))
        inner, at, outer = (slice(k, k - 2 or None) for k in (0, 1, 2)[::sign])
        rise = log_sizes[at] - log_sizes[inner]
        exponential = rise > 6 * (log_away[at] - log_away[inner])  # and not a power
        rate = rise / jnp.abs(points[at] - points[inner])
        at_end = log_sizes[at] + rate * jnp.abs(points[end] - points[at])
        ends = ~too_large(sizes[at]) & too_large(sizes[outer])
        outgrown = self.log_weights[end] + at_end > 0
        # Points without any density may have been put elsewhere, and be the last ones.
        reach = jnp.max(jnp.abs(points - points[start]), axis=0)
        if log_density is not None:
            for times in FURTHER:
                far = points[start] + sign * times * reach
                there = log_sizes[at] + rate * jnp.abs(far - points[at])
                outgrown |= log_density(far) + there > 0
        outgrows = ends & exponential & outgrown
        return jnp.max(outgrows.astype(rate.dtype), axis=0) > 0  # XLA is slow at `any`

    def part(self, start: int | None, stop: int | None) -> "Terms":
        cut = slice(start, stop)
        return self._replace(
            points=self.points[cut],
            log_weights=self.log_weights[cut],
            shares=self.shares[cut],
            weightless=self.weightless[cut],
        )


def too_large(sizes: Array) -> Array:
    """Whether a loss has overflowed, or was cut off to prevent that."""
    return ~(sizes < 0.9 * np.finfo(sizes.dtype).max ** 0.75)


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
    largest = largest_of(jax.lax.stop_gradient(terms))
    return jnp.log(jnp.sum(flushed_exp(terms - largest), axis=0)) + largest


def largest_of(values: Float[Array, "point *instance"]) -> Float[Array, "*instance"]:
    """The largest over all points, or zero where that is not finite.

    Used alone in what is computed for each point, XLA would look for it anew for each of them.
    """
    largest = jnp.max(values, axis=0)
    return jnp.where(jnp.isfinite(largest), largest, 0.0)


def normalised(
    log_weights: Float[Array, "point *instance"], tolerance: float
) -> Float[Array, "point *instance"]:
    """Weights that add up to one; nan where they were further from it than rounding explains."""
    log_mass = jnp.log(jnp.sum(flushed_exp(log_weights), axis=0))
    whole = jnp.abs(jax.lax.stop_gradient(log_mass)) <= tolerance
    return (log_weights - log_mass) * jnp.where(whole, 1.0, jnp.nan)


def flushed_exp(x: Array) -> Array:
    """exp(x), but zero where it would be a denormal number: those slow a CPU down a hundredfold."""
    lowest = math.log(np.finfo(x.dtype).tiny) + 17
    return jnp.where(x < lowest, 0.0, jnp.exp(jnp.maximum(x, lowest)))


def column(values: Values, shape: tuple[int, ...]) -> Values:
    """Values along a leading axis, before those of the instances."""
    return values.reshape(-1, *(1 for _ in shape))


def column_like(array: Array, values: np.ndarray) -> Array:
    """The same, in the type of an array with a value for each instance."""
    return column(jnp.asarray(values, array.dtype), array.shape)
