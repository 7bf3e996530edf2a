"""A column of a table: as it is written, and as it is meant."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias, final

import numpy as np

# The most categories that a summary names.
MOST_NAMED = 12
# A column as it is read: words as written, or an array from a table with types.
Values: TypeAlias = Sequence[str] | np.ndarray


class Kind(StrEnum):
    """What a column holds."""

    NUMBERS = "numbers"
    DATES = "dates"
    CATEGORIES = "categories"


@final
@dataclass(frozen=True)
class Hints:
    """What is known of a column before anybody looks at it.

    Attributes:
        kind: what it holds; None where that is to be found out.
        replace: words, and what they stand for; "" is no value.
        known: the categories of the fit; None for a table that is fitted.
        new: whether there may be categories that the fit has not seen.
        date_format: the way in which dates are written, as for `strftime`.
        gaps: whether values may be missing.
    """

    kind: Kind | None = None
    replace: Mapping[str, str] = field(default_factory=dict)
    known: Sequence[str] | None = None
    new: bool = False
    date_format: str | None = None
    gaps: bool = False


class Column(NamedTuple):
    """A column as it is meant.

    Attributes:
        kind: what it holds.
        values: numbers, dates, or words; nan, NaT or "" where missing.
        missing: whether each value is.
    """

    kind: Kind
    values: np.ndarray
    missing: np.ndarray

    def counts(self) -> list[tuple[str, int]]:
        """Its categories and how often each occurs, the most frequent first."""
        return Counter(self.values[~self.missing].tolist()).most_common()

    @property
    def summary(self) -> str:
        """What it holds, in words: a range, or categories with their counts."""
        there = self.values[~self.missing] if self.values.ndim == 1 else self.values
        if not there.size:
            return f"no {self.kind}"
        if self.kind is Kind.CATEGORIES and there.ndim == 1:
            counts = self.counts()
            shown = ", ".join(f"{word!r} {count}" for word, count in counts[:MOST_NAMED])
            more = f", and {len(counts) - MOST_NAMED} more" if len(counts) > MOST_NAMED else ""
            return f"{len(counts)} categories: {shown}{more}"
        if self.kind is Kind.NUMBERS:
            return f"numbers from {there.min():g} to {there.max():g}"
        words = there.astype(str).tolist()
        return f"{self.kind} from {min(words)} to {max(words)}"


@final
@dataclass(frozen=True, eq=False)
class Words:
    """A column of words, as the different words and the rows where they are.

    Work grows with the number of different words, not of rows.

    Attributes:
        different: the words, in order of appearance.
        counts: how often each occurs.
        first: the row where each comes first.
        codes: the place in `different` of the word of each row, and -1 for none; None where rows
            are not at hand.
    """

    different: list[str]
    counts: np.ndarray
    first: np.ndarray
    codes: np.ndarray | None = None

    @classmethod
    def of(cls, values: Collection[str] | np.ndarray) -> "Words":
        """The words of a column.

        Examples:
            >>> words = Words.of(["oak", "elm", "oak"])
            >>> words.different, words.counts.tolist(), words.first.tolist()
            (['oak', 'elm'], [2, 1], [0, 1])
        """
        import pandas as pd

        codes, different = pd.factorize(np.array([str(value) for value in values], object))
        first = np.unique(codes, return_index=True)[1]
        return cls(list(different), np.bincount(codes, minlength=len(different)), first, codes)

    def __len__(self) -> int:
        return int(self.counts.sum())

    def replaced(self, change: Mapping[str, str]) -> "Words":
        """The same column with some words in the place of others."""
        changed = Words.of([change.get(word, word) for word in self.different])
        codes = changed.codes
        assert codes is not None
        counts = np.bincount(codes, self.counts, minlength=len(changed.different)).astype(int)
        own = None if self.codes is None else codes[self.codes]
        return Words(changed.different, counts, self.first[changed.first], own)

    def only(self, kept: np.ndarray) -> "Words":
        """Some of the words; rows with others are left out.

        Args:
            kept: whether each of the different words is kept.
        """
        number = np.where(kept, np.cumsum(kept) - 1, -1)
        different = [word for word, keep in zip(self.different, kept, strict=True) if keep]
        own = None if self.codes is None else np.where(self.codes < 0, -1, number[self.codes])
        return Words(different, self.counts[kept], self.first[kept], own)

    def rows(self, which: np.ndarray | Sequence[int]) -> np.ndarray:
        """The rows with these words; where rows are not at hand, the first row with each."""
        if self.codes is None:
            return np.sort(self.first[which])
        return np.flatnonzero(np.isin(self.codes, which))

    def spread(self, values: np.ndarray) -> np.ndarray:
        """A value for each different word, as one for each row."""
        return values if self.codes is None else np.asarray(values[self.codes])
