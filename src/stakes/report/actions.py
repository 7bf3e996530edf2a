"""Actions by the classes that came: how often, at what cost, and what acting is worth.

For two actions and two classes, the net benefit over thresholds shows what the model adds whatever
the costs are (Vickers and Elkin, *Decision curve analysis*, 2006).
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np

from stakes.losses import CostTable
from stakes.report.rows import Rows
from stakes.study import net_benefit

# Chances above which to act, at which the net benefit is drawn: denser where events are rare.
THRESHOLDS = tuple(round(0.01 * k, 2) for k in (*range(1, 10), *range(10, 65, 5)))
# Thresholds whose net benefit is given in a table, too.
IN_NUMBERS = (0.05, 0.1, 0.2, 0.3, 0.5)


@final
@dataclass(frozen=True)
class Benefit:
    """What acting on all cases above a chance is worth, in cases for each 1,000.

    Attributes:
        threshold: the chance above which to act.
        by_model: the net benefit with the chances of the model.
        on_all: the net benefit of acting on all cases.
    """

    threshold: float
    by_model: float
    on_all: float


@final
@dataclass(frozen=True)
class ActionTable:
    """Actions by the classes that came.

    Attributes:
        counts: action x class.
        costs: what all cases of an action and a class cost together.
        benefits: for two actions and two classes.
    """

    actions: tuple[str, ...]
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    costs: tuple[tuple[float, ...], ...]
    benefits: tuple[Benefit, ...] = ()

    @property
    def some_benefits(self) -> tuple[Benefit, ...]:
        """The benefits at round thresholds, for a table."""
        return tuple(line for line in self.benefits if line.threshold in IN_NUMBERS)


def action_table(rows: Rows) -> ActionTable | None:
    """Count actions by class; None without a table of costs, or without outcomes."""
    problem, seen = rows.cases.problem, rows.cases.observations
    loss = rows.cost_table
    if loss is None or seen is None or problem.action is not None:
        return None
    counted = seen.counted.ravel()
    action = number_of(loss, rows.decisions[counted])
    outcome = np.asarray(loss.class_of(seen.outcomes)).astype(int).ravel()[counted]
    counts = np.zeros((len(loss.actions), loss.classes), int)
    costs = np.zeros(counts.shape)
    np.add.at(counts, (action, outcome), 1)
    np.add.at(costs, (action, outcome), rows.realised)
    return ActionTable(
        actions=tuple(map(str, loss.actions)),
        classes=class_names(loss),
        counts=tuple(tuple(map(int, row)) for row in counts),
        costs=tuple(tuple(map(float, row)) for row in costs),
        benefits=_benefits(rows, loss, outcome, counted) if counts.shape == (2, 2) else (),
    )


def number_of(loss: CostTable, decisions: np.ndarray) -> np.ndarray:
    """Return the number of the action that each decision stands for."""
    number: np.ndarray = np.abs(decisions[:, None] - np.array(loss.space.actions)).argmin(axis=1)
    return number


def class_names(loss: CostTable) -> tuple[str, ...]:
    """Return numbers of the classes, or the values that make each."""
    if loss.bins is None:
        return tuple(map(str, range(loss.classes)))
    edges = [f"{edge:.4g}" for edge in loss.bins]
    between = [f"{low} to {high}" for low, high in pairwise(edges)]
    return (f"below {edges[0]}", *between, f"{edges[-1]} or more")


def _benefits(
    rows: Rows, loss: CostTable, outcome: np.ndarray, counted: np.ndarray
) -> tuple[Benefit, ...]:
    """Return the net benefit at each threshold."""
    chance = np.asarray(loss.class_of(rows.draws)).mean(axis=0)[counted]
    chances = (chance, np.ones(len(chance)))
    return tuple(
        Benefit(at, *(1000 * net_benefit(outcome, above, at) for above in chances))
        for at in THRESHOLDS
    )
