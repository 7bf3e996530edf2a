"""What if the costs of actions were different: what the page needs to decide again."""

import numpy as np

from stakes.losses import CostTable
from stakes.report.actions import class_names
from stakes.report.content import CostDial, Handle, WhatIf
from stakes.report.predictions import varied_rows
from stakes.report.rows import Rows
from stakes.varying import Columns, value_at

SPAN = 5.0
"""A cost may be turned up and down by this factor."""
MOST_HANDLES = 12


def table_what_if(rows: Rows) -> WhatIf | None:
    """None where the loss is no table of costs, or decisions change outcomes or are shared."""
    problem, loss = rows.cases.problem, rows.cases.problem.loss
    alone = problem.task.per is None and problem.action is None
    if not isinstance(loss, CostTable) or not alone:
        return None
    chosen = varied_rows(rows.draws.shape[1])
    handles, cells, factors = _turned(loss, rows.cases.predictor.columns(loss.needs), chosen)
    if not handles or len(handles) > MOST_HANDLES:
        return None
    outcomes = np.asarray(loss.class_of(rows.draws[:, chosen]))
    classes = np.arange(loss.classes)
    taken = np.abs(rows.decisions[chosen][:, None] - np.array(loss.space.actions)).argmin(axis=1)
    return WhatIf(
        kind="table",
        handles=tuple(handles),
        levels=classes,
        rows=chosen,
        quantiles=np.stack([(outcomes == each).mean(axis=0) for each in classes], axis=1),
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
        for place, (name, cost) in enumerate(zip(names, row, strict=True)):
            told = isinstance(cost, float | int)
            if same and place:
                cells.append(cells[-1])
            elif told and cost == 0:
                cells.append(-1)
            else:
                cells.append(len(handles))
                what = str(action) if same else f"{action}, if {name}"
                what += "" if told else f": times {_called(cost)}"
                handles.append(Handle(what, float(cost) if told else 1.0, SPAN))
                values = None if told else np.asarray(value_at(cost, columns), float).ravel()
                factors.append(None if values is None else values[chosen])
    return handles, cells, factors


def _is_same(one: object, other: object) -> bool:
    """Whether two costs are the same number or column, so that one handle turns both."""
    return isinstance(one, float | int | str) and one == other


def _called(cost: object) -> str:
    return cost if isinstance(cost, str) else "its own"
