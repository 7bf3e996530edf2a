"""The choice among strategies: all of them side by side, the one chosen, and its decisions.

The first strategy that is not reliably worse than the best is chosen, so a more elaborate one has
to show that it is worth it. What is kept of a choice in a run's folder is its `Summary`, plain
numbers and words.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any, final, overload

from stakes import checks
from stakes._types import Data, TableLike
from stakes.study.comparison import Comparison, Score
from stakes.study.data import Coords, InputData, as_column
from stakes.study.strategies.baselines import Given
from stakes.study.strategies.strategy import FittedStrategy, Strategy
from stakes.study.study import Study
from stakes.wording import (
    INTERVAL,
    Printed,
    Printout,
    amount,
    change_span,
    footnotes,
    percent,
    percent_span,
    with_capital,
)

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@final
@dataclass(frozen=True)
class WayLine:
    """A strategy, and what its decisions cost on outcomes that its fits had not seen.

    Attributes:
        name: the name of the strategy.
        words: what it decides, in plain words.
        risk: mean cost of a decision, in the user's unit; mean utility where there is one.
        better_by: share by which the risk is below that of the base; None where it is not finite.
        low: lower end of its 95 % interval.
        high: upper end.
        coverage_50: share of outcomes in the central 50 % of what was predicted; None for no
            prediction.
        coverage_90: share of outcomes in the central 90 %.
        seconds: how long all its fits took.
        note: why not to rely on it.
        method: how the interval was found, in words.
    """

    name: str
    words: str
    risk: float
    better_by: float | None
    low: float | None
    high: float | None
    coverage_50: float | None
    coverage_90: float | None
    seconds: float
    note: str = ""
    method: str = ""


@final
@dataclass(frozen=True)
class Saving:
    """The saving of a decision by the chosen strategy against another one, in the user's unit.

    Attributes:
        than: the name of the other strategy.
        each: the saving on average.
        low: lower end of its 95 % interval; None where nothing can be claimed.
        high: upper end.
    """

    than: str
    each: float
    low: float | None
    high: float | None


@final
@dataclass(frozen=True)
class Summary:
    """The choice among strategies, in plain numbers and words, as a run keeps it.

    Attributes:
        way: the name of the strategy that decides.
        base: the strategy that others are compared with.
        verdict: which strategy to use, and how sure that is.
        folds: the outcomes by which strategies were judged, in words.
        outcomes: how many of them there are.
        gain: whether risks are mean utilities.
        ways: all strategies.
        saved: against the base and the baselines.
        error: standard error of the mean cost of the strategy that decides.
        not_tried: which strategies were not tried, and why.
    """

    way: str
    base: str
    verdict: str
    folds: str
    outcomes: int
    gain: bool
    ways: list[WayLine]
    saved: list[Saving]
    error: float
    not_tried: str = ""

    def line(self, name: str | None = None) -> WayLine:
        """Return the line of the strategy that decides, or of the one of this name."""
        return next(line for line in self.ways if line.name == (name or self.way))

    def printout(self, unit: str | None = None, setting: str = "") -> Printout:
        """Return the table, footnotes and verdict that are printed.

        Args:
            unit: the unit of costs, where it is known.
            setting: what else to say about the problem.
        """
        quantity = "gain" if self.gain else "cost"
        marks, methods = footnotes(INTERVAL, [row.method for row in self.ways])
        heads = ("better by", INTERVAL, "in 50 % range", "in 90 % range", "seconds")
        rows = [["", quantity, *heads]]
        for row in self.ways:
            change = ["", ""]
            if row.name != self.base:
                low, high = unbounded(row.low, row.high)
                span = percent_span(low, high, unknown="none")
                change = [percent(row.better_by), f"{span} {marks.get(row.method, '')}".strip()]
            cover = [percent(share, 0) for share in (row.coverage_50, row.coverage_90)]
            rows.append([row.name, amount(row.risk, unit), *change, *cover, f"{row.seconds:.1f}"])
        judged = f"Judged on {self.folds}; better than {self.base}, in per cent of its {quantity}."
        notes = [judged, *([setting] if setting else []), *methods]
        others = [row for row in self.ways if row.note and row.name != self.way]
        notes += [f"{with_capital(row.name)}: {row.note}." for row in others]
        notes += [self.not_tried] if self.not_tried else []
        return Printout(rows, {1, 2, 4, 5, 6}, notes, [self.verdict], self.way)


def finite(value: float) -> float | None:
    """Return the number; None where it is one that no file can hold."""
    return float(value) if math.isfinite(value) else None


def unbounded(low: float | None, high: float | None) -> tuple[float, float]:
    """Return the ends of an interval, infinite where `finite` left one out."""
    return (-math.inf if low is None else low), (math.inf if high is None else high)


# The coverage that central 90 % ranges promise.
NOMINAL = 0.9
# A smaller lack of coverage changes decisions by little, and gets no warning.
LEAST_SHORTFALL = 0.1
# Standard errors by which coverage must fall short, or it may be chance.
ERRORS = 3.0


@final
@dataclass(frozen=True, eq=False, repr=False)
class Choice(Printed):
    """Several ways to a decision, compared on outcomes they had not seen, and the one chosen.

    Made by `choose`. Risk is the mean cost of a decision: smaller is better. For a problem given by
    a utility the cost is minus the utility.

    Attributes:
        scores: the score of each strategy.
        left_out: by the name of a way whose numbers failed: why.
    """

    study: Study
    strategies: tuple[Strategy, ...]
    scores: tuple[Score, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    not_tried: str = ""

    def __post_init__(self) -> None:
        checks.fields(self, left_out=Mapping, scores=tuple, strategies=tuple, not_tried=str)
        for score in self.scores:
            checks.instance("`Choice(scores=...)`", score, Score, "a tuple of scores")
        for strategy in self.strategies:
            known = "one such as `Plain()`"
            checks.choice("`Choice(strategies=...)`: each", strategy, Strategy, known)
        checks.fields(self, study=Study)

    @cached_property
    def comparison(self) -> Comparison:
        """What the decisions of each way have cost; plain VI is the base, or else the first way."""
        costs, study = {score.name: score.costs for score in self.scores}, self.study
        return Comparison(
            costs=costs,
            gain=study.problem.loss is None,
            setting=f"{study.splits.title}; {study.problem.criterion.title}.",
            held_out=True,
            dependence=study.dependence,
            base="plain VI" if "plain VI" in costs else self.scores[0].name,
            widening=study.splits.widening,
        )

    @cached_property
    def chosen(self) -> str:
        """The name of the first strategy that is not reliably worse than the best."""
        able = [score for score in self.scores if not score.diagnosis.refused]
        best = min(able, key=lambda score: score.risk)
        good = [s for s in able if self.comparison.against(best.name, s.name).low <= 0 or s is best]
        return next((score for score in good if not score.is_baseline), best).name

    @cached_property
    def decisions(self) -> "xr.DataArray":
        """The chosen way's decision for each case of the data, fitted to all of them."""
        home = self.study.home
        return as_column(home.labels(self.fitted().decide(home)), self.study.plan.table)

    def fitted(self, way: str | None = None) -> FittedStrategy:
        """The way that was chosen, or the one of this name, fitted to all of the data."""
        name = self._score(way).name
        strategy = next(each for each in self.strategies if each.name == name)
        return self.study.fitted(strategy, self.study.everything)

    @overload
    def decide(
        self,
        data: TableLike,
        *,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
        way: str | None = None,
    ) -> "pd.Series[Any]": ...

    @overload
    def decide(
        self,
        data: Data,
        *,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
        way: str | None = None,
    ) -> "xr.DataArray": ...

    def decide(
        self,
        data: InputData,
        *,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
        way: str | None = None,
    ) -> "pd.Series[Any] | xr.DataArray":
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
        return as_column(cases.labels(fitted.decide(cases)), read.table)

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
        """Which strategy decides, why, and what that is worth, in words."""
        chosen, verb = self._score(None), "gain" if self.comparison.gain else "cost"
        why = f"it {verb}s {self._change(chosen)}"
        if chosen.name == self.comparison.base:
            why = "no other strategy is reliably better"
        elif chosen.is_baseline:
            why = "every other strategy is reliably worse"
        parts = [f"Decide by {chosen.name}: {why}."]
        others = [each for each in self.scores if each.is_baseline and each is not chosen]
        parts += [
            f"{with_capital(other.name)} would {verb} {self._change(other)}." for other in others
        ]
        if chosen.diagnosis.note:
            parts.append(f"Do not rely on it: {chosen.diagnosis.note}.")
        if chosen.inside is not None:
            parts.append(coverage_doubt(chosen.coverage[1], len(chosen.inside)))
        return " ".join(part for part in parts if part)

    def saving(self, than: str, way: str | None = None) -> Saving:
        """What a decision by the chosen way, or by `way`, saves compared with another way."""
        base = self._score(checks.text("`than=`", than), "than")
        score = self._score(way)
        found, size = self.comparison.against(score.name, base.name), abs(base.risk)
        low, high = finite(found.low * size), finite(found.high * size)
        return Saving(base.name, base.risk - score.risk, low, high)

    @property
    def summary(self) -> Summary:
        """All that is worth keeping of the comparison, as plain numbers and words."""
        chosen, base = self._score(None), self.comparison.base
        rivals = [s.name for s in self.scores if s.is_baseline or s.name == base]
        return Summary(
            way=chosen.name,
            base=base,
            verdict=self.verdict,
            folds=self.study.splits.title,
            outcomes=len(chosen.costs),
            gain=self.comparison.gain,
            ways=list(map(self._line, self.strategies)),
            saved=[self.saving(name) for name in rivals if name != chosen.name],
            error=float(chosen.costs.std() / sqrt(len(chosen.costs))),
            not_tried=self.not_tried,
        )

    def _line(self, strategy: Strategy) -> WayLine:
        """Return what is kept of a strategy."""
        score = self._named[strategy.name]
        row = self._row(score)
        numbers = ("better_by", "low", "high", "coverage_50", "coverage_90")
        return WayLine(
            name=score.name,
            words=strategy.description,
            risk=-score.risk if self.comparison.gain else score.risk,
            seconds=score.seconds,
            note=score.diagnosis.note,
            method=""
            if score.name == self.comparison.base
            else self.comparison.reductions[score.name].method,
            **{name: finite(row[name]) for name in numbers},
        )

    @property
    def printout(self) -> Printout:
        """The table, footnotes and verdict that are printed."""
        setting = f"{self.study.problem.criterion.title}."
        shown = self.summary.printout(setting=setting)
        out = [f"{with_capital(name)} is left out: {why}" for name, why in self.left_out.items()]
        return replace(shown, notes=[*shown.notes, *out])

    def _score(self, name: str | None, argument: str = "way") -> Score:
        """Return the score of a strategy, by default of the chosen one."""
        asked = self.chosen if name is None else name
        return self._named[checks.one_of(f"`{argument}=`", asked, list(self._named))]

    @cached_property
    def _named(self) -> dict[str, Score]:
        return {score.name: score for score in self.scores}

    def _row(self, score: Score) -> dict[str, Any]:
        """Return the row of a strategy in the table."""
        against, today = self.comparison.against, ("better_than_today", "today_low", "today_high")
        row = {"risk": score.risk, **against(score.name, self.comparison.base).numbers}
        if Given.name in self._named:
            row |= dict(zip(today, against(score.name, Given.name).numbers.values(), strict=True))
        return row | {
            "seconds": score.seconds,
            "coverage_50": score.coverage[0],
            "coverage_90": score.coverage[1],
            "k_hat": score.diagnosis.k_hat,
            "r_hat": score.diagnosis.r_hat,
            "refused": score.diagnosis.refused or None,
            "note": score.diagnosis.note if score.inside is not None else None,
        }

    def _change(self, score: Score) -> str:
        """Say what a strategy costs in per cent of the base's risk, as the table does."""
        share, low, high, method = self.comparison.against(score.name, self.comparison.base)
        words = ("more", "less") if self.comparison.gain else ("less", "more")
        ends = (low, high)
        if share < 0:
            words, ends = (words[1], words[0]), (-high, -low)
        span = change_span(*ends, words, method)
        return f"{percent(abs(share))} {words[0]} than {self.comparison.base} ({span})"


def coverage_doubt(held: float, outcomes: int) -> str:
    """Return a warning if 90 % ranges held fewer of the outcomes than chance explains.

    Args:
        held: the share that they held.
        outcomes: how many there were.
    """
    error = sqrt(NOMINAL * (1 - NOMINAL) / max(outcomes, 1))
    if NOMINAL - held <= max(LEAST_SHORTFALL, ERRORS * error):
        return ""
    return (
        f"The model's 90 % ranges held only {percent(held, 0)} of {outcomes} outcomes that it had "
        f"not seen, so do not rely on its decisions. Look for what the model leaves out, or try "
        f"another family of outcomes."
    )
