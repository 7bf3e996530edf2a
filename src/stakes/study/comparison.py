"""What there is to say about a fit before its decisions are relied on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from stakes import checks
from stakes.bridge import Diagnostics
from stakes.errors import InputError
from stakes.study.intervals import ConfidenceInterval, Dependence, Independent, interval
from stakes.wording import percent, percent_span, text_table


class Diagnosis(NamedTuple):
    """What there is to say about a fit."""

    note: str = ""
    """Why not to rely on it."""
    k_hat: float = np.nan
    r_hat: float = np.nan
    refused: str = ""
    """Why its decisions must not be used."""

    @classmethod
    def worst(cls, several: Iterable["Diagnosis"]) -> "Diagnosis":
        """The diagnosis of fits that stand together."""
        listed = list(several)
        notes = dict.fromkeys(note for each in listed for note in each.note.split("; ") if note)
        by_k_hat = max(listed, key=lambda each: np.nan_to_num(each.k_hat, nan=-np.inf))
        r_hats = [each.r_hat for each in listed if not np.isnan(each.r_hat)]
        return cls("; ".join(notes), by_k_hat.k_hat, max(r_hats, default=np.nan), by_k_hat.refused)


class Score(NamedTuple):
    """What the decisions of a strategy have cost on outcomes that it had not seen."""

    name: str
    costs: np.ndarray
    """One for each outcome."""
    inside: np.ndarray | None
    """Whether each outcome lay in the central 50 and 90 % of what was predicted."""
    seconds: float
    """What all its fits took."""
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


ACTS = "`stakes.choose` compares both with other ways, and decides by what helps."


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """Costs of the decisions of each method on the same instances.

    `risk` and `reduction` are plain numbers; smaller risk is better. For a problem given by a
    utility the cost is minus the utility, so risk is minus the gain.
    """

    costs: dict[str, np.ndarray]
    """Method -> cost of its decision for each instance that counts."""
    gain: bool
    """Whether costs are minus a utility, shown as gains."""
    setting: str
    held_out: bool
    notes: tuple[str, ...] = ()
    nuts: Diagnostics | None = None
    """Of the draws of NUTS, where its decisions are compared, too."""
    dependence: Dependence = field(default_factory=Independent)
    """Which instances belong together, for the interval."""

    def __post_init__(self) -> None:
        checks.fields(self, costs=Mapping, setting=str)
        checks.flags(self, "gain", "held_out")
        checks.assign(self, notes=checks.names("`Comparison(notes=...)`", self.notes))
        if self.nuts is not None:
            checks.fields(self, nuts=Diagnostics)
        known = "one such as `Independent()`"
        where = "`Comparison(dependence=...)`"
        checks.choice(where, self.dependence, Dependence, known, hashable=False)
        where = "`Comparison(costs=...)`"
        costs = {name: checks.array(where, each) for name, each in self.costs.items()}
        if "VI" not in costs or {each.shape for each in costs.values()} != {(len(costs["VI"]),)}:
            rule = "one number for each case under each method, of which one is 'VI'"
            raise checks.refused(where, rule, self.costs)
        checks.assign(self, costs=costs)
        if self.dependence.size not in (None, self.instances):
            raise InputError(
                f"`Comparison(dependence=...)` is about {self.dependence.size} cases; there "
                f"are {self.instances}."
            )

    @property
    def risk(self) -> dict[str, float]:
        return {name: float(costs.mean()) for name, costs in self.costs.items()}

    @property
    def reduction(self) -> float:
        """(risk_VI - risk_LCVI) / |risk_VI|."""
        return self.reductions["LCVI"]

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the reduction, paired over instances; infinite where none is known."""
        return self.intervals["LCVI"]

    @property
    def reductions(self) -> dict[str, float]:
        base = self.risk["VI"]
        others = {name: value for name, value in self.risk.items() if name != "VI"}
        return {name: relative(base - value, abs(base)) for name, value in others.items()}

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        return {name: (found.low, found.high) for name, found in self._intervals.items()}

    @cached_property
    def _intervals(self) -> dict[str, ConfidenceInterval]:
        base = self.costs["VI"]
        others = {name: costs for name, costs in self.costs.items() if name != "VI"}
        return {name: interval(base, costs, self.dependence) for name, costs in others.items()}

    @property
    def instances(self) -> int:
        return len(self.costs["VI"])

    @property
    def verdict(self) -> str:
        """Whether to use the calibrated fit, in words."""
        change = self._change
        if self.notes:
            change = f"Not reliable, because a fit had not converged. {change}"
        return change if self.nuts is None else f"{change} {self.nuts.warning}".strip()

    @property
    def _change(self) -> str:
        low, high, method = self._intervals["LCVI"]
        where = "on held-out data" if self.held_out else "on the data of the fit"
        ends = (low, high) if high >= 0 else (-high, -low)  # counted as the words do
        span = f"95 % interval {percent(ends[0], 2)} to {percent(ends[1], 2)}, {method}"
        if np.isinf([low, high]).all():
            span = f"no 95 % interval: {method}"
        quantity, up, down = (
            ("gain", "lowers", "raises") if self.gain else ("risk", "raises", "lowers")
        )
        change = f"the {quantity} {where} by {percent(abs(self.reduction), 2)} ({span})"
        if low > 0:
            return f"Calibration {down} {change}."
        if high < 0:
            return f"Calibration {up} {change}: keep the plain fit. {ACTS}"
        return (
            f"No reliable change of the {quantity} {where}: {percent(self.reduction, 2)} ({span}). "
            f"Keep the plain fit unless more data says otherwise. {ACTS}"
        )

    def __str__(self) -> str:
        sign, quantity = (-1.0, "gain") if self.gain else (1.0, "risk")
        rows = [["", quantity, "better by", f"95 % interval, {self.dependence.words}"]]
        for name, risk in self.risk.items():
            change = ["", ""]
            if name != "VI":
                low, high = self.intervals[name]
                change = [
                    percent(self.reductions[name], 2),
                    percent_span(low, high, 2),
                ]
            rows.append([name, f"{sign * risk:.4f}", *change])
        sampled = [] if self.nuts is None else [str(self.nuts)]
        table = text_table(rows, right={1, 2}, gap=3)
        return "\n".join([*table, "", self.setting, *self.notes, *sampled, self.verdict])

    __repr__ = __str__


def relative(change: float, base: float) -> float:
    """Decisions that cost nothing cannot be improved, and any cost is infinitely worse."""
    return change / base if base else (0.0 if change == 0 else -np.inf)


def net_benefit(happened: np.ndarray, chance: np.ndarray, threshold: float) -> float:
    """Net benefit of acting above a threshold probability: cases found, less weighted false alarms.

    A threshold t says that acting in vain weighs t/(1-t) as much as a case found (Vickers and
    Elkin, Medical Decision Making, 2006).
    """
    threshold = checks.number("`threshold`", threshold, above=0, below=1)
    acted = np.asarray(chance) >= threshold
    found, vain = np.mean(acted & (happened == 1)), np.mean(acted & (happened == 0))
    return float(found - vain * threshold / (1 - threshold))
