"""What if a decision, or what it costs, were different: all that the page needs to show that."""

from dataclasses import dataclass
from typing import final

import numpy as np

from stakes.losses import AnyLoss, CostTable
from stakes.protocols import Loss
from stakes.report.actions import class_names, number_of
from stakes.report.decision_table import MOST_ROWS
from stakes.report.rows import Rows
from stakes.study import are_whole_numbers, predictive_quantiles
from stakes.varying import Columns, value_at

# Rows that the page decides about again: a browser does that while a handle moves.
MOST_VARIED = 2_000
# Costs of a table that a reader may turn; with more, no reader would.
MOST_HANDLES = 12
# A cost of an action may be turned up and down by this factor.
TABLE_SPAN = 5.0
# Levels in each tail, where costs of 500 to 1 still put a decision.
TAIL = (0.002, 0.005, 0.01, 0.02, 0.03)
# Levels of the quantiles from which the page decides again.
LEVELS = np.array([*TAIL, *np.linspace(0.05, 0.95, 31), *(1 - t for t in reversed(TAIL))])
# What a loss has to turn, each with the factor by which.
HANDLES = {
    "costs": (("cost of a unit short", 5.0), ("cost of a unit too many", 5.0)),
    "linex": (("c, how lopsided the loss is", 3.0),),
}


@final
@dataclass(frozen=True)
class Handle:
    """A cost, or another parameter of the loss, that the reader may change.

    Attributes:
        value: its value in the fit.
        span: the factor by which it may be increased or decreased.
    """

    name: str
    value: float
    span: float


@final
@dataclass(frozen=True, eq=False)
class CostDial:
    """The costs of a table that the handles of a what-if vary.

    Attributes:
        actions: names of the actions.
        cells: action by action and class by class, the number of its handle; -1 where it costs
            nothing.
        factors: for each handle, what it is multiplied by in each row; None for one.
        taken: the number of the action for each row.
    """

    actions: tuple[str, ...]
    cells: tuple[int, ...]
    factors: tuple[np.ndarray | None, ...]
    taken: np.ndarray


@final
@dataclass(frozen=True, eq=False)
class WhatIf:
    """All that the page needs to decide again for other parameters of the loss.

    Attributes:
        kind: `costs`, of a unit short and one too many, `linex`, or `table` of costs of actions.
        handles: parameters that the reader may vary.
        levels: the levels of the quantiles; the numbers of the classes for a table.
        rows: which rows of the decision table take part.
        quantiles: of the predictive distribution: row x level; for a table, the chances of the
            classes.
        whole_numbers: whether decisions are whole numbers.
        dial: for a table, which costs the handles vary.
    """

    kind: str
    handles: tuple[Handle, ...]
    levels: np.ndarray
    rows: np.ndarray
    quantiles: np.ndarray
    whole_numbers: bool
    dial: CostDial | None = None


@final
@dataclass(frozen=True, eq=False)
class CostLine:
    """The expected cost of a case, or its gain, over the decisions that were tried.

    Attributes:
        group: which cases these are; nothing if there is one line for all.
        high: it lies between these with 90 % of the posterior probability.
        decision: the decision to take; the mean of all where every case has its own.
        expected: (mean, low, high) there.
        beyond: whether that lies beyond all decisions that were ever made.
    """

    group: str
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    decision: float
    expected: tuple[float, float, float]
    beyond: bool


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """Decisions that change outcomes, and what each would cost a group of cases.

    Attributes:
        action: the argument of the model that is decided about.
        labels: the labels of the decisions, if they are actions; none for numbers.
        groups: how many there are; more than lines, where there are too many.
        made: the least and the largest decision in the data of the fit.
        beyond: how many of the decisions to take lie outside these.
    """

    action: str
    decisions: np.ndarray
    labels: tuple[str, ...]
    lines: tuple[CostLine, ...]
    groups: int
    made: tuple[float, float]
    beyond: int
    count: int
    gain: bool = False

    @property
    def warning(self) -> str:
        """A warning of decisions that nobody has ever made; empty where all were."""
        if not self.beyond:
            return ""
        which = (
            "The decision" if self.count == 1 else f"{self.beyond:,} of {self.count:,} decisions"
        )
        where = "outside those"
        if self.labels:
            one = self.beyond == 1
            where = "an action that was never taken" if one else "actions that were never taken"
        low, high = (self.shown(end) for end in self.made)
        span = "" if self.labels else f", {low} to {high}"
        lie, rest, it = ("is", "rests", "it") if self.beyond == 1 else ("are", "rest", "them")
        return (
            f"{which} about {self.action} {lie} {where} in the data{span}, and {rest} on the model "
            f"alone. Try {it} before you rely on {it}."
        )

    def shown(self, decision: float) -> str:
        """Return a decision as the page shows it: its label, or a rounded number."""
        if not self.labels:
            return f"{decision:.4g}"
        return self.labels[int(np.argmin(np.abs(self.decisions - decision)))]


def what_if(rows: Rows) -> WhatIf | None:
    """Return what the page may decide again; None where the loss has nothing to vary.

    The page decides about each row for itself and without limits, where decisions change no
    outcome.
    """
    problem = rows.cases.problem
    if problem.loss is None or problem.task.per is not None or problem.action is not None:
        return None
    if rows.cost_table is not None:
        return _table_what_if(rows.cost_table, rows)
    return quantile_what_if(problem.loss, rows.draws) if problem.space.is_unlimited else None


def quantile_what_if(loss: Loss, draws: np.ndarray) -> WhatIf | None:
    """Return quantiles of predictions to decide by again; None with nothing to vary."""
    dial = AnyLoss(loss).dial
    if dial is None:
        return None
    chosen = _varied_rows(draws.shape[1])
    handles = zip(HANDLES[dial.kind], dial.values, strict=True)
    return WhatIf(
        kind=dial.kind,
        handles=tuple(Handle(name, value, span) for (name, span), value in handles),
        levels=LEVELS,
        rows=chosen,
        quantiles=predictive_quantiles(draws[:, chosen], LEVELS),
        whole_numbers=are_whole_numbers(draws) and dial.kind == "costs",
    )


def _varied_rows(count: int) -> np.ndarray:
    """Return rows of the table to decide about again: all, or some at random."""
    rows = min(count, MOST_ROWS)
    if rows <= MOST_VARIED:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, MOST_VARIED, replace=False))


def _table_what_if(loss: CostTable, rows: Rows) -> WhatIf | None:
    """Return chances of classes to decide by again; None with nothing to vary."""
    chosen = _varied_rows(rows.draws.shape[1])
    handles, cells, factors = _turned(loss, rows.cases.predictor.columns(loss.needs), chosen)
    if not handles or len(handles) > MOST_HANDLES:
        return None
    outcomes = np.asarray(loss.class_of(rows.draws[:, chosen]))
    classes = np.arange(loss.classes)
    taken = number_of(loss, rows.decisions[chosen])
    return WhatIf(
        kind="table",
        handles=tuple(handles),
        levels=classes,
        rows=chosen,
        quantiles=np.stack([(outcomes == k).mean(axis=0) for k in classes], axis=1),
        whole_numbers=False,
        dial=CostDial(tuple(map(str, loss.actions)), tuple(cells), tuple(factors), taken),
    )


def _turned(
    loss: CostTable, columns: Columns, chosen: np.ndarray
) -> tuple[list[Handle], list[int], list[np.ndarray | None]]:
    """Handles of the costs, the handle of each cell, and what each handle is a multiple of."""
    names = class_names(loss)
    handles: list[Handle] = []
    cells: list[int] = []
    factors: list[np.ndarray | None] = []
    for action, row in zip(loss.actions, loss.costs, strict=True):
        same = all(_is_same(cost, row[0]) for cost in row)
        for column, (name, cost) in enumerate(zip(names, row, strict=True)):
            is_number = isinstance(cost, float | int)
            if same and column:
                cells.append(cells[-1])
            elif is_number and cost == 0:
                cells.append(-1)
            else:
                cells.append(len(handles))
                what = str(action) if same else f"{action}, if {name}"
                what += "" if is_number else f": times {_called(cost)}"
                handles.append(Handle(what, float(cost) if is_number else 1.0, TABLE_SPAN))
                factors.append(None if is_number else _of_rows(cost, columns, chosen))
    return handles, cells, factors


def _of_rows(cost: object, columns: Columns, chosen: np.ndarray) -> np.ndarray:
    """Return a cost that differs from row to row."""
    costs: np.ndarray = np.asarray(value_at(cost, columns), float).ravel()[chosen]
    return costs


def _is_same(one: object, other: object) -> bool:
    """Whether two costs are the same number or column, so that one handle turns both."""
    return isinstance(one, float | int | str) and one == other


def _called(cost: object) -> str:
    """Return the name of what a cost is a multiple of."""
    return cost if isinstance(cost, str) else "its own"
