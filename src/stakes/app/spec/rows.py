"""The rows of a new file, a part at a time, as arguments of the model."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from stakes.app.spec.job import Job
from stakes.app.spec.messages import Collector
from stakes.app.spec.reading import wanted
from stakes.app.spec.schema import DataSection
from stakes.app.spec.table import check_columns, chunks, encoded
from stakes.errors import InputError


class Part(NamedTuple):
    """Some consecutive rows."""

    arguments: dict[str, np.ndarray]
    labels: list[Any]
    """One for each row; its number where the spec names no column of labels."""
    start: int
    """How many rows come before these."""


@final
@dataclass(frozen=True, eq=False)
class RowReader:
    """Reads the rows of a file as arguments of the model; outcomes are not needed."""

    job: Job
    source: Path

    def __post_init__(self) -> None:
        if self.job.spec.data is None:
            raise InputError(
                "The run is of a built-in example, whose data do not come from a table. Decide in "
                "Python, with `solve(key).decide(...)` of the example."
            )
        if not self.columns:
            raise InputError("The model takes no column but the outcome, so all rows are the same.")
        found = Collector()
        asked = {f"the column of `{name}`": column for name, column in self.columns.items()}
        asked |= {"the label": self.label} if self.label else {}
        check_columns("the file", self.source, asked, found)
        found.raise_any(str(self.source))

    @property
    def label(self) -> str | None:
        return self._data.label

    @cached_property
    def columns(self) -> dict[str, str]:
        """The model's arguments and their columns, without the outcome."""
        outcome = self.job.problem.outcome
        both = wanted(self._data, outcome).items()
        return {argument: column for argument, column in both if argument != outcome}

    @cached_property
    def fitted(self) -> int:
        """How many rows the fit had."""
        return self.job.rows_in(self.job.fit)

    def parts(self, most: int) -> Iterator[Part]:
        """The rows, at most `most` of them at a time."""
        names = list(dict.fromkeys([*self.columns.values(), *([self.label] if self.label else [])]))
        words = {n for n, v in self.job.fit.arguments.items() if np.asarray(v).dtype.kind == "U"}
        words |= self.job.fit.vocabulary.keys()
        text = [name for name in names if name in words or name == self.label]
        start = 0
        for found in chunks(self.source, names, text, most):
            arguments = {
                argument: self._argument(argument, column, found[column], start)
                for argument, column in self.columns.items()
            }
            rows = len(next(v for n, v in arguments.items() if self.is_by_row(n)))
            if rows == 0:
                continue
            numbers = list(range(start + 1, start + rows + 1))
            labels = found[self.label].astype(str).tolist() if self.label else numbers
            yield Part(arguments, labels, start)
            start += rows

    def is_by_row(self, argument: str) -> bool:
        """Whether an argument has a value for each row."""
        values = self.job.fit.arguments[argument]
        return bool(np.ndim(values)) and len(values) == self.fitted

    @property
    def _data(self) -> DataSection:
        assert self.job.spec.data is not None
        return self.job.spec.data

    def _argument(self, argument: str, column: str, values: np.ndarray, start: int) -> np.ndarray:
        """In the fit's number type: another would be compiled again, or mean something else."""
        if self.job.by_table:
            return values
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
