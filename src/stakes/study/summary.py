"""What is kept of a comparison of strategies: plain numbers and words, for files and reports."""

import math
from dataclasses import dataclass
from typing import final


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
