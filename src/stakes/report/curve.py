"""What a report says of decisions that change outcomes, as plain values: a curve with a band."""

from dataclasses import dataclass
from typing import final

import numpy as np


@final
@dataclass(frozen=True, eq=False)
class Line:
    """The expected cost of a case, or its gain, over the decisions that were tried."""

    group: str
    """Which cases these are; nothing where there is one line for all."""
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    """It lies between these with 90 % of the posterior probability."""
    decision: float
    """The decision to take; the mean of all where every case has its own."""
    expected: tuple[float, float, float]
    """(mean, low, high) there."""
    beyond: bool
    """Whether that lies beyond all decisions that were ever made."""


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """Decisions that were tried, and what they would cost each group of cases."""

    action: str
    """The argument of the model that is decided about."""
    decisions: np.ndarray
    labels: tuple[str, ...]
    """Of the decisions, where they are actions; none for numbers."""
    lines: tuple[Line, ...]
    groups: int
    """How many there are; more than lines, where there are too many."""
    made: tuple[float, float]
    """The least and the largest decision in the data of the fit."""
    beyond: int
    """How many of the decisions to take lie outside these."""
    count: int
    gain: bool = False

    @property
    def warning(self) -> str:
        """What to know before a decision that nobody has ever made; nothing where all were."""
        if not self.beyond:
            return ""
        which = (
            "The decision" if self.count == 1 else f"{self.beyond:,} of {self.count:,} decisions"
        )
        where = "no action that was ever taken" if self.labels else "outside those"
        low, high = (self.shown(end) for end in self.made)
        span = "" if self.labels else f", {low} to {high}"
        lie, rest, it = ("is", "rests", "it") if self.beyond == 1 else ("are", "rest", "them")
        return (
            f"{which} about {self.action} {lie} {where} in the data{span}, and {rest} on the model "
            f"alone. Try {it} before you rely on {it}."
        )

    def shown(self, decision: float) -> str:
        """A decision as the reader knows it."""
        if not self.labels:
            return f"{decision:.4g}"
        return self.labels[int(np.argmin(np.abs(self.decisions - decision)))]
