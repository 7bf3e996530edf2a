"""Elementwise minimisation, quick: one evaluation of the objective serves all instances.

`objective` takes a place for each instance and gives a value for each; places and values of a grid
are along a leading axis.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from stakes._types import Array, Float

Curve: TypeAlias = Callable[[Float[Array, "*instance"]], Float[Array, "*instance"]]


class At(NamedTuple):
    """A place, or several along a leading axis, and the value of the objective there."""

    place: Float[Array, "*instance"]
    value: Float[Array, "*instance"]


class Bracket(NamedTuple):
    """Three places in order, with the least value in the middle."""

    low: At
    middle: At
    high: At


def evenly(low: Array, high: Array, places: int) -> Float[Array, "place *instance"]:
    return low + jnp.linspace(0, 1, places).reshape(-1, *(1 for _ in low.shape)) * (high - low)


def chosen(which: Array, yes: At, no: At) -> At:
    return At(*(jnp.where(which, a, b) for a, b in zip(yes, no, strict=True)))


def one_by_one(objective: Curve, places: Array) -> Array:
    """The objective at several places, for one that takes much memory."""
    return jax.lax.map(objective, places)


def all_at_once(objective: Curve, places: Array) -> Array:
    """The objective at several places, for one that is quick."""
    return jax.vmap(objective)(places)


def by_parabolas(
    objective: Curve,
    grid: Float[Array, "place *instance"],
    rounds: int,
    at_each: Callable[[Curve, Array], Array] = one_by_one,
) -> At:
    """The best of an ascending grid, moved down the parabola through it and its neighbours.

    This takes few evaluations and may stop at the wrong one of several dips, but is never
    worse than the grid.
    """
    best, at_best, values = _best_of(at_each(objective, grid), grid)
    middle = jnp.clip(at_best, 1, len(grid) - 2)

    def narrow(_: int, bracket: Bracket) -> Bracket:
        (low, at_low), (x, at_x), (high, at_high) = bracket
        left, right = (x - low) * (at_x - at_high), (x - high) * (at_x - at_low)
        lowest = x - ((x - low) * left - (x - high) * right) / (2 * (left - right))
        halfway = jnp.where(high - x > x - low, x + high, low + x) / 2
        apart = jnp.abs(lowest - x) > 1e-3 * (high - low)
        place = jnp.where((low < lowest) & (lowest < high) & apart, lowest, halfway)
        new = At(place, objective(place))
        keep, is_left = at_x < new.value, place < x
        # The better of the two is the new middle, the other one the end on its side.
        inner, outer = (
            chosen(keep, bracket.middle, new),
            chosen(keep, new, bracket.middle),
        )
        lower = is_left == keep
        return Bracket(chosen(lower, outer, bracket.low), inner, chosen(lower, bracket.high, outer))

    def neighbour(offset: int) -> At:
        return At(
            *(jnp.take_along_axis(each, middle + offset, axis=0)[0] for each in (grid, values))
        )

    start = Bracket(neighbour(-1), neighbour(0), neighbour(1))
    # Where a cost is flat or has many peaks, the best of the grid may beat what was found.
    found, value = better(best, jax.lax.fori_loop(0, rounds, narrow, start).middle)
    return At(jnp.where(best.value == jnp.inf, jnp.nan, found), value)


def better(first: At, second: At) -> At:
    """The better of two places, the second if they are alike."""
    return chosen(second.value <= first.value, second, first)


def _best_of(values: Array, grid: Array) -> tuple[At, Array, Array]:
    """The best place of a grid, its index, and the values at all places."""
    # Around the outcomes an objective need not be defined.
    values = jnp.where(jnp.isnan(values), jnp.inf, values)
    place = jnp.argmin(values, axis=0)[None]
    return At(jnp.take_along_axis(grid, place, axis=0)[0], values.min(axis=0)), place, values
