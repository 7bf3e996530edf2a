"""Logarithms and factorials without the parts that cancel, for distributions of any size.

The log density of a gamma or beta distribution with a shape of a million is a small difference of
numbers around ten million, which single precision does not hold. Written with these, it is a sum
of small numbers.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from stakes._types import Array

_NEAR = 0.3
_RAISE = 8


@jax.custom_jvp
def log_less_tangent(ratio: Array, less_one: Array) -> Array:
    """log r - (r - 1), given both r and r - 1 to full precision."""
    # log(1 + v) is twice the inverse hyperbolic tangent of r, and 2r - v = -vr.
    r = less_one / (2 + less_one)
    terms = 5 if r.dtype == jnp.float32 else 10
    series = 2 * horner(jnp.square(r), [1 / (2 * k + 3) for k in range(terms)])
    near = r * (jnp.square(r) * series - less_one)
    return jnp.where(jnp.abs(less_one) < _NEAR, near, jnp.log(ratio) - less_one)


@log_less_tangent.defjvp
def _(primals, tangents):  # type: ignore[no-untyped-def]
    ratio, less_one = primals
    return log_less_tangent(ratio, less_one), -less_one / ratio * tangents[1]


def exp_less_tangent(x: Array) -> Array:
    """exp(x) - 1 - x."""
    near = jnp.abs(x) < _NEAR
    v = jnp.where(near, x, 0.0)
    terms = 6 if v.dtype == jnp.float32 else 9
    series = horner(v, [1 / math.factorial(k + 2) for k in range(terms)])
    return jnp.where(near, jnp.square(v) * series, jnp.expm1(x) - x)


def stirling_error(x: Array) -> Array:
    """log Γ(x) less Stirling's (x - 1/2) log x - x + log √2π, for x > 0."""
    far, near, small = _raised(x)
    terms = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360]
    series = horner(jnp.square(1 / far), terms) / far
    # Γ(x+8) is x (x+1) ... (x+7) times Γ(x).
    product = math.prod(near + k for k in range(1, _RAISE)) * near
    rest = (near - 0.5) * jnp.log1p(_RAISE / near) + _RAISE * (jnp.log(near + _RAISE) - 1)
    return series + jnp.where(small, rest - jnp.log(product), 0.0)


def log_less_digamma(x: Array) -> Array:
    """log x - ψ(x), for x > 0."""
    far, near, small = _raised(x)
    terms = [1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760]
    series = 1 / (2 * far) + jnp.square(1 / far) * horner(jnp.square(1 / far), terms)
    rest = sum(1 / (near + k) for k in range(1, _RAISE)) + 1 / near
    return series + jnp.where(small, rest - jnp.log1p(_RAISE / near), 0.0)


def _raised(x: Array) -> tuple[Array, Array, Array]:
    """x, by eight more where it is too small for asymptotic series; there, x itself; and where."""
    small = x < _RAISE
    return jnp.where(small, x + _RAISE, x), jnp.where(small, x, 1.0), small


def along(slopes: Any, tangents: Any, like: Array) -> Array:
    """Σ slope·tangent over what moves: the slope of a constant is not computed."""
    moving = [
        slope * tangent
        for slope, tangent in zip(slopes, tangents, strict=True)
        if not isinstance(tangent, SymbolicZero)
    ]
    return sum(moving, jnp.zeros_like(like))


def horner(x: Array, terms: Sequence[float | Array]) -> Array:
    """Σ terms[k] x^k."""
    total = jnp.broadcast_to(jnp.asarray(terms[-1], x.dtype), jnp.shape(x))
    for term in reversed(terms[:-1]):
        total = total * x + term
    return total
