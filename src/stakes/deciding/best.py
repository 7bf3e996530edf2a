"""Best decisions for predicted outcomes, for all instances at once.

Outcomes come as a mixture over draws of θ: a distribution whose arrays carry the draws along a
leading axis. Where loss and distribution allow, the decision is exact for that mixture;
otherwise it is found numerically.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from stakes import expectation as expectations
from stakes._types import Array, Distribution, Float, Key
from stakes.aim import Aim
from stakes.deciding.dips import Rival, rival
from stakes.deciding.promise import by_promise
from stakes.deciding.search import (
    At,
    Curve,
    all_at_once,
    better,
    by_parabolas,
    evenly,
    one_by_one,
)
from stakes.deciding.vectors import best_parts
from stakes.errors import NoClosedForm, check_shape
from stakes.expectation import Mixture
from stakes.port import Response, outcome_at
from stakes.protocols import Criterion, Expectation, Space, Tabled, UtilityTerm
from stakes.sharing import Shared
from stakes.spaces import Integers, Real
from stakes.vectors import Vector, laid_out, seen

REAL = Real()
Outcome: TypeAlias = Distribution | Response
"""Of each draw of θ; one that depends on the decision, or does not."""

EVENLY, QUANTILES = 17, 49
"""Where a search starts: places spread over the range of the outcome, and its quantiles."""
ROUNDS = 40
AROUND = 3
"""Times the range of the outcome, on either side: where another dip is looked for."""
FEW, MORE = 256, 8
"""With fewer draws of θ than this a search takes up to so many times as many places."""
MOST_POOLED, LEAST_POOLED = 512, 128
"""Values in a table of all components."""
ALIKE = 8.0
"""Times the standard deviation of another component; a table would miss still narrower ones."""
NEARBY = (-0.1, 0.0, 0.1)
"""Standard deviations from a decision that was found by such a table."""
PLACES = 7
SWEEPS = 3
"""Through the parts of a decision, in a coarse search."""
FAR = 1e30
"""Beyond all limits of decisions."""
MOST_ELEMENTS = 2**24
"""Values held at once while averaging over draws of θ."""


class Evenly(NamedTuple):
    """Places at equal distances, a + b k for whole k."""

    start: float | Array
    step: float | Array


COUNTS = Evenly(0.0, 1.0)


def best_decision(
    aim: Aim,
    expectation: Expectation,
    key: Key,
    outcomes: Outcome,
    like: Float[Array, "*instance"],
) -> Float[Array, "*instance"]:
    """The decision with the least risk under the mixture: by a formula, or by a search.

    Infinite where the risk never rises again in that direction. Draws of the outcome decide only
    where the expectation consists of draws, too.
    """
    criterion, space = aim.criterion, aim.space
    if isinstance(space, Vector):
        return _best_vector(aim, space, expectation, key, outcomes, like)
    responds = isinstance(outcomes, Response)
    if isinstance(space, Shared):
        aim = replace(aim, space=space.counting(like))
    if space.actions is None and (responds or isinstance(space, Shared)):
        return numerical_decision(aim, expectation, key, outcomes, like)
    risk = pooled_risk(aim, expectation, key, outcomes, like)
    if space.actions is not None:
        return least_of(risk, _every(space.actions, like))
    if isinstance(space, Real) or criterion.convex:
        with suppress(NoClosedForm):
            return beside(risk, space, known_decision(criterion, expectation, outcomes, like))
        if expectation.drawn:
            with suppress(NoClosedForm):
                decision = criterion.drawn_decision(partial(_draws, key, outcomes, like.shape, 32))
                decision = jnp.broadcast_to(decision, like.shape).astype(like.dtype)
                return beside(risk, space, decision)
    return numerical_decision(aim, expectation, key, outcomes, like)


def _best_vector(
    aim: Aim,
    space: Vector,
    expectation: Expectation,
    key: Key,
    outcomes: Distribution,
    like: Array,
) -> Float[Array, "part *instance"]:
    if is_any_number(space):
        with suppress(NoClosedForm):
            return known_decision(aim.criterion, expectation, outcomes, like, space)
    risk = risk_of(aim.criterion, expectation, key, outcomes, like, space)
    _, range_key = jax.random.split(key)
    return best_parts(risk, space, _draws(range_key, outcomes, like.shape, 8))


def is_any_number(space: Space) -> bool:
    """Whether no limits keep a decision from being the best of all numbers."""
    parts = space.spaces if isinstance(space, Vector) else (space,)
    return all(isinstance(part, Real) for part in parts)


def beside(risk: Curve, space: Space, best: Array) -> Array:
    """The best decision in the space, where the best of all numbers is known and risk is convex."""
    places = space.beside(best)
    return places[0] if len(places) == 1 else least_of(risk, places)


def _every(actions: tuple[float, ...], like: Array) -> Float[Array, "place *instance"]:
    places = jnp.asarray(actions, like.dtype).reshape(-1, *(1 for _ in like.shape))
    return jnp.broadcast_to(places, (len(actions), *like.shape))


def least_of(objective: Curve, places: Float[Array, "place *instance"]) -> Array:
    """The place with the least value; the first one of equals, nan where none is defined."""
    values = jax.lax.map(objective, places)
    values = jnp.where(jnp.isnan(values), jnp.inf, values)
    index = jnp.argmin(values, axis=0)[None]
    best = jnp.take_along_axis(places, index, axis=0)[0]
    return jnp.where(values.min(axis=0) == jnp.inf, jnp.nan, best)


def known_decision(
    criterion: Criterion,
    expectation: Expectation,
    outcomes: Distribution,
    like: Array,
    space: Space = REAL,
) -> Array:
    """The best decision by a formula of the loss; raises `NoClosedForm` where it has none."""
    decision = criterion.decision(expectation.mixture(outcomes))
    if isinstance(space, Vector):
        return laid_out(decision, like)
    return jnp.broadcast_to(decision, like.shape).astype(like.dtype)


def risk_of(
    criterion: Criterion,
    expectation: Expectation,
    key: Key,
    outcomes: Outcome,
    like: Array,
    space: Space = REAL,
) -> Curve:
    """The risk of a decision for each instance."""
    risk_key, _ = jax.random.split(key)
    held = expectation.held * like.size

    def risk(decision: Array) -> Array:
        def one(key: Key, outcome: Outcome) -> Array:
            there = outcome_at(outcome, decision)
            return criterion.risk(expectation, key, there, seen(space, decision))

        found = criterion.averaged(_each_draw(one, risk_key, outcomes, held))
        check_shape(f"The expected cost by `{criterion.title}`", found.shape, like.shape)
        return found

    return risk


def pooled_risk(
    aim: Aim, expectation: Expectation, key: Key, outcomes: Outcome, like: Array
) -> Curve:
    """The risk of a decision for each instance, and for all that share it."""
    alone, space = risk_of(aim.criterion, expectation, key, outcomes, like), aim.space
    if not isinstance(space, Shared):
        return alone
    return lambda decision: aim.criterion.pooled(alone(decision), space.over)


def numerical_decision(
    aim: Aim, expectation: Expectation, key: Key, outcomes: Outcome, like: Array
) -> Array:
    """The best decision by a search, on the range of the outcome and around it."""
    space, whole = aim.space, is_whole(aim.space)
    anywhere = pooled_risk(aim, expectation, key, outcomes, like)
    risk: Curve = lambda decision: anywhere(space.inside(decision))  # noqa: E731
    _, range_key = jax.random.split(key)
    times = max(1, min(MORE, FEW // _count(outcomes)))
    if isinstance(outcomes, Response):
        grid = _across(space, like, 2 * EVENLY)
        found = by_promise(risk, grid, grid[-1] - grid[0], 2 * ROUNDS)
        found = _with_neighbours(risk, found) if whole else found
        return space.inside(found).astype(like.dtype)
    grid, reach = _places(space, range_key, outcomes, like, times)
    rough = rough_risk(aim, expectation, range_key, outcomes, like) if times == 1 else None
    found = space.inside(_searched(risk, rough, outcomes, grid, reach, times * ROUNDS))
    if (line := _counted(outcomes, space)) is not None:
        found = _with_neighbours(risk, found, line=line)
    return space.inside(found).astype(like.dtype)


def rough_risk(
    aim: Aim, expectation: Expectation, key: Key, outcomes: Distribution, like: Array
) -> Curve | None:
    """The risk up to a thousandth or so, at a fraction of the price; None where there is no such.

    Components are pooled in one table, which is not split at the decision.
    """
    most = min(MOST_POOLED, MOST_ELEMENTS // like.size)
    if outcomes.event_shape or most < LEAST_POOLED:
        return None
    try:
        jax.vmap(expectations.stats.variance)(outcomes)
        drawn = _draws(key, outcomes, like.shape, 4)
        table = expectation.pooled(outcomes, drawn, most)
    except NoClosedForm:
        return None
    space = aim.space

    def risk(decision: Array) -> Array:
        decision = space.inside(decision)
        found = aim.criterion.risk(table, None, outcomes, decision)
        return aim.criterion.pooled(found, space.over) if isinstance(space, Shared) else found

    return risk


def _searched(
    risk: Curve, rough: Curve | None, outcomes: Distribution, grid: Array, reach: Array, rounds: int
) -> Array:
    """By the rough risk first, where there is one and components are alike; then by the risk."""

    def thoroughly() -> Array:
        return by_promise(risk, grid, reach, rounds)

    if rough is None:
        return thoroughly()

    def quickly() -> Array:
        found = by_promise(rough, grid, reach, rounds)
        steps = jnp.asarray(NEARBY, found.dtype).reshape(-1, *(1 for _ in found.shape))
        near = by_parabolas(risk, found + steps * _spread(outcomes, found), 2)
        return jnp.where(jnp.isfinite(found), near.place, found)

    variances = jax.vmap(expectations.stats.variance)(outcomes)
    widest, narrowest = variances.max(axis=0), variances.min(axis=0)
    return jax.lax.cond(jnp.all(widest <= ALIKE**2 * narrowest), quickly, thoroughly)


def rivals(
    aim: Aim, expectation: Expectation, key: Key, outcomes: Outcome, like: Array
) -> Rival | None:
    """Another dip of the cost that is nearly as good; None where the cost can have but one."""
    space = aim.space
    if not isinstance(outcomes, Response):
        with suppress(NoClosedForm):
            known_decision(aim.criterion, expectation, outcomes, like)
            return None
    risk = pooled_risk(aim, expectation, key, outcomes, like)
    _, range_key = jax.random.split(key)
    if not isinstance(outcomes, Response):
        risk = rough_risk(aim, expectation, range_key, outcomes, like) or risk
    if isinstance(outcomes, Response):
        grid = _across(space, like, 2 * EVENLY)
    else:
        grid, reach = _places(space, range_key, outcomes, like, 1)
        low, high = grid.min(axis=0) - AROUND * reach, grid.max(axis=0) + AROUND * reach
        grid = jnp.concatenate([grid, space.inside(evenly(low, high, QUANTILES))])
    grid = jnp.sort(grid, axis=0)
    return rival(At(grid, one_by_one(risk, grid)))


def _places(
    space: Space, key: Key, outcomes: Distribution, like: Array, times: int
) -> tuple[Float[Array, "place *instance"], Array]:
    """Where a search begins, and how far it looks around: on the range of the outcome."""
    draws = _draws(key, outcomes, like.shape, 4 * times)
    low, high = draws.min(axis=0), draws.max(axis=0)
    quantiles = jnp.quantile(draws, jnp.linspace(0, 1, times * QUANTILES), axis=0)
    reach = jnp.maximum(high - low, _spread(outcomes, high))
    if isinstance(space, Shared):
        low, high = space.over(low, "least"), space.over(high, "most")
        quantiles = jax.vmap(space.mean)(quantiles)
        reach = jnp.maximum(space.over(reach, "most"), high - low)
    places = evenly(low, high, times * EVENLY)
    if expectations.stats.is_discrete(outcomes) or is_whole(space):
        quantiles, reach = jnp.round(quantiles), jnp.maximum(reach, 1.0)
    return space.inside(jnp.concatenate([places, quantiles])), reach


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
        found = _each_draw(one, term_key, outcomes, held * now.size).mean(axis=0)
        return space.over(found, "sum") if isinstance(space, Shared) else found

    if isinstance(space, Vector):
        drawn = _draws(range_key, outcomes, now.shape[1:], -(-2 * draws // _count(outcomes)))
        return best_parts(shortfall, space, drawn, now, sweeps=SWEEPS).astype(now.dtype)
    if space.actions is not None:
        return least_of(shortfall, _every(space.actions, now)).astype(now.dtype)
    if isinstance(outcomes, Response):
        places = jnp.sort(jnp.concatenate([now[None], _across(space, now, 2 * PLACES)]), axis=0)
        best = by_parabolas(shortfall, places, 5).place
        best = _with_neighbours(shortfall, best) if is_whole(space) else best
        return space.inside(best).astype(now.dtype)
    seen = _draws(range_key, outcomes, now.shape, -(-draws // _count(outcomes)))
    low, high = seen.min(axis=0), seen.max(axis=0)
    # Rare outcomes may be missing from the draws and still matter.
    spacing = jnp.maximum((high - low) / (PLACES - 1), _spread(outcomes, now) / 2)
    if isinstance(space, Shared):
        low, high = space.over(low, "least"), space.over(high, "most")
        now, spacing = space.mean(now), space.over(spacing, "most")
    grid = space.inside(evenly(low - spacing, high + spacing, PLACES + 2))
    # From M-step to M-step the way may lead beyond all outcomes.
    now = now.astype(grid.dtype)
    around = space.inside(jnp.stack([now - spacing, now, now + spacing]))
    found = better(by_parabolas(shortfall, grid, 5), by_parabolas(shortfall, around, 5))
    place = better(found, At(now, shortfall(now))).place
    if (line := _counted(outcomes, space)) is not None:
        place = _with_neighbours(shortfall, place, line=line)
    return space.inside(place).astype(now.dtype)


def _across(space: Space, like: Array, places: int) -> Float[Array, "place *instance"]:
    """Decisions from the least to the largest of a space with limits."""
    far = jnp.full_like(like, FAR)
    return space.inside(evenly(space.inside(-far), space.inside(far), places))


def is_whole(space: Space) -> bool:
    """Whether decisions are whole numbers."""
    return isinstance(space.space if isinstance(space, Shared) else space, Integers)


def tabled_decision(shortfall: Curve, table: Tabled, now: Array, *, counts: bool) -> Array:
    """A decision with less or the same shortfall as now, by a coarse search in a table.

    Where the outcome is a count, the best may be a count itself, at which a cost bends.
    """
    places = table.places()
    found = by_parabolas(shortfall, places, 3 if table.few else 5, all_at_once)
    found = better(found, At(now.astype(places.dtype), shortfall(now)))
    if not counts or table.few:
        return found.place.astype(now.dtype)
    return _with_neighbours(shortfall, found.place, all_at_once).astype(now.dtype)


def _counted(outcomes: Distribution, space: Space) -> Evenly | None:
    """Where a cost may jump or bend: at whole numbers, or at outcomes that are a line of them."""
    if is_whole(space) or expectations.stats.is_discrete(outcomes):
        return COUNTS
    line = expectations.stats.line_of_counts(outcomes)
    # Where they differ from draw to draw of θ, so do the places; those of one are tried.
    return None if line is None else Evenly(line.start[0], line.slope[0])


def _with_neighbours(
    objective: Curve,
    found: Array,
    at_each: Callable[[Curve, Array], Array] = one_by_one,
    line: Evenly = COUNTS,
) -> Array:
    """The best of a decision and the counts around it, where a cost jumps or bends."""
    count = (found - line.start) / line.step
    low, high = jnp.floor(count), jnp.ceil(count)
    around = (line.start + line.step * each for each in (low, high, low - 1, high + 1))
    places = jnp.stack([found, *around])
    best = jnp.argmin(at_each(objective, places), axis=0)[None]
    return jnp.take_along_axis(places, best, axis=0)[0]


def _spread(outcomes: Distribution, like: Array) -> Array:
    """The standard deviation of the mixture, or a tiny number where it is not known."""
    least = 1e-6 * jnp.maximum(jnp.abs(like), 1.0)
    if outcomes.event_shape:
        return least
    try:
        sd = jnp.sqrt(Mixture(outcomes).variance())
    except NoClosedForm:
        return least
    return jnp.where(jnp.isfinite(sd), jnp.maximum(sd, least), least)


def _each_draw(
    question: Callable[[Key, Outcome], Array], key: Key, outcomes: Outcome, each: int
) -> Float[Array, "theta *instance"]:
    """As many draws of θ at once as memory allows; `each` is how many values one draw takes."""
    count = _count(outcomes)
    keys = jax.random.split(key, count)
    at_once = max(1, min(count, MOST_ELEMENTS // each))
    if at_once == count:
        return jax.vmap(question)(keys, outcomes)
    return jax.lax.map(lambda x: question(*x), (keys, outcomes), batch_size=at_once)


def _count(outcomes: Outcome) -> int:
    return int(jax.tree.leaves(outcomes)[0].shape[0])


def _draws(key: Key, outcomes: Distribution, shape: tuple[int, ...], each: int) -> Array:
    """`each` draws of y for each draw of θ, along one leading axis."""

    def some(key: Key, outcome: Distribution) -> Array:
        return outcome.expand(shape).sample(key, (each,))

    draws = jax.vmap(some)(jax.random.split(key, _count(outcomes)), outcomes)
    if draws.ndim > len(shape) + 2:  # of vectors: their numbers and their sums
        draws = jnp.concatenate([jnp.moveaxis(draws, -1, 0), draws.sum(axis=-1)[None]])
    return draws.reshape(-1, *shape).astype(jnp.result_type(float))
