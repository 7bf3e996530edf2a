"""The ways side by side, the one chosen, and its decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from stakes import checks
from stakes._types import Data
from stakes.host.text_tables import text_table
from stakes.study.bench import Bench
from stakes.study.comparison import relative
from stakes.study.data import Coords, handed_back
from stakes.study.ground import Ground
from stakes.study.intervals import ConfidenceInterval, interval
from stakes.study.strategies.way import Fitted

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

NOMINAL = 0.9
LEAST_SHORTFALL = 0.1
"""Of the share of outcomes that 90 % ranges hold, what is worth a word."""
ERRORS = 3.0
"""And by how many standard errors, or it may be chance."""


@final
@dataclass(frozen=True, eq=False)
class Entry:
    """A way, fitted, and what its decisions cost on outcomes that it had not seen."""

    way: Any
    fitted: Fitted
    costs: np.ndarray
    inside: np.ndarray | None
    """Whether each outcome lay in the central 50 and 90 % of what was predicted."""

    @property
    def name(self) -> str:
        name: str = self.way.name
        return name

    @property
    def risk(self) -> float:
        return float(self.costs.mean())


class Saving(NamedTuple):
    """By how much the mean cost of one way's decisions is below that of another's."""

    each: float
    low: float
    """Of a 95 % interval."""
    high: float


class Chosen(NamedTuple):
    """Decisions of a way for the data that it was fitted to."""

    decisions: "xr.DataArray"
    central: np.ndarray | None
    """Instance x (low of 90 %, low of 50 %, high of 50 %, high of 90 %); None without forecast."""
    observed: np.ndarray
    """nan where the model masks them."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """Several ways to a decision, compared on outcomes they had not seen, and the one chosen.

    Made by `choose`. Risk is the mean cost of a decision: smaller is better. For a problem given by
    a utility the cost is minus the utility.
    """

    bench: Bench
    entries: tuple[Entry, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By the name of a way whose numbers failed: why."""

    def __post_init__(self) -> None:
        entries: Any = self.entries
        if not isinstance(entries, tuple) or not all(isinstance(e, Entry) for e in entries):
            raise checks.refused("`Choice(entries=...)`", "a tuple of entries", entries)
        checks.fields(self, left_out=Mapping, bench=Bench)

    @cached_property
    def chosen(self) -> str:
        """The name of the way that decides: the first that is not reliably worse than the best."""
        able = [entry for entry in self.entries if "refused" not in entry.fitted.notes]
        best = min(able, key=lambda entry: entry.risk)
        good = [entry for entry in able if not self._is_worse(entry, best)]
        decided = next((entry for entry in good if not entry.way.is_yardstick), best)
        return decided.name

    @property
    def decisions(self) -> "xr.DataArray":
        """The chosen way's decision for each instance of the data, fitted to all of them."""
        found: xr.DataArray = handed_back(self.on_fit.decisions, self.bench.plan.table)
        return found

    @cached_property
    def on_fit(self) -> "Chosen":
        """What the chosen way decides and predicts for the data, with the outcomes."""
        entry, bench = self._entry(None), self.bench
        forecast = entry.fitted.forecast(bench.everything, bench.home)
        return Chosen(
            self._decided(entry, bench.home),
            None if forecast is None else forecast.central,
            np.where(bench.seen.counted, bench.seen.outcomes, np.nan),
        )

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
        entry, read = self._entry(way), self.bench.given(data)
        decided = self._decided(entry, self.bench.on(read, new, known, coords))
        found: xr.DataArray = handed_back(decided, read.table)
        return found

    @cached_property
    def table(self) -> "pd.DataFrame":
        """One row for each way, all judged by the same outcomes.

        `better_by` is by how much the risk is below that of plain VI (of the first way, where plain
        VI is not among them), as a share, with a 95 % interval from `low` to `high`; likewise
        against what is done today. `coverage_50` and `coverage_90` are the shares of outcomes in
        the central 50 and 90 % of what was predicted.
        """
        import pandas as pd

        rows = {entry.name: self._row(entry) for entry in self.entries}
        found = pd.DataFrame.from_dict(rows, orient="index")
        found.index.name = "way"
        return found.dropna(axis="columns", how="all")

    @property
    def verdict(self) -> str:
        """Which way decides, why, and what that is worth, in words."""
        chosen, plain = self._entry(None), self.yardstick
        parts = [f"Decide by {chosen.name}: {self._why(chosen, plain)}."]
        others = [e for e in self.entries if e.way.is_yardstick and e is not chosen]
        parts += [f"{_upper(other.name)} {self._would(other, plain)}." for other in others]
        notes = self.table.loc[chosen.name].get("note")
        if isinstance(notes, str) and notes:
            parts.append(f"Not to be relied on: {notes}.")
        if chosen.inside is not None:
            parts.append(coverage_doubt(float(chosen.inside[:, 1].mean()), len(chosen.inside)))
        return " ".join(part for part in parts if part)

    def saving(self, than: str, way: str | None = None) -> Saving:
        """What a decision by the chosen way, or by `way`, saves compared with another way."""
        base = self._entry(checks.text("`than=`", than), "than")
        entry = self._entry(way)
        found, size = self._interval(base, entry), abs(base.risk)
        return Saving(base.risk - entry.risk, found.low * size, found.high * size)

    @property
    def yardstick(self) -> Entry:
        """What others are compared with: plain VI, or the first way where it is not there."""
        named = {entry.name: entry for entry in self.entries}
        return named.get("plain VI", self.entries[0])

    def __repr__(self) -> str:
        sign, quantity = (1.0, "risk") if self.bench.problem.loss is not None else (-1.0, "gain")
        rows = [["", quantity, "better by", "95 % interval", "in 50 %", "in 90 %", "seconds"]]
        for entry in self.entries:
            row = self._row(entry)
            change = ["", ""]
            if entry is not self.yardstick:
                change = [
                    _percent(row["better_by"]),
                    _span(row["low"], row["high"]),
                ]
            cover = [_share(row["coverage_50"]), _share(row["coverage_90"])]
            mark = "> " if entry.name == self.chosen else "  "
            risk = f"{sign * entry.risk:.4g}"
            rows.append([mark + entry.name, risk, *change, *cover, f"{row['seconds']:.1f}"])
        table = text_table(rows, right={1, 2, 4, 5, 6}, gap=3)
        how = f"{self.bench.splits.title}; {self.bench.problem.criterion.title}."
        notes = {e.name: e.fitted.notes.get("note") for e in self.entries if e.name != self.chosen}
        told = [f"{_upper(name)}: {note}." for name, note in notes.items() if note]
        told += [f"{_upper(name)} is left out: {why}" for name, why in self.left_out.items()]
        return "\n".join([*table, "", how, *told, self.verdict])

    __str__ = __repr__

    def _entry(self, name: str | None, argument: str = "way") -> Entry:
        named = {entry.name: entry for entry in self.entries}
        asked = self.chosen if name is None else name
        return named[checks.one_of(f"`{argument}=`", asked, list(named))]

    def _decided(self, entry: Entry, ground: Ground) -> "xr.DataArray":
        found = entry.fitted.decide(self.bench.everything, ground)
        return ground.labels(found)

    def _is_worse(self, entry: Entry, best: Entry) -> bool:
        return entry is not best and self._interval(entry, best).low > 0

    def _interval(self, base: Entry, other: Entry) -> ConfidenceInterval:
        """Wider than for outcomes alone: the fits that are judged share most of their data.

        By the factor of Nadeau and Bengio (2003), √(1 + outcomes judged by / outcomes fitted to).
        It is always found as a share of the larger risk, so that two ways are told apart, or not,
        from whichever side one looks.
        """
        if 0 < base.risk < other.risk:
            return _turned_round(self._interval(other, base))
        found = interval(base.costs, other.costs, self.bench.dependence)
        middle, factor = (
            relative(base.risk - other.risk, abs(base.risk)),
            self.bench.splits.widening,
        )
        if not np.isfinite(middle):  # against decisions that cost nothing
            return found
        low, high = (middle + factor * (end - middle) for end in (found.low, found.high))
        return found._replace(low=low, high=high)

    def _row(self, entry: Entry) -> dict[str, Any]:
        row = {"risk": entry.risk, **self._against(entry, self.yardstick, "better_by", "")}
        today = next((e for e in self.entries if e.name == "what is done today"), None)
        if today is not None:
            row |= self._against(entry, today, "better_than_today", "today_")
        inside = (np.nan, np.nan) if entry.inside is None else entry.inside.mean(axis=0)
        row |= {"seconds": entry.fitted.seconds}
        row |= {"coverage_50": float(inside[0]), "coverage_90": float(inside[1])}
        extra = {"k_hat": np.nan, "r_hat": np.nan, "refused": None, "note": None}
        return row | extra | entry.fitted.notes

    def _against(self, entry: Entry, base: Entry, name: str, prefix: str) -> dict[str, float]:
        found = self._interval(base, entry)
        change = relative(base.risk - entry.risk, abs(base.risk))
        return {name: change, f"{prefix}low": found.low, f"{prefix}high": found.high}

    def _why(self, chosen: Entry, plain: Entry) -> str:
        where = f"in {self.bench.splits.title}"
        if chosen is plain:
            return f"no other way is reliably better {where}"
        if chosen.way.is_yardstick:
            return f"every other way is reliably worse {where}"
        return f"it {self._would(chosen, plain)} {where}"

    def _would(self, entry: Entry, base: Entry) -> str:
        """In per cent of the base's risk, as in the table; the interval counts as the words do."""
        found = self._interval(base, entry)
        change = relative(base.risk - entry.risk, abs(base.risk))
        ends = (found.low, found.high) if change > 0 else (-found.high, -found.low)
        verb = "cost" if self.bench.problem.loss is not None else "gain"
        more = "less" if (change > 0) == (verb == "cost") else "more"
        span = f"95 % interval {_span(*ends)}, {found.method}"
        return f"would {verb} {_percent(abs(change))} {more} than {base.name} ({span})"


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


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %".replace("-0.0 %", "0.0 %")


def _span(low: float, high: float) -> str:
    """From one end to the other; an end that is not known is left open."""
    if np.isinf(high) and np.isfinite(low):
        return f"{_percent(low)} or more"
    if np.isinf(low) and np.isfinite(high):
        return f"{_percent(high)} or less"
    return f"{_percent(low)} to {_percent(high)}"


def _upper(name: str) -> str:
    return name[:1].upper() + name[1:]


def _share(share: float) -> str:
    return "" if np.isnan(share) else f"{100 * share:.0f} %"
