"""Best decisions by a search, on the range of the outcome and around it."""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import jax
import jax.numpy as jnp

from stakes import expectation as expectations
from stakes._types import Array, Distribution, Float, Key
from stakes.decisions.dips import Rival, rival
from stakes.decisions.known import known_decision
from stakes.decisions.promise import by_promise
from stakes.decisions.risks import Outcome, count_of, draws_of, pooled_risk, rough_risk, spread_of
from stakes.decisions.search import At, Curve, by_parabolas, evenly, one_by_one
from stakes.decisions.task import DecisionTask
from stakes.errors import NoClosedForm
from stakes.port import Response
from stakes.protocols import Expectation, Space
from stakes.spaces import Integers, Shared

EVENLY, QUANTILES = 17, 49
"""Where a search starts: places spread over the range of the outcome, and its quantiles."""
ROUNDS = 40
AROUND = 3
"""Times the range of the outcome, on either side: where another dip is looked for."""
FEW, MORE = 256, 8
"""With fewer draws of θ than this a search takes up to so many times as many places."""
ALIKE = 8.0
"""Times the standard deviation of another component; a table would miss still narrower ones."""
NEARBY = (-0.1, 0.0, 0.1)
"""Standard deviations from a decision that was found by such a table."""
COMPARED = slice(QUANTILES // 10, None, QUANTILES // 5)
"""Which of the quantiles have to cost as much as what was found."""
CLOSE = 1e-3
"""Of a cost, what is not worth a thorough search."""
FAR = 1e30
"""Beyond all limits of decisions."""


class Evenly(NamedTuple):
    """Places at equal distances, a + b k for whole k."""

    start: float | Array
    step: float | Array


COUNTS = Evenly(0.0, 1.0)


def numerical_decision(
    task: DecisionTask, expectation: Expectation, key: Key, outcomes: Outcome, like: Array
) -> Array:
    """The best decision by a search, on the range of the outcome and around it."""
    space, whole = task.space, is_whole(task.space)
    anywhere = pooled_risk(task, expectation, key, outcomes, like)
    risk: Curve = lambda decision: anywhere(space.inside(decision))  # noqa: E731
    _, range_key = jax.random.split(key)
    times = max(1, min(MORE, FEW // count_of(outcomes)))
    if isinstance(outcomes, Response):
        grid = across(space, like, 2 * EVENLY)
        found = by_promise(risk, grid, grid[-1] - grid[0], 2 * ROUNDS)
        found = with_neighbours(risk, found) if whole else found
        return space.inside(found).astype(like.dtype)
    grid, reach = _places(space, range_key, outcomes, like, times)
    rough = rough_risk(task, expectation, range_key, outcomes, like) if times == 1 else None
    found = space.inside(_searched(risk, rough, outcomes, grid, reach, times * ROUNDS))
    if (line := counted(outcomes, space)) is not None:
        found = with_neighbours(risk, found, line=line)
    return space.inside(found).astype(like.dtype)


def _searched(
    risk: Curve, rough: Curve | None, outcomes: Distribution, grid: Array, reach: Array, rounds: int
) -> Array:
    """By the rough risk first, where there is one and components are alike; then by the risk.

    What is found roughly has to cost no more than some quantiles of the outcome do, or hardly more.
    """

    def thoroughly() -> Array:
        return by_promise(risk, grid, reach, rounds)

    if rough is None:
        return thoroughly()

    def quickly() -> tuple[Array, Array]:
        found = by_promise(rough, grid, reach, rounds)
        steps = jnp.asarray(NEARBY, found.dtype).reshape(-1, *(1 for _ in found.shape))
        near = by_parabolas(risk, found + steps * spread_of(outcomes, found), 2)
        others = one_by_one(risk, grid[-QUANTILES:][COMPARED]).min(axis=0)
        endless = ~jnp.isfinite(found)  # to be refused as such, whatever it costs there
        is_best = endless | (near.value <= others + CLOSE * jnp.abs(others))
        return jnp.where(endless, found, near.place), jnp.all(is_best & ~jnp.isnan(found))

    variances = jax.vmap(expectations.stats.variance)(outcomes)
    widest, narrowest = variances.max(axis=0), variances.min(axis=0)
    alike = jnp.all(widest <= ALIKE**2 * narrowest)
    nowhere = grid[0], jnp.zeros((), bool)
    found, is_best = jax.lax.cond(alike, quickly, lambda: nowhere)
    return jax.lax.cond(is_best, lambda: found, thoroughly)


def rivals(
    task: DecisionTask, expectation: Expectation, key: Key, outcomes: Outcome, like: Array
) -> Rival | None:
    """Another dip of the cost that is nearly as good; None where the cost can have but one."""
    space = task.space
    if not isinstance(outcomes, Response):
        with suppress(NoClosedForm):
            known_decision(task.criterion, expectation, outcomes, like)
            return None
    risk = pooled_risk(task, expectation, key, outcomes, like)
    _, range_key = jax.random.split(key)
    if not isinstance(outcomes, Response):
        risk = rough_risk(task, expectation, range_key, outcomes, like) or risk
    if isinstance(outcomes, Response):
        grid = across(space, like, 2 * EVENLY)
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
    draws = draws_of(key, outcomes, like.shape, 4 * times)
    low, high = draws.min(axis=0), draws.max(axis=0)
    quantiles = jnp.quantile(draws, jnp.linspace(0, 1, times * QUANTILES), axis=0)
    reach = jnp.maximum(high - low, spread_of(outcomes, high))
    if isinstance(space, Shared):
        low, high = space.over(low, "least"), space.over(high, "most")
        quantiles = jax.vmap(space.mean)(quantiles)
        reach = jnp.maximum(space.over(reach, "most"), high - low)
    places = evenly(low, high, times * EVENLY)
    if expectations.stats.is_discrete(outcomes) or is_whole(space):
        quantiles, reach = jnp.round(quantiles), jnp.maximum(reach, 1.0)
    return space.inside(jnp.concatenate([places, quantiles])), reach


def across(space: Space, like: Array, places: int) -> Float[Array, "place *instance"]:
    """Decisions from the least to the largest of a space with limits."""
    far = jnp.full_like(like, FAR)
    return space.inside(evenly(space.inside(-far), space.inside(far), places))


def is_whole(space: Space) -> bool:
    """Whether decisions are whole numbers."""
    return isinstance(space.space if isinstance(space, Shared) else space, Integers)


def counted(outcomes: Distribution, space: Space) -> Evenly | None:
    """Where a cost may jump or bend: at whole numbers, or at outcomes that are a line of them."""
    if is_whole(space) or expectations.stats.is_discrete(outcomes):
        return COUNTS
    line = expectations.stats.line_of_counts(outcomes)
    # Where they differ from draw to draw of θ, so do the places; those of one are tried.
    return None if line is None else Evenly(line.start[0], line.slope[0])


def with_neighbours(
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
