"""Best decisions for predicted outcomes, for all instances at once.

Where loss and distribution allow, the decision is exact for the mixture over draws of θ; otherwise
it is found numerically, on the range of the outcome and around it. A numerical search tries
decisions by their risk. Where that is expensive, it first tries them by a rough risk, for which all
components of the mixture share one table of values; what comes out has to stand up to the risk
itself, or the search is repeated by the risk alone.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from stakes import expectation as expectations
from stakes._types import Array, Bool, Distribution, Float, Key, PerInstance
from stakes.decisions.minimise import (
    At,
    Curve,
    best_action,
    by_parabolas,
    by_promise,
    column,
    evenly,
    nearby_counts,
    one_by_one,
)
from stakes.decisions.risks import count_of, draws_of, risk_of, rough_risk, spread_of
from stakes.decisions.search import (
    best_beside,
    best_parts,
    between_limits,
    formula_decision,
    line_of_counts,
    plan_search,
)
from stakes.decisions.task import DecisionTask
from stakes.errors import NoClosedForm
from stakes.port import Outcome, responds
from stakes.protocols import Expectation

# Where a search starts: places spread evenly over the range of the outcome, and quantiles, near
# which costs bend.
EVENLY, QUANTILES = 17, 49
# Evaluations of the risk after those where a search starts, at most.
ROUNDS = 40
# Times the range of the outcome, on either side: where another local minimum is looked for.
AROUND = 3
# With fewer draws of θ than this a search takes up to so many times as many places.
FEW, MORE = 256, 8
# Times the standard deviation of another component; a table would miss still narrower ones.
ALIKE = 8.0
# Standard deviations from a decision that was found by such a table.
NEARBY = (-0.1, 0.0, 0.1)
# Which of the quantiles have to cost as much as the decision that was found.
COMPARED = slice(QUANTILES // 10, None, QUANTILES // 5)
# The part of a cost that is not worth a thorough search.
CLOSE = 1e-3
# The part of the least cost that a second minimum may cost more.
NEARLY = 0.01
# The part of the least cost that decisions between the two minima cost more, at least.
BARRIER = 0.05


def best_decision(
    task: DecisionTask, expectation: Expectation, key: Key, outcomes: Outcome, like: PerInstance
) -> Float[Array, "*decision"]:
    """Return the decision with the least risk under the mixture: by a formula, or by a search.

    Draws of the outcome decide only where the expectation consists of draws, too.

    Args:
        task: the loss or utility, the space, and which cases share a decision.
        expectation: how a cost is averaged over outcomes.
        key: for random expectations, and for draws that show where outcomes lie.
        outcomes: p(y|θ), stacked over draws of θ.
        like: weights of the cases, in their shape; those of no weight do not matter to others.

    Returns:
        A decision for each case; infinite where the risk never rises again in that direction.
    """
    task = replace(task, groups=task.groups.counting(like))
    criterion, space = task.criterion, task.space
    search = plan_search(space, task.groups, convex=criterion.convex, responds=responds(outcomes))
    risk = risk_of(task, expectation, key, outcomes, like)
    if space.actions is not None:
        return best_action(risk, space.actions, like)
    if search.by_formula:
        with suppress(NoClosedForm):
            best = formula_decision(criterion, expectation, outcomes, like, space)
            return best_beside(risk, space, best)
    if search.way == "parts":
        _, range_key = jax.random.split(key)
        return best_parts(risk, space, draws_of(range_key, outcomes, like.shape, 8))
    if search.by_formula and expectation.cost.random:
        with suppress(NoClosedForm):
            draws = partial(draws_of, key, outcomes, like.shape, 32)
            return best_beside(risk, space, space.pack(criterion.decision_by_draws(draws), like))
    return numerical_decision(task, expectation, key, outcomes, like)


def numerical_decision(
    task: DecisionTask, expectation: Expectation, key: Key, outcomes: Outcome, like: Array
) -> Array:
    """Return the best decision by a search, on the range of the outcome and around it.

    Arguments are those of `best_decision`.
    """
    space = task.space
    anywhere = risk_of(task, expectation, key, outcomes, like)
    risk: Curve = lambda decision: anywhere(space.inside(decision))  # noqa: E731
    _, range_key = jax.random.split(key)
    if responds(outcomes):
        grid = between_limits(space, like, 2 * EVENLY)
        best = by_promise(risk, grid, grid[-1] - grid[0], 2 * ROUNDS)
        best = nearby_counts(risk, best) if space.is_whole else best
        return space.inside(best).astype(like.dtype)
    times = max(1, min(MORE, FEW // count_of(outcomes)))
    grid, reach = _starts(task, range_key, outcomes, like, times)
    rough = rough_risk(task, expectation, range_key, outcomes, like) if times == 1 else None
    best = space.inside(_search_range(risk, rough, outcomes, grid, reach, times * ROUNDS))
    if (line := line_of_counts(outcomes, space)) is not None:
        best = nearby_counts(risk, best, line=line)
    return space.inside(best).astype(like.dtype)


def _starts(
    task: DecisionTask, key: Key, outcomes: Distribution, like: Array, times: int
) -> tuple[Float[Array, "place *instance"], Array]:
    """Return where a search begins, and how far it looks around.

    It begins at places spread evenly over the range of some draws, and at their quantiles: the cost
    may bend anywhere, and most often where outcomes are.
    """
    space, groups = task.space, task.groups
    draws = draws_of(key, outcomes, like.shape, 4 * times)
    low, high = draws.min(axis=0), draws.max(axis=0)
    quantiles = jnp.quantile(draws, jnp.linspace(0, 1, times * QUANTILES), axis=0)
    reach = jnp.maximum(high - low, spread_of(outcomes, high))
    low, high = groups.over(low, "least"), groups.over(high, "most")
    quantiles = jax.vmap(groups.mean)(quantiles)
    reach = jnp.maximum(groups.over(reach, "most"), high - low)
    places = evenly(low, high, times * EVENLY)
    if expectations.stats.is_discrete(outcomes) or space.is_whole:
        quantiles, reach = jnp.round(quantiles), jnp.maximum(reach, 1.0)
    return space.inside(jnp.concatenate([places, quantiles])), reach


def _search_range(
    risk: Curve, rough: Curve | None, outcomes: Distribution, grid: Array, reach: Array, rounds: int
) -> Array:
    """Search by the rough risk first, where there is one and components are alike; then by the
    risk.

    A decision found by the rough risk has to cost no more, or hardly more, than some quantiles of
    the outcome do. Components of very different widths are not alike: the places of one table would
    miss the narrow ones.
    """

    def thoroughly() -> Array:
        return by_promise(risk, grid, reach, rounds)

    if rough is None:
        return thoroughly()

    def quickly() -> tuple[Array, Array]:
        best = by_promise(rough, grid, reach, rounds)
        steps = column(jnp.asarray(NEARBY, best.dtype), best)
        near = by_parabolas(risk, best + steps * spread_of(outcomes, best), 2)
        others = one_by_one(risk, grid[-QUANTILES:][COMPARED]).min(axis=0)
        endless = ~jnp.isfinite(best)  # to be refused as such, whatever it costs there
        is_best = endless | (near.value <= others + CLOSE * jnp.abs(others))
        return jnp.where(endless, best, near.place), jnp.all(is_best & ~jnp.isnan(best))

    variances = jax.vmap(expectations.stats.variance)(outcomes)
    widest, narrowest = variances.max(axis=0), variances.min(axis=0)
    alike = jnp.all(widest <= ALIKE**2 * narrowest)
    nowhere = grid[0], jnp.zeros((), bool)
    best, is_best = jax.lax.cond(alike, quickly, lambda: nowhere)
    return jax.lax.cond(is_best, lambda: best, thoroughly)


class SecondMinimum(NamedTuple):
    """The best decision on a grid, and another one with worse ones between them.

    Attributes:
        between: the largest cost between the two.
        exists: whether there is one that is nearly as good.
    """

    best: At
    other: At
    between: PerInstance
    exists: Bool[Array, "*instance"]


def second_minimum(
    task: DecisionTask, expectation: Expectation, key: Key, outcomes: Outcome, like: Array
) -> SecondMinimum | None:
    """Return another local minimum of the cost that is nearly as low; None where there can be but
    one.

    Two decisions that cost about the same and lie far apart are worth a word to the user: a small
    change of the model leads from one to the other. A formula for the best decision means that
    there is no second one.
    """
    risk = risk_of(task, expectation, key, outcomes, like)
    if responds(outcomes):
        grid = between_limits(task.space, like, 2 * EVENLY)
    else:
        with suppress(NoClosedForm):
            formula_decision(task.criterion, expectation, outcomes, like, task.space)
            return None
        _, range_key = jax.random.split(key)
        risk = rough_risk(task, expectation, range_key, outcomes, like) or risk
        grid, reach = _starts(task, range_key, outcomes, like, 1)
        low, high = grid.min(axis=0) - AROUND * reach, grid.max(axis=0) + AROUND * reach
        grid = jnp.concatenate([grid, task.space.inside(evenly(low, high, QUANTILES))])
    grid = jnp.sort(grid, axis=0)
    return second_minimum_on(At(grid, one_by_one(risk, grid)))


def second_minimum_on(grid: At) -> SecondMinimum:
    """Return, of places in ascending order, the best one beyond a barrier from the best of all.

    The barrier of a place is the largest cost on the way from the best place to it: a running
    maximum to either side.
    """
    values = jnp.where(jnp.isnan(grid.value), jnp.inf, grid.value)
    at = jnp.argmin(values, axis=0)[None]
    order = column(jnp.arange(len(values)), values[0])
    up = jax.lax.cummax(jnp.where(order >= at, values, -jnp.inf))
    down = jax.lax.cummax(jnp.where(order <= at, values, -jnp.inf), reverse=True)
    barrier = jnp.where(order > at, up, down)
    least = jnp.take_along_axis(values, at, axis=0)
    size = jnp.abs(least)
    is_beyond = (barrier - jnp.maximum(values, least) > BARRIER * size) & jnp.isfinite(values)
    beyond = jnp.where(is_beyond, values, jnp.inf)
    other = jnp.argmin(beyond, axis=0)[None]

    def taken(array: Array, index: Array) -> Array:
        return jnp.take_along_axis(array, index, axis=0)[0]

    best = At(taken(grid.place, at), least[0])
    second = At(taken(grid.place, other), taken(beyond, other))
    near = second.value - best.value <= NEARLY * size[0]
    return SecondMinimum(best, second, taken(barrier, other), near)
