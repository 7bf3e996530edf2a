"""What is decided and predicted for each instance: the decision table and the what-if."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from stakes.errors import InputError
from stakes.losses import AnyLoss
from stakes.problem import Problem
from stakes.protocols import Loss
from stakes.report.content import Column, Decisions, Handle, WhatIf
from stakes.report.rows import Labels, Rows
from stakes.study import Assessment, are_whole_numbers, predictive_quantiles

MOST_ROWS = 100_000
"""In the decision table."""
MOST_VARIED = 2_000
"""Instances that the what-if decides about again."""
TAIL = (0.002, 0.005, 0.01, 0.02, 0.03)
LEVELS = np.array([*TAIL, *np.linspace(0.05, 0.95, 31), *(1 - t for t in reversed(TAIL))])
HANDLES = {
    "costs": (("cost of a unit short", 5.0), ("cost of a unit too many", 5.0)),
    "linex": (("c, how lopsided the loss is", 3.0),),
}
"""What a loss has to turn, each with the factor by which."""


def decision_table(parts: Sequence[Rows], *, gain: bool = False) -> Decisions:
    """One row for each instance, part by part, or for the first ones where there are too many."""

    def joined(values: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(values)[:MOST_ROWS]

    first, sign = parts[0], -1.0 if gain else 1.0
    about = first.cases.problem.action
    ends = joined([part.ranges[:, [0, -1]] for part in parts])
    if about is not None:  # what comes depends on the decision
        ends = np.full(ends.shape, np.nan)
    taken = joined([part.decisions for part in parts])
    calibrated = taken  # unless there is such a fit
    if all("LCVI" in part.cases.found for part in parts):
        calibrated = joined([part.cases.found["LCVI"].ravel() for part in parts])
    names = [part.part for part in parts for _ in range(len(part.decisions))]
    shown = all(are_whole_numbers(part.draws) for part in parts)
    whole_numbers = shown and are_whole_numbers(calibrated) and are_whole_numbers(taken)
    classes = dict.fromkeys(name for part in parts for name in part.chances)
    costs = sign * joined([part.costs for part in parts])
    return Decisions(
        outcome=first.about or first.cases.problem.outcome,
        labels=_side_by_side({part: _labels(part) for part in parts}),
        low=ends[:, 0],
        high=ends[:, 1],
        vi=joined([part.cases.found["VI"].ravel() for part in parts]),
        calibrated=calibrated,
        observed=joined([part.seen for part in parts]),
        decimals=_decimals(ends if about is None else _around(calibrated), whole_numbers),
        total=sum(len(part.decisions) for part in parts),
        draws=len(first.draws),
        chosen=None if first.decided is None and first.method == "LCVI" else taken,
        costs=costs if np.isfinite(costs).all() else None,
        inputs=_side_by_side({part: _checked_labels(part.inputs, part) for part in parts}),
        parts=tuple(names[:MOST_ROWS]) if len(parts) > 1 else (),
        chances={
            name: joined([part.chances.get(name, np.zeros(len(part.decisions))) for part in parts])
            for name in (classes if about is None else ())
        },
        actions=first.actions,
        about=about,
    )


def loss_to_vary(problem: Problem) -> Loss | None:
    """The page decides by quantiles, each instance for itself and without limits."""
    alone = problem.space.is_unlimited and problem.task.per is None
    return problem.loss if alone else None


def what_if(loss: Loss | None, draws: np.ndarray) -> WhatIf | None:
    """From predictive draws of the first instances; None where there is nothing to vary."""
    dial = None if loss is None else AnyLoss(loss).dial
    if dial is None:
        return None
    chosen = varied_rows(draws.shape[1])
    handles = zip(HANDLES[dial.kind], dial.values, strict=True)
    return WhatIf(
        kind=dial.kind,
        handles=tuple(Handle(name, value, span) for (name, span), value in handles),
        levels=LEVELS,
        rows=chosen,
        quantiles=predictive_quantiles(draws[:, chosen], LEVELS),
        whole_numbers=are_whole_numbers(draws) and dial.kind == "costs",
    )


def varied_rows(count: int) -> np.ndarray:
    """Of so many rows, those that a what-if decides about again: all, or some at random."""
    rows = min(count, MOST_ROWS)
    if rows <= MOST_VARIED:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, MOST_VARIED, replace=False))


def _around(decisions: np.ndarray) -> np.ndarray:
    """The span of decisions that are no guesses of outcomes, for as many decimals as they need."""
    size = np.ptp(decisions) or abs(float(decisions[0]))
    return np.array([[0.0, size]])


def _decimals(ends: np.ndarray, whole_numbers: bool) -> int:
    """Enough to show a hundredth of the width of a typical interval."""
    width = float(np.median(ends[:, 1] - ends[:, 0]))
    if whole_numbers or not 0 < width < math.inf:
        return 0 if whole_numbers else 3
    return int(np.clip(2 - math.floor(math.log10(width)), 0, 9))


def _labels(part: Rows) -> dict[str, Column]:
    if part.labels is None:
        return _plate_labels(part.cases)
    return _checked_labels(part.labels, part)


def _side_by_side(parts: dict[Rows, dict[str, Column]]) -> dict[str, Column]:
    """Columns of all parts, one below the other; empty where a part has no such column."""
    names = dict.fromkeys(name for columns in parts.values() for name in columns)
    return {
        name: tuple(
            value
            for part, columns in parts.items()
            for value in columns.get(name, ("",) * len(part.decisions))
        )[:MOST_ROWS]
        for name in names
    }


def _plate_labels(cases: Assessment) -> dict[str, Column]:
    decisions = cases.vi_decisions
    if not decisions.dims:
        return {"instance": (cases.problem.outcome,)}
    members = [decisions.coords[dim].values.tolist() for dim in decisions.dims]
    columns = zip(*product(*members), strict=True)
    return {str(dim): _plain(values) for dim, values in zip(decisions.dims, columns, strict=True)}


def _checked_labels(labels: Labels, part: Rows) -> dict[str, Column]:
    total = len(part.decisions)
    columns = {str(name): np.ravel(np.asarray(values)) for name, values in labels.items()}
    for name, values in columns.items():
        if len(values) != total:
            raise InputError(
                f"`summarise(labels=...)`: {name!r} has {len(values)} values for {total} "
                f"instances; give one for each, in the order of the data."
            )
    return {name: _plain(values.tolist()) for name, values in columns.items()}


def _plain(values: Sequence[Any]) -> Column:
    """Numbers as numbers, so that they sort as such; all else as text."""
    return tuple(v if type(v) in (int, float) else str(v) for v in values)
