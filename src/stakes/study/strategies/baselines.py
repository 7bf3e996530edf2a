"""Ways without a model: one decision for all, and what is done today."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from stakes import checks
from stakes.decisions import DecisionTask
from stakes.errors import InputError
from stakes.predicting import Observations, Posterior
from stakes.study.bench import Bench
from stakes.study.ground import Forecast, Ground
from stakes.tables import TableRows

PLACES, FINER, ROUNDS = 200, 20, 4
"""Decisions tried at first, between the neighbours of the best, and how often these."""
NOTHING: dict[str, float | str] = {}


@final
@dataclass(frozen=True)
class Same:
    """The same decision for all: the best single one for the outcomes of the fit.

    Examples:
        >>> import stakes
        >>> stakes.Same().name
        'the same for all'
    """

    is_yardstick: ClassVar[bool] = True
    bases: ClassVar[tuple[Any, ...]] = ()
    name: ClassVar[str] = "the same for all"

    def check(self, bench: Bench) -> None:
        """It can handle all."""

    def fit(self, bench: Bench) -> "Constants":
        task = bench.seen.task(bench.problem.task)
        return Constants([best_single(task, bench.seen, mask) for mask in bench.splits.masks])


@final
@dataclass(frozen=True)
class Constants:
    """A decision for each fold, and one for everything; of each part, where there are several."""

    values: Sequence[np.ndarray]
    seconds: ClassVar[float] = 0.0
    notes: ClassVar[dict[str, float | str]] = NOTHING

    def decide(self, at: int, ground: Ground) -> np.ndarray:
        shape, value = ground.instances.shape, self.values[at]
        return ground.inside(_for_all(value, shape))

    def forecast(self, at: int, ground: Ground) -> Forecast | None:
        return None

    def posterior(self, at: int) -> Posterior | None:
        return None


@final
@dataclass(frozen=True, eq=False)
class Given:
    """What is done today: a decision for each outcome, or the data argument that has them.

    A pandas series with labels of its own must have those of the table, in the same order.

    Examples:
        >>> import stakes
        >>> stakes.Given([12.0, 9.0, 15.0]).name
        'what is done today'
    """

    decisions: Any
    labels: list[Any] | None = field(default=None, init=False, repr=False)

    is_yardstick: ClassVar[bool] = True
    bases: ClassVar[tuple[Any, ...]] = ()
    name: ClassVar[str] = "what is done today"

    def __post_init__(self) -> None:
        if hasattr(self.decisions, "iloc"):  # a series of pandas
            object.__setattr__(self, "labels", TableRows(self.decisions.index).labels)
        if not isinstance(self.decisions, str):
            given = _words(self.decisions)
            if given is None:
                given = checks.array("`Given(decisions)`", self.decisions)
            object.__setattr__(self, "decisions", given)

    def check(self, bench: Bench) -> None:
        self.decide(0, bench.home)
        rows, labels = bench.rows, self.labels
        if rows is not None and labels is not None and labels != rows.index.tolist():
            raise InputError(
                "`Given(decisions)`: the decisions have other labels than the rows of the table, "
                "or have them in another order. Give `decisions.reindex(table.index)`, or "
                "`decisions.to_numpy()` if they are in the order of the rows."
            )

    def fit(self, bench: Bench) -> "Given":
        return self

    @property
    def seconds(self) -> float:
        return 0.0

    @property
    def notes(self) -> dict[str, float | str]:
        return NOTHING

    def decide(self, at: int, ground: Ground) -> np.ndarray:
        found, where = self.decisions, "`Given(decisions)`"
        if isinstance(found, str):
            where = f"`Given({found!r})`: that data argument"
            if found not in ground.data:
                raise InputError(f"`Given({found!r})` names no data argument.")
            found = checks.array(where, ground.data[found])
        elif not ground.of_fit:
            raise InputError(
                "`Given(decisions)` knows what is done today for the data of the fit alone. Give "
                "the name of a data argument that has the decisions to follow them for other data."
            )
        shape, found = ground.instances.shape, ground.problem.space.from_labels(where, found)
        if found.shape != shape or not np.isfinite(found).all():
            rule = f"finite numbers of shape {shape}, one for each outcome"
            raise checks.refused(where, rule, found)
        return np.asarray(found)

    def forecast(self, at: int, ground: Ground) -> Forecast | None:
        return None

    def posterior(self, at: int) -> Posterior | None:
        return None


def _words(decisions: Any) -> np.ndarray | None:
    """Labels of actions; None where they are not words."""
    if not isinstance(decisions, list | tuple | np.ndarray) and not hasattr(decisions, "to_numpy"):
        return None
    found = np.asarray(decisions, object)
    words = found.ndim > 0 and found.size > 0 and all(isinstance(w, str) for w in found.ravel())
    return found if words else None


def _for_all(decision: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """One decision for cases of this shape; its parts, if it has several, in front."""
    parts = np.shape(decision)
    laid = np.reshape(decision, (*parts, *(1,) * len(shape)))
    return np.broadcast_to(laid, (*parts, *shape)).astype(float)


def best_single(task: DecisionTask, seen: Observations, mask: np.ndarray) -> np.ndarray:
    """The decision that costs least on average; its parts are found in turn, again and again.

    `task` has the values of these cases in place.
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
    """On an ever finer grid around the best so far, or the best of some actions."""
    if actions is not None:
        return actions[best_of(np.array(actions))]
    places = np.unique(np.quantile(outcomes, np.linspace(0, 1, PLACES), method="inverted_cdf"))
    for _ in range(ROUNDS):
        best = best_of(places)
        low, high = places[max(best - 1, 0)], places[min(best + 1, len(places) - 1)]
        places = np.unique([places[best], *np.linspace(low, high, FINER)])
    return float(places[best_of(places)])
