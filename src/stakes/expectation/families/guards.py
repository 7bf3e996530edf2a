"""Guards: functions that are asked only what they know, so that no value and no slope is nan."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from stakes._types import Array, Number

# A rate or chance that is as good as zero, but has a logarithm.
LEAST = 1e-25


def not_zero(chance: Array) -> Array:
    """The derivative stays that of the chance."""
    return chance + jax.lax.stop_gradient(jnp.maximum(chance, LEAST) - chance)


def floats(*values: Number) -> tuple[Array, ...]:
    """The values in one floating type: a whole number has no derivative."""
    dtype = jnp.result_type(float, *values)
    return tuple(jnp.asarray(value, dtype) for value in values)


def whole(value: Array) -> Array:
    """The largest count that is not above the value, or zero."""
    return jnp.maximum(jnp.floor(value), 0.0)


def positive(value: Array, below: Number, inside: Callable[[Array], Array]) -> Array:
    """A function of positive values; `below` for the others.

    There, `inside` is asked about a value that it knows, so that its derivative is no nan.
    """
    known = value > 0
    return jnp.where(known, inside(jnp.where(known, value, 1.0)), below)


def fraction(value: Array, below: Number, inside: Callable[[Array], Array]) -> Array:
    """A function of values between zero and one; `below` zero, and nothing above one."""
    known = (value > 0) & (value < 1)
    outside = jnp.where(value <= 0, below, 0.0)
    return jnp.where(known, inside(jnp.where(known, value, 0.5)), outside)


def finite_below_one(at: Array, inside: Callable[[Array], Array]) -> Array:
    """A function of values below one; infinite from there on."""
    known = at < 1
    return jnp.where(known, inside(jnp.where(known, at, 0.0)), jnp.inf)
