"""Elementwise minimisation: one evaluation of the objective serves all instances.

`objective` takes a place for each instance and gives a value for each; places and values of a grid
are along a leading axis. `by_parabolas` is quick: successive parabolic interpolation within a
bracket, as in Brent (Algorithms for Minimization without Derivatives, 1973), with halvings where a
parabola leads nowhere. `by_promise` is thorough, for objectives with several local minima, jumps
and plateaus: it keeps the places known so far in order, and each round tries the one more that
promises the least value. That is the idea of Piyavskii and Shubert for functions of bounded slope,
with the slopes seen on both sides of a place for bounds.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Bool, Float, PerInstance

Curve: TypeAlias = Callable[[PerInstance], PerInstance]

# How far around the grid to look, in multiples of the reach.
RUNGS = (1.0, 4.0, 16.0, 64.0)
# Steps further out, each four times as long as the one before: the last is beyond all outcomes.
STRIDES = 30
# Units in the last place by which rounding may change a value.
NOISE = 16
# The part of the least value by which a place has to promise less, to be tried.
WORTH = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-9}


class At(NamedTuple):
    """A place, or several along a leading axis, and the value of the objective there."""

    place: PerInstance
    value: PerInstance


class Bracket(NamedTuple):
    """Three places in order, with the least value in the middle."""

    low: At
    middle: At
    high: At


class Evenly(NamedTuple):
    """Places at equal distances, a + b k for whole k."""

    start: float | Array
    step: float | Array


COUNTS = Evenly(0.0, 1.0)


def column(values: Array, like: Array) -> Array:
    """Values along a leading axis, the same for all instances."""
    return values.reshape(-1, *(1 for _ in like.shape))


def evenly(low: Array, high: Array, places: int) -> Float[Array, "place *instance"]:
    """Return places at equal distances from low to high, both included, along a leading axis."""
    return low + column(jnp.linspace(0, 1, places), low) * (high - low)


def chosen(which: Array, yes: At, no: At) -> At:
    """Return the first place and its value where `which` is true, and the second elsewhere."""
    return At(*(jnp.where(which, a, b) for a, b in zip(yes, no, strict=True)))


def one_by_one(objective: Curve, places: Array) -> Array:
    """Return the objective at several places in turn, for one that takes much memory."""
    return jax.lax.map(objective, places)


def all_at_once(objective: Curve, places: Array) -> Array:
    """Return the objective at several places at once, for one that is quick."""
    return jax.vmap(objective)(places)


def by_parabolas(
    objective: Curve,
    grid: Float[Array, "place *instance"],
    rounds: int,
    at_each: Callable[[Curve, Array], Array] = one_by_one,
) -> At:
    """Improve the best point of an ascending grid by parabolas through it and its neighbours.

    This takes few evaluations and may stop at the wrong one of several local minima, but is never
    worse than the grid.

    Args:
        objective: the function to minimise, for all instances at once.
        grid: places to begin with, in ascending order.
        rounds: evaluations after those of the grid.
        at_each: how to evaluate the grid: one place after the other, or all at once.
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
        places, at_places = (
            jnp.take_along_axis(array, middle + offset, axis=0)[0] for array in (grid, values)
        )
        return At(places, at_places)

    start = Bracket(neighbour(-1), neighbour(0), neighbour(1))
    # Where a cost is flat or has many peaks, the best of the grid may beat the parabolas.
    place, value = better(best, jax.lax.fori_loop(0, rounds, narrow, start).middle)
    return At(jnp.where(best.value == jnp.inf, jnp.nan, place), value)


def better(first: At, second: At) -> At:
    """The better of two places, the second if they are alike."""
    return chosen(second.value <= first.value, second, first)


def _best_of(values: Array, grid: Array) -> tuple[At, Array, Array]:
    """The best place of a grid, its index, and the values at all places."""
    # Around the outcomes an objective need not be defined.
    values = jnp.where(jnp.isnan(values), jnp.inf, values)
    place = jnp.argmin(values, axis=0)[None]
    return At(jnp.take_along_axis(grid, place, axis=0)[0], values.min(axis=0)), place, values


def least_of(objective: Curve, places: Float[Array, "place *instance"]) -> Array:
    """The place with the least value; the first one of equals, nan where none is defined."""
    best, _, _ = _best_of(one_by_one(objective, places), places)
    return jnp.where(best.value == jnp.inf, jnp.nan, best.place)


def best_action(objective: Curve, actions: tuple[float, ...], like: Array) -> PerInstance:
    """The best of a few places that are the same for all instances."""
    places = column(jnp.asarray(actions, like.dtype), like)
    return least_of(objective, jnp.broadcast_to(places, (len(actions), *like.shape)))


def nearby_counts(
    objective: Curve,
    place: Array,
    at_each: Callable[[Curve, Array], Array] = one_by_one,
    line: Evenly = COUNTS,
) -> Array:
    """The best of a place and the counts around it, where an objective jumps or bends."""
    count = (place - line.start) / line.step
    low, high = jnp.floor(count), jnp.ceil(count)
    around = (line.start + line.step * number for number in (low, high, low - 1, high + 1))
    places = jnp.stack([place, *around])
    best = jnp.argmin(at_each(objective, places), axis=0)[None]
    return jnp.take_along_axis(places, best, axis=0)[0]


class Walk(NamedTuple):
    """The last two places on the way outwards.

    Attributes:
        goes_on: true while the objective has not risen.
    """

    before: At
    last: At
    stride: PerInstance
    goes_on: Bool[Array, "*instance"]
    strides: Array


class Refinement(NamedTuple):
    """All places known, in order, and the most promising one to try next."""

    known: At
    promise: At
    rounds: Array


def by_promise(
    objective: Curve, grid: Float[Array, "place *instance"], reach: PerInstance, rounds: int
) -> Array:
    """Return the best place on, between and around a grid.

    Around the grid, places at up to 64 times the `reach` are tried and, where the objective has not
    risen by then, further ones. A third of the `rounds` go over the region of low values once more.
    Then each round tries the place that promises the least value, by the slopes on both sides of
    it, until none is worth it. Those slopes bound a convex objective from below, so that nothing is
    missed there.

    Args:
        objective: the function to minimise, for all instances at once.
        grid: places to begin with, in any order.
        reach: the width of the region in which the minimum is expected.
        rounds: the most evaluations after those of the grid.

    Returns:
        A place for each instance: infinite where the objective never rises again in that direction,
        and nan where it is not defined beside its best place.
    """
    out = jnp.stack([rung * reach for rung in RUNGS])
    places = jnp.concatenate([grid, grid.min(axis=0) - out, grid.max(axis=0) + out])
    values = jax.lax.map(objective, places)
    # An objective need not be defined everywhere, but it has to be around the best place.
    tried = At(places, jnp.where(jnp.isnan(values), jnp.inf, values))
    walk, sign = _walk(objective, tried, values, len(grid))
    known = _in_order(tried, walk.before, walk.last, room=rounds)
    known = _refine(objective, known, _scouts(tried, rounds // 3), rounds)
    best, inner = _lowest(known), _lowest(_within(known, grid))
    # Among equals, one on or between the places of the grid.
    best = chosen(inner.value <= best.value + _noise(best.value), inner, best)
    place = jnp.where(walk.goes_on, sign * jnp.inf, best.place)
    lost = best.value == jnp.inf
    for beside, step in zip(_beside_infinity(known, best.place), (-reach, reach), strict=True):
        rises = objective(best.place + 1e-3 * step) >= best.value - _noise(best.value)
        lost = lost | (beside & ~rises)
    return jnp.where(lost, jnp.nan, place)


def _beside_infinity(known: At, place: Array) -> tuple[Array, Array]:
    """Whether the value at the next known place below, and above, is infinite or not defined."""
    places, finite = jnp.where(known.place < jnp.inf, known.place, jnp.nan), known.value < jnp.inf

    def nearest(side: Array, farthest: Array) -> tuple[Array, Array]:
        every, some = (jnp.where(which, places, farthest) for which in (side, side & finite))
        return every, some

    below, below_finite = nearest(places < place, jnp.asarray(-jnp.inf))
    above, above_finite = nearest(places > place, jnp.asarray(jnp.inf))
    return (
        below.max(axis=0) != below_finite.max(axis=0),
        above.min(axis=0) != above_finite.min(axis=0),
    )


def _noise(*values: Array) -> Array:
    """Return by how much rounding may change the difference of such values."""
    largest = jnp.max(jnp.abs(jnp.stack(values)), axis=0)
    return NOISE * np.finfo(largest.dtype).eps * largest


def _walk(objective: Curve, tried: At, raw: Array, inner: int) -> tuple[Walk, Array]:
    """On from the last rung, until the objective rises, where the best is beyond the grid.

    One that is not defined, as the `raw` values show, has not been seen to rise.
    """
    outer = inner + len(RUNGS)
    sides = slice(inner, outer), slice(outer, None)
    down, up = (At(*(x[part] for x in tried)) for part in sides)
    downwards = down.value.min(axis=0) < up.value.min(axis=0)
    sign = jnp.where(downwards, -1.0, 1.0).astype(tried.place.dtype)
    side = chosen(downwards, down, up)
    least = side.value.min(axis=0)
    last = At(side.place[-1], jnp.where(downwards, raw[inner + len(RUNGS) - 1], raw[-1]))
    beyond = least < tried.value[:inner].min(axis=0) - _noise(least)

    def on(at: Walk) -> Walk:
        place = at.last.place + sign * at.stride
        value = objective(place)
        value = jnp.where(jnp.isnan(value), jnp.inf, value)
        last = chosen(at.goes_on, At(place, value), at.last)
        goes_on = at.goes_on & ~(value > at.last.value + _noise(at.last.value))
        before = chosen(at.goes_on, at.last, at.before)
        return Walk(before, last, 4 * at.stride, goes_on, at.strides + 1)

    stride = 4 * jnp.abs(side.place[-1] - side.place[-2])
    start = Walk(last, last, stride, beyond & ~(last.value > least + _noise(least)), jnp.array(0))
    going = lambda at: at.goes_on.any() & (at.strides < STRIDES)  # noqa: E731
    return jax.lax.while_loop(going, on, start), sign


def _in_order(tried: At, *more: At, room: int) -> At:
    """Each place once, in order, and room for more: places at infinity."""
    places, values = (
        jnp.concatenate([many, *(one[None] for one in few)])
        for many, *few in zip(tried, *more, strict=True)
    )
    places, values = _sort(places, jnp.where(jnp.isnan(values), jnp.inf, values))
    repeated = jnp.zeros_like(places, bool).at[1:].set(places[1:] == places[:-1])
    places, values = _sort(*(jnp.where(repeated, jnp.inf, array) for array in (places, values)))
    empty = jnp.full((room, *places.shape[1:]), jnp.inf, places.dtype)
    return At(jnp.concatenate([places, empty]), jnp.concatenate([values, empty]))


def _sort(places: Array, values: Array) -> At:
    """Return places in ascending order, with their values."""
    order = jnp.argsort(places, axis=0)
    return At(*(jnp.take_along_axis(array, order, axis=0) for array in (places, values)))


def _within(known: At, grid: Array) -> At:
    """Return the places with infinite values outside of the grid's range."""
    inside = (known.place >= grid.min(axis=0)) & (known.place <= grid.max(axis=0))
    return At(known.place, jnp.where(inside, known.value, jnp.inf))


def _lowest(known: At) -> At:
    """Return the place with the least value."""
    index = jnp.argmin(known.value, axis=0)[None]
    return At(*(jnp.take_along_axis(array, index, axis=0)[0] for array in known))


def _scouts(tried: At, count: int) -> Float[Array, "place *instance"]:
    """Places between those with the lowest eighth of all values, where minima may be narrow."""
    lowest = tried.value <= jnp.sort(tried.value, axis=0)[len(tried.value) // 8]
    low = jnp.where(lowest, tried.place, jnp.inf).min(axis=0)
    high = jnp.where(lowest, tried.place, -jnp.inf).max(axis=0)
    return evenly(low, high, count + 2)[1:-1]


def _refine(objective: Curve, known: At, scouts: Array, rounds: int) -> At:
    """Try one place more in each round: first the scouts, then the most promising ones."""
    index = column(jnp.arange(len(known.place)), known.place[0])

    def unfinished(at: Refinement) -> Array:
        least = at.known.value.min(axis=0)
        worth = WORTH[least.dtype] * jnp.abs(least)
        promising = jnp.any(least - at.promise.value > worth)
        return (at.rounds < len(scouts)) | ((at.rounds < rounds) & promising)

    def try_one(at: Refinement) -> Refinement:
        scout = scouts[jnp.minimum(at.rounds, len(scouts) - 1)]
        place = jnp.where(at.rounds < len(scouts), scout, at.promise.place)
        value = objective(place)
        there = At(place, jnp.where(jnp.isnan(value), jnp.inf, value))
        below = (at.known.place <= place).sum(axis=0)

        def insert(old: Array, new: Array) -> Array:
            shifted = jnp.where(index == below, new, jnp.roll(old, 1, axis=0))
            return jnp.where(index < below, old, shifted)

        known = At(*(insert(*pair) for pair in zip(at.known, there, strict=True)))
        return Refinement(known, _promise(known), at.rounds + 1)

    start = Refinement(known, _promise(known), jnp.array(0))
    return jax.lax.while_loop(unfinished, try_one, start).known


def _promise(known: At) -> At:
    """The most promising place beside a local minimum, and how little it may cost there."""
    place, value = known
    ends = ((2, 2), *((0, 0) for _ in place.shape[1:]))
    rise, width = jnp.diff(value, axis=0), jnp.diff(place, axis=0)
    clear = jnp.sign(rise) * jnp.maximum(jnp.abs(rise) - _noise(value[1:], value[:-1]), 0.0)
    slopes = jnp.pad(jnp.where(jnp.isfinite(clear / width), clear / width, 0.0), ends)
    widths = jnp.pad(jnp.where(width < jnp.inf, width, 0.0), ends)
    count = len(place)
    # The slopes from two places below each place to two above it, and the gaps beside it.
    far_below, below, above, far_above = (slopes[i : i + count] for i in range(4))
    up = _hope(-below, above, far_above, widths[2 : 2 + count])
    down = _hope(above, -below, -far_below, widths[1 : 1 + count])
    inf = jnp.full_like(value[:1], jnp.inf)
    beside = jnp.minimum(jnp.concatenate([inf, value[:-1]]), jnp.concatenate([value[1:], inf]))
    lowest = (value <= beside) & (value < jnp.inf)
    hoped = jnp.where(lowest, value - jnp.maximum(up.value, down.value), jnp.inf)
    at = jnp.argmin(hoped, axis=0)[None]

    def pick(array: Array) -> Array:
        return jnp.take_along_axis(array, at, axis=0)[0]

    upwards = pick(up.value) >= pick(down.value)
    next_ = pick(place) + jnp.where(upwards, pick(up.place), -pick(down.place))
    return At(next_, pick(hoped))


def _hope(fall: Array, rise: Array, rise_beyond: Array, gap: Array) -> At:
    """How far into the gap beside a local minimum to go, and how much lower it may be there.

    The value may fall on as steeply as it fell towards the minimum, until it meets the line
    through the two places beyond the gap. Where the value rises less steeply there than across the
    gap it is not convex, and may jump anywhere: halfway is as good a guess as any.
    """
    fall = jnp.maximum(fall, 0.0)
    meets = (rise_beyond - rise) / jnp.where(rise_beyond + fall > 0, rise_beyond + fall, 1.0)
    part = jnp.where(rise_beyond < 0.999 * rise, 0.5, jnp.clip(meets, 0.0, 1.0))
    into = gap * jnp.clip(part, 0.02, 0.98)
    return At(into, fall * gap * part)
