"""The first screen: what to decide and what that is expected to cost; and whether to believe it."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from stakes.losses import AnyLoss
from stakes.report.rows import Rows
from stakes.report.worth import Quality, Recommendation
from stakes.study import Summary

LATEST = 7
"""Rows that stand for the present where nobody says which rows to decide about."""
FIRST, ALL = 7, 10
"""Rows of decisions on the first screen; a few more, where these are all."""
WHERE = {"held out": "held out", "fit": "of the fit", "new": "that are new"}


def answer(rows: Rows, *, gain: bool, unit: str | None) -> Recommendation:
    """The decisions to take: all of a new table, or the latest of the data."""
    every, problem = len(rows.decisions), rows.cases.problem
    count = every if rows.part == "new" or every <= 2 * LATEST else LATEST
    taken = slice(every - count, every)
    decisions, sign = rows.decisions[taken], -1.0 if gain else 1.0
    shown = count if count <= ALL else FIRST
    dial = None if problem.loss is None or problem.action else AnyLoss(problem.loss).dial
    under_and_over = None
    if dial is not None and dial.kind == "costs":
        under_and_over = (dial.values[0], dial.values[1])
    return Recommendation(
        where=f"of {rows.where}" if rows.where else WHERE.get(rows.part, rows.part),
        count=count,
        every=every,
        rows=tuple(range(every - count, every - count + shown)),
        total=float(decisions.sum()) if rows.are_counts else None,
        actions=tuple(
            (name, int((decisions == number).sum())) for number, name in enumerate(rows.actions)
        ),
        cost=sign * float(rows.costs[taken].sum()),
        others=tuple(
            (name, sign * float(rows.expected(decided)[taken].sum()))
            for name, decided in rows.others.items()
        ),
        doubts=rows.doubts,
        basis=rows.basis,
        gain=gain,
        unit=unit,
        about=rows.about or problem.action or problem.outcome,
        costs=under_and_over,
    )


def quality(
    judged: Rows, choice: Summary | None, *, unseen: bool, gain: bool, unit: str | None
) -> Quality | None:
    """What the model expected of outcomes that came, best of outcomes that it had not seen."""
    counted = np.isfinite(judged.seen)
    if not counted.any():
        return None
    changes_outcomes = judged.cases.problem.action is not None
    shares = _shares(judged, counted)
    due = _coverage(judged, judged.draws)
    held: Mapping[float, float | None] = _coverage(judged, judged.seen, counted)
    folds = None if unseen or changes_outcomes else choice
    if folds is not None:
        held = {0.9: folds.line().coverage_90, 0.5: folds.line().coverage_50}
    coverage = ((level, share, due[level]) for level, share in held.items() if share is not None)
    quality = Quality(
        outcomes=int(counted.sum()) if folds is None else folds.outcomes,
        unseen=unseen or folds is not None,
        coverage=() if shares else tuple(coverage),
        shares=shares if folds is None else (),
        gain=gain,
        unit=unit,
    )
    if changes_outcomes:  # those that came are of other decisions
        return quality
    sign = -1.0 if gain else 1.0
    quality = replace(quality, expected=sign * float(judged.costs[counted].mean()))
    if folds is not None:
        return replace(quality, realised=folds.line().risk, error=folds.error)
    realised = sign * judged.realised
    error = float(realised.std() / np.sqrt(len(realised)))
    return replace(quality, realised=float(realised.mean()), error=error, folds=choice)


def _shares(judged: Rows, counted: np.ndarray) -> tuple[tuple[str, float, float], ...]:
    """Of classes: what was expected of each, and what came; zero is what is left."""
    came = judged.seen[counted]
    return tuple(
        (name, float(chance[counted].mean()), float((came == float(name)).mean()))
        for name, chance in judged.chances.items()
        if name != "0"
    )


def _coverage(
    judged: Rows, outcomes: np.ndarray, counted: np.ndarray | slice = slice(None)
) -> dict[float, float]:
    """Level -> share of outcomes within the central range of that level."""
    low, lower, upper, high = judged.ranges[counted].T
    came = outcomes[..., counted]
    inside = {0.9: (low <= came) & (came <= high), 0.5: (lower <= came) & (came <= upper)}
    return {level: float(held.mean()) for level, held in inside.items()}
