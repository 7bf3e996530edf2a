"""Costs with several dips: whether a decision far from the best is nearly as good."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from stakes._types import Array, Bool, Float
from stakes.decisions.search import At

NEARLY = 0.01
"""A dip is a rival if it costs at most this part more than the best, as far as a grid tells,"""
RIDGE = 0.05
"""and decisions between the two cost at least this part more."""


class Rival(NamedTuple):
    """The best decision on a grid, and another one with worse ones between them."""

    best: At
    other: At
    between: Float[Array, "*instance"]
    """The largest cost between the two."""
    exists: Bool[Array, "*instance"]
    """Whether there is one that is nearly as good."""


def rival(grid: At) -> Rival:
    """Of places in ascending order, the best one beyond a ridge from the best of all."""
    values = jnp.where(jnp.isnan(grid.value), jnp.inf, grid.value)
    at = jnp.argmin(values, axis=0)[None]
    order = jnp.arange(len(values)).reshape(-1, *(1 for _ in values.shape[1:]))
    up = jax.lax.cummax(jnp.where(order >= at, values, -jnp.inf))
    down = jax.lax.cummax(jnp.where(order <= at, values, -jnp.inf), reverse=True)
    ridge = jnp.where(order > at, up, down)
    least = jnp.take_along_axis(values, at, axis=0)
    size = jnp.abs(least)
    dips = (ridge - jnp.maximum(values, least) > RIDGE * size) & jnp.isfinite(values)
    shown = jnp.where(dips, values, jnp.inf)
    other = jnp.argmin(shown, axis=0)[None]

    def taken(array: Array, index: Array) -> Array:
        return jnp.take_along_axis(array, index, axis=0)[0]

    best = At(taken(grid.place, at), least[0])
    second = At(taken(grid.place, other), taken(shown, other))
    near = second.value - best.value <= NEARLY * size[0]
    return Rival(best, second, taken(ridge, other), near)
