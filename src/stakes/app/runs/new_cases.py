"""Rows of a new table: as cases to decide about, and those unlike what the fit has seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from stakes.app.runs.solution import Solution, new_plates
from stakes.app.spec import Job
from stakes.study import Cases
from stakes.tables import name_rows

# A row is far outside where it is beyond the range of the fit by this share of its width.
BEYOND = 0.5
# The most rows decided at once: what JAX compiles for one part serves all parts.
CHUNK = 8192


def usual_size(job: Job, rows: int) -> int:
    """How many rows so many are padded to; draws depend on it, and so does what is shown of them.

    A short file is not padded to the size of a whole part, and rows that may share a decision not
    at all.
    """
    if job.problem.task.per is not None or rows > CHUNK:
        return rows
    return min(CHUNK, 1 << max(rows - 1, 1).bit_length())


def padded(
    job: Job, arguments: Mapping[str, np.ndarray], rows: int, size: int
) -> dict[str, np.ndarray]:
    """Arguments of the model for a new table, with its last row repeated."""
    fitted = job.rows_in(job.fit)

    def is_by_row(name: str) -> bool:
        values = job.fit.arguments[name]
        return bool(np.ndim(values)) and len(values) == fitted

    return {
        name: np.concatenate([values, np.repeat(values[-1:], size - rows, axis=0)])
        if is_by_row(name)
        else values
        for name, values in arguments.items()
    }


def new_cases(
    solution: Solution,
    arguments: Mapping[str, Any],
    *,
    known: bool = False,
    first_row: int = 0,
    coords: Mapping[str, Sequence[Any]] | None = None,
) -> Cases:
    """The cases of a new table; what is in no table, the model takes from the fit."""
    job, result = solution.job, solution.result
    asked = (job.problem.observations, job.problem.action)
    others = {n: v for n, v in job.fit.arguments.items() if n not in asked}
    data, plates = job.data({**others, **arguments}, first_row), new_plates(result.plan, job)
    if known:
        return result.assess(data, known=plates, coords=coords)
    return result.assess(data, new=plates, coords=coords)


@final
@dataclass(frozen=True)
class Ranges:
    """What the fit has seen of each column, and the rows far outside of that.

    Attributes:
        far: column -> (row, value).
    """

    seen: Mapping[str, tuple[float, float]]
    dates: frozenset[str]
    far: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

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
