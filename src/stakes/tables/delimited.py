"""Files of separated values: a header, and rows of words, a part at a time."""

import csv
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, final

from stakes.errors import InputError, listed
from stakes.tables.dialect import Dialect, sniffed, text_of


class Words(NamedTuple):
    """Some rows of a file, as written."""

    columns: dict[str, list[str]]
    rows: int
    uneven: dict[int, int]
    """Row, counted from one -> its number of values, where that is not the header's."""


@final
@dataclass(frozen=True)
class Delimited:
    """A file of separated values.

    Args:
        said: what is known of the way it is written.
    """

    path: Path
    said: Dialect = field(default_factory=Dialect)

    @cached_property
    def dialect(self) -> Dialect:
        return sniffed(self.path, self.said)

    @cached_property
    def header(self) -> list[str]:
        """The names of the columns, without spaces around them."""
        with text_of(self.path, self.dialect) as file:
            found = next((row for row in self._records(file) if row), [])
        names = [name.strip() for name in found]
        while names and not names[-1]:  # separators at the end of the line
            names.pop()
        if not names:
            raise InputError(f"cannot read {self.path}: it has no header with names of columns.")
        return names

    def parts(self, most: int | None = None) -> Iterator[Words]:
        """All rows, at most so many at a time; lines without anything are no rows."""
        names, start = self.header, 0
        with text_of(self.path, self.dialect) as file:
            records = (row for row in self._records(file) if row)
            next(records)
            while some := list(itertools.islice(records, most)):
                yield _words(names, some, start)
                start += len(some)

    def _records(self, file: Iterator[str]) -> Iterator[list[str]]:
        try:
            yield from csv.reader(file, delimiter=self.dialect.separator or ",")
        except csv.Error as error:
            raise InputError(f"cannot read {self.path}: {error}.") from None


def repeated(names: list[str]) -> list[str]:
    """Names that are there more than once."""
    return [name for name in dict.fromkeys(names) if name and names.count(name) > 1]


def _words(names: list[str], records: list[list[str]], start: int) -> Words:
    width = len(names)
    uneven = {}
    for at, record in enumerate(records):
        if len(record) != width:
            if len(record) < width or any(record[width:]):
                uneven[start + at + 1] = len(record)
            records[at] = (record + [""] * width)[:width]
    columns = dict(zip(names, map(list, zip(*records, strict=True)), strict=True))
    return Words(columns, len(records), uneven)


def uneven_rows(uneven: dict[int, int], names: list[str], separator: str) -> str:
    """What is to be said of rows that do not have a value for each column."""
    rows = listed((f"row {row} has {count}" for row, count in uneven.items()), 5)
    return (
        f"the header names {len(names)} columns, but {rows} values. A value with {separator!r} in "
        f'it has to be in quotes: "Bonn{separator} am Markt".'
    )
