"""What several families share."""

from collections.abc import Callable

import jax.numpy as jnp

from stakes._types import Array


def floats(*values: Array) -> tuple[Array, ...]:
    """The values in one floating type: a whole number has no derivative."""
    dtype = jnp.result_type(float, *values)
    return tuple(jnp.asarray(value, dtype) for value in values)


def within(
    low: Array, high: Array, value: Array, below: Array, inside: Callable[[Array], Array]
) -> Array:
    """A function of values between two ends; `below` the lower one, and zero above the upper one.

    Outside, `inside` is asked about a value that it knows, so that its derivative is no nan.
    """
    known = (value > low) & (value < high)
    middle = jnp.where(jnp.isfinite(high), low + (high - low) / 2, low + 1)
    return jnp.where(
        known, inside(jnp.where(known, value, middle)), jnp.where(value <= low, below, 0.0)
    )


def positive(value: Array, below: Array, inside: Callable[[Array], Array]) -> Array:
    """A function of positive values; `below` for the others."""
    known = value > 0
    return jnp.where(known, inside(jnp.where(known, value, 1.0)), below)


def finite_until(limit: Array, at: Array, inside: Callable[[Array], Array]) -> Array:
    """A function of values below the limit; infinite from there on."""
    known = at < limit
    return jnp.where(known, inside(jnp.where(known, at, 0.0)), jnp.inf)
