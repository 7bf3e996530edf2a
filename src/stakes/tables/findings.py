"""What is said of columns, what they turn out to be, and what is odd about them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, final

import numpy as np

SHOWN = 5
"""Rows and words that a finding names."""


class Kind(StrEnum):
    NUMBERS = "numbers"
    DATES = "dates"
    CATEGORIES = "categories"
    LABELS = "labels"
    """Words as they are, whatever they are."""


@final
@dataclass(frozen=True)
class Finding:
    """Something odd in a table."""

    column: str
    what: str
    remedy: str = ""
    rows: tuple[int, ...] = ()
    """Counted from one, below the header."""
    stops: bool = True
    """Whether nothing can be fitted before it is settled; otherwise it is just told."""
    change: tuple[tuple[str, str], ...] = ()
    """Words, and what to put in their place to settle it."""
    format: str | None = None
    """One of several ways in which dates may be written."""
    codes: bool = False
    """Whether numbers look like codes, such as postcodes that begin with a zero."""

    def __str__(self) -> str:
        where = f"column {self.column!r}: " if self.column else ""
        return f"{where}{self.what}.{f' {self.remedy}' if self.remedy else ''}"


@final
@dataclass(frozen=True)
class Hints:
    """What is known of a column before anybody looks at it."""

    kind: Kind | None = None
    replace: Mapping[str, str] = field(default_factory=dict)
    """Words, and what they stand for; "" is no value."""
    known: Sequence[str] | None = None
    """The categories of the fit."""
    new: bool = False
    """Whether there may be others."""
    date_format: str | None = None
    gaps: bool = False
    """Whether values may be missing."""


class Column(NamedTuple):
    """A column as it is meant."""

    kind: Kind
    values: np.ndarray
    """Numbers, dates as 2024-12-31, or words; nan or "" where missing."""
    missing: np.ndarray
    """Whether each value is."""

    def counts(self) -> list[tuple[str, int]]:
        """Its categories, the most frequent first."""
        return Counter(self.values[~self.missing].tolist()).most_common()


def rows_named(rows: Sequence[int]) -> str:
    """'row 12', 'rows 12 and 40', or the first few and how many more."""
    shown, more = [str(row) for row in rows[:SHOWN]], len(rows) - SHOWN
    if more > 0:
        return f"rows {', '.join(shown)} and {more} more"
    return f"rows {', '.join(shown[:-1])} and {shown[-1]}" if len(rows) > 1 else f"row {shown[0]}"
