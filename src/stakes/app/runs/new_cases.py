"""Rows of a new table: as cases to decide about, and the rows far from those of the fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from stakes.app.runs.solution import Solution, new_plates
from stakes.app.spec import Job
from stakes.errors import name_rows
from stakes.study import Cases

# A row is far outside if it is beyond the range of the fit by this share of the range's width:
# beyond that, an effect that is a line in the data of the fit need not be one any more.
BEYOND = 0.5
# The most rows decided at once: what JAX compiles for one part serves all parts, and the draws for
# as many rows fit into memory.
CHUNK = 8192


def usual_size(job: Job, rows: int) -> int:
    """The number of rows that a part of a file is padded to.

    Draws depend on it, and so do the numbers shown. A short file is padded to the next power of
    two, since a program of that size may have been compiled already. Rows that may share a decision
    are not padded: the copies would share it, too.
    """
    if job.problem.task.per is not None or rows > CHUNK:
        return rows
    return min(CHUNK, 1 << max(rows - 1, 1).bit_length())


def padded(
    job: Job, arguments: Mapping[str, np.ndarray], rows: int, size: int
) -> dict[str, np.ndarray]:
    """Repeat the last of some rows until there are `size` of them.

    Args:
        job: tells which arguments have a value for each row.
        arguments: of the model, for these rows.
        rows: the number of rows.
        size: the number of rows to return.
    """
    fitted = job.rows_in(job.fit)
    given = {name: np.shape(job.fit.arguments[name])[:1] for name in arguments}
    more = size - rows
    return {
        name: np.concatenate([values, np.repeat(values[-1:], more, axis=0)])
        if given[name] == (fitted,)
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
    """The cases of a new table.

    Args:
        solution: the fits of the run.
        arguments: of the model, for the rows of the table; others are taken from the fit.
        known: whether the rows are those of the fit.
        first_row: the number of rows before these, for messages.
        coords: labels of the plates' members, by plate.
    """
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
    """The range of each column in the data of the fit, and the new rows far outside of it.

    Attributes:
        seen: column -> its lowest and highest value; dates count in days.
        dates: columns that hold dates.
        far: column -> the rows that are far outside, with their values as written.
    """

    seen: Mapping[str, tuple[float, float]]
    dates: frozenset[str]
    far: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    @classmethod
    def of(cls, job: Job, columns: Mapping[str, str]) -> "Ranges":
        """The ranges of columns that hold numbers or dates.

        Args:
            job: with the data of the fit.
            columns: argument of the model -> its column.
        """
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
        """Note the rows that are far outside.

        Args:
            arguments: of the model, for some rows.
            columns: argument of the model -> its column.
            start: the number of rows before these.
        """
        for argument, column in columns.items():
            if column not in self.seen or arguments[argument].ndim != 1:
                continue
            low, high = self.seen[column]
            numbers, room = _numbers(arguments[argument]), BEYOND * (high - low)
            outside = np.flatnonzero((numbers < low - room) | (numbers > high + room))
            rows = [(start + int(at) + 1, f"{arguments[argument][at]}") for at in outside]
            if rows:
                self.far.setdefault(column, []).extend(rows)

    def warnings(self) -> list[str]:
        """A sentence for each column in which some of the rows are far outside."""
        sentences = []
        for column, far in self.far.items():
            low, high = (f"{end:.6g}" for end in self.seen[column])
            if column in self.dates:
                low, high = np.array(self.seen[column]).astype("datetime64[D]").astype(str)
            sentences.append(
                f"{name_rows([row for row, _ in far])} of column {column!r} "
                f"{'lies' if len(far) == 1 else 'lie'} far outside what the fit has seen "
                f"({low} to {high}): row {far[0][0]} has {far[0][1]}. Decisions there rest on the "
                f"model alone."
            )
        return sentences


def _numbers(values: np.ndarray) -> np.ndarray:
    """Numbers as they are, dates in days."""
    if values.dtype.kind == "U":
        return values.astype("datetime64[s]").astype(float) / 86400
    return values.astype(float)
