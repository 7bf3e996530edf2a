"""A file with new rows, read a part at a time as arguments of a run's model.

Its words get the codes of the fit, its numbers the types of the fit, and what the fit has not seen
is refused with row and column.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from stakes.app.spec.data_tables import (
    check_columns,
    columns_of,
    hints_of,
    lacking_in,
    table_file,
    wanted,
)
from stakes.app.spec.job import Job
from stakes.app.spec.messages import Collector
from stakes.app.spec.schema import DataSection
from stakes.app.spec.table import encode, words_of
from stakes.errors import InputError
from stakes.tables import Column, Finding, Hints, Kind, TableFile, Values, refuse, source_of


class Part(NamedTuple):
    """Some consecutive rows.

    Attributes:
        arguments: of the model.
        table: all columns with a value for each row, as they are written.
        labels: column -> what identifies each row, in the words of the fit.
        rows: the number of rows.
        start: the number of rows before these.
        lacking: whether each row lacks a value; arguments have a value of the fit in its place.
        notes: what is odd about these rows.
    """

    arguments: dict[str, np.ndarray]
    table: dict[str, Values]
    labels: dict[str, list[str]]
    rows: int
    start: int
    lacking: np.ndarray
    notes: tuple[Finding, ...]

    @property
    def names(self) -> list[str] | None:
        """One label for each row, made of all its labels; None where it has none."""
        return [", ".join(row) for row in zip(*self.labels.values(), strict=True)] or None


@final
@dataclass(frozen=True, eq=False)
class NewFile:
    """A file of new rows; outcomes are not needed.

    Attributes:
        job: of the run, whose spec says what columns mean.
        source: the path of the file.
    """

    job: Job
    source: Path

    def __post_init__(self) -> None:
        if self.job.spec.model.example is not None:
            raise InputError(
                "The run is of a built-in example, whose data do not come from a table. Decide in "
                "Python, with `solve(key).decide(...)` of the example."
            )
        if not self.columns:
            raise InputError("The model takes no column but the outcome, so all rows are the same.")
        mistakes = Collector()
        fields = {f"the column of `{name}`": column for name, column in self.columns.items()}
        fields |= {f"the label {name!r}": name for name in self.label}
        check_columns("the file", self.file, fields, mistakes)
        mistakes.raise_any(str(self.source))

    @cached_property
    def file(self) -> TableFile:
        """The file; it may be written in another dialect than that of the fit."""
        return table_file(self._data, self.source)

    @property
    def label(self) -> list[str]:
        """The columns that identify rows."""
        return self._data.label

    @cached_property
    def columns(self) -> dict[str, str]:
        """Argument of the model -> its column, without the outcome and what is decided."""
        problem = self.job.problem
        asked = (problem.outcome, problem.action)
        both = wanted(self._data, problem.outcome).items()
        return {argument: column for argument, column in both if argument not in asked}

    @cached_property
    def fitted(self) -> int:
        """The number of rows of the fit."""
        return self.job.rows_in(self.job.fit)

    def parts(self, most: int) -> Iterator[Part]:
        """Read the rows, at most `most` of them at a time.

        Raises:
            InputError: with all that stops a part, by row and column.
        """
        start, hints = 0, self._hints()
        for raw in self.file.parts(self.file.columns, most):
            if raw.rows == 0:
                continue
            names = self.columns.values()
            seen = columns_of(raw.columns, names, hints, self.file.decimal, start)
            findings = [*raw.findings, *seen.findings]
            refuse(str(self.source), [finding for finding in findings if finding.stops])
            arguments = {
                argument: self._argument(argument, column, seen.columns[column], start)
                for argument, column in self.columns.items()
            }
            by_row = {n: v for n, v in raw.columns.items() if np.shape(v)[:1] == (raw.rows,)}
            words = words_of(raw.columns, self.label, self._data.replace)
            yield Part(
                arguments,
                by_row,
                {name: column.tolist() for name, column in words.items()},
                raw.rows,
                start,
                lacking_in(seen.columns, raw.rows),
                tuple(seen.findings),
            )
            start += raw.rows

    @property
    def _data(self) -> DataSection:
        return self.job.spec.data

    def _hints(self) -> dict[str, Hints]:
        """What spec and fit say of each column."""
        hints, formula = {}, self.job.formula
        for argument, name in self.columns.items():
            column, part = source_of(name, self.file.columns)
            words = self.job.fit.vocabulary.get(name)
            values = np.asarray(self.job.fit.arguments[argument])
            kind, new = Kind.NUMBERS, False
            if part is not None or argument in self.job.dates:
                kind = Kind.DATES
            elif words is not None or values.dtype.kind == "U":
                kind = Kind.CATEGORIES
                words = words if words is not None else sorted(set(values.tolist()))
                new = formula is not None and argument in formula.groups
            hints[column] = replace(hints_of(self._data, column, kind), known=words, new=new)
        return hints

    def _argument(self, argument: str, name: str, column: Column, start: int) -> np.ndarray:
        """The values of an argument, in the number type of the fit.

        Another type would be compiled again, or mean something else.
        """
        fitted = np.asarray(self.job.fit.arguments[argument])
        codes = encode(column, self.job.fit.vocabulary.get(name))
        codes = _filled(codes, column.missing, fitted)
        if self.job.by_table:
            return codes
        values = codes.astype(fitted.dtype)
        if fitted.dtype.kind in "iub" and not np.array_equal(values, codes):
            row = start + int(np.argwhere(values != codes)[0, 0]) + 1
            raise InputError(
                f"column {name!r}, row {row}: the fit had whole numbers in this column, and this "
                f"is not one."
            )
        return values


def _filled(values: np.ndarray, missing: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """Put a value of the fit where one is missing: the model needs some number there.

    Rows that lack a value get no decision.
    """
    if not missing.any():
        return values
    kind = np.result_type(values, fitted) if values.dtype.kind == "U" else values.dtype
    filled = values.astype(kind)
    filled[missing] = fitted[0]
    return filled
