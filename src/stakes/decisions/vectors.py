"""Best decisions that have several parts: a search in one part after the other, again and again."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp

from stakes._types import Array, Float
from stakes.decisions.promise import by_promise
from stakes.decisions.search import At, Curve, by_parabolas, chosen, evenly
from stakes.protocols import Space
from stakes.spaces import Vector

Cost: TypeAlias = Callable[[Float[Array, "part *instance"]], Float[Array, "*instance"]]
Search: TypeAlias = Callable[[Curve, Space, Array], Array]
"""(cost of a part, its space, where it is) -> a better place."""
SWEEPS, ROUNDS = 14, 24
PLACES = 17
NEAR = 0.25
"""Of the range of outcomes: how far the second sweep looks, and each further one less."""


def best_parts(
    cost: Cost,
    space: Vector,
    draws: Float[Array, "draw *instance"],
    now: Float[Array, "part *instance"] | None = None,
    *,
    sweeps: int = SWEEPS,
) -> Float[Array, "part *instance"]:
    """The parts with the least cost that a search finds; never worse than `now`.

    It begins at quantiles of the outcome, in order and all the same. After each sweep through the
    parts it tries to go on in the direction that the sweep has led, since the best of one part may
    depend on another.
    """
    low, high = draws.min(axis=0), draws.max(axis=0)
    reach = jnp.maximum(high - low, 1e-6 * jnp.maximum(jnp.abs(high), 1.0))
    spread = jnp.quantile(draws, jnp.linspace(0, 1, len(space) + 2)[1:-1], axis=0)
    middle = jnp.broadcast_to(jnp.median(draws, axis=0), spread.shape)
    starts = [spread, middle, spread[::-1]]
    starts += [] if now is None else [now]
    inside = [space.inside(start) for start in starts]
    best = At(inside[0], cost(inside[0]))
    for start in inside[1:]:
        best = _better(best, At(start, cost(start)))
    grid = evenly(low - 0.2 * reach, high + 0.2 * reach, PLACES)
    if now is None:
        best = _one_sweep(
            cost,
            space,
            best,
            lambda curve, part, at: by_promise(curve, part.inside(grid), reach, ROUNDS),
        )

    def sweep(number: Array, best: At) -> At:
        width = NEAR * reach * 0.6**number
        near = jnp.linspace(-2, 2, 5).reshape(-1, *(1 for _ in reach.shape)) * width

        def search(curve: Curve, part: Space, at: Array) -> Array:
            around = part.inside(jnp.round(at + near) if _in_steps(part) else at + near)
            return by_parabolas(curve, around, 0 if _in_steps(part) else 5).place

        after = _one_sweep(cost, space, best, search)

        def on(far: Array) -> Array:
            return space.inside(best.place + far * (after.place - best.place))

        steps = jnp.broadcast_to(
            jnp.array([1.0, 2.0, 4.0, 8.0]).reshape(-1, *(1 for _ in reach.shape)),
            (4, *reach.shape),
        )
        further = by_parabolas(lambda far: cost(on(far)), steps, 3)
        return _better(after, At(on(further.place), further.value))

    return jax.lax.fori_loop(0, sweeps, sweep, best).place


def _one_sweep(cost: Cost, space: Vector, best: At, search: Search) -> At:
    """Each part once, with the others as they are."""
    for number, part in enumerate(space.spaces):
        moved = partial(_with_part, best.place, number, part)
        curve = partial(_at_part, cost, moved)
        if part.actions is not None:
            tried = jnp.asarray(part.actions).reshape(-1, *(1 for _ in best.value.shape))
            tried = jnp.broadcast_to(tried, (len(part.actions), *best.value.shape))
            values = jax.lax.map(curve, tried)
            place = jnp.take_along_axis(tried, jnp.argmin(values, axis=0)[None], axis=0)[0]
        else:
            place = search(curve, part, best.place[number])
        after = moved(jnp.where(jnp.isfinite(place), place, best.place[number]))
        best = _better(best, At(after, cost(after)))
    return best


def _with_part(decision: Array, number: int, part: Space, place: Array) -> Array:
    """A decision, of which this part lies elsewhere."""
    return decision.at[number].set(part.inside(place))


def _at_part(cost: Cost, moved: Curve, place: Array) -> Array:
    return cost(moved(place))


def _in_steps(part: Space) -> bool:
    return not part.is_smooth


def _better(first: At, second: At) -> At:
    """Of two decisions, whose parts lie along a leading axis."""
    taken = (second.value <= first.value) | jnp.isnan(first.value)
    return chosen(taken, second, first)
