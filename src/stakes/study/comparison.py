"""What decisions of several methods have cost on the same outcomes, and how they compare."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from stakes import checks
from stakes.bridge import Diagnostics
from stakes.errors import InputError
from stakes.study.intervals import (
    Dependence,
    Independent,
    interval,
    interval_across_folds,
    relative,
)
from stakes.wording import (
    INTERVAL,
    Printed,
    Printout,
    amount,
    change_span,
    footnotes,
    percent,
    percent_span,
)

if TYPE_CHECKING:
    import pandas as pd


class Diagnosis(NamedTuple):
    """What there is to say about a fit.

    Attributes:
        note: why not to rely on it.
        refused: why its decisions must not be used.
    """

    note: str = ""
    k_hat: float = np.nan
    r_hat: float = np.nan
    refused: str = ""

    @classmethod
    def worst(cls, several: Iterable["Diagnosis"]) -> "Diagnosis":
        """Return the diagnosis of fits that stand together."""
        listed = list(several)
        notes = dict.fromkeys(note for each in listed for note in each.note.split("; ") if note)
        by_k_hat = max(listed, key=lambda each: np.nan_to_num(each.k_hat, nan=-np.inf))
        r_hats = [each.r_hat for each in listed if not np.isnan(each.r_hat)]
        return cls("; ".join(notes), by_k_hat.k_hat, max(r_hats, default=np.nan), by_k_hat.refused)


class Score(NamedTuple):
    """What the decisions of a strategy have cost on outcomes that it had not seen.

    Attributes:
        costs: one for each outcome.
        inside: whether each outcome lay in the central 50 and 90 % of what was predicted.
        seconds: what all its fits took.
    """

    name: str
    costs: np.ndarray
    inside: np.ndarray | None
    seconds: float
    diagnosis: Diagnosis
    is_baseline: bool

    @property
    def risk(self) -> float:
        """The mean cost."""
        return float(self.costs.mean())

    @property
    def coverage(self) -> tuple[float, float]:
        """Shares of outcomes in the central 50 and 90 %; nan for one that predicts nothing."""
        if self.inside is None:
            return np.nan, np.nan
        half, most = self.inside.mean(axis=0)
        return float(half), float(most)


class Reduction(NamedTuple):
    """By how much a risk is below another, as a share of that, with a 95 % interval.

    Attributes:
        better_by: the share; below zero for a higher risk.
        low: lower end of the interval.
        high: upper end.
        method: how the interval was found, in words.
    """

    better_by: float
    low: float
    high: float
    method: str

    @property
    def numbers(self) -> dict[str, float]:
        """The reduction and the ends of its interval, by the names of a table's columns."""
        return {"better_by": self.better_by, "low": self.low, "high": self.high}


# What to do where the calibrated fit is not the better one.
ACTS = "`stakes.choose` compares more strategies and decides by the best."


@final
@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Printed):
    """Costs of the decisions of each method on the same cases.

    `risk` and `reduction` are plain numbers; smaller risk is better. For a problem given by a
    utility the cost is minus the utility, so risk is minus the gain.

    Attributes:
        costs: method -> cost of its decision for each case that counts.
        gain: whether costs are minus a utility, shown as gains.
        setting: the problem and the cases, in words.
        held_out: whether the fits had not seen these outcomes.
        notes: why not to rely on the fits.
        nuts: diagnostics of the draws of NUTS, where its decisions are compared, too.
        dependence: which cases vary together, for the interval.
        base: the method that others are compared with.
        widening: factor by which intervals are wider, for decisions of several folds, whose fits
            share data; None for decisions of one fit.

    Examples:
        >>> import numpy as np, stakes
        >>> costs = np.arange(1.0, 21.0)
        >>> both = {"VI": costs, "LCVI": 0.9 * costs}
        >>> comparison = stakes.Comparison(both, gain=False, setting="", held_out=True)
        >>> comparison.risk["VI"], round(comparison.reduction, 3)
        (10.5, 0.1)
    """

    costs: dict[str, np.ndarray]
    gain: bool
    setting: str
    held_out: bool
    notes: tuple[str, ...] = ()
    nuts: Diagnostics | None = None
    dependence: Dependence = field(default_factory=Independent)
    base: str = "VI"
    widening: float | None = None

    def __post_init__(self) -> None:
        checks.fields(self, costs=Mapping, setting=str, base=str)
        checks.flags(self, "gain", "held_out")
        checks.assign(self, notes=checks.names("`Comparison(notes=...)`", self.notes))
        if self.nuts is not None:
            checks.fields(self, nuts=Diagnostics)
        if self.widening is not None:
            widening = checks.number("`Comparison(widening=...)`", self.widening, above=0)
            checks.assign(self, widening=widening)
        known = "one such as `Independent()`"
        where = "`Comparison(dependence=...)`"
        checks.choice(where, self.dependence, Dependence, known, hashable=False)
        where = "`Comparison(costs=...)`"
        costs = {name: checks.array(where, each) for name, each in self.costs.items()}
        base = costs.get(self.base)
        if base is None or {each.shape for each in costs.values()} != {(len(base),)}:
            rule = f"one number for each case under each method, of which one is {self.base!r}"
            raise checks.refused(where, rule, self.costs)
        checks.assign(self, costs=costs)
        if self.dependence.size not in (None, self.cases):
            raise InputError(
                f"`Comparison(dependence=...)` is about {self.dependence.size} cases; there "
                f"are {self.cases}."
            )

    @property
    def risk(self) -> dict[str, float]:
        """Method -> mean cost of its decisions."""
        return {name: float(costs.mean()) for name, costs in self.costs.items()}

    @property
    def reduction(self) -> float:
        """(risk_VI - risk_LCVI) / |risk_VI|."""
        return self.reductions["LCVI"].better_by

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the reduction, paired over cases; infinite where none is known."""
        return self.reductions["LCVI"].low, self.reductions["LCVI"].high

    @cached_property
    def reductions(self) -> dict[str, Reduction]:
        """Method -> by how much its risk is below that of the base."""
        return {name: self.against(name, self.base) for name in self.costs if name != self.base}

    def against(self, name: str, base: str) -> Reduction:
        """Return by how much the risk of one method is below that of another.

        Args:
            name: of the method.
            base: the name of the other.
        """
        one, other = self.costs[base], self.costs[name]
        if self.widening is None:
            found = interval(one, other, self.dependence)
        else:
            found = interval_across_folds(one, other, self.dependence, self.widening)
        change = self.risk[base] - self.risk[name]
        return Reduction(relative(change, abs(self.risk[base])), *found)

    @cached_property
    def table(self) -> "pd.DataFrame":
        """One row for each method: its risk, and by how much that is below the base's.

        `better_by` is a share of the base's risk, with a 95 % interval from `low` to `high`.
        """
        import pandas as pd

        rows = {
            name: {"risk": risk, **self.against(name, self.base).numbers}
            for name, risk in self.risk.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index")

    @property
    def cases(self) -> int:
        """The number of cases that count."""
        return len(self.costs[self.base])

    @property
    def verdict(self) -> str:
        """Whether to use the calibrated fit, in words."""
        change = self._change
        if self.notes:
            change = f"Not reliable, because a fit had not converged. {change}"
        return change if self.nuts is None else f"{change} {self.nuts.warning}".strip()

    @property
    def _change(self) -> str:
        share, low, high, method = self.reductions["LCVI"]
        where = "on held-out data" if self.held_out else "on the data of the fit"
        quantity, better, worse = (
            ("gain", "higher", "lower") if self.gain else ("risk", "lower", "higher")
        )
        words, ends = (better, worse), (low, high)
        if share < 0:
            words, ends = (worse, better), (-high, -low)
        span = change_span(*ends, words, method)
        size = percent(abs(share))
        if low > 0 or high < 0:
            verb = "raises" if words[0] == "higher" else "lowers"
            change = f"Calibration {verb} the {quantity} {where} by {size} ({span})."
        else:
            change = (
                f"Calibration does not reliably change the {quantity} {where}: it is {size} "
                f"{words[0]} ({span})."
            )
        return change if low > 0 else f"{change} Keep plain VI. {ACTS}"

    @property
    def basis(self) -> list[str]:
        """What the numbers rest on: cases, loss and expectation, and how intervals were found."""
        return [self.setting, *self._footnotes[1]]

    @property
    def _footnotes(self) -> tuple[Mapping[str, str], list[str]]:
        return footnotes(INTERVAL, [found.method for found in self.reductions.values()])

    @property
    def printout(self) -> Printout:
        """The table, footnotes and verdict that are printed."""
        sign, quantity = (-1.0, "gain") if self.gain else (1.0, "risk")
        marks, _ = self._footnotes
        rows = [["", quantity, "better by", INTERVAL]]
        for name, risk in self.risk.items():
            change = ["", ""]
            if name != self.base:
                found = self.reductions[name]
                span = percent_span(found.low, found.high, unknown="none")
                change = [percent(found.better_by), f"{span} {marks[found.method]}".strip()]
            rows.append([name, amount(sign * risk), *change])
        sampled = [] if self.nuts is None else [str(self.nuts)]
        notes = [*self.basis, *self.notes, *sampled]
        return Printout(rows, {1, 2}, notes, [self.verdict])


def net_benefit(happened: np.ndarray, chance: np.ndarray, threshold: float) -> float:
    """Net benefit of acting above a threshold probability: cases found, less weighted false alarms.

    A threshold t says that acting in vain weighs t/(1-t) as much as a case found (Vickers and
    Elkin, Medical Decision Making, 2006).
    """
    threshold = checks.number("`threshold`", threshold, above=0, below=1)
    acted = np.asarray(chance) >= threshold
    found, vain = np.mean(acted & (happened == 1)), np.mean(acted & (happened == 0))
    return float(found - vain * threshold / (1 - threshold))
