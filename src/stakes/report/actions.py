"""Actions by the classes that came: how often, and at what cost."""

from itertools import pairwise

import numpy as np

from stakes.losses import CostTable
from stakes.report.action_table import ActionTable, Benefit
from stakes.report.rows import Rows
from stakes.study import net_benefit

THRESHOLDS = tuple(round(0.01 * each, 2) for each in (*range(1, 10), *range(10, 65, 5)))


def action_table(rows: Rows) -> ActionTable | None:
    """None where the loss is no table of costs, or no outcomes came of such actions."""
    problem, seen = rows.cases.problem, rows.cases.observations
    loss = problem.loss
    if not isinstance(loss, CostTable) or seen is None or problem.action is not None:
        return None
    counted = seen.counted.ravel()
    number = np.array(loss.space.actions)
    action = np.argmin(np.abs(rows.decisions[counted][:, None] - number), axis=1)
    outcome = np.asarray(loss.class_of(seen.outcomes)).astype(int).ravel()[counted]
    counts = np.zeros((len(number), loss.classes), int)
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


def class_names(loss: CostTable) -> tuple[str, ...]:
    """Numbers of the classes, or the values that make each."""
    if loss.bins is None:
        return tuple(map(str, range(loss.classes)))
    edges = [f"{edge:.4g}" for edge in loss.bins]
    between = [f"{low} to {high}" for low, high in pairwise(edges)]
    return (f"below {edges[0]}", *between, f"{edges[-1]} or more")


def _benefits(
    rows: Rows, loss: CostTable, outcome: np.ndarray, counted: np.ndarray
) -> tuple[Benefit, ...]:
    chance = np.asarray(loss.class_of(rows.draws)).mean(axis=0)[counted]
    every = np.ones(len(chance))
    return tuple(
        Benefit(
            threshold,
            1000 * net_benefit(outcome, chance, threshold),
            1000 * net_benefit(outcome, every, threshold),
        )
        for threshold in THRESHOLDS
    )
