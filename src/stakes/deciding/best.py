"""Best decisions for predicted outcomes, for all instances at once.

Outcomes come as a mixture over draws of θ: a distribution whose arrays carry the draws along a
leading axis. Where loss and distribution allow, the decision is exact for that mixture;
otherwise it is found numerically.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import jax
import jax.numpy as jnp

from stakes._types import Array, Distribution, Float, Key
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
from stakes.errors import NoClosedForm, check_shape
from stakes.expectation import Mixture
from stakes.protocols import Criterion, Expectation, Tabled, UtilityTerm

EVENLY, QUANTILES = 17, 49
"""Where a search starts: places spread over the range of the outcome, and its quantiles."""
ROUNDS = 40
FEW, MORE = 256, 8
"""With fewer draws of θ than this a search takes up to so many times as many places."""
PLACES = 7
MOST_ELEMENTS = 2**24
"""Values held at once while averaging over draws of θ."""


def best_decision(
    criterion: Criterion,
    expectation: Expectation,
    key: Key,
    outcomes: Distribution,
    like: Float[Array, "*instance"],
) -> Float[Array, "*instance"]:
    """The decision with the least risk under the mixture: by a formula, or by a search.

    Infinite where the risk never rises again in that direction. Draws of the outcome decide only
    where the expectation consists of draws, too.
    """
    with suppress(NoClosedForm):
        return known_decision(criterion, expectation, outcomes, like)
    if expectation.drawn:
        with suppress(NoClosedForm):
            decision = criterion.drawn_decision(partial(_draws, key, outcomes, like.shape, 32))
            return jnp.broadcast_to(decision, like.shape).astype(like.dtype)
    return numerical_decision(criterion, expectation, key, outcomes, like)


def known_decision(
    criterion: Criterion, expectation: Expectation, outcomes: Distribution, like: Array
) -> Array:
    """The best decision by a formula of the loss; raises `NoClosedForm` where it has none."""
    decision = criterion.decision(expectation.mixture(outcomes))
    return jnp.broadcast_to(decision, like.shape).astype(like.dtype)


def numerical_decision(
    criterion: Criterion, expectation: Expectation, key: Key, outcomes: Distribution, like: Array
) -> Array:
    """The best decision by a search, on the range of the outcome and around it."""
    risk_key, range_key = jax.random.split(key)
    held = expectation.held * like.size

    def risk(decision: Array) -> Array:
        one = lambda key, outcome: criterion.risk(expectation, key, outcome, decision)  # noqa: E731
        found = criterion.averaged(_each_draw(one, risk_key, outcomes, held))
        check_shape(f"The expected cost by `{criterion.title}`", found.shape, like.shape)
        return found

    times = max(1, min(MORE, FEW // _count(outcomes)))
    draws = _draws(range_key, outcomes, like.shape, 4 * times)
    low, high = draws.min(axis=0), draws.max(axis=0)
    quantiles = jnp.quantile(draws, jnp.linspace(0, 1, times * QUANTILES), axis=0)
    reach = jnp.maximum(high - low, _spread(outcomes, high))
    places = evenly(low, high, times * EVENLY)
    if not outcomes.support.is_discrete:
        grid = jnp.concatenate([places, quantiles])
        return by_promise(risk, grid, reach, times * ROUNDS).astype(like.dtype)
    grid = jnp.concatenate([places, jnp.round(quantiles)])
    found = by_promise(risk, grid, jnp.maximum(reach, 1.0), times * ROUNDS)
    return _with_neighbours(risk, found).astype(like.dtype)


def term_decision(
    term: UtilityTerm,
    key: Key,
    outcomes: Distribution,
    now: Array,
    *,
    held: int,
    draws: int = 16,
) -> Array:
    """A decision at which the utility term U(λ, h) is at least as large as now, for an M-step.

    A coarse search, since the term will have changed by the next M-step: the best of the current
    decision and a few places over the range of the outcome, refined. `held` is how many values
    of y the term's expectation holds at once.
    """
    term_key, range_key = jax.random.split(key)

    def shortfall(decision: Array) -> Array:
        one = lambda key, outcome: -term(key, outcome, decision)  # noqa: E731
        return _each_draw(one, term_key, outcomes, held * now.size).mean(axis=0)

    seen = _draws(range_key, outcomes, now.shape, -(-draws // _count(outcomes)))
    low, high = seen.min(axis=0), seen.max(axis=0)
    # Rare outcomes may be missing from the draws and still matter.
    spacing = jnp.maximum((high - low) / (PLACES - 1), _spread(outcomes, now) / 2)
    grid = evenly(low - spacing, high + spacing, PLACES + 2)
    found = better(by_parabolas(shortfall, grid, 5), At(now.astype(grid.dtype), shortfall(now)))
    counts = outcomes.support.is_discrete
    return (_with_neighbours(shortfall, found.place) if counts else found.place).astype(now.dtype)


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


def _with_neighbours(
    objective: Curve, found: Array, at_each: Callable[[Curve, Array], Array] = one_by_one
) -> Array:
    """The best of a decision and the counts around it, where a cost jumps or bends."""
    low, high = jnp.floor(found), jnp.ceil(found)
    places = jnp.stack([found, low, high, low - 1, high + 1])
    best = jnp.argmin(at_each(objective, places), axis=0)[None]
    return jnp.take_along_axis(places, best, axis=0)[0]


def _spread(outcomes: Distribution, like: Array) -> Array:
    """The standard deviation of the mixture, or a tiny number where it is not known."""
    least = 1e-6 * jnp.maximum(jnp.abs(like), 1.0)
    try:
        sd = jnp.sqrt(Mixture(outcomes).variance())
    except NoClosedForm:
        return least
    return jnp.where(jnp.isfinite(sd), jnp.maximum(sd, least), least)


def _each_draw(
    question: Callable[[Key, Distribution], Array], key: Key, outcomes: Distribution, each: int
) -> Float[Array, "theta *instance"]:
    """As many draws of θ at once as memory allows; `each` is how many values one draw takes."""
    count = _count(outcomes)
    keys = jax.random.split(key, count)
    at_once = max(1, min(count, MOST_ELEMENTS // each))
    if at_once == count:
        return jax.vmap(question)(keys, outcomes)
    return jax.lax.map(lambda x: question(*x), (keys, outcomes), batch_size=at_once)


def _count(outcomes: Distribution) -> int:
    return int(jax.tree.leaves(outcomes)[0].shape[0])


def _draws(key: Key, outcomes: Distribution, shape: tuple[int, ...], each: int) -> Array:
    """`each` draws of y for each draw of θ, along one leading axis."""

    def some(key: Key, outcome: Distribution) -> Array:
        return outcome.expand(shape).sample(key, (each,))

    draws = jax.vmap(some)(jax.random.split(key, _count(outcomes)), outcomes)
    return draws.reshape(-1, *shape).astype(jnp.result_type(float))
