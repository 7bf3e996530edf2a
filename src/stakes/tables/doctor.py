"""The data doctor: what the columns of a table hold, and all that is odd about them.

It refuses rather than guesses. A column is numbers or dates if most of its words are, the others
are findings; words that differ by a space, or may stand for no value, are findings, too. Each names
its rows, and says how to settle it.
"""

import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from stakes.errors import name_rows, suggestion
from stakes.tables.columns import Column, Hints, Kind, Values, Words
from stakes.tables.findings import IN_SPEC, SHOWN, Finding, Remedies
from stakes.tables.values import FORMATS, Dates, NumericWords, dates_in, numbers_in, truths_in

# If more than this share of words are numbers or dates, the column was probably meant so.
MANY = 0.5
# What stands for no value, wherever words are not meant as such.
MISSING = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"))
LETTERS = ("na", "n/a", "n.a.", "#n/a", "#nv", "nan", "null", "<na>", "k.a.", "k. a.")
SIGNS = ("?", "??", "-", "--", "---", "\u2013", "\u2014", ".")
# What may stand for no value among categories, in small or capital letters: users are asked.
DOUBTFUL = frozenset((*LETTERS, *SIGNS))


class Examined(NamedTuple):
    """What the doctor says of a table.

    Attributes:
        columns: the columns, as they are meant.
        findings: all that is odd about them.
    """

    columns: dict[str, Column]
    findings: list[Finding]


def examine(
    table: Mapping[str, Values | Words],
    hints: Mapping[str, Hints],
    *,
    decimal: str = ".",
    first_row: int = 0,
    names: Callable[[np.ndarray], list[str]] | None = None,
    remedies: Remedies = IN_SPEC,
) -> Examined:
    """Look at the columns of a table.

    Args:
        table: columns of words as written, of numbers, or of dates.
        hints: what is known of columns; of others, nothing is.
        decimal: the decimal sign.
        first_row: the number of rows before these.
        names: what rows are called, by their place here; otherwise they have numbers.
        remedies: how findings can be settled.

    Examples:
        >>> towns = ["Köln", "Köln ", "Ulm"]
        >>> seen = examine({"price": ["2.5", "n/a", "3"], "town": towns}, {})
        >>> print(seen.findings[0].what)
        2 of 3 values are numbers; row 2 says 'n/a'
        >>> print(seen.findings[1].what)
        'Köln' (1 time, first in row 1) and 'Köln ' (1 time, first in row 2) differ by spaces alone
    """
    names = names or (lambda rows: [str(first_row + row + 1) for row in rows.tolist()])
    columns, findings = {}, list[Finding]()
    for name, values in table.items():
        hint = hints.get(name, Hints())
        look = _Look(name, hint, decimal, first_row, names, remedies, findings)
        columns[name] = look.column(values)
    return Examined(columns, findings)


@final
@dataclass(frozen=True)
class _Look:
    """A look at one column.

    Attributes:
        name: the column's name.
        hints: what is known of it.
        decimal: the decimal sign.
        first_row: the number of rows before these.
        names: what rows are called, by their place here.
        remedies: how findings can be settled.
        findings: where they are added.
    """

    name: str
    hints: Hints
    decimal: str
    first_row: int
    names: Callable[[np.ndarray], list[str]]
    remedies: Remedies
    findings: list[Finding]

    def note(
        self,
        what: str,
        remedy: str = "",
        rows: np.ndarray | Sequence[int] = (),
        *,
        stops: bool = True,
        change: Mapping[str, str] | None = None,
        format: str | None = None,
        codes: bool = False,
    ) -> None:
        """Add a finding about this column; `rows` are places here."""
        numbers = tuple(self.first_row + int(row) + 1 for row in rows)
        pairs = tuple((change or {}).items())
        self.findings.append(Finding(self.name, what, remedy, numbers, stops, pairs, format, codes))

    def named(self, rows: np.ndarray) -> str:
        """Name rows as the user does."""
        return name_rows(self.names(rows))

    def remedy(self, text: str) -> str:
        """Return a remedy with the column's name filled in."""
        return text.format(column=self.name)

    def column(self, values: Values | Words) -> Column:
        """Return the column as the user means it.

        Words for missing values are set apart first, so that a column of numbers stays numeric.
        """
        if isinstance(values, np.ndarray) and values.dtype.kind not in "USO":
            return self._typed(values)
        words = values if isinstance(values, Words) else Words.of(values)
        if self.hints.replace:
            words = words.replaced(self.hints.replace)
        # A category may be called NA; whoever lists a column as such means it.
        blank = MISSING - frozenset(self.hints.known or ()) | {""}
        if self.hints.kind is Kind.CATEGORIES and self.hints.known is None:
            blank = frozenset(("",))
        missing = np.array([word.strip() in blank for word in words.different], bool)
        self._note_missing(words.rows(np.flatnonzero(missing)))
        kind, there = self._read(words.only(~missing))
        if not missing.any():
            return Column(kind, words.spread(there), words.spread(missing))
        if kind is Kind.NUMBERS:
            there = there.astype(np.float64)
        none = {Kind.NUMBERS: np.nan, Kind.DATES: np.datetime64("NaT"), Kind.CATEGORIES: ""}[kind]
        every = np.full(len(missing), none, there.dtype)
        every[~missing] = there
        return Column(kind, words.spread(every), words.spread(missing))

    def _typed(self, values: np.ndarray) -> Column:
        """A column of a table that knows its types, such as one of Parquet."""
        gaps = np.isnan(values) if values.dtype.kind in "fM" else np.zeros(values.shape, bool)
        if self.hints.kind is Kind.CATEGORIES and values.ndim == 1:
            return self.column(np.where(gaps, "", values.astype(str)))
        missing = np.asarray(gaps.reshape(len(values), -1).any(axis=1) if values.ndim else gaps)
        self._note_missing(np.flatnonzero(missing))
        if self.hints.kind is Kind.CATEGORIES:
            return Column(Kind.CATEGORIES, np.where(gaps, "", values.astype(str)), missing)
        if values.dtype.kind == "M":
            return Column(Kind.DATES, values, missing)
        if self.hints.kind is Kind.DATES:
            self.note("must hold dates; it holds numbers")
            return Column(Kind.DATES, np.full(len(values), "NaT", "datetime64[D]"), missing)
        self._note_infinite(np.unique(np.argwhere(np.isinf(np.atleast_1d(values)))[:, 0]))
        return Column(Kind.NUMBERS, values, missing)

    def _note_missing(self, rows: np.ndarray) -> None:
        """Note rows without a value."""
        if len(rows):
            remedy = "" if self.hints.gaps else self.remedies.missing
            what = f"has no value in {self.named(rows)}"
            self.note(what, remedy, rows, stops=not self.hints.gaps)

    def _note_infinite(self, rows: np.ndarray) -> None:
        """Note rows with infinite values."""
        if len(rows):
            self.note(f"is infinite in {self.named(rows)}", "Drop or fill them.", rows)

    def _read(self, words: Words) -> tuple[Kind, np.ndarray]:
        """Read the words that are there, as the kind that they are.

        Dates are tried first, then truth values and numbers; all else is categories.

        Returns:
            The kind, and a value for each different word.
        """
        kind, different = self.hints.kind, words.different
        if kind in (None, Kind.DATES):
            dates = dates_in(different, self.hints.date_format)
            if dates is not None and (kind or self._are_few(dates.others, words)):
                self._note_dates(dates, words)
                return Kind.DATES, dates.values
            if kind is Kind.DATES and different:
                rows = words.rows(range(len(different)))
                what = f"{self.named(rows[:1])}: {different[0]!r} is no date"
                self.note(what, "Write them as 2024-12-31.", rows)
                return Kind.DATES, np.full(len(different), "NaT", "datetime64[D]")
        truths = None if kind is Kind.CATEGORIES else truths_in(different)
        if truths is not None:
            return Kind.NUMBERS, truths
        if kind is not Kind.CATEGORIES:
            numbers = numbers_in(different, self.decimal)
            if kind is Kind.NUMBERS or self._are_few(numbers.others, words) or not different:
                self._note_numbers(numbers, words)
                whole = numbers.whole and not len(numbers.others) and different
                return Kind.NUMBERS, numbers.values.astype(np.int64) if whole else numbers.values
        settled = set[str]()
        if kind is not Kind.CATEGORIES or self.hints.known is not None:
            settled = self._note_doubtful(words)
            clear = np.array([word not in settled for word in different], bool)
            settled |= self._note_alike(words.only(clear))
        self._note_unseen(words, settled)
        return Kind.CATEGORIES, np.array(different, str)

    def _are_few(self, others: np.ndarray, words: Words) -> bool:
        """Whether some words are so few of all that they are the odd ones."""
        return bool(words.counts[others].sum() < MANY * len(words))

    def _note_dates(self, dates: Dates, words: Words) -> None:
        """Note words that are no dates, and dates that may be meant in two ways."""
        if len(dates.others):
            self._note_others("dates", dates.others, words)
        elif len(dates.formats) > 1:
            ways = " or ".join(f"as in {FORMATS[way]}" for way in dates.formats[:2])
            what = f"{words.different[0]!r} may be written {ways} (the last day of a year)"
            remedy = self.remedies.format.format(column=self.name, format=dates.formats[0])
            self.note(what, f"Say which: {remedy}.", format=dates.formats[0])

    def _note_numbers(self, numbers: NumericWords, words: Words) -> None:
        """Note words that are no numbers, different units, and zeros in front."""
        different, units = words.different, list(numbers.units.values())
        if len(numbers.others):
            self._note_others("numbers", numbers.others, words)
        if len(units) > 1:
            shown = " and ".join(repr(different[at]) for at in units[:2])
            self.note(f"has numbers of different units: {shown}", "Write all in the same one.")
        elif units:
            word, value = different[units[0]], numbers.values[units[0]]
            self.note(
                f"{word!r} and similar words are read as numbers, here {value:g}", stops=False
            )
        elif numbers.grouped is not None:
            word, value = different[numbers.grouped], numbers.values[numbers.grouped]
            self.note(f"{word!r} is read as {value:.12g}", stops=False)
        zeros = [word for word in different if len(word) > 1 and word[0] == "0" and word.isdigit()]
        if zeros:
            categories = self.remedy(self.remedies.categories)
            remedy = f"They are read as numbers; if they are codes, {categories}."
            what = f"{zeros[0]!r} and similar numbers begin with a zero"
            self.note(what, remedy, stops=False, codes=True)
        self._note_infinite(words.rows(np.flatnonzero(np.isinf(numbers.values))))

    def _note_others(self, what: str, others: np.ndarray, words: Words) -> None:
        """Note words of another kind than the rest of the column."""
        rows, odd = words.rows(others), [words.different[at] for at in others]
        if len(others) == len(words.different):
            self.note(f"must hold {what}; {self.named(rows[:1])} has {odd[0]!r}")
            return
        shown = ", ".join(map(repr, odd[:SHOWN])) + (", ..." if len(odd) > SHOWN else "")
        remedy = f"If that means no value: {self._changing(dict.fromkeys(odd[:SHOWN], ''))}."
        if self.hints.kind is None:
            remedy += f" If these are categories, {self.remedy(self.remedies.categories)}."
        self.note(
            f"{len(words) - words.counts[others].sum()} of {len(words)} values are {what}; "
            f"{self.named(rows)} {_say(rows)} {shown}",
            remedy,
            rows,
            change=dict.fromkeys(odd, ""),
        )

    def _note_alike(self, words: Words) -> set[str]:
        """Note words that may be meant as one, and return them."""
        known, noted = set(self.hints.known or ()), set[str]()
        place = {word: at for at, word in enumerate(words.different)}

        def rank(word: str) -> tuple[bool, bool, int]:
            count = words.counts[place[word]] if word in place else 0
            return word not in known, word != word.strip(), -count

        for together in alike(dict.fromkeys((*place, *sorted(known)))):
            order = sorted(together, key=rank)
            others = [word for word in order[1:] if word in place and word not in known]
            if not others:
                continue
            noted.update(others)
            shown = []
            for word in order:
                where = "of the fit"
                if word in place:
                    count, first = words.counts[place[word]], words.first[[place[word]]]
                    times = "1 time" if count == 1 else f"{count} times"
                    where = f"({times}, first in {self.named(first)})"
                shown.append(f"{word!r} {where}")
            change = dict.fromkeys(others, order[0])
            self.note(
                f"{' and '.join(shown)} differ by {_difference(together)} alone",
                f"If they are the same: {self._changing(change)}; if not, "
                f"{self.remedy(self.remedies.categories)}.",
                words.first[[place[word] for word in others]],
                change=change,
            )
        return noted

    def _note_doubtful(self, words: Words) -> set[str]:
        """Note words that may stand for no value, and return them."""
        fine = {*(self.hints.known or ()), *("-" for word in words.different if word == "+")}
        noted = set[str]()
        for at, word in enumerate(words.different):
            if word.strip().casefold() not in DOUBTFUL or word in fine:
                continue
            noted.add(word)
            rows, remedy = words.rows([at]), "If that means no value, leave it empty."
            if self.hints.known is None:
                remedy = (
                    f"If that means no value: {self._changing({word: ''})}; if it is a category, "
                    f"{self.remedy(self.remedies.categories)}."
                )
            what = f"{self.named(rows)} {_say(rows)} {word!r}"
            self.note(what, remedy, rows, change={word: ""})
        return noted

    def _note_unseen(self, words: Words, settled: Collection[str]) -> None:
        """Note words that the fit has not seen, where there may be none."""
        if self.hints.known is None or self.hints.new:
            return
        expected = {*self.hints.known, *settled, ""}
        for at, word in enumerate(words.different):
            if word not in expected:
                rows, meant = words.rows([at]), suggestion(word, self.hints.known).strip()
                what = f"{self.named(rows)}: {word!r} was not in the data of the fit"
                self.note(what, f"{meant} {self.remedy(self.remedies.unseen)}", rows)

    def _changing(self, change: Mapping[str, str]) -> str:
        """What to write so that words are changed."""
        return self.remedies.changing(self.name, change)


def alike(categories: Iterable[str]) -> list[list[str]]:
    """Words that differ in nothing but spaces, capital letters, or how accents are stored.

    Examples:
        >>> alike(["Ulm", "ulm", "Bonn"])
        [['Ulm', 'ulm']]
    """
    together: dict[str, list[str]] = {}
    for word in categories:
        together.setdefault(_plain(word).casefold(), []).append(word)
    return [words for words in together.values() if len(words) > 1]


def _difference(words: Iterable[str]) -> str:
    """What makes words differ that are alike."""
    if len({_plain(word) for word in words}) > 1:
        return "capital letters"
    return "spaces" if len({" ".join(w.split()) for w in words}) == 1 else "how accents are stored"


def _plain(word: str) -> str:
    """A word with single spaces, and accents stored in one way."""
    return unicodedata.normalize("NFC", " ".join(word.split()))


def _say(rows: Sequence[int] | np.ndarray) -> str:
    """The verb for what rows have."""
    return "says" if len(rows) == 1 else "say"
