"""How the best decision is searched for: planned once, from what is known before tracing.

Actions are tried one by one. Parts of a decision are searched in turn, each with the others held:
coordinate descent, with a step along the direction of each sweep, since the best of one part may
depend on another. Where the decision changes the outcome there is no range of outcomes to search,
only the limits of the space. Everything else is searched over the range of the outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import jax
import jax.numpy as jnp

from stakes import expectation as expectations
from stakes._types import Array, Distribution, Float
from stakes.decisions.minimise import (
    COUNTS,
    At,
    Curve,
    Evenly,
    best_action,
    by_parabolas,
    by_promise,
    chosen,
    column,
    evenly,
    least_of,
)
from stakes.protocols import Criterion, Expectation, Groups, Space

# Beyond all limits of decisions, and finite in single precision.
FAR = 1e30
# How often to go through the parts of a decision; and evaluations for each part the first time.
SWEEPS, ROUNDS = 14, 24
# Places over the range of outcomes at which the first sweep begins, for each part.
PLACES = 17
# How far the second sweep looks, in ranges of the outcome, and each further one less.
NEAR = 0.25
# How far to go on in the direction of a sweep.
STEPS = (1.0, 2.0, 4.0, 8.0)

Way: TypeAlias = Literal["actions", "parts", "limits", "outcomes"]
"""Among all actions, in one part after the other, between the limits of the space, or over the
range of the outcomes."""
PartSearch: TypeAlias = Callable[[Curve, Space, Array], Array]
"""(cost of a part, its space, where it is) -> a better place."""


@final
@dataclass(frozen=True)
class Search:
    """How the best decision is found.

    Attributes:
        by_formula: whether a formula for the best of all numbers also tells the best decision.
        by_table: whether values of the outcome, found once, serve to try many decisions.
    """

    way: Way
    by_formula: bool
    by_table: bool


def plan_search(space: Space, groups: Groups, *, convex: bool, responds: bool) -> Search:
    """Plan the search for a decision.

    The best of all numbers is no guide to the best decision in a space, unless any number will do
    or the risk is convex; nor is the best one of a case to that of all who share it.

    Args:
        space: where decisions may lie.
        groups: which cases share one.
        convex: whether the risk is surely convex.
        responds: whether the outcome depends on the decision.
    """
    way: Way = "outcomes"
    if space.actions is not None:
        way = "actions"
    elif space.axes:
        way = "parts"
    elif responds:
        way = "limits"
    alone = not groups.are_shared
    by_formula = way == "outcomes" and convex
    by_formula |= way in ("outcomes", "parts") and space.is_unlimited
    return Search(way, by_formula=alone and by_formula, by_table=alone and way == "outcomes")


def formula_decision(
    criterion: Criterion,
    expectation: Expectation,
    outcomes: Distribution,
    like: Array,
    space: Space,
) -> Array:
    """The best of all numbers by a formula of the loss; raises `NoClosedForm` without one."""
    return space.pack(criterion.decision(expectation.mixture(outcomes)), like)


def best_beside(risk: Curve, space: Space, best: Array) -> Array:
    """Return the best decision in the space, where the best of all numbers is known and risk is
    convex.

    The two neighbours of that number in the space are all that has to be compared.
    """
    places = space.beside(best)
    return places[0] if len(places) == 1 else least_of(risk, places)


def between_limits(space: Space, like: Array, places: int) -> Float[Array, "place *instance"]:
    """Decisions from the least to the largest of a space with limits."""
    far = jnp.full_like(like, FAR)
    return space.inside(evenly(space.inside(-far), space.inside(far), places))


def line_of_counts(outcomes: Distribution, space: Space) -> Evenly | None:
    """Where a cost may jump or bend: at whole numbers, or at outcomes that are a line of them."""
    if space.is_whole or expectations.stats.is_discrete(outcomes):
        return COUNTS
    line = expectations.stats.line_of_counts(outcomes)
    # Where they differ from draw to draw of θ, so do the places; those of one are tried.
    return None if line is None else Evenly(line.start[0], line.slope[0])


def best_parts(
    cost: Curve,
    space: Space,
    draws: Float[Array, "draw *instance"],
    now: Float[Array, "part *instance"] | None = None,
    *,
    sweeps: int = SWEEPS,
) -> Float[Array, "part *instance"]:
    """Return the parts with the least cost, by a search in one after the other.

    It begins at quantiles of the outcome, in order and all the same. After each sweep through the
    parts it tries to go on in the direction that the sweep has led, since the best of one part may
    depend on another.

    Args:
        cost: of a decision, for each case.
        space: has the parts.
        draws: of the outcome, which show where to look.
        now: the current decision. It is never made worse, and the search is local then.
        sweeps: how often to go through the parts.
    """
    low, high = draws.min(axis=0), draws.max(axis=0)
    reach = jnp.maximum(high - low, 1e-6 * jnp.maximum(jnp.abs(high), 1.0))
    spread = jnp.quantile(draws, jnp.linspace(0, 1, len(space.parts) + 2)[1:-1], axis=0)
    middle = jnp.broadcast_to(jnp.median(draws, axis=0), spread.shape)
    starts = [spread, middle, spread[::-1]]
    starts += [] if now is None else [now]
    inside = [space.inside(start) for start in starts]
    best = At(inside[0], cost(inside[0]))
    for start in inside[1:]:
        best = _better(best, At(start, cost(start)))
    grid = evenly(low - 0.2 * reach, high + 0.2 * reach, PLACES)

    def anywhere(curve: Curve, part: Space, at: Array) -> Array:
        return by_promise(curve, part.inside(grid), reach, ROUNDS)

    if now is None:
        best = _sweep(cost, space, best, anywhere)

    def sweep(number: Array, best: At) -> At:
        near = column(jnp.linspace(-2, 2, 5), reach) * (NEAR * reach * 0.6**number)

        def around(curve: Curve, part: Space, at: Array) -> Array:
            if part.is_smooth:
                return by_parabolas(curve, part.inside(at + near), 5).place
            return by_parabolas(curve, part.inside(jnp.round(at + near)), 0).place

        after = _sweep(cost, space, best, around)

        def on(far: Array) -> Array:
            return space.inside(best.place + far * (after.place - best.place))

        steps = jnp.broadcast_to(column(jnp.array(STEPS), reach), (len(STEPS), *reach.shape))
        further = by_parabolas(lambda far: cost(on(far)), steps, 3)
        return _better(after, At(on(further.place), further.value))

    return jax.lax.fori_loop(0, sweeps, sweep, best).place


def _sweep(cost: Curve, space: Space, best: At, search: PartSearch) -> At:
    """Search in each part once, with the others as they are."""
    for number in range(len(space.parts)):
        best = _better_part(cost, space, best, number, search)
    return best


def _better_part(cost: Curve, space: Space, best: At, number: int, search: PartSearch) -> At:
    """Return the decision with one part moved to a better place, if there is one."""
    part = space.parts[number]

    def moved(place: Array) -> Array:
        return best.place.at[number].set(part.inside(place))

    def curve(place: Array) -> Array:
        return cost(moved(place))

    if part.actions is None:
        place = search(curve, part, best.place[number])
    else:
        place = best_action(curve, part.actions, best.value)
    after = moved(jnp.where(jnp.isfinite(place), place, best.place[number]))
    return _better(best, At(after, cost(after)))


def _better(first: At, second: At) -> At:
    """Return the better of two decisions, whose parts lie along a leading axis."""
    taken = (second.value <= first.value) | jnp.isnan(first.value)
    return chosen(taken, second, first)
