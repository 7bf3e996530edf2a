"""Elementwise minimisation: one evaluation of the objective serves the brackets of all instances.

`objective` takes a place for each instance and gives a value for each; places and values of a grid
are along a leading axis.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Float

GOLDEN = (5**0.5 - 1) / 2
WIDENINGS = 10

Curve: TypeAlias = Callable[[Float[Array, "*instance"]], Float[Array, "*instance"]]


class At(NamedTuple):
    """A place, and the value of the objective there."""

    place: Float[Array, "*instance"]
    value: Float[Array, "*instance"]


class Bracket(NamedTuple):
    """Three places in order, with the least value in the middle."""

    low: At
    middle: At
    high: At


class Sections(NamedTuple):
    """An interval, and the two places that divide it by the golden section."""

    low: Float[Array, "*instance"]
    left: At
    right: At
    high: Float[Array, "*instance"]


class Widening(NamedTuple):
    """One end of an interval, as it moves outwards."""

    end: At
    step: Float[Array, "*instance"]
    falls: Array
    """Whether the objective still falls in that direction."""
    rounds: Array


def evenly(low: Array, high: Array, places: int) -> Float[Array, "place *instance"]:
    return low + jnp.linspace(0, 1, places).reshape(-1, *(1 for _ in low.shape)) * (high - low)


def chosen(which: Array, yes: At, no: At) -> At:
    return At(*(jnp.where(which, a, b) for a, b in zip(yes, no, strict=True)))


def by_golden_sections(
    objective: Curve, grid: Float[Array, "place *instance"], low: Array, high: Array
) -> Array:
    """The best of the grid, refined by golden sections between its neighbours (or the ends)."""
    best = _best_of(objective, grid)[0]
    below = jnp.where(grid < best.place, grid, low).max(axis=0)
    above = jnp.where(grid > best.place, grid, high).min(axis=0)

    def narrow(_: int, at: Sections) -> Sections:
        keep = at.left.value < at.right.value
        low, high = (
            jnp.where(keep, at.low, at.left.place),
            jnp.where(keep, at.right.place, at.high),
        )
        kept = chosen(keep, at.left, at.right)
        place = jnp.where(keep, high - GOLDEN * (high - low), low + GOLDEN * (high - low))
        new = At(place, objective(place))
        return Sections(low, chosen(keep, new, kept), chosen(keep, kept, new), high)

    left, right = above - GOLDEN * (above - below), below + GOLDEN * (above - below)
    start = Sections(below, At(left, objective(left)), At(right, objective(right)), above)
    # Near a minimum, places can be told apart only down to the square root of the precision.
    sections = math.ceil(math.log(np.finfo(grid.dtype).eps) / 2 / math.log(GOLDEN))
    end = jax.lax.fori_loop(0, sections, narrow, start)
    return _no_worse(chosen(end.left.value < end.right.value, end.left, end.right), best)


def by_parabolas(objective: Curve, grid: Float[Array, "place *instance"], rounds: int) -> Array:
    """The best of the grid, moved to the lowest point of the parabola through its neighbours.

    This takes fewer evaluations than golden sections and has none of their guarantees, but is never
    worse than the grid.
    """
    grid = jnp.sort(grid, axis=0)
    best, at_best, values = _best_of(objective, grid)
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
    return _no_worse(jax.lax.fori_loop(0, rounds, narrow, start).middle, best)


def widened(objective: Curve, low: Array, high: Array) -> tuple[Array, Array]:
    """An interval, widened on each side for as long as the objective falls there."""
    step = jnp.maximum((high - low) / 4, 1e-3 * jnp.maximum(jnp.abs(high), 1.0))

    def outwards(end: Array, sign: float) -> Array:
        def widen(at: Widening) -> Widening:
            place = jnp.where(at.falls, at.end.place + sign * at.step, at.end.place)
            there = At(place, objective(place))
            falls = at.falls & (there.value < at.end.value)
            return Widening(there, 2 * at.step, falls, at.rounds + 1)

        start = Widening(At(end, objective(end)), step, jnp.ones_like(end, bool), jnp.array(0))
        goes_on = lambda at: at.falls.any() & (at.rounds < WIDENINGS)  # noqa: E731
        return jax.lax.while_loop(goes_on, widen, start).end.place

    return outwards(low, -1.0), outwards(high, +1.0)


def _best_of(objective: Curve, grid: Array) -> tuple[At, Array, Array]:
    """The best place of a grid, its index, and the values at all places."""
    values = jax.lax.map(objective, grid)
    place = jnp.argmin(values, axis=0)[None]
    return At(jnp.take_along_axis(grid, place, axis=0)[0], values.min(axis=0)), place, values


def _no_worse(found: At, best: At) -> Array:
    """Where a cost is flat or has many peaks, the best of the grid may beat what was found."""
    place = jnp.where(found.value <= best.value, found.place, best.place)
    return jnp.where(jnp.isnan(found.value + best.value), jnp.nan, place)
