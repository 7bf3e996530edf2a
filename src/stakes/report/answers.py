"""The first screen: what to decide and what that is expected to cost; and whether to believe it."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from stakes.losses import AnyLoss
from stakes.problem import Problem
from stakes.report.rows import Rows
from stakes.report.worth import Answer, Quality, Worth

LATEST = 7
"""Rows that stand for the present where nobody says which rows to decide about."""
FIRST, ALL = 7, 10
"""Rows of decisions on the first screen; a few more, where these are all."""
WHERE = {"held out": "held out", "fit": "of the fit", "new": "that are new"}


def answer(rows: Rows, *, gain: bool, unit: str | None) -> Answer:
    """The decisions to take: all of a new table, or the latest of the data."""
    every = len(rows.decisions)
    count = every if rows.part == "new" or every <= 2 * LATEST else LATEST
    taken = slice(every - count, every)
    decisions, sign = rows.decisions[taken], -1.0 if gain else 1.0
    shown = count if count <= ALL else FIRST
    first = range(every - count, every - count + shown)
    return Answer(
        where=f"of {rows.where}" if rows.where else WHERE.get(rows.part, rows.part),
        count=count,
        every=every,
        rows=tuple(first),
        total=float(decisions.sum()) if rows.are_counts else None,
        actions=_counted(decisions, rows.actions),
        cost=sign * float(rows.costs[taken].sum()),
        others=tuple(
            (name, sign * float(rows.expected(each)[taken].sum()))
            for name, each in rows.others.items()
        ),
        doubts=rows.doubts,
        basis=rows.basis,
        gain=gain,
        unit=unit,
        about=rows.about or rows.cases.problem.action or rows.cases.problem.outcome,
        costs=_costs(rows.cases.problem),
    )


def _costs(problem: Problem) -> tuple[float, float] | None:
    dial = None if problem.loss is None or problem.action else AnyLoss(problem.loss).dial
    if dial is None or dial.kind != "costs":
        return None
    under, over = dial.values
    return under, over


def _counted(decisions: np.ndarray, actions: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    return tuple((name, int((decisions == number).sum())) for number, name in enumerate(actions))


def quality(
    judged: Rows, worth: Worth | None, *, unseen: bool, gain: bool, unit: str | None
) -> Quality | None:
    """What the model expected of outcomes that came, best of such that it had not seen."""
    counted = np.isfinite(judged.seen)
    if not counted.any():
        return None
    sign = -1.0 if gain else 1.0
    shares = _shares(judged, counted)
    found = Quality(
        outcomes=int(counted.sum()),
        unseen=unseen,
        coverage=() if shares else _covered(judged, counted),
        shares=shares,
        gain=gain,
        unit=unit,
    )
    if judged.cases.problem.action is not None:  # outcomes came of other decisions
        return found
    realised = sign * judged.realised
    found = replace(
        found,
        expected=sign * float(judged.costs[counted].mean()),
        realised=float(realised.mean()),
        error=float(realised.std() / np.sqrt(len(realised))),
    )
    if worth is None or unseen:
        return replace(found, folds=worth)
    return replace(
        found,
        outcomes=worth.summary.outcomes,
        unseen=True,
        coverage=() if shares else _of_folds(worth, judged),
        shares=(),
        realised=worth.summary.line().risk,
        error=worth.summary.error,
    )


def _shares(judged: Rows, counted: np.ndarray) -> tuple[tuple[str, float, float], ...]:
    """Of classes: what was expected of each, and what came; zero is what is left."""
    came = judged.seen[counted]
    chances: Mapping[str, np.ndarray] = judged.chances
    return tuple(
        (name, float(each[counted].mean()), float((came == float(name)).mean()))
        for name, each in chances.items()
        if name != "0"
    )


def _of_folds(worth: Worth, judged: Rows) -> tuple[tuple[float, float, float], ...]:
    due = _inside(judged, judged.draws)
    both = {0.9: worth.summary.line().coverage_90, 0.5: worth.summary.line().coverage_50}
    return tuple((level, held, due[level]) for level, held in both.items() if held is not None)


def _covered(judged: Rows, counted: np.ndarray) -> tuple[tuple[float, float, float], ...]:
    due = _inside(judged, judged.draws)
    held = _inside(judged, judged.seen, counted)
    return tuple((level, held[level], due[level]) for level in held)


def _inside(
    judged: Rows, outcomes: np.ndarray, counted: np.ndarray | slice = slice(None)
) -> dict[float, float]:
    """Level -> share of outcomes within the central range of that level."""
    low, lower, upper, high = judged.ranges[counted].T
    came = outcomes[..., counted]
    inside = {0.9: (low <= came) & (came <= high), 0.5: (lower <= came) & (came <= upper)}
    return {level: float(held.mean()) for level, held in inside.items()}
