"""What the posterior predicts for each instance: the decision table and the what-if."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from stakes.calibration import Assessment, are_whole_numbers, predictive_quantiles
from stakes.errors import InputError
from stakes.losses import Asked
from stakes.problem import Problem
from stakes.protocols import Loss, Space
from stakes.report.content import Chosen, Decisions, WhatIf
from stakes.spaces import OneOf, Real

MOST_ROWS = 100_000
"""In the decision table."""
MOST_VARIED = 2_000
"""Instances that the what-if decides about again."""
TAIL = (0.002, 0.005, 0.01, 0.02, 0.03)
LEVELS = np.array([*TAIL, *np.linspace(0.05, 0.95, 31), *(1 - t for t in reversed(TAIL))])

Labels = Mapping[str, Sequence[Any]]
"""Column name -> a value for each instance."""


def decision_table(
    cases: Assessment, labels: Labels | None, chosen: Chosen | None = None
) -> Decisions:
    """One row for each instance, or for the first ones where there are too many."""
    total = cases.decisions.size
    rows = slice(0, min(total, MOST_ROWS))
    columns = _plate_labels(cases) if labels is None else _checked_labels(labels, total)
    calibrated = cases.found["LCVI"].ravel()[rows]
    observed = cases.observed
    ends = (cases.interval if chosen is None else chosen.interval)[rows]
    to_take = cases.found["LCVI"].ravel() if chosen is None else chosen.decisions.ravel()
    actions = _actions(cases.problem.space)
    whole_numbers = all(map(are_whole_numbers, (cases.predicted, calibrated, to_take)))
    return Decisions(
        outcome=cases.problem.outcome,
        labels={name: values[rows] for name, values in columns.items()},
        low=ends[:, 0],
        high=ends[:, 1],
        vi=cases.found["VI"].ravel()[rows],
        calibrated=calibrated,
        observed=np.full(total, np.nan)[rows]
        if observed is None
        else observed.values.ravel()[rows],
        decimals=_decimals(ends, whole_numbers),
        total=total,
        draws=len(cases.predicted),
        chosen=None if chosen is None else to_take[rows],
        sum=float(to_take.sum()) if _are_counts(cases.predicted) and not actions else None,
        actions=actions,
        counts=_counted(to_take, actions),
    )


def _actions(space: Space) -> tuple[str, ...]:
    """Labels of the actions, where decisions are no numbers."""
    if not isinstance(space, OneOf) or space.are_numbers:
        return ()
    return tuple(map(str, space.labels))


def _counted(decisions: np.ndarray, actions: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    return tuple((name, int((decisions == number).sum())) for number, name in enumerate(actions))


def _are_counts(outcomes: np.ndarray) -> bool:
    """Things that can be added up; not just yes and no."""
    return bool(outcomes.min() >= 0 and outcomes.max() > 1 and are_whole_numbers(outcomes))


def loss_to_vary(problem: Problem) -> Loss | None:
    """The page decides by quantiles, each instance for itself and without limits."""
    alone = isinstance(problem.space, Real) and problem.aim.per is None
    return problem.loss if alone else None


def what_if(loss: Loss | None, draws: np.ndarray, unit: float = 1.0) -> WhatIf | None:
    """From predictive draws of all instances; None where the loss has no parameter to vary."""
    dial = None if loss is None else Asked(loss).dial
    if dial is None:
        return None
    rows = min(draws.shape[1], MOST_ROWS)
    chosen = np.arange(rows)
    if rows > MOST_VARIED:
        chosen = np.sort(np.random.default_rng(0).choice(rows, MOST_VARIED, replace=False))
    return WhatIf(
        **dial._replace(factor=unit * dial.factor)._asdict(),
        levels=LEVELS,
        rows=chosen,
        quantiles=predictive_quantiles(draws[:, chosen], LEVELS),
        whole_numbers=are_whole_numbers(draws) and dial.kind == "tilted",
    )


def _decimals(ends: np.ndarray, whole_numbers: bool) -> int:
    """Enough to show a hundredth of the width of a typical interval."""
    width = float(np.median(ends[:, 1] - ends[:, 0]))
    if whole_numbers or not 0 < width < math.inf:
        return 0 if whole_numbers else 3
    return int(np.clip(2 - math.floor(math.log10(width)), 0, 9))


def _plate_labels(cases: Assessment) -> dict[str, tuple[str | int | float, ...]]:
    decisions = cases.decisions
    if not decisions.dims:
        return {"instance": (cases.problem.outcome,)}
    members = [decisions.coords[dim].values.tolist() for dim in decisions.dims]
    columns = zip(*product(*members), strict=True)
    return {str(dim): _plain(values) for dim, values in zip(decisions.dims, columns, strict=True)}


def _checked_labels(labels: Labels, total: int) -> dict[str, tuple[str | int | float, ...]]:
    columns = {str(name): np.ravel(np.asarray(values)) for name, values in labels.items()}
    for name, values in columns.items():
        if len(values) != total:
            raise InputError(
                f"`summarise(labels=...)`: {name!r} has {len(values)} values for {total} "
                f"instances; give one for each, in the order of the data."
            )
    return {name: _plain(values.tolist()) for name, values in columns.items()}


def _plain(values: Sequence[Any]) -> tuple[str | int | float, ...]:
    """Numbers as numbers, so that they sort as such; all else as text."""
    return tuple(v if type(v) in (int, float) else str(v) for v in values)
