"""What to decide, what that is worth and how sure it is, in words that follow the numbers.

Every sentence is chosen by the figures in it: where chance explains a difference, the sentence says
so, and where the model is wrong, it says what to do.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from stakes.study import Saving, Summary
from stakes.wording import percent


def money(value: float, unit: str | None = None) -> str:
    """Return three significant digits, with thousands apart, and the unit if there is one.

    Examples:
        >>> money(1234.5, "€").replace(chr(160), " "), money(-0.01234)
        ('1,234 €', '−0.0123')
    """
    size = math.floor(math.log10(abs(value))) if 0 < abs(value) < math.inf else 0
    text = f"{value:,.{max(2 - size, 0)}f}".replace("-", "−")
    return f"{text}\N{NO-BREAK SPACE}{unit}" if unit else text


def worth_in_words(summary: Summary, unit: str | None = None) -> list[str]:
    """Return what a decision has cost on average, and what is saved against simple rules.

    Args:
        summary: of the strategies compared.
        unit: what costs are counted in.
    """
    verb = "gained" if summary.gain else "cost"
    cost = (
        f"On {summary.outcomes:,} outcomes left out of its fit, a decision {verb} "
        f"{money(summary.line().risk, unit)} on average."
    )
    rules = [saving for saving in summary.saved if saving.than != "plain VI"]
    return [cost, *(_saving_in_words(saving, unit) for saving in reversed(rules))]


def _saving_in_words(saving: Saving, unit: str | None) -> str:
    """Return what is saved against one rule, as a sentence."""
    than, (low, high) = saving.than, (saving.low, saving.high)
    size = money(abs(saving.each), unit)
    if low is not None and low > 0:
        return f"That is {size} better than {than}{_span(low, high, unit)}."
    if high is not None and high < 0:
        return f"That is {size} worse than {than}{_span(-high, low and -low, unit)}."
    way = "better" if saving.each >= 0 else "worse"
    return f"Against {than} it is {size} {way}, which may be chance{_span(low, high, unit)}."


def _span(low: float | None, high: float | None, unit: str | None) -> str:
    """Return an interval in brackets; nothing if it has no ends.

    Args:
        low: lower end.
        high: upper end.
        unit: of the upper end; the lower one is in the same.
    """
    if low is None or high is None:
        return ""
    return f" (95 % interval {money(low)} to {money(high, unit)})"


@final
@dataclass(frozen=True)
class Recommendation:
    """The decisions to take, and what they are expected to cost.

    Attributes:
        where: which rows these are, in words: "of tomorrow.csv", or "held out".
        every: how many rows there are, of which these may be the latest.
        rows: those to show first: their places in the table of decisions.
        total: of the decisions, where they can be added up.
        actions: how often each action is to be taken; None where decisions are quantities.
        cost: expected, of all together; gain, where there is a utility. nan where it is not known.
        others: what other rules would be expected to cost for the same rows.
        doubts: why some of them are not to be relied on.
        basis: which rows the fit behind them rests on, as a sentence.
        about: what is decided, such as the name of the column of the outcomes.
        costs: of one too few and one too many, where that is what a wrong decision costs.
    """

    where: str
    count: int
    every: int
    rows: tuple[int, ...]
    total: float | None
    actions: tuple[tuple[str, int], ...]
    cost: float
    others: tuple[tuple[str, float], ...] = ()
    doubts: tuple[str, ...] = ()
    basis: str = ""
    gain: bool = False
    unit: str | None = None
    about: str = ""
    costs: tuple[float, float] | None = None

    @property
    def why(self) -> str:
        """Why decisions are not just what is expected."""
        if self.costs is None:
            return ""
        under, over = self.costs
        share = percent(under / (under + over), 0)
        return (
            f"One too few costs {money(under, self.unit)}, one too many "
            f"{money(over, self.unit)}, so each decision is the quantity that suffices "
            f"in {share} of cases, not the mean."
        )

    @property
    def sentence(self) -> str:
        """How many, at a glance."""
        rows = "1 row" if self.every == 1 else f"{self.every:,} rows"
        latest = "" if self.count == self.every else f"the latest {self.count:,} of "
        where = f"{latest}{rows} {self.where}"
        if self.actions:
            said = ", ".join(f"{count:,} × {action}" for action, count in self.actions)
            return f"{said}, for {where}."
        if self.total is not None:
            return f"{self.about}: {self.total:,.0f} in all, for {where}."
        return (
            f"{'One decision' if self.count == 1 else 'Decisions'} about {self.about} for {where}."
        )

    @property
    def known(self) -> bool:
        """Whether the expected cost is known."""
        return math.isfinite(self.cost)

    @property
    def each(self) -> float:
        """The expected cost of one decision."""
        return self.cost / max(self.count, 1)


# Standard errors by which a share or a mean must be off before the page says so; chance alone does
# that in about 1 of 100 cases.
TOO_FAR = 2.5


@final
@dataclass(frozen=True)
class Quality:
    """Is the model any good? What it expected, and what happened.

    Attributes:
        unseen: whether these outcomes had no part in the fit.
        coverage: (level, share of outcomes inside the central range of that level, share that was
            due). Ranges of counts hold a little more than their level. None for classes.
        shares: for classes: (class, share that was expected, share that came).
        realised: mean cost of a decision; mean gain, where there is a utility.
        error: standard error of the realised one.
        folds: what decisions cost where ways were compared, on other outcomes than these.
    """

    outcomes: int
    unseen: bool
    coverage: tuple[tuple[float, float, float], ...] = ()
    shares: tuple[tuple[str, float, float], ...] = ()
    expected: float | None = None
    realised: float | None = None
    error: float | None = None
    gain: bool = False
    unit: str | None = None
    folds: Summary | None = None

    @property
    def about(self) -> str:
        """The outcomes that it is about, in words."""
        seen = "that the fit had not seen" if self.unseen else "of the fit itself"
        return f"{self.outcomes:,} outcomes {seen}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was expected and what happened."""
        found = (
            self._coverage_sentence,
            self._shares_sentence,
            self._cost_sentence,
            self._folds_sentence,
        )
        return tuple(sentence for sentence in found if sentence)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reader should know before relying on the decisions.

        A model is wrong in small ways always; a warning needs a difference that matters beside what
        chance explains.
        """
        found = (self._coverage_warning, self._shares_warning, self._cost_warning)
        return tuple(warning for warning in found if warning)

    @property
    def _coverage_sentence(self) -> str:
        """How many outcomes the ranges held."""
        if not self.coverage:
            return ""
        (wide, held, _), *rest = sorted(self.coverage, reverse=True)
        also = "".join(
            f", the {percent(level, 0)} ranges {percent(held, 0)}" for level, held, _ in rest
        )
        return f"The {percent(wide, 0)} ranges held {percent(held, 0)} of {self.about}{also}."

    @property
    def _coverage_warning(self) -> str:
        """Why the ranges are not to be relied on."""
        off = [
            held - due
            for _, held, due in self.coverage
            if self._is_off(held - due, math.sqrt(due * (1 - due) / self.outcomes), 0.03)
        ]
        if off and min(off) < 0:
            return (
                "The ranges are too narrow: outcomes vary more than the model allows for. Then "
                "expected costs are too low, and decisions not cautious enough. Look for what the "
                "model leaves out, or for a family of outcomes that varies more."
            )
        wide = "The ranges are wider than they need to be: expected costs are too high."
        return wide if off else ""

    @property
    def _shares_sentence(self) -> str:
        """How often each class was expected, and how often it came."""
        if not self.shares:
            return ""
        said = [
            f"{percent(due)} of {name}, and there were {percent(share)}"
            for name, due, share in self.shares
        ]
        return f"In {self.about}, the model expected {'; '.join(said)}."

    @property
    def _shares_warning(self) -> str:
        """Which probabilities are off."""
        off = [
            name
            for name, share, came in self.shares
            if self._is_off(came - share, math.sqrt(share * (1 - share) / self.outcomes), 0.01)
        ]
        return f"On the whole, the probabilities are off for {', '.join(off)}." if off else ""

    @property
    def _cost_sentence(self) -> str:
        """What decisions were expected to cost, and did cost, with its error."""
        if self.expected is None or self.realised is None:
            return ""
        what = "bring" if self.gain else "cost"
        came = "brought" if self.gain else "cost"
        came = "it was" if came == what else f"it {came}"
        sure = (
            ""
            if not self.error
            else f" (give or take {money(2 * self.error, self.unit)}, two standard errors)"
        )
        return (
            f"The model expected a decision to {what} {money(self.expected, self.unit)}; "
            f"{came} {money(self.realised, self.unit)}{sure}."
        )

    @property
    def _folds_sentence(self) -> str:
        """Why there are two figures of what a decision cost."""
        if self.folds is None or self.realised is None:
            return ""
        before, came = self.folds.line().risk, "brought" if self.gain else "cost"
        error = math.hypot(self.folds.error or 0.0, self.error or 0.0)
        meaning = "Chance may explain the difference."
        if abs(self.realised - before) > TOO_FAR * error:
            meaning = (
                "Chance does not explain the difference: these rows are of another kind, or times "
                "have changed. Rely on the second figure."
            )
        outcomes = self.folds.outcomes
        return (
            f"The strategies were compared on {outcomes:,} other outcomes, where a decision "
            f"{came} {money(before, self.unit)} on average. These {self.outcomes:,} were held out "
            f"to judge the chosen strategy once more: {money(self.realised, self.unit)}. "
            f"{meaning}"
        )

    @property
    def _cost_warning(self) -> str:
        """Whether costs are far from what was expected."""
        if self.expected is None or self.realised is None:
            return ""
        size = max(abs(self.expected), abs(self.realised))
        if not self._is_off(self.realised - self.expected, self.error or 0.0, 0.2 * size):
            return ""
        times = self.realised / self.expected if self.expected > 0 else math.nan
        how = f", {times:.2g} times as much" if np.isfinite(times) and times > 1 else ""
        what = "gains" if self.gain else "costs"
        return f"Expected and realised {what} disagree{how}: rely on the realised ones."

    @staticmethod
    def _is_off(by: float, error: float, least: float) -> bool:
        """Return whether a difference is more than chance, and large enough to matter."""
        return abs(by) > max(TOO_FAR * error, least)
