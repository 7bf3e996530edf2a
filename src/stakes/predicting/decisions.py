"""The best decisions under a posterior for all cases, and what others would cost.

A decision minimises the expected cost over θ and y. For each draw of θ the expectation over y is a
formula or a sum, so that a few hundred draws of θ suffice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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
from stakes.port import Outcome, columns_in, outcome_at, sweep
from stakes.predicting.instances import count_of, everywhere, predict_batch
from stakes.predicting.posteriors import Posterior
from stakes.protocols import Expectation
from stakes.varying import Columns as CaseColumns

# Cases times draws held at once; 128 MB per array in single precision.
MOST_ELEMENTS = 2**25
# Draws of θ to look for a second minimum by: it is a warning, and no decision rests on it.
DRAWS_FOR_MINIMA = 256


def draws_for(instances: int) -> int:
    """Return how many draws of θ to evaluate with: many for a few cases, fewer for many."""
    return int(np.clip(MOST_ELEMENTS // (16 * max(instances, 1)), 256, 8192))


def draws_to_decide(task: DecisionTask, expectation: Expectation, instances: int) -> int:
    """Return how many draws of θ to decide by: fewer where decisions have to be tried.

    A cost that is known to be convex has a formula for its best decision, and takes less memory.
    """
    values = expectation.cost.mixture if task.criterion.convex else expectation.cost.trial
    return draws_for(instances * values)


@dataclass(frozen=True)
class Question:
    """A question about the outcomes that a posterior predicts for a batch of cases.

    Attributes:
        ask: a function of a task, an expectation, a key, outcomes, weights, and any decision.
        task: decisions and costs.
        expectation: the method by which costs are averaged over outcomes.
        draws: the number of draws of θ.
    """

    ask: Callable[..., Any]
    task: DecisionTask
    expectation: Expectation
    draws: int

    def answer(
        self,
        posterior: Posterior,
        predictor: Predictor,
        key: Key,
        batch: Batch,
        decision: Array | None = None,
    ) -> Any:
        """Return the answer for a batch.

        What the posterior predicts and what is asked of it are two programs, so that another
        posterior of the same model has only its predictions compiled anew.
        """
        responding = predictor.trace.action is not None
        predicted = predict_batch(posterior, predictor, key, batch, self.draws, 0, responding)
        bare, numbers = self.task.split_numbers()
        columns = columns_in(predictor, self.task.needs, batch)
        return _answer(replace(self, task=bare), numbers, columns, key, *predicted, decision)

    def begin(self, posterior: Posterior, predictor: Predictor, key: Key, batch: Batch) -> None:
        """Begin to compile what `answer` needs, in another thread."""
        responding = predictor.trace.action is not None
        outcomes, weight = predict_batch.begin(
            posterior, predictor, key, batch, self.draws, 0, responding
        )
        bare, numbers = self.task.split_numbers()
        columns = columns_in(predictor, self.task.needs, batch)
        _answer.begin(replace(self, task=bare), numbers, columns, key, outcomes, weight, None)


def decide(
    task: DecisionTask,
    posterior: Posterior,
    predictor: Predictor,
    expectation: Expectation,
    key: Key,
    draws: int | None = None,
    asked: np.ndarray | None = None,
) -> np.ndarray:
    """Return the best decision for each case, for the original loss or utility.

    Args:
        task: decisions and costs.
        posterior: what is believed.
        predictor: the model on the cases.
        expectation: how costs are averaged over outcomes.
        key: the same for all posteriors that are compared.
        draws: the number of draws of θ; by default as many as memory allows.
        asked: the cases asked about; decisions about others may be anything.
    """
    question = _which_is_best(task, predictor, expectation, draws)

    def best(batch: Batch) -> Array:
        answer: Array = question.answer(posterior, predictor, key, batch)
        return answer

    return everywhere(best, predictor, task.space.axes, asked)


def begin_to_decide(
    task: DecisionTask,
    posterior: Posterior,
    predictor: Predictor,
    expectation: Expectation,
    key: Key,
) -> None:
    """Begin to compile what `decide` needs, in another thread."""
    question = _which_is_best(task, predictor, expectation, None)
    question.begin(posterior, predictor, key, next(sweep(predictor.trace.subsamples)))


def _which_is_best(
    task: DecisionTask, predictor: Predictor, expectation: Expectation, draws: int | None
) -> Question:
    """Return the question which decision is best, with as many draws as memory allows."""
    size = int(np.prod(predictor.trace.instances.shape))
    draws = draws or draws_to_decide(task, expectation, size)
    return Question(best_decision, task, expectation, draws)


def second_minimum(
    task: DecisionTask,
    posterior: Posterior,
    predictor: Predictor,
    expectation: Expectation,
    key: Key,
) -> SecondMinimum | None:
    """Return other decisions that are nearly as good as the best, for the first batch of cases.

    None where there cannot be any: under a convex cost, or among actions.
    """
    if task.criterion.convex or task.space.actions is not None or task.space.axes:
        return None
    question = Question(second_minimum_of, task, expectation, DRAWS_FOR_MINIMA)
    batch = next(sweep(predictor.trace.subsamples))
    answer: SecondMinimum | None = question.answer(posterior, predictor, key, batch)
    return answer


def expected(
    task: DecisionTask,
    posterior: Posterior,
    predictor: Predictor,
    expectation: Expectation,
    key: Key,
    decision: float,
    draws: int,
) -> np.ndarray:
    """Return what a decision costs if taken for all: (mean, 5 %, 95 % over θ) x case.

    Where outcomes share a decision, that is the cost of all of them together.
    """
    question, same = Question(_expected, task, expectation, draws), jnp.asarray(decision)

    def some(batch: Batch) -> Array:
        answer: Array = question.answer(posterior, predictor, key, batch, same)
        return answer

    return everywhere(some, predictor, leading=(3,))


def _expected(
    task: DecisionTask,
    expectation: Expectation,
    key: Key,
    outcomes: Outcome,
    weight: Array,
    decision: Array,
) -> Float[Array, "statistic *instance"]:
    """Compute what one decision costs under each draw of θ, and its mean and quantiles."""
    groups = task.groups.counting(weight)
    same = jnp.full_like(weight, decision)

    def one(key: Key, outcome: Outcome) -> Array:
        risk = task.criterion.risk(expectation, key, outcome_at(outcome, same), same)
        return groups.over(task.criterion.worth(risk), "sum")

    worth = jax.vmap(one)(jax.random.split(key, count_of(outcomes)), outcomes)
    ends = jnp.quantile(worth, jnp.array([0.05, 0.95]), axis=0)
    return jnp.concatenate([worth.mean(axis=0)[None], ends])


def _compared(given: Mapping[str, Any]) -> int:
    """About how many numbers the draws of a batch's outcomes are, where these are summed over."""
    question: Question = given["question"]
    return int(np.size(given["weight"])) * question.draws * question.expectation.cost.mixture


@partial(Program, static=("question",), numbers=("numbers",), work=_compared)
def _answer(
    question: Question,
    numbers: tuple[float, ...],
    columns: CaseColumns,
    key: Key,
    outcomes: Outcome,
    weight: Array,
    decision: Array | None,
) -> Any:
    """Ask a question of outcomes that a posterior has predicted."""
    _, y_key = jax.random.split(key)
    task = question.task.with_numbers(numbers).at(columns)
    given = () if decision is None else (decision,)
    return question.ask(task, question.expectation, y_key, outcomes, weight, *given)
