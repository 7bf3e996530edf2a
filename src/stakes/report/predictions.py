"""What the posterior predicts for each instance: the decision table and the what-if."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from stakes.errors import InputError
from stakes.evaluation import Observations
from stakes.losses import Absolute, LinEx, Tilted
from stakes.report.content import Decisions, WhatIf
from stakes.result import Calibration
from stakes.typing import Loss

MOST_VALUES = 20_000_000
"""Predictive draws held at once: 200 for each of 100,000 instances."""
MOST_ROWS = 100_000
"""Of the decision table."""
MOST_VARIED = 2_000
"""Instances that the what-if decides for anew."""
TAIL = (0.002, 0.005, 0.01, 0.02, 0.03)
LEVELS = np.array([*TAIL, *np.linspace(0.05, 0.95, 31), *(1 - t for t in reversed(TAIL))])
WIDEST = 3.0
"""The what-if takes the c of a LinEx loss this many times as large and as small."""


def draws_for(instances: int) -> int:
    """Many predictive draws for a few instances, a few for many."""
    return int(np.clip(MOST_VALUES // max(instances, 1), 50, 4000))


def decision_table(
    result: Calibration,
    labels: Mapping[str, Sequence[Any]] | None,
    seen: Observations,
    draws: np.ndarray,
) -> Decisions:
    """One row for each instance of the fit; `draws` are predictive ones, along a leading axis."""
    total = seen.outcomes.size
    rows = slice(0, min(total, MOST_ROWS))
    columns = _plate_labels(result) if labels is None else _checked_labels(labels, total)
    ends = predictive_quantiles(draws[:, rows], np.array([0.05, 0.95]))
    observed = np.where(seen.counted, seen.outcomes, np.nan).ravel()[rows]
    calibrated = result.decisions.values.ravel()[rows]
    return Decisions(
        outcome=result.problem.outcome,
        labels={name: values[rows] for name, values in columns.items()},
        low=ends[:, 0],
        high=ends[:, 1],
        vi=result.vi_decisions.values.ravel()[rows],
        calibrated=calibrated,
        observed=observed,
        decimals=_decimals(ends, are_whole_numbers(draws) and are_whole_numbers(calibrated)),
        total=total,
        draws=len(draws),
    )


def what_if(loss: Loss | None, draws: np.ndarray) -> WhatIf | None:
    """From predictive draws of all instances; None where the loss has no parameter."""
    if isinstance(loss, LinEx):
        kind, parameter, factor = "linex", loss.c, 1.0
        low, high = sorted((loss.c / WIDEST, loss.c * WIDEST))
    elif isinstance(loss, Tilted | Absolute):
        parameter, factor = (loss.q, 1.0) if isinstance(loss, Tilted) else (0.5, 2.0)
        kind, low, high = "tilted", min(0.02, parameter), max(0.98, parameter)
    else:
        return None
    rows = min(draws.shape[1], MOST_ROWS)
    chosen = np.arange(rows)
    if rows > MOST_VARIED:
        chosen = np.sort(np.random.default_rng(0).choice(rows, MOST_VARIED, replace=False))
    return WhatIf(
        kind=kind,
        parameter=parameter,
        factor=factor,
        low=low,
        high=high,
        levels=LEVELS,
        rows=chosen,
        quantiles=predictive_quantiles(draws[:, chosen], LEVELS),
        whole_numbers=are_whole_numbers(draws) and kind == "tilted",
    )


def predictive_quantiles(draws: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Instance x level; of whole numbers the quantiles are whole numbers, too."""
    method: Any = "inverted_cdf" if are_whole_numbers(draws) else "linear"
    found = np.empty((draws.shape[1], len(levels)))
    for start in range(0, draws.shape[1], 10_000):
        some = slice(start, start + 10_000)
        found[some] = np.quantile(draws[:, some], levels, axis=0, method=method).T
    return found


def are_whole_numbers(values: np.ndarray) -> bool:
    return bool((values == np.round(values)).all())


def _decimals(ends: np.ndarray, whole_numbers: bool) -> int:
    """Enough to tell a hundredth of the width of a typical interval."""
    width = float(np.median(ends[:, 1] - ends[:, 0]))
    if whole_numbers or not 0 < width < math.inf:
        return 0 if whole_numbers else 3
    return int(np.clip(2 - math.floor(math.log10(width)), 0, 9))


def _plate_labels(result: Calibration) -> dict[str, tuple[Any, ...]]:
    decisions = result.decisions
    if not decisions.dims:
        return {"instance": (result.problem.outcome,)}
    members = [decisions.coords[dim].values.tolist() for dim in decisions.dims]
    columns = zip(*product(*members), strict=True)
    return {str(dim): _plain(values) for dim, values in zip(decisions.dims, columns, strict=True)}


def _checked_labels(
    labels: Mapping[str, Sequence[Any]], total: int
) -> dict[str, tuple[str | int | float, ...]]:
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
