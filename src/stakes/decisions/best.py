"""Best decisions for predicted outcomes, for all instances at once.

Where loss and distribution allow, the decision is exact for the mixture over draws of θ; otherwise
it is found numerically.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp

from stakes._types import Array, Distribution, Float, Key
from stakes.decisions.known import beside, every_action, is_any_number, known_decision, least_of
from stakes.decisions.numerical import numerical_decision
from stakes.decisions.risks import Outcome, draws_of, pooled_risk, risk_of
from stakes.decisions.task import DecisionTask
from stakes.decisions.vectors import best_parts
from stakes.errors import NoClosedForm
from stakes.port import Response
from stakes.protocols import Expectation
from stakes.spaces import Real, Shared, Vector


def best_decision(
    task: DecisionTask,
    expectation: Expectation,
    key: Key,
    outcomes: Outcome,
    like: Float[Array, "*instance"],
) -> Float[Array, "*instance"]:
    """The decision with the least risk under the mixture: by a formula, or by a search.

    Infinite where the risk never rises again in that direction. Draws of the outcome decide only
    where the expectation consists of draws, too.
    """
    criterion, space = task.criterion, task.space
    if isinstance(space, Vector):
        return _best_vector(task, space, expectation, key, outcomes, like)
    responds = isinstance(outcomes, Response)
    if isinstance(space, Shared):
        task = replace(task, space=space.counting(like))
    if space.actions is None and (responds or isinstance(space, Shared)):
        return numerical_decision(task, expectation, key, outcomes, like)
    risk = pooled_risk(task, expectation, key, outcomes, like)
    if space.actions is not None:
        return least_of(risk, every_action(space.actions, like))
    if isinstance(space, Real) or criterion.convex:
        with suppress(NoClosedForm):
            return beside(risk, space, known_decision(criterion, expectation, outcomes, like))
        if expectation.drawn:
            with suppress(NoClosedForm):
                decision = criterion.drawn_decision(
                    partial(draws_of, key, outcomes, like.shape, 32)
                )
                decision = jnp.broadcast_to(decision, like.shape).astype(like.dtype)
                return beside(risk, space, decision)
    return numerical_decision(task, expectation, key, outcomes, like)


def _best_vector(
    task: DecisionTask,
    space: Vector,
    expectation: Expectation,
    key: Key,
    outcomes: Distribution,
    like: Array,
) -> Float[Array, "part *instance"]:
    if is_any_number(space):
        with suppress(NoClosedForm):
            return known_decision(task.criterion, expectation, outcomes, like, space)
    risk = risk_of(task.criterion, expectation, key, outcomes, like, space)
    _, range_key = jax.random.split(key)
    return best_parts(risk, space, draws_of(range_key, outcomes, like.shape, 8))
