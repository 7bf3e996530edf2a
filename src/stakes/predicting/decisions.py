"""The best decisions under a posterior for all instances, and what others would cost."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch, Float, Key
from stakes.bridge import Predictor
from stakes.decisions import DecisionTask, SecondMinimum, best_decision
from stakes.decisions import second_minimum as second_minimum_of
from stakes.host.programs import Program
from stakes.port import columns_in, count_in, outcome_at, sweep
from stakes.predicting.instances import count_of, everywhere, outcomes_in
from stakes.predicting.posteriors import Posterior
from stakes.protocols import Expectation

MOST_ELEMENTS = 2**25
"""Instances times draws held at once; 128 MB per array in single precision."""
DRAWS_FOR_MINIMA = 256


def draws_for(instances: int) -> int:
    """How many draws of θ to evaluate with: many for a few instances, fewer for many."""
    return int(np.clip(MOST_ELEMENTS // (16 * max(instances, 1)), 256, 8192))


def draws_to_decide(task: DecisionTask, expectation: Expectation, instances: int) -> int:
    """Fewer where decisions have to be tried: a cost known to be convex has a formula for them."""
    values = expectation.cost.mixture if task.criterion.convex else expectation.cost.trial
    return draws_for(instances * values)


def decide(
    task: DecisionTask,
    posterior: Posterior,
    predictor: Predictor,
    expectation: Expectation,
    key: Key,
    draws: int | None = None,
    asked: np.ndarray | None = None,
) -> np.ndarray:
    """The best decision for each instance, for the original loss or utility.

    Those of instances that are not asked about may be anything.
    """
    settled = _settled(task, predictor, expectation, draws)

    def best(batch: Batch) -> Array:
        return _decide_batch(posterior, predictor, key, batch, *settled)

    return everywhere(best, predictor, task.space.axes, asked)


def begin_to_decide(
    task: DecisionTask,
    posterior: Posterior,
    predictor: Predictor,
    expectation: Expectation,
    key: Key,
) -> None:
    """Begin to compile what `decide` needs, in another thread."""
    batch = next(sweep(predictor.trace.subsamples))
    settled = _settled(task, predictor, expectation, None)
    _decide_batch.bound(posterior, predictor, key, batch, *settled)


def _settled(
    task: DecisionTask, predictor: Predictor, expectation: Expectation, draws: int | None
) -> tuple[DecisionTask, tuple[Any, ...], Expectation, int]:
    """What is the same for all batches."""
    size = int(np.prod(predictor.trace.instances.shape))
    return *task.split_numbers(), expectation, draws or draws_to_decide(task, expectation, size)


def _compared(given: Mapping[str, Any]) -> int:
    """About how many numbers the draws of a batch's outcomes are, where these are summed over."""
    outcomes = count_in(given["predictor"].trace.instances, given["batch"])
    summed: int = given["expectation"].cost.mixture
    return outcomes * given["draws"] * summed


@partial(Program, static=("task", "expectation", "draws"), numbers=("numbers",), work=_compared)
def _decide_batch(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    task: DecisionTask,
    numbers: tuple[Any, ...],
    expectation: Expectation,
    draws: int,
) -> Float[Array, "*instance"]:
    here, outcomes, weight, y_key = _at(
        posterior, predictor, key, batch, task.with_numbers(numbers), draws
    )
    return best_decision(here, expectation, y_key, outcomes, weight)


def second_minimum(
    task: DecisionTask,
    posterior: Posterior,
    predictor: Predictor,
    expectation: Expectation,
    key: Key,
    draws: int = DRAWS_FOR_MINIMA,
) -> SecondMinimum | None:
    """Of the first batch of instances, other decisions that are nearly as good as the best."""
    if task.criterion.convex or task.space.actions is not None or task.space.axes:
        return None
    batch, (bare, numbers) = next(sweep(predictor.trace.subsamples)), task.split_numbers()
    found: SecondMinimum | None = _second_minimum_batch(
        posterior, predictor, key, batch, bare, numbers, expectation, draws
    )
    return found


@partial(Program, static=("task", "expectation", "draws"), numbers=("numbers",), work=_compared)
def _second_minimum_batch(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    task: DecisionTask,
    numbers: tuple[Any, ...],
    expectation: Expectation,
    draws: int,
) -> SecondMinimum | None:
    filled = task.with_numbers(numbers)
    here, outcomes, weight, y_key = _at(posterior, predictor, key, batch, filled, draws)
    return second_minimum_of(here, expectation, y_key, outcomes, weight)


def expected(
    task: DecisionTask,
    posterior: Posterior,
    predictor: Predictor,
    expectation: Expectation,
    key: Key,
    decision: float,
    draws: int,
) -> np.ndarray:
    """What a decision costs, or is worth, if taken for all: (mean, 5 %, 95 % over θ) x instance.

    Where outcomes share a decision, all of them together.
    """

    bare, numbers = task.split_numbers()
    same = jnp.asarray(decision)

    def some(batch: Batch) -> Array:
        return _expected_batch(
            posterior, predictor, key, batch, same, bare, numbers, expectation, draws
        )

    return everywhere(some, predictor, leading=(3,))


@partial(Program, static=("task", "expectation", "draws"), numbers=("numbers",), work=_compared)
def _expected_batch(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    decision: Array,
    task: DecisionTask,
    numbers: tuple[Any, ...],
    expectation: Expectation,
    draws: int,
) -> Float[Array, "statistic *instance"]:
    task = task.with_numbers(numbers)
    here, outcomes, weight, y_key = _at(posterior, predictor, key, batch, task, draws)
    groups = here.groups.counting(weight)
    same = jnp.full_like(weight, decision)

    def one(key: Key, outcome: Any) -> Array:
        at = outcome_at(outcome, same)
        found = here.criterion.worth(here.criterion.risk(expectation, key, at, same))
        return groups.over(found, "sum")

    each = jax.vmap(one)(jax.random.split(y_key, count_of(outcomes)), outcomes)
    ends = jnp.quantile(each, jnp.array([0.05, 0.95]), axis=0)
    return jnp.concatenate([each.mean(axis=0)[None], ends])


def _at(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    task: DecisionTask,
    draws: int,
) -> tuple[DecisionTask, Any, Array, Key]:
    """The task for a batch, what may come of decisions there, weights, and a key for outcomes."""
    theta_key, y_key = jax.random.split(key)
    outcomes, weight = outcomes_in(posterior, predictor, theta_key, batch, draws, responding=True)
    return task.at(columns_in(predictor, task.needs, batch)), outcomes, weight, y_key
