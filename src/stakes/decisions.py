"""Best decisions for predicted outcomes, for all instances at once.

Outcomes come as a mixture over draws of θ: a distribution whose arrays carry the draws along a
leading axis. Where loss and distribution allow, the decision is exact for that mixture;
otherwise it is found numerically, elementwise: every instance has its own bracket, and one
evaluation of the objective serves them all.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stakes.errors import NoClosedForm
from stakes.expectation import (
    ClosedForm,
    Enumeration,
    Expectation,
    Mixture,
    expected_loss,
    log_expected_utility,
)
from stakes.typing import Array, Distribution, Key, Loss, SolvedLoss
from stakes.utilities import ExpUtility, Utility
from stakes.utility_term import UtilityTerm

GOLDEN = (5**0.5 - 1) / 2
CANDIDATES = 33
PLACES = 7
WIDENINGS = 10
MOST_ELEMENTS = 2**24
"""Values held at once while averaging over draws of θ."""


def bayes_decision(
    loss: SolvedLoss, expectation: Expectation, key: Key, outcomes: Distribution, like: Array
) -> Array:
    """The decision of least expected loss under the mixture: exact, or from draws of it."""
    values = expectation if isinstance(expectation, Enumeration) else None
    try:
        decision = loss.exact_decision(Mixture(outcomes, values))
    except NoClosedForm:
        decision = loss.bayes_decision(_draws(key, outcomes, like.shape, 32))
    return jnp.broadcast_to(decision, like.shape).astype(like.dtype)


def numerical_decision(
    gain: Loss | Utility | ExpUtility,
    expectation: Expectation,
    key: Key,
    outcomes: Distribution,
    like: Array,
) -> Array:
    """The decision of least expected loss, or most expected utility, under the mixture."""
    points = 1 if isinstance(expectation, ClosedForm) else 512

    def risk(decision: Array) -> Array:
        def one(key: Key, outcome: Distribution) -> Array:
            if isinstance(gain, Utility | ExpUtility):
                return -jnp.exp(log_expected_utility(expectation, key, outcome, gain, decision))
            return expected_loss(expectation, key, outcome, gain, decision)

        return _mean_over_draws(one, key, outcomes, points * like.size)

    return _minimise(risk, key, outcomes, like)


def term_decision(term: UtilityTerm, key: Key, outcomes: Distribution, now: Array) -> Array:
    """A decision at which the utility term U(λ, h) is at least as large as now, for an M-step.

    A coarse search, since the term has changed by the next M-step: the decision of now and a few
    places over the range of the outcome, then the best of them refined.
    """

    def shortfall(decision: Array) -> Array:
        one = lambda key, outcome: -term(key, outcome, decision)  # noqa: E731
        return _mean_over_draws(one, key, outcomes, 64 * now.size)

    draws = _draws(key, outcomes, now.shape, 1)
    low, high = draws.min(axis=0), draws.max(axis=0)
    # Rare outcomes may all be alike in the draws, and yet decide.
    spacing = jnp.maximum((high - low) / (PLACES - 1), _spread(outcomes, now) / 2)
    grid = jnp.concatenate([now[None].astype(low.dtype), _evenly(low, high, PLACES)])
    ends = jnp.stack([grid.min(axis=0) - spacing, grid.max(axis=0) + spacing])
    return _by_parabolas(shortfall, jnp.concatenate([grid, ends]), 5).astype(now.dtype)


def _spread(outcomes: Distribution, like: Array) -> Array:
    """The standard deviation of the mixture, or next to nothing where it is not known."""
    least = 1e-6 * jnp.maximum(jnp.abs(like), 1.0)
    try:
        sd = jnp.sqrt(Mixture(outcomes).variance())
    except NoClosedForm:
        return least
    return jnp.where(jnp.isfinite(sd), jnp.maximum(sd, least), least)


def _minimise(
    objective: Callable[[Array], Array], key: Key, outcomes: Distribution, like: Array
) -> Array:
    """Ends beyond which it gets no better, the best of a grid between, then golden sections."""
    draws = _draws(key, outcomes, like.shape, 4)
    low, high = _ends(objective, draws.min(axis=0), draws.max(axis=0))
    quantiles = jnp.quantile(draws, jnp.linspace(0, 1, CANDIDATES), axis=0)
    grid = jnp.concatenate([_evenly(low, high, CANDIDATES), quantiles])
    # Around a minimum values tell places apart down to the square root of the precision.
    sections = math.ceil(math.log(np.finfo(grid.dtype).eps) / 2 / math.log(GOLDEN))
    return _refined(objective, grid, low, high, sections).astype(like.dtype)


def _evenly(low: Array, high: Array, places: int) -> Array:
    return low + jnp.linspace(0, 1, places).reshape(-1, *(1 for _ in low.shape)) * (high - low)


def _refined(
    objective: Callable[[Array], Array], grid: Array, low: Array, high: Array, sections: int
) -> Array:
    """The best of the grid, refined by golden sections between its neighbours (or the ends)."""
    values = jax.lax.map(objective, grid)
    place, at_best = jnp.argmin(values, axis=0)[None], values.min(axis=0)
    best = jnp.take_along_axis(grid, place, axis=0)[0]
    below = jnp.where(grid < best, grid, low).max(axis=0)
    above = jnp.where(grid > best, grid, high).min(axis=0)

    def narrow(_: int, state: tuple[Array, ...]) -> tuple[Array, ...]:
        low, left, right, high, at_left, at_right = state
        keep_left = at_left < at_right
        low, high = jnp.where(keep_left, low, left), jnp.where(keep_left, right, high)
        kept, at_kept = jnp.where(keep_left, left, right), jnp.where(keep_left, at_left, at_right)
        new = jnp.where(keep_left, high - GOLDEN * (high - low), low + GOLDEN * (high - low))
        at_new = objective(new)
        left, right = jnp.where(keep_left, new, kept), jnp.where(keep_left, kept, new)
        at_left = jnp.where(keep_left, at_new, at_kept)
        at_right = jnp.where(keep_left, at_kept, at_new)
        return low, left, right, high, at_left, at_right

    left, right = above - GOLDEN * (above - below), below + GOLDEN * (above - below)
    start = (below, left, right, above, objective(left), objective(right))
    _, left, right, _, at_left, at_right = jax.lax.fori_loop(0, sections, narrow, start)
    refined, at_refined = jnp.where(at_left < at_right, left, right), jnp.minimum(at_left, at_right)
    # A cost with flat or many-peaked stretches may beat the refinement on the grid itself.
    found = jnp.where(at_refined <= at_best, refined, best)
    return jnp.where(jnp.isnan(at_refined + at_best), jnp.nan, found)


def _by_parabolas(objective: Callable[[Array], Array], grid: Array, rounds: int) -> Array:
    """The best of the grid, moved to the lowest point of the parabola through its neighbours.

    Fewer evaluations than golden sections, and none of their guarantees, but never worse than the
    grid.
    """
    grid = jnp.sort(grid, axis=0)
    values = jax.lax.map(objective, grid)
    best = jnp.argmin(values, axis=0)[None]
    middle = jnp.clip(best, 1, len(grid) - 2)

    def narrow(_: int, state: Any) -> Any:
        (low, x, high), (at_low, at_x, at_high) = state
        left, right = (x - low) * (at_x - at_high), (x - high) * (at_x - at_low)
        lowest = x - ((x - low) * left - (x - high) * right) / (2 * (left - right))
        halfway = jnp.where(high - x > x - low, x + high, low + x) / 2
        apart = jnp.abs(lowest - x) > 1e-3 * (high - low)
        new = jnp.where((low < lowest) & (lowest < high) & apart, lowest, halfway)
        at_new = objective(new)
        keep, is_left = at_x < at_new, new < x
        # The better of the two is the new middle, the other one the end on its side.
        inner = (jnp.where(keep, x, new), jnp.where(keep, at_x, at_new))
        outer = (jnp.where(keep, new, x), jnp.where(keep, at_new, at_x))
        lower = is_left == keep
        lows = [jnp.where(lower, o, e) for o, e in zip(outer, (low, at_low), strict=True)]
        highs = [jnp.where(lower, e, o) for o, e in zip(outer, (high, at_high), strict=True)]
        return tuple(zip(lows, inner, highs, strict=True))

    around = [jnp.take_along_axis(grid, middle + i, axis=0)[0] for i in (-1, 0, 1)]
    at = [jnp.take_along_axis(values, middle + i, axis=0)[0] for i in (-1, 0, 1)]
    (_, found, _), (_, at_found, _) = jax.lax.fori_loop(
        0, rounds, narrow, (tuple(around), tuple(at))
    )
    at_best = values.min(axis=0)
    found = jnp.where(at_found <= at_best, found, jnp.take_along_axis(grid, best, axis=0)[0])
    return jnp.where(jnp.isnan(at_found + at_best), jnp.nan, found)


def _ends(objective: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """The range of the outcome, widened on each side for as long as the objective falls there."""

    step = jnp.maximum((high - low) / 4, 1e-3 * jnp.maximum(jnp.abs(high), 1.0))

    def widened(end: Array, sign: float) -> Array:
        def widen(state: Any) -> Any:
            end, step, value, falls, count = state
            further = jnp.where(falls, end + sign * step, end)
            there = objective(further)
            return further, 2 * step, there, falls & (there < value), count + 1

        def goes_on(state: Any) -> Array:
            *_, falls, count = state
            return falls.any() & (count < WIDENINGS)

        start = (end, step, objective(end), jnp.ones_like(end, bool), jnp.array(0))
        return jax.lax.while_loop(goes_on, widen, start)[0]

    return widened(low, -1.0), widened(high, +1.0)


def _mean_over_draws(
    question: Callable[[Key, Distribution], Array], key: Key, outcomes: Distribution, each: int
) -> Array:
    """`each` is how many values one draw of θ takes: as many draws at once as memory allows."""
    count = _count(outcomes)
    keys = jax.random.split(key, count)
    at_once = max(1, min(count, MOST_ELEMENTS // each))
    if at_once == count:
        return jax.vmap(question)(keys, outcomes).mean(axis=0)
    answers = jax.lax.map(lambda x: question(*x), (keys, outcomes), batch_size=at_once)
    return answers.mean(axis=0)


def _count(outcomes: Distribution) -> int:
    return int(jax.tree.leaves(outcomes)[0].shape[0])


def _draws(key: Key, outcomes: Distribution, shape: tuple[int, ...], each: int) -> Array:
    """`each` draws of y for each draw of θ, along one leading axis."""

    def some(key: Key, outcome: Distribution) -> Array:
        return outcome.expand(shape).sample(key, (each,))

    draws = jax.vmap(some)(jax.random.split(key, _count(outcomes)), outcomes)
    return draws.reshape(-1, *shape).astype(jnp.result_type(float))
