"""The data doctor: what the columns of a table are, and all that is odd about them, in words."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from stakes.errors import suggestion
from stakes.tables.categories import MANY, alike, in_what_they_differ
from stakes.tables.findings import SHOWN, Column, Finding, Hints, Kind, rows_named
from stakes.tables.values import FORMATS, Dates, Numbers, dates_in, numbers_in, truths_in

MISSING = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"))
"""What stands for no value, wherever words are not meant as such."""
LETTERS = ("na", "n/a", "n.a.", "#n/a", "#nv", "nan", "null", "<na>", "k.a.", "k. a.")
SIGNS = ("?", "??", "-", "--", "---", "\u2013", "\u2014", ".")
DOUBTFUL = frozenset((*LETTERS, *SIGNS))
"""What may stand for no value among categories, in small or capital letters: users are asked."""


class Examined(NamedTuple):
    columns: dict[str, Column]
    findings: list[Finding]


def examine(
    table: Mapping[str, Sequence[str] | np.ndarray],
    said: Mapping[str, Hints],
    *,
    decimal: str = ".",
    first_row: int = 0,
) -> Examined:
    """What the columns of a table are, and all that is odd about them.

    Args:
        table: columns of words as written, or of numbers.
        said: what is known of columns; of others, nothing is.
        decimal: the decimal sign.
        first_row: how many rows come before these.

    Examples:
        >>> towns = ["Köln", "Köln ", "Ulm"]
        >>> found = examine({"price": ["2.5", "n/a", "3"], "town": towns}, {})
        >>> print(found.findings[0].what)
        2 of 3 values are numbers; row 2 says 'n/a'
        >>> print(found.findings[1].what)
        'Köln' (1 time, first in row 1) and 'Köln ' (1 time, first in row 2) differ by spaces alone
    """
    columns, findings = {}, list[Finding]()
    for name, values in table.items():
        look = _Look(name, said.get(name, Hints()), decimal, first_row, findings)
        columns[name] = look.column(values)
    return Examined(columns, findings)


@final
@dataclass(frozen=True)
class _Look:
    """A look at one column."""

    name: str
    said: Hints
    decimal: str
    first_row: int
    findings: list[Finding]

    def note(
        self,
        what: str,
        remedy: str = "",
        at: Sequence[int] = (),
        *,
        stops: bool,
        change: Mapping[str, str] | None = None,
        format: str | None = None,
        codes: bool = False,
    ) -> None:
        rows = tuple(self.first_row + int(place) + 1 for place in at)
        changed = tuple((change or {}).items())
        self.findings.append(Finding(self.name, what, remedy, rows, stops, changed, format, codes))

    def replacing(self, change: Mapping[str, str]) -> str:
        """How a spec says that words stand for others."""
        pairs = ", ".join(f"{word!r} = {meant!r}" for word, meant in change.items())
        return f"`replace.{_key(self.name)} = {{ {pairs} }}` in [data]"

    def named(self, at: Sequence[int] | np.ndarray) -> str:
        return rows_named([self.first_row + int(place) + 1 for place in at])

    def column(self, values: Sequence[str] | np.ndarray) -> Column:
        if isinstance(values, np.ndarray) and values.dtype.kind not in "USO":
            return self._typed(values)
        words = [self.said.replace.get(str(word), str(word)) for word in values]
        if self.said.kind is Kind.LABELS:
            return Column(Kind.LABELS, np.array(words, str), np.zeros(len(words), bool))
        # A category may be called NA; whoever lists a column as such means it.
        known = self.said.known
        none = MISSING - frozenset(known or ()) | {""}
        if self.said.kind is Kind.CATEGORIES and known is None:
            none = frozenset(("",))
        missing = np.array([word.strip() in none for word in words], bool)
        self._tell_missing(missing)
        there = np.flatnonzero(~missing)
        found = self._read([words[place] for place in there], there)
        blank = "" if found.values.dtype.kind == "U" else np.nan
        if len(there) == len(words):
            return Column(found.kind, found.values, missing)
        dtype = found.values.dtype if blank == "" else np.float64
        spread = np.full(len(words), blank, dtype)
        spread[there] = found.values
        return Column(found.kind, spread, missing)

    def _typed(self, values: np.ndarray) -> Column:
        """A column of a file that knows its types."""
        if self.said.kind is Kind.LABELS:
            return Column(Kind.LABELS, values.astype(str), np.zeros(len(values), bool))
        gaps = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
        missing = np.asarray(gaps.reshape(len(values), -1).any(axis=1) if values.ndim else gaps)
        self._tell_missing(missing)
        if self.said.kind is Kind.CATEGORIES:
            words = np.where(gaps, "", values.astype(str))
            if words.ndim == 1:
                self._tell_unseen(words, np.arange(len(words)), set())
            return Column(Kind.CATEGORIES, words, missing)
        self._tell_infinite(values)
        return Column(Kind.NUMBERS, values, missing)

    def _tell_missing(self, missing: np.ndarray) -> None:
        at = np.flatnonzero(missing)
        if not len(at):
            return
        if self.said.gaps:
            self.note(f"has no value in {self.named(at)}", at=at.tolist(), stops=False)
            return
        remedy = 'Drop or fill them; `missing = "drop"` in [data] leaves such rows out.'
        self.note(f"has no value in {self.named(at)}", remedy, at.tolist(), stops=True)

    def _tell_infinite(self, values: np.ndarray) -> None:
        if values.dtype.kind == "f" and np.isinf(values).any():
            at = np.unique(np.argwhere(np.isinf(values))[:, 0])
            self.note(
                f"is infinite in {self.named(at)}", "Drop or fill them.", at.tolist(), stops=True
            )

    def _read(self, words: list[str], at: np.ndarray) -> Column:
        """Words that are there; `at` has their places."""
        none, kind = np.zeros(len(words), bool), self.said.kind
        if kind in (None, Kind.DATES):
            dates = dates_in(words, self.said.date_format)
            if dates is not None and (kind or len(dates.others) < MANY * len(words)):
                self._tell_dates(dates, words, at)
                return Column(Kind.DATES, dates.values, none)
            if kind is Kind.DATES and words:
                remedy = "Write them as 2024-12-31."
                what = f"{self.named(at[:1])}: {words[0]!r} is no date"
                self.note(what, remedy, at.tolist(), stops=True)
                return Column(Kind.DATES, np.full(len(words), ""), none)
        truths = None if kind is Kind.CATEGORIES else truths_in(words)
        if truths is not None:
            return Column(Kind.NUMBERS, truths, none)
        if kind is not Kind.CATEGORIES:
            found = numbers_in(words, self.decimal)
            if kind is Kind.NUMBERS or len(found.others) < MANY * len(words) or not words:
                self._tell_numbers(found, words, at)
                whole = found.whole and not len(found.others) and len(words)
                return Column(
                    Kind.NUMBERS, found.values.astype(np.int64) if whole else found.values, none
                )
        values = np.array(words, str)
        listed = kind is Kind.CATEGORIES and self.said.known is None
        told = set() if listed else self._tell_doubtful(words, at)
        if not listed:
            meant = np.array([word not in told for word in words], bool)
            told |= self._tell_alike(values[meant].tolist(), at[meant])
        self._tell_unseen(values, at, told)
        return Column(Kind.CATEGORIES, values, none)

    def _tell_dates(self, dates: Dates, words: list[str], at: np.ndarray) -> None:
        if len(dates.others):
            self._tell_others("dates", dates.others, words, at)
        elif len(dates.formats) > 1:
            ways = " or ".join(f"as in {FORMATS[each]}" for each in dates.formats[:2])
            remedy = f'Say which: `dates = {{ {self.name} = "{dates.formats[0]}" }}` in [data].'
            what = f"{words[0]!r} may be written {ways} (the last day of a year)"
            self.note(what, remedy, stops=True, format=dates.formats[0])

    def _tell_numbers(self, found: Numbers, words: list[str], at: np.ndarray) -> None:
        if len(found.others):
            self._tell_others("numbers", found.others, words, at)
        units = list(found.units)
        if len(units) > 1:
            shown = " and ".join(f"{words[found.units[unit]]!r}" for unit in units[:2])
            self.note(
                f"has numbers of different units: {shown}", "Write all in the same one.", stops=True
            )
        elif units:
            word = words[found.units[units[0]]]
            value = f"{found.values[found.units[units[0]]]:g}"
            self.note(f"{word!r} and the like are read as numbers, here {value}", stops=False)
        if found.grouped is not None and not units:
            value = f"{found.values[found.grouped]:.12g}"
            self.note(f"{words[found.grouped]!r} is read as {value}", stops=False)
        zeros = [word for word in words if len(word) > 1 and word[0] == "0" and word.isdigit()]
        if zeros:
            remedy = (
                "They are read as numbers; if they are codes, list the column in `data.categories`."
            )
            what = f"{zeros[0]!r} and the like begin with a zero"
            self.note(what, remedy, stops=False, codes=True)
        self._tell_infinite(found.values)

    def _tell_others(self, what: str, others: np.ndarray, words: list[str], at: np.ndarray) -> None:
        said = list(dict.fromkeys(words[place] for place in others))
        shown = ", ".join(map(repr, said[:SHOWN])) + (", ..." if len(said) > SHOWN else "")
        says = "says" if len(others) == 1 else "say"
        if len(others) == len(words):
            self.note(f"must hold {what}; {self.named(at[:1])} has {said[0]!r}", stops=True)
            return
        change = dict.fromkeys(said, "")
        remedy = f"If that means no value: {self.replacing(dict(list(change.items())[:SHOWN]))}."
        if self.said.kind is None:
            remedy += " If these are categories, list the column in `data.categories`."
        self.note(
            f"{len(words) - len(others)} of {len(words)} values are {what}; "
            f"{self.named(at[others])} {says} {shown}",
            remedy,
            at[others].tolist(),
            stops=True,
            change=change,
        )

    def _tell_alike(self, words: list[str], at: np.ndarray) -> set[str]:
        """Words that may be meant as one; returns those that are told."""
        first: dict[str, int] = {}
        for place, word in zip(at, words, strict=True):
            first.setdefault(word, int(place))
        counts, known, told = Counter(words), set(self.said.known or ()), set()
        for together in alike(dict.fromkeys((*first, *sorted(known)))):
            order = sorted(
                together, key=lambda word: (word not in known, word != word.strip(), -counts[word])
            )
            others = [word for word in order[1:] if word in counts and word not in known]
            if not others:
                continue
            told.update(others)
            shown = " and ".join(self._counted(each, counts[each], first) for each in order)
            change = dict.fromkeys(others, order[0])
            self.note(
                f"{shown} differ by {in_what_they_differ(together)} alone",
                f"If they are the same: {self.replacing(change)}; if not, list the column in "
                f"`data.categories`.",
                [first[word] for word in others],
                stops=True,
                change=change,
            )
        return told

    def _tell_doubtful(self, words: list[str], at: np.ndarray) -> set[str]:
        """Words that may stand for no value; returns those that are told."""
        fine = {*(self.said.known or ()), *("-" for word in words if word == "+")}
        said = {w for w in words if w.strip().casefold() in DOUBTFUL and w not in fine}
        for word in dict.fromkeys(each for each in words if each in said):
            where = at[[each == word for each in words]]
            change = {word: ""}
            remedy = "If that means no value, leave it empty."
            if self.said.known is None:
                remedy = (
                    f"If that means no value: {self.replacing(change)}; if it is a category, list "
                    f"the column in `data.categories`."
                )
            self.note(
                f"{self.named(where)} {'says' if len(where) == 1 else 'say'} {word!r}",
                remedy,
                where.tolist(),
                stops=True,
                change=change,
            )
        return said

    def _counted(self, word: str, count: int, first: Mapping[str, int]) -> str:
        if word not in first:
            return f"{word!r} of the fit"
        times = "1 time" if count == 1 else f"{count} times"
        return f"{word!r} ({times}, first in {self.named([first[word]])})"

    def _tell_unseen(self, words: np.ndarray, at: np.ndarray, told: set[str]) -> None:
        """Words that the fit has not seen, where there may be none."""
        if self.said.known is None or self.said.new:
            return
        unseen: dict[str, list[int]] = {}
        for place, word in zip(at, words.tolist(), strict=True):
            unseen.setdefault(word, []).append(int(place))
        for word, where in unseen.items():
            if word and word not in self.said.known and word not in told:
                way_out = (
                    f"If it is new, leave the row out, or fit a model that can tell what new ones "
                    f"are like, such as a formula with `(1 | {self.name})`."
                )
                self.note(
                    f"{self.named(where)}: {word!r} was not in the data of the fit",
                    f"{suggestion(word, self.said.known).strip()} {way_out}",
                    where,
                    stops=True,
                )


def _key(name: str) -> str:
    """A name as a key of TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else repr(name)
