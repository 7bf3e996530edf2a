"""Best decisions for predicted outcomes, for all instances at once.

Outcomes come as a mixture over draws of θ: a distribution whose arrays carry the draws along a
leading axis. Where loss and distribution allow, the decision is exact for that mixture;
otherwise it is found numerically, elementwise: every instance has its own bracket, and one
evaluation of the objective serves them all.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

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
REFINEMENTS = 30
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


def term_decision(term: UtilityTerm, key: Key, outcomes: Distribution, like: Array) -> Array:
    """The decision that maximises the utility term U(λ, h)."""

    def shortfall(decision: Array) -> Array:
        one = lambda key, outcome: -term(key, outcome, decision)  # noqa: E731
        return _mean_over_draws(one, key, outcomes, 64 * like.size)

    return _minimise(shortfall, key, outcomes, like)


def _minimise(
    objective: Callable[[Array], Array], key: Key, outcomes: Distribution, like: Array
) -> Array:
    """Ends beyond which it gets no better, the best of a grid between, then golden sections."""
    draws = _draws(key, outcomes, like.shape, 4)
    low, high = _ends(objective, draws.min(axis=0), draws.max(axis=0))
    shares = jnp.linspace(0, 1, CANDIDATES).reshape(-1, *(1 for _ in like.shape))
    quantiles = jnp.quantile(draws, jnp.linspace(0, 1, CANDIDATES), axis=0)
    grid = jnp.concatenate([low + shares * (high - low), quantiles])
    place = jnp.argmin(jax.lax.map(objective, grid), axis=0)[None]
    best = jnp.take_along_axis(grid, place, axis=0)[0]
    below = jnp.where(grid < best, grid, low).max(axis=0)
    above = jnp.where(grid > best, grid, high).min(axis=0)

    def narrow(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        left_is_better = objective(left) < objective(right)
        return jnp.where(left_is_better, low, left), jnp.where(left_is_better, right, high)

    below, above = jax.lax.fori_loop(0, REFINEMENTS, narrow, (below, above))
    refined = below + (above - below) / 2
    at_refined, at_best = objective(refined), objective(best)
    # A cost with flat or many-peaked stretches may beat the refinement on the grid itself.
    found = jnp.where(at_refined <= at_best, refined, best)
    return jnp.where(jnp.isnan(at_refined + at_best), jnp.nan, found).astype(like.dtype)


def _ends(objective: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """The range of the outcome, widened on each side for as long as the objective falls there."""

    step = jnp.maximum((high - low) / 4, 1e-3 * jnp.maximum(jnp.abs(high), 1.0))

    def widened(end: Array, sign: float) -> Array:
        def widen(_: int, state: tuple[Array, ...]) -> tuple[Array, ...]:
            end, step, value, falls = state
            further = jnp.where(falls, end + sign * step, end)
            there = objective(further)
            return further, 2 * step, there, falls & (there < value)

        start = (end, step, objective(end), jnp.ones_like(end, bool))
        return jax.lax.fori_loop(0, WIDENINGS, widen, start)[0]

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
