"""Doubts about decisions: a run that is not to be relied on, rows unlike those of its fit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

from stakes.app.runs.manifest import Manifest
from stakes.app.spec import Job
from stakes.fitting import Stop
from stakes.study import Options, coverage_doubt
from stakes.tables import name_rows

BEYOND = 0.5
"""A row is far outside where it is beyond the range of the fit by this share of its width."""


def doubts_about(manifest: Manifest, way: str) -> list[str]:
    """Why the decisions of a run are not to be relied on, if so."""
    found, ending = [], manifest.ending
    if ending is not None and not ending.converged:
        found.append(
            f"The decisions of this run are not to be relied on yet. {unsettled(manifest)}"
        )
    chosen = manifest.choice
    held = None if chosen is None else chosen.line(way).coverage_90
    if chosen is not None and held is not None:
        found += filter(None, [coverage_doubt(held, chosen.outcomes)])
    return found


def unsettled(manifest: Manifest) -> str:
    """What it means that fits of a run had not converged, and what to do, in its own terms."""
    assert manifest.ending is not None
    ended = manifest.ending.stopped.items()
    why = "; ".join(f"{fit}: {reason}" for fit, reason in ended if reason != Stop.CONVERGED)
    more = "more `--steps`, or leave that out"
    if not manifest.command.startswith("stakes demo"):
        steps = manifest.spec.get("fit", {}).get("steps", Options.steps)
        more = f"more, with `steps = {max(2 * steps, Options.steps)}` under [fit] in the spec"
    return (
        f"A fit looks step by step for what suits the data best, and here it stopped before it "
        f"had found that ({why}): with more steps, decisions and costs may change. Allow {more}, "
        f"and run again."
    )


@final
@dataclass(frozen=True)
class Ranges:
    """What the fit has seen of each column, and the rows far outside of that."""

    seen: Mapping[str, tuple[float, float]]
    dates: frozenset[str]
    far: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Column -> (row, value)."""

    @classmethod
    def of(cls, job: Job, columns: Mapping[str, str]) -> "Ranges":
        """`columns`: the model's arguments and their columns."""
        dates, seen = frozenset(columns[name] for name in job.dates), {}
        for argument, column in columns.items():
            values = np.asarray(job.fit.arguments[argument])
            if column in job.fit.vocabulary or (values.dtype.kind == "U" and column not in dates):
                continue
            if values.ndim == 1 and values.dtype.kind in "Uif" and values.size:
                numbers = _numbers(values)
                seen[column] = (float(numbers.min()), float(numbers.max()))
        return cls(seen, dates)

    def look(
        self, arguments: Mapping[str, np.ndarray], columns: Mapping[str, str], start: int
    ) -> None:
        """Note rows that are far outside; `start` rows come before them."""
        for argument, column in columns.items():
            if column not in self.seen or arguments[argument].ndim != 1:
                continue
            low, high = self.seen[column]
            numbers, room = _numbers(arguments[argument]), BEYOND * (high - low)
            outside = np.flatnonzero((numbers < low - room) | (numbers > high + room))
            for place in outside:
                found = self.far.setdefault(column, [])
                found.append((start + int(place) + 1, f"{arguments[argument][place]}"))

    def told(self) -> list[str]:
        return [
            f"{name_rows([row for row, _ in found])} of column {column!r} "
            f"{'lies' if len(found) == 1 else 'lie'} far outside what the fit has seen "
            f"({self._shown(column)}): row {found[0][0]} has {found[0][1]}. Decisions there rest "
            f"on the model alone."
            for column, found in self.far.items()
        ]

    def _shown(self, column: str) -> str:
        low, high = self.seen[column]
        if column in self.dates:
            days = np.array([low, high]).astype("datetime64[D]")
            return f"{days[0]} to {days[1]}"
        return f"{low:.6g} to {high:.6g}"


def _numbers(values: np.ndarray) -> np.ndarray:
    """Dates as days."""
    if values.dtype.kind == "U":
        return values.astype("datetime64[s]").astype(float) / 86400
    return values.astype(float)
