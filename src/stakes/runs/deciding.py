"""Decisions for the rows of a file, a part of it at a time: memory does not grow with it."""

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np

from stakes.errors import InputError
from stakes.result import Calibration
from stakes.runs.opening import fresh_plates
from stakes.spec import Job
from stakes.spec.messages import Collector
from stakes.spec.reading import wanted
from stakes.spec.table import check_columns, chunks, encoded
from stakes.storage import files

CHUNK = 8192
"""Rows decided at once, at the most: what JAX compiles for one part serves all."""

Report = Callable[[int], None]


def decide_file(
    job: Job,
    restore: Callable[[], Calibration],
    source: Path,
    target: Path,
    *,
    known: bool = False,
    report: Report = lambda rows: None,
) -> int:
    """Write a decision for each row of `source`; the number of rows.

    Args:
        restore: the result of the run; called once the first rows have been read and fit.
        known: whether the rows are those of the fit, in the same order; they are new otherwise.
        report: called with the number of rows done after each part.
    """
    rows = _Rows(job, restore, source, known)
    done = size = 0
    with files.replacing(target) as raw:
        out = io.TextIOWrapper(raw, "utf-8", newline="")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([rows.label or "row", "decision"])
        for arguments, labels in rows.parts():
            size = size or rows.padded_size(len(labels))
            decisions = rows.decided(arguments, len(labels), size)
            # As many digits as single precision has, as in decisions.csv.
            writer.writerows(zip(labels, map(str, decisions), strict=True))
            done += len(labels)
            report(done)
        if not done:
            raise InputError(f"{source} has no rows.")
        out.flush()
        out.detach()
    return done


@final
@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a file as arguments of the model."""

    job: Job
    restore: Callable[[], Calibration]
    source: Path
    known: bool

    def __post_init__(self) -> None:
        if self.job.spec.data is None:
            raise InputError(
                "The run is of a built-in example, whose data come from no table. Decide in "
                "Python, with the `solve(key).decide(...)` of the example."
            )
        if not self.columns:
            raise InputError("The model takes no column but the outcome: no row differs.")
        found = Collector()
        asked = {f"the column of `{name}`": column for name, column in self.columns.items()}
        asked |= {"the label": self.label} if self.label else {}
        check_columns("the file", self.source, asked, found)
        found.raise_any(str(self.source))

    @property
    def label(self) -> str | None:
        return self.job.spec.data.label if self.job.spec.data else None

    @cached_property
    def columns(self) -> dict[str, str]:
        """The model's arguments and their columns; outcomes are not needed."""
        assert self.job.spec.data is not None
        outcome = self.job.problem.outcome
        both = wanted(self.job.spec.data, outcome).items()
        return {argument: column for argument, column in both if argument != outcome}

    @cached_property
    def fitted(self) -> int:
        """How many rows the fit had."""
        return len(self.job.fit.arguments[self.job.problem.outcome])

    @cached_property
    def result(self) -> Calibration:
        return self.restore()

    def padded_size(self, rows: int) -> int:
        """Few rows are not padded to as many as a long file has in each part."""
        return self.fitted if self.known else min(CHUNK, 1 << max(rows - 1, 1).bit_length())

    def parts(self) -> Iterator[tuple[dict[str, np.ndarray], list[Any]]]:
        """Arguments and labels of the rows, `size` at a time."""
        names = list(dict.fromkeys([*self.columns.values(), *([self.label] if self.label else [])]))
        text = [name for name in names if name in self.job.fit.vocabulary or name == self.label]
        start = 0
        for part in chunks(self.source, names, text, self.fitted if self.known else CHUNK):
            arguments = {
                argument: self._argument(argument, column, part[column], start)
                for argument, column in self.columns.items()
            }
            rows = len(next(v for n, v in arguments.items() if self._is_by_row(n)))
            if rows == 0:
                continue
            numbers = list(range(start + 1, start + rows + 1))
            labels = part[self.label].astype(str).tolist() if self.label else numbers
            self._check_known(labels, start, rows)
            yield arguments, labels
            start += rows

    def decided(self, arguments: dict[str, np.ndarray], rows: int, size: int) -> np.ndarray:
        """A part that is not full is padded with its last row, so that shapes stay the same."""
        outcome, missing = self.job.problem.outcome, size - rows
        padded = {
            name: np.concatenate([values, np.repeat(values[-1:], missing, axis=0)])
            if self._is_by_row(name)
            else values
            for name, values in arguments.items()
        }
        others = {name: v for name, v in self.job.fit.arguments.items() if name != outcome}
        plates = fresh_plates(self.result, self.job)
        cases: dict[str, Any] = {"known": plates} if self.known else {"new": plates}
        found = self.result.decide({**others, **padded}, **cases).values
        if found.shape != (size,):
            raise InputError(
                f"For {size} rows the model predicts outcomes of shape {found.shape}; "
                f"`stakes decide` needs one for each row. Let the model take its number of rows "
                f"from a column."
            )
        return found[:rows]

    def _is_by_row(self, argument: str) -> bool:
        values = self.job.fit.arguments[argument]
        return bool(np.ndim(values)) and len(values) == self.fitted

    def _argument(self, argument: str, column: str, values: np.ndarray, start: int) -> np.ndarray:
        """With the fit's type of numbers: another would compile anew, or mean something else."""
        codes = encoded(column, values, self.job.fit.vocabulary, start)
        dtype = np.asarray(self.job.fit.arguments[argument]).dtype
        found = codes.astype(dtype)
        if dtype.kind in "iub" and not np.array_equal(found, codes):
            row = start + int(np.argwhere(found != codes)[0, 0]) + 1
            raise InputError(
                f"column {column!r}, row {row}: the fit had whole numbers in this column, and this "
                f"is not one."
            )
        return found

    def _check_known(self, labels: list[Any], start: int, rows: int) -> None:
        if not self.known:
            return
        if start or rows != self.fitted:
            raise InputError(
                f"{self.source} must have the {self.fitted} rows of the fit where they are said to "
                f"be known; leave `--known` out to decide about new rows."
            )
        own = self.job.fit.labels
        if own is not None and labels != own.tolist():
            row = next(i for i, (a, b) in enumerate(zip(labels, own, strict=True)) if a != b)
            raise InputError(
                f"{self.source}, row {row + 1}: {labels[row]!r} is {own[row]!r} in the fit. Known "
                f"rows come in the order of the fit; leave `--known` out for new ones."
            )
