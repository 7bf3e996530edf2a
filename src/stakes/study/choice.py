"""The ways side by side, the one chosen, its decisions, and what is kept of the comparison."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from stakes import checks
from stakes._types import Data
from stakes.study.comparison import Score, relative
from stakes.study.data import Coords, handed_back
from stakes.study.intervals import ConfidenceInterval, interval
from stakes.study.strategies.baselines import Given
from stakes.study.strategies.strategy import FittedStrategy, Strategy
from stakes.study.study import Study
from stakes.wording import percent, percent_span, text_table

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@final
@dataclass(frozen=True)
class WayLine:
    """A way to a decision, and what its decisions cost on outcomes that it had not seen."""

    name: str
    words: str
    """What it is, in plain words."""
    risk: float
    """Mean cost of a decision, in the user's unit; mean utility where there is one."""
    better_by: float | None
    """By which share the risk is below that of plain VI, with a 95 % interval."""
    low: float | None
    """None where it is not finite, as for all of these."""
    high: float | None
    coverage_50: float | None
    """Shares of outcomes in the central 50 and 90 % of what was predicted."""
    coverage_90: float | None
    seconds: float
    note: str = ""
    """Why not to rely on it."""


@final
@dataclass(frozen=True)
class Saving:
    """What a decision by the chosen way saves against another way, in the user's unit."""

    than: str
    each: float
    low: float | None
    high: float | None


@final
@dataclass(frozen=True)
class Summary:
    """The choice among ways to a decision."""

    way: str
    base: str
    """The way that others are compared with."""
    verdict: str
    folds: str
    """The outcomes by which the ways were judged, in words."""
    outcomes: int
    gain: bool
    """Whether risks are mean utilities."""
    ways: list[WayLine]
    saved: list[Saving]
    error: float
    """Standard error of the mean cost of the way that decides."""

    def line(self, name: str | None = None) -> WayLine:
        """That of the way that decides, or of the one of this name."""
        return next(line for line in self.ways if line.name == (name or self.way))


def finite(value: float) -> float | None:
    """The number; None where it is none that a file can hold."""
    return float(value) if math.isfinite(value) else None


NOMINAL = 0.9
LEAST_SHORTFALL = 0.1
"""Of the share of outcomes that 90 % ranges hold, what is worth a word."""
ERRORS = 3.0
"""And by how many standard errors, or it may be chance."""


class Against(NamedTuple):
    """By which share a risk is below that of a baseline, with the ends of a 95 % interval."""

    reduction: float
    low: float
    high: float


@final
@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """Several ways to a decision, compared on outcomes they had not seen, and the one chosen.

    Made by `choose`. Risk is the mean cost of a decision: smaller is better. For a problem given by
    a utility the cost is minus the utility.
    """

    study: Study
    strategies: tuple[Strategy, ...]
    scores: tuple[Score, ...]
    """Of each strategy."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By the name of a way whose numbers failed: why."""

    def __post_init__(self) -> None:
        checks.fields(self, left_out=Mapping, scores=tuple, strategies=tuple)
        for score in self.scores:
            checks.instance("`Choice(scores=...)`", score, Score, "a tuple of scores")
        for strategy in self.strategies:
            known = "one such as `Plain()`"
            checks.choice("`Choice(strategies=...)`: each", strategy, Strategy, known)
        checks.fields(self, study=Study)

    @cached_property
    def chosen(self) -> str:
        """The name of the way that decides: the first that is not reliably worse than the best."""
        able = [score for score in self.scores if not score.diagnosis.refused]
        best = min(able, key=lambda score: score.risk)
        good = [score for score in able if not self._is_worse(score, best)]
        return next((score for score in good if not score.is_baseline), best).name

    @cached_property
    def decisions(self) -> "xr.DataArray":
        """The chosen way's decision for each instance of the data, fitted to all of them."""
        home = self.study.home
        return handed_back(home.labels(self.fitted().decide(home)), self.study.plan.table)

    def fitted(self, way: str | None = None) -> FittedStrategy:
        """The way that was chosen, or the one of this name, fitted to all of the data."""
        name = self._score(way).name
        strategy = next(each for each in self.strategies if each.name == name)
        return self.study.fitted(strategy, self.study.everything)

    def decide(
        self,
        data: Data,
        *,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
        way: str | None = None,
    ) -> "xr.DataArray":
        """Decisions for other cases, by the way that was chosen.

        Args:
            data: the model's arguments by name, or a table, as in `Calibration.decide`.
            new: plates of which all members are new, as in `Calibration.decide`.
            known: plates whose members are those of the fit.
            coords: labels of the plates' members, by plate.
            way: the name of another way, as in the table.
        """
        fitted, plan = self.fitted(way), self.study.plan
        read = plan.read(data)
        cases = plan.cases(self.study.keys, read, new, known, coords)
        return handed_back(cases.labels(fitted.decide(cases)), read.table)

    @cached_property
    def table(self) -> "pd.DataFrame":
        """One row for each way, all judged by the same outcomes.

        `better_by` is by how much the risk is below that of plain VI (of the first way, where plain
        VI is not among them), as a share, with a 95 % interval from `low` to `high`; likewise
        against what is done today. `coverage_50` and `coverage_90` are the shares of outcomes in
        the central 50 and 90 % of what was predicted.
        """
        import pandas as pd

        rows = {score.name: self._row(score) for score in self.scores}
        table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("way")
        return table.dropna(axis="columns", how="all")

    @property
    def verdict(self) -> str:
        """Which way decides, why, and what that is worth, in words."""
        chosen, plain = self._score(None), self.baseline
        parts = [f"Decide by {chosen.name}: {self._why(chosen, plain)}."]
        others = [each for each in self.scores if each.is_baseline and each is not chosen]
        parts += [f"{_upper(other.name)} {self._would(other, plain)}." for other in others]
        if chosen.diagnosis.note:
            parts.append(f"Not to be relied on: {chosen.diagnosis.note}.")
        if chosen.inside is not None:
            parts.append(coverage_doubt(chosen.coverage[1], len(chosen.inside)))
        return " ".join(part for part in parts if part)

    def saving(self, than: str, way: str | None = None) -> Saving:
        """What a decision by the chosen way, or by `way`, saves compared with another way."""
        base = self._score(checks.text("`than=`", than), "than")
        score = self._score(way)
        between, size = self._interval(base, score), abs(base.risk)
        low, high = finite(between.low * size), finite(between.high * size)
        return Saving(base.name, base.risk - score.risk, low, high)

    @property
    def baseline(self) -> Score:
        """What others are compared with: plain VI, or the first way where it is not there."""
        return self._named.get("plain VI", self.scores[0])

    @property
    def summary(self) -> Summary:
        """All that is worth keeping of the comparison, as plain numbers and words."""
        gain, chosen = self.study.problem.loss is None, self.chosen
        others = [each.name for each in self.scores if each.is_baseline or each is self.baseline]
        return Summary(
            way=chosen,
            base=self.baseline.name,
            verdict=self.verdict,
            folds=self.study.splits.title,
            outcomes=len(self.scores[0].costs),
            gain=gain,
            ways=[self._line(each, -1 if gain else 1) for each in self.scores],
            saved=[self.saving(name) for name in others if name != chosen],
            error=float(self._score(None).costs.std() / sqrt(len(self.scores[0].costs))),
        )

    def _line(self, score: Score, sign: int) -> WayLine:
        against, coverage = self._against(score, self.baseline), score.coverage
        return WayLine(
            name=score.name,
            words=next(each.description for each in self.strategies if each.name == score.name),
            risk=sign * score.risk,
            better_by=finite(against.reduction),
            low=finite(against.low),
            high=finite(against.high),
            coverage_50=finite(coverage[0]),
            coverage_90=finite(coverage[1]),
            seconds=score.seconds,
            note=score.diagnosis.note,
        )

    def __repr__(self) -> str:
        sign, quantity = (1.0, "risk") if self.study.problem.loss is not None else (-1.0, "gain")
        rows = [["", quantity, "better by", "95 % interval", "in 50 %", "in 90 %", "seconds"]]
        for score in self.scores:
            change = ["", ""]
            if score is not self.baseline:
                against = self._against(score, self.baseline)
                change = [percent(against.reduction), percent_span(against.low, against.high)]
            mark = "> " if score.name == self.chosen else "  "
            risk, seconds = f"{sign * score.risk:.4g}", f"{score.seconds:.1f}"
            cover = [percent(share, 0) for share in score.coverage]
            rows.append([mark + score.name, risk, *change, *cover, seconds])
        table = text_table(rows, right={1, 2, 4, 5, 6}, gap=3)
        how = f"{self.study.splits.title}; {self.study.problem.criterion.title}."
        notes = {s.name: s.diagnosis.note for s in self.scores if s.name != self.chosen}
        lines = [f"{_upper(name)}: {note}." for name, note in notes.items() if note]
        lines += [f"{_upper(name)} is left out: {why}" for name, why in self.left_out.items()]
        return "\n".join([*table, "", how, *lines, self.verdict])

    __str__ = __repr__

    def _score(self, name: str | None, argument: str = "way") -> Score:
        asked = self.chosen if name is None else name
        return self._named[checks.one_of(f"`{argument}=`", asked, list(self._named))]

    @cached_property
    def _named(self) -> dict[str, Score]:
        return {score.name: score for score in self.scores}

    def _is_worse(self, score: Score, best: Score) -> bool:
        return score is not best and self._interval(score, best).low > 0

    def _interval(self, base: Score, other: Score) -> ConfidenceInterval:
        """Wider than for outcomes alone: the fits that are judged share most of their data.

        It is always found as a share of the larger risk, so that two ways are told apart, or not,
        from whichever side one looks.
        """
        if 0 < base.risk < other.risk:
            return _turned_round(self._interval(other, base))
        plain = interval(base.costs, other.costs, self.study.dependence)
        middle = relative(base.risk - other.risk, abs(base.risk))
        if not np.isfinite(middle):  # against decisions that cost nothing
            return plain
        factor = self.study.splits.widening
        low, high = (middle + factor * (end - middle) for end in (plain.low, plain.high))
        return plain._replace(low=low, high=high)

    def _against(self, score: Score, base: Score) -> Against:
        between = self._interval(base, score)
        reduction = relative(base.risk - score.risk, abs(base.risk))
        return Against(reduction, between.low, between.high)

    def _row(self, score: Score) -> dict[str, Any]:
        better_by, low, high = self._against(score, self.baseline)
        row: dict[str, Any] = {"risk": score.risk, "better_by": better_by, "low": low, "high": high}
        today = self._named.get(Given.name)
        if today is not None:
            names = ("better_than_today", "today_low", "today_high")
            row |= dict(zip(names, self._against(score, today), strict=True))
        found = score.diagnosis
        return row | {
            "seconds": score.seconds,
            "coverage_50": score.coverage[0],
            "coverage_90": score.coverage[1],
            "k_hat": found.k_hat,
            "r_hat": found.r_hat,
            "refused": found.refused or None,
            "note": found.note if score.inside is not None else None,
        }

    def _why(self, chosen: Score, plain: Score) -> str:
        where = f"in {self.study.splits.title}"
        if chosen is plain:
            return f"no other way is reliably better {where}"
        if chosen.is_baseline:
            return f"every other way is reliably worse {where}"
        return f"it {self._would(chosen, plain)} {where}"

    def _would(self, score: Score, base: Score) -> str:
        """In per cent of the base's risk, as in the table; the interval counts as the words do."""
        between = self._interval(base, score)
        change = relative(base.risk - score.risk, abs(base.risk))
        ends = (between.low, between.high) if change > 0 else (-between.high, -between.low)
        verb = "cost" if self.study.problem.loss is not None else "gain"
        more = "less" if (change > 0) == (verb == "cost") else "more"
        span = f"95 % interval {percent_span(*ends)}, {between.method}"
        return f"would {verb} {percent(abs(change))} {more} than {base.name} ({span})"


def coverage_doubt(held: float, outcomes: int) -> str:
    """What to say where 90 % ranges held fewer of the outcomes than chance explains; or nothing."""
    error = sqrt(NOMINAL * (1 - NOMINAL) / max(outcomes, 1))
    if NOMINAL - held <= max(LEAST_SHORTFALL, ERRORS * error):
        return ""
    return (
        f"The model's 90 % ranges held {100 * held:.0f} % of {outcomes} outcomes that it had not "
        f"seen, so that its decisions are not to be relied on. Look for what it leaves out, or "
        f"another family of outcomes."
    )


def _turned_round(found: ConfidenceInterval) -> ConfidenceInterval:
    """From by how much a second risk is below the first to how much the first is below the second.

    With r the first, that is 1 - 1 / (1 - r). Where nothing is claimed, nothing is.
    """
    if np.isinf([found.low, found.high]).all():
        return found
    low, high = (1 - 1 / (1 - end) if end < 1 else -np.inf for end in (found.high, found.low))
    return found._replace(low=low, high=high)


def _upper(name: str) -> str:
    return name[:1].upper() + name[1:]
