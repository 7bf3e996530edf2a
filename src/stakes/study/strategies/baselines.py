"""Baselines, strategies without a model: one decision for all, and what is done today.

They show what a model is worth. One of them is chosen only where every other strategy is reliably
worse.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, final

import jax
import numpy as np

from stakes import checks
from stakes.decisions import DecisionTask
from stakes.errors import InputError
from stakes.predicting import Observations
from stakes.study.cases import Cases
from stakes.study.folds import Mask
from stakes.study.strategies.strategy import FittedStrategy, Strategy, value_of
from stakes.tables import TableRows

if TYPE_CHECKING:
    from stakes.study.study import Study

# Decisions tried at first, decisions tried between the neighbours of the best, and how often the
# latter is repeated: four rounds of 20 narrow a range several thousand-fold.
PLACES, FINER, ROUNDS = 200, 20, 4


@final
@dataclass(frozen=True)
class Same(Strategy):
    """The same decision for all: the best single one for the outcomes of the fit.

    Examples:
        >>> import stakes
        >>> stakes.Same().name
        'one decision for all'
    """

    is_baseline: ClassVar[bool] = True
    name: ClassVar[str] = "one decision for all"
    description: ClassVar[str] = "one decision for all, the best single one for the outcomes known"

    def check(self, study: "Study") -> None:
        """Accept any problem: each has a best single decision."""

    def fit(self, study: "Study", mask: Mask) -> "Constant":
        """Return the decision that costs least, on average, for the outcomes seen."""
        task = study.seen.task(study.problem.task)
        return Constant(best_single(task, study.seen, mask.seen))

    def restore(self, study: "Study", arrays: Mapping[str, np.ndarray]) -> "Constant":
        """Return the decision that was kept."""
        return Constant(value_of(arrays, "value", f"What was kept of {self.name!r}"))


@final
@dataclass(frozen=True, eq=False)
class Constant(FittedStrategy):
    """One decision for all; a number for each part, where decisions have several."""

    value: np.ndarray

    def decide(self, cases: Cases) -> np.ndarray:
        """Return the decision, inside the limits of each case."""
        return cases.inside(_for_all(self.value, cases.instances.shape))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the decision."""
        return {"value": np.asarray(self.value)}


@final
@dataclass(frozen=True, eq=False)
class Given(Strategy, FittedStrategy):
    """What is done today: a decision for each outcome, or the data argument that has them.

    A pandas series with labels of its own must have those of the table, in the same order.

    Examples:
        >>> import stakes
        >>> stakes.Given([12.0, 9.0, 15.0]).name
        "today's decisions"
    """

    decisions: Any
    labels: list[Any] | None = field(default=None, init=False, repr=False)

    is_baseline: ClassVar[bool] = True
    name: ClassVar[str] = "today's decisions"
    description: ClassVar[str] = "the decisions of today, from the table"

    def __post_init__(self) -> None:
        import pandas as pd

        if isinstance(self.decisions, pd.Series):
            checks.assign(self, labels=TableRows(self.decisions.index).labels)
        if not isinstance(self.decisions, str):
            given = _words(self.decisions)
            if given is None:
                given = checks.array("`Given(decisions)`", self.decisions)
            checks.assign(self, decisions=given)

    def check(self, study: "Study") -> None:
        """Refuse decisions that do not belong to the rows of the data."""
        self.decide(study.home)
        table, labels = study.plan.table, self.labels
        if table is not None and labels is not None and labels != table.rows.index.tolist():
            raise InputError(
                "`Given(decisions)`: the decisions have other labels than the rows of the table, "
                "or have them in another order. Give `decisions.reindex(table.index)`, or "
                "`decisions.to_numpy()` if they are in the order of the rows."
            )

    def fit(self, study: "Study", mask: Mask) -> "Given":
        """Return the strategy itself: nothing has to be fitted."""
        return self

    def restore(self, study: "Study", arrays: Mapping[str, np.ndarray]) -> "Given":
        """Return the strategy itself: nothing has to be kept."""
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        """Return nothing: the decisions come with the data."""
        return {}

    def decide(self, cases: Cases) -> np.ndarray:
        """Return the decisions given, or those that a data argument has."""
        decisions, where = self.decisions, "`Given(decisions)`"
        if isinstance(decisions, str):
            where = f"`Given({decisions!r})`: that data argument"
            if decisions not in cases.data:
                raise InputError(f"`Given({decisions!r})` names no data argument.")
            decisions = checks.array(where, cases.data[decisions])
        elif cases.held_out:
            raise InputError(
                "`Given(decisions)` knows what is done today for the data of the fit alone. Give "
                "the name of a data argument that has the decisions to follow them for other data."
            )
        shape, numbers = cases.instances.shape, cases.problem.space.from_labels(where, decisions)
        if numbers.shape != shape or not np.isfinite(numbers).all():
            rule = f"finite numbers of shape {shape}, one for each outcome"
            raise checks.refused(where, rule, numbers)
        return np.asarray(numbers)


def _words(decisions: Any) -> np.ndarray | None:
    """Return labels of actions, or None if they are not words."""
    if isinstance(decisions, jax.Array) or not checks.is_many(decisions):
        return None
    found = np.asarray(decisions, object)
    words = found.ndim > 0 and found.size > 0 and all(isinstance(w, str) for w in found.ravel())
    return found if words else None


def _for_all(decision: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Repeat one decision for all cases of a shape; its parts, if any, come first."""
    parts = np.shape(decision)
    laid = np.reshape(decision, (*parts, *(1,) * len(shape)))
    return np.broadcast_to(laid, (*parts, *shape)).astype(float)


def best_single(task: DecisionTask, seen: Observations, mask: np.ndarray) -> np.ndarray:
    """Return the decision that costs least on average.

    If it has several parts, they are found in turn, in several rounds.

    Args:
        task: decisions and costs, with the values of these cases in place.
        seen: the outcomes.
        mask: which of them count, in addition to their own mask.
    """
    counted, space = seen.counted & mask, task.space
    outcomes = seen.outcomes[counted]

    def best_of(places: Sequence[np.ndarray]) -> int:
        shape = seen.outcomes.shape
        same = [task.everywhere(seen.outcomes, _for_all(place, shape)) for place in places]
        costs = task.costs_of(seen.outcomes, same)
        return int(np.nanargmin([each[counted].mean() for each in costs]))

    if not space.axes:
        return np.asarray(_best_number(space.actions, outcomes, best_of))
    found = np.full(space.axes, np.median(outcomes))
    for _ in range(ROUNDS):
        before = found.copy()
        for part, each in enumerate(space.parts):
            others = np.delete(found, part)
            found[part] = _best_number(
                each.actions,
                outcomes,
                lambda places, at=part, kept=others: best_of(
                    [np.insert(kept, at, place) for place in places]
                ),
            )
        if np.array_equal(before, found):
            break
    return found


def _best_number(
    actions: Sequence[float] | None, outcomes: np.ndarray, best_of: Callable[..., int]
) -> float:
    """Return the best action, or the best number on ever finer grids around the best so far."""
    if actions is not None:
        return actions[best_of(np.array(actions))]
    places = np.unique(np.quantile(outcomes, np.linspace(0, 1, PLACES), method="inverted_cdf"))
    for _ in range(ROUNDS):
        best = best_of(places)
        low, high = places[max(best - 1, 0)], places[min(best + 1, len(places) - 1)]
        places = np.unique([places[best], *np.linspace(low, high, FINER)])
    return float(places[best_of(places)])
