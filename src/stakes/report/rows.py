"""The cases that a report is about: what is decided, at what cost, and whether to believe it.

`Rows` are cases with a decision for each: by the strategy that was chosen, or else by a posterior.
`answer` says what to do now, and `quality` what was expected of outcomes that came since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from stakes import checks
from stakes.losses import AnyLoss, CostTable
from stakes.predicting import CENTRAL, FittedPosterior
from stakes.report.worth import Quality, Recommendation
from stakes.study import (
    Cases,
    Summary,
    are_inside,
    are_whole_numbers,
    predictive_quantiles,
)

# Outcomes of more values than this are quantities and not classes.
MOST_CLASSES = 6
# Where rows may come from.
PARTS = ("new", "held out", "fit")

# Rows that stand for the present where nobody says which rows to decide about: a week of days.
LATEST = 7
# Rows of decisions on the first screen; a few more, where these are all.
FIRST, ALL = 7, 10
# Where rows come from, as a sentence says it.
WHERE = {"held out": "held out", "fit": "of the fit", "new": "that are new"}

# Column name -> a value for each case.
Labels = Mapping[str, Sequence[Any]]


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Some cases, and what is to be decided about them.

    What is left out comes from the calibrated posterior; or from plain VI, if there is no
    calibrated one, or if decisions cannot be judged by data, so that nothing shows that calibration
    helps.

    Attributes:
        part: where they come from: "new", "held out" or "fit".
        where: the same in words that readers understand, such as the name of a file.
        labels: what identifies each row; by default the labels of the plates.
        inputs: what the model was told about each row.
        decided: by the way that was chosen.
        drawn: outcomes that this way predicts: draw x case.
        others: what simple rules would decide.
        doubts: why decisions about some of these rows are not to be relied on.
        basis: which rows the fit behind the decisions rests on, as a sentence.
        about: what the outcomes are called by the user; as in the model where left out.
    """

    part: str
    cases: Cases
    where: str = ""
    labels: Labels | None = None
    inputs: Labels = field(default_factory=dict)
    decided: np.ndarray | None = None
    drawn: np.ndarray | None = None
    others: Mapping[str, np.ndarray] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    basis: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        texts = {"where": str, "basis": str, "about": str}
        checks.fields(self, cases=Cases, inputs=Mapping, others=Mapping, **texts)
        checks.one_of("`Rows(part=...)`", self.part, PARTS)
        doubts = checks.names("`Rows(doubts=...)`", self.doubts, "a sentence or several")
        checks.assign(self, doubts=doubts)
        if self.labels is not None:
            checks.labels("`Rows(labels=...)`", self.labels)
        for name in ("decided", "drawn"):
            if getattr(self, name) is not None:
                checks.array(f"`Rows({name}=...)`", getattr(self, name))

    @property
    def cost_table(self) -> CostTable | None:
        """The table of costs that decisions are judged by; None for any other loss."""
        loss = self.cases.problem.loss
        return loss if isinstance(loss, CostTable) else None

    @property
    def method(self) -> str:
        """The name of that posterior."""
        is_judged = self.cases.problem.why_not_judged is None
        return "LCVI" if is_judged and "LCVI" in self.cases.posteriors else "VI"

    @property
    def posterior(self) -> FittedPosterior:
        """The posterior that decides, where no other strategy was chosen."""
        return self.cases.posteriors[self.method]

    @property
    def decisions(self) -> np.ndarray:
        """The decisions to take, as numbers."""
        found = self.cases.decide(self.posterior) if self.decided is None else self.decided
        return np.asarray(found, float).ravel()

    @property
    def draws(self) -> np.ndarray:
        """Outcomes that the strategy predicts: draw x case."""
        return self.cases.drawn(self.posterior) if self.drawn is None else self.drawn

    @cached_property
    def ranges(self) -> np.ndarray:
        """Case x (5, 25, 75, 95 %) of what is predicted."""
        return predictive_quantiles(self.draws, np.array(CENTRAL))

    @cached_property
    def costs(self) -> np.ndarray:
        """What each decision is expected to cost; minus its utility, where there is one."""
        return self.expected(self.decisions)

    def expected(self, decisions: np.ndarray) -> np.ndarray:
        """Return what decisions are expected to cost; nan where they change outcomes."""
        if self.cases.problem.action is not None:
            return np.full(self.draws.shape[1], np.nan)
        return self.cases.mean_costs(self.draws, decisions.reshape(self.cases.instances.shape))

    @cached_property
    def seen(self) -> np.ndarray:
        """The outcomes that came; nan where there are none."""
        observed = self.cases.observed
        if observed is None:
            return np.full(self.draws.shape[1], np.nan)
        return np.asarray(observed.values, float).ravel()

    @property
    def realised(self) -> np.ndarray:
        """What the decisions did cost, where outcomes came that count."""
        found = self.cases.observations
        assert found is not None
        return found.costs(self.cases.problem.task, self.decisions.reshape(found.outcomes.shape))

    @property
    def actions(self) -> tuple[str, ...]:
        """Labels of the actions, where decisions are no numbers."""
        space = self.cases.problem.space
        if space.are_numbers:
            return ()
        return tuple(map(str, space.labels))

    @cached_property
    def classes(self) -> tuple[float, ...]:
        """The values of outcomes that are classes: a few whole numbers from zero."""
        if not (are_whole_numbers(self.draws) and self.draws.min() >= 0):
            return ()
        top = max(self.draws.max(), np.nanmax(self.seen, initial=0.0))
        are_few = top == 1 or (self.actions and top < MOST_CLASSES)
        return tuple(np.arange(top + 1)) if are_few else ()

    @cached_property
    def chances(self) -> dict[str, np.ndarray]:
        """Class -> its probability for each row."""
        return {f"{value:.0f}": (self.draws == value).mean(axis=0) for value in self.classes}

    @property
    def are_counts(self) -> bool:
        """Whether decisions can be added up: outcomes are counts, and not just yes and no."""
        problem = self.cases.problem
        if problem.action is not None or problem.task.per is not None:
            return False  # a price, or one decision many times over
        whole = are_whole_numbers(self.draws) and self.draws.min() >= 0 and self.draws.max() > 1
        return bool(whole and not self.actions)


def answer(rows: Rows, *, gain: bool, unit: str | None) -> Recommendation:
    """Return the decisions to take: all of a new table, or the latest of the data.

    Args:
        rows: the cases to decide about.
        gain: whether costs are negative utilities.
        unit: the unit of costs.
    """
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
    """Return what the model expected of outcomes that came, best of outcomes that it had not seen.

    Args:
        judged: cases with outcomes.
        choice: what strategies cost on folds, which judge where no rows are held out.
        unseen: whether the fit had not seen these outcomes.
        gain: whether costs are negative utilities.
        unit: the unit of costs.
    """
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
    """Return how often each class but zero was expected, and how often it came."""
    came = judged.seen[counted]
    return tuple(
        (name, float(chance[counted].mean()), float((came == float(name)).mean()))
        for name, chance in judged.chances.items()
        if name != "0"
    )


def _coverage(
    judged: Rows, outcomes: np.ndarray, counted: np.ndarray | slice = slice(None)
) -> dict[float, float]:
    """Return level -> share of outcomes within the central range of that level."""
    inside = are_inside(judged.ranges[counted], outcomes[..., counted])
    half, most = inside.reshape(-1, 2).mean(axis=0)
    return {0.9: float(most), 0.5: float(half)}
