"""What decisions will cost under predicted outcomes, for all instances at once.

Outcomes come as a mixture over draws of θ: a distribution whose arrays carry the draws along a
leading axis. The risk of a decision is the mean over draws of its expected cost under each, for a
loss; for a utility, minus the logarithm of the mean expected utility.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from stakes import expectation as expectations
from stakes._types import Array, Distribution, Float, Key
from stakes.decisions.minimise import Curve
from stakes.decisions.task import DecisionTask
from stakes.errors import NoClosedForm, check_shape
from stakes.expectation import Mixture
from stakes.port import Outcome, outcome_at
from stakes.protocols import Expectation

# Values in one table of all components: enough to find a decision to a thousandth of its cost; with
# fewer, or where memory has no room for more, there is no table.
MOST_POOLED, LEAST_POOLED = 512, 128
# Values held at once while averaging over draws of θ.
MOST_ELEMENTS = 2**24


def risk_of(
    task: DecisionTask, expectation: Expectation, key: Key, outcomes: Outcome, like: Array
) -> Curve:
    """Return a function from a decision to its risk, for each instance and for all that share it.

    Arguments are those of `best_decision`. As many draws of θ are averaged over at once as memory
    allows.
    """
    criterion, space = task.criterion, task.space
    risk_key, _ = jax.random.split(key)
    held = expectation.cost.points * like.size

    def risk(decision: Array) -> Array:
        def one(key: Key, outcome: Outcome) -> Array:
            there = outcome_at(outcome, decision)
            return criterion.risk(expectation, key, there, space.unpack(decision))

        risks = criterion.average(each_draw(one, risk_key, outcomes, held))
        check_shape(f"The expected cost by `{criterion.title}`", risks.shape, like.shape)
        return task.groups.pool(criterion, risks)

    return risk


def rough_risk(
    task: DecisionTask, expectation: Expectation, key: Key, outcomes: Distribution, like: Array
) -> Curve | None:
    """The risk up to a thousandth or so, at a fraction of the price; None where there is no such.

    Components are pooled in one table, which is not split at the decision.
    """
    most = min(MOST_POOLED, MOST_ELEMENTS // like.size)
    if outcomes.event_shape or most < LEAST_POOLED:
        return None
    try:
        jax.vmap(expectations.stats.variance)(outcomes)
        drawn = draws_of(key, outcomes, like.shape, 4)
        table = expectation.pool(outcomes, drawn, most)
    except NoClosedForm:
        return None

    def risk(decision: Array) -> Array:
        risks = task.criterion.risk(table, None, outcomes, task.space.inside(decision))
        return task.groups.pool(task.criterion, risks)

    return risk


def spread_of(outcomes: Distribution, like: Array) -> Array:
    """The standard deviation of the mixture, or a tiny number where it is not known."""
    least = 1e-6 * jnp.maximum(jnp.abs(like), 1.0)
    if outcomes.event_shape:
        return least
    try:
        sd = jnp.sqrt(Mixture(outcomes).variance())
    except NoClosedForm:
        return least
    return jnp.where(jnp.isfinite(sd), jnp.maximum(sd, least), least)


def each_draw(
    question: Callable[[Key, Outcome], Array], key: Key, outcomes: Outcome, each: int
) -> Float[Array, "theta *instance"]:
    """As many draws of θ at once as memory allows; `each` is how many values one draw takes."""
    count = count_of(outcomes)
    keys = jax.random.split(key, count)
    at_once = max(1, min(count, MOST_ELEMENTS // each))
    if at_once == count:
        return jax.vmap(question)(keys, outcomes)
    return jax.lax.map(lambda x: question(*x), (keys, outcomes), batch_size=at_once)


def count_of(outcomes: Outcome) -> int:
    """Return the number of draws of θ."""
    return int(jax.tree.leaves(outcomes)[0].shape[0])


def draws_of(key: Key, outcomes: Distribution, shape: tuple[int, ...], each: int) -> Array:
    """Draw outcomes, and return them along one leading axis.

    Args:
        key: for the draws.
        outcomes: p(y|θ), stacked over draws of θ.
        shape: that of the instances.
        each: how many to draw for each draw of θ.

    Returns:
        Draws of single numbers. Of vectors, these are their numbers and their sums: a decision
        about a vector is often about one of these.
    """

    def some(key: Key, outcome: Distribution) -> Array:
        return outcome.expand(shape).sample(key, (each,))

    draws = jax.vmap(some)(jax.random.split(key, count_of(outcomes)), outcomes)
    if draws.ndim > len(shape) + 2:  # of vectors: their numbers and their sums
        draws = jnp.concatenate([jnp.moveaxis(draws, -1, 0), draws.sum(axis=-1)[None]])
    return draws.reshape(-1, *shape).astype(jnp.result_type(float))
