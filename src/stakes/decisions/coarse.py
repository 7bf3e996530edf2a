"""Decisions by a coarse search, for steps of a fit: what comes next corrects them."""

import jax
import jax.numpy as jnp

from stakes._types import Array, Key
from stakes.decisions.known import every_action, least_of
from stakes.decisions.numerical import across, counted, is_whole, with_neighbours
from stakes.decisions.risks import REAL, Outcome, count_of, draws_of, each_draw, spread_of
from stakes.decisions.search import At, Curve, all_at_once, better, by_parabolas, evenly
from stakes.decisions.vectors import best_parts
from stakes.port import Response
from stakes.protocols import Space, Tabled, UtilityTerm
from stakes.spaces import Shared, Vector

PLACES = 7
SWEEPS = 3
"""Through the parts of a decision."""


def term_decision(
    term: UtilityTerm,
    key: Key,
    outcomes: Outcome,
    now: Array,
    *,
    held: int,
    space: Space = REAL,
    draws: int = 16,
) -> Array:
    """A decision at which the utility term U(λ, h) is at least as large as now, for an M-step.

    A coarse search, since the term will have changed by the next M-step: the best of the current
    decision and a few places over the range of the outcome, refined. `held` is how many values
    of y the term's expectation holds at once.
    """
    term_key, range_key = jax.random.split(key)

    def shortfall(decision: Array) -> Array:
        decision = space.inside(decision)
        one = lambda key, outcome: -term(key, outcome, decision)  # noqa: E731
        found = each_draw(one, term_key, outcomes, held * now.size).mean(axis=0)
        return space.over(found, "sum") if isinstance(space, Shared) else found

    if isinstance(space, Vector):
        drawn = draws_of(range_key, outcomes, now.shape[1:], -(-2 * draws // count_of(outcomes)))
        return best_parts(shortfall, space, drawn, now, sweeps=SWEEPS).astype(now.dtype)
    if space.actions is not None:
        return least_of(shortfall, every_action(space.actions, now)).astype(now.dtype)
    if isinstance(outcomes, Response):
        places = jnp.sort(jnp.concatenate([now[None], across(space, now, 2 * PLACES)]), axis=0)
        best = by_parabolas(shortfall, places, 5).place
        best = with_neighbours(shortfall, best) if is_whole(space) else best
        return space.inside(best).astype(now.dtype)
    seen = draws_of(range_key, outcomes, now.shape, -(-draws // count_of(outcomes)))
    low, high = seen.min(axis=0), seen.max(axis=0)
    # Rare outcomes may be missing from the draws and still matter.
    spacing = jnp.maximum((high - low) / (PLACES - 1), spread_of(outcomes, now) / 2)
    if isinstance(space, Shared):
        low, high = space.over(low, "least"), space.over(high, "most")
        now, spacing = space.mean(now), space.over(spacing, "most")
    grid = space.inside(evenly(low - spacing, high + spacing, PLACES + 2))
    # From M-step to M-step the way may lead beyond all outcomes.
    now = now.astype(grid.dtype)
    around = space.inside(jnp.stack([now - spacing, now, now + spacing]))
    found = better(by_parabolas(shortfall, grid, 5), by_parabolas(shortfall, around, 5))
    place = better(found, At(now, shortfall(now))).place
    if (line := counted(outcomes, space)) is not None:
        place = with_neighbours(shortfall, place, line=line)
    return space.inside(place).astype(now.dtype)


def tabled_decision(shortfall: Curve, table: Tabled, now: Array, *, counts: bool) -> Array:
    """A decision with less or the same shortfall as now, by a coarse search in a table.

    Where the outcome is a count, the best may be a count itself, at which a cost bends.
    """
    places = table.places()
    found = by_parabolas(shortfall, places, 3 if table.few else 5, all_at_once)
    found = better(found, At(now.astype(places.dtype), shortfall(now)))
    if not counts or table.few:
        return found.place.astype(now.dtype)
    return with_neighbours(shortfall, found.place, all_at_once).astype(now.dtype)
