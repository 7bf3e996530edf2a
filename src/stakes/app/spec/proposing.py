"""A spec for the user's own table: what its columns are, a formula, a split, costs to fill in."""

import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from stakes.errors import InputError, suggestion
from stakes.tables import Column, Examined, Finding, Hints, Kind, TableFile, examine

FEW = 4
"""Up to so many categories have an effect each; more are groups that learn from each other."""
DISTINCT = 0.5
"""Of the rows, the share from which on different words are labels rather than categories."""
LARGE = 5000
"""Counts of this size are as good as any number."""
DISPERSED = 1.3
"""Times the variance of Poisson counts, from which on they are another family."""
LEAST_HELD_OUT = 50
"""Rows; of fewer, none is held out."""
DAILY = 3
"""Days between dates, up to which they are those of a week."""
LEAST_WEEKS = 3
CODE_DIGITS = 4
ORDERED = re.compile(
    r"^(orders?|ordered|order_?qty|qty_?ordered|bestell|geplant|command|pedid|ordinat)", re.I
)
"""Names of columns, in some languages, of what was ordered."""
TWICE = 0.02
"""Of the rows, the share that may bear the label of another, as where a row is there twice."""


@final
@dataclass(frozen=True)
class Proposal:
    """What a spec for a table says."""

    table: Path
    rows: int
    about: str
    """The column of the outcomes."""
    outcome: str
    """As the formula calls it."""
    terms: tuple[str, ...]
    family: str
    why: str
    """Of the family."""
    columns: dict[str, str]
    """What the formula calls columns whose names are no words."""
    label: tuple[str, ...]
    date: str | None
    """The column that the rows are in order by."""
    missing: bool
    """Whether some rows lack a value."""
    replace: dict[str, dict[str, str]]
    dates: dict[str, str]
    categories: tuple[str, ...]
    """Columns of codes that look like numbers."""
    today: str | None
    """The column with what is decided today."""
    left_out: dict[str, str]
    """Column -> why it is not in the formula."""
    written: str
    """How the file is written."""
    findings: tuple[Finding, ...]
    """All that is odd about the table."""

    @property
    def formula(self) -> str:
        return f"{self.outcome} ~ {' + '.join(self.terms) or '1'}"

    @property
    def held_out(self) -> bool:
        return self.rows >= LEAST_HELD_OUT


def proposed(path: Path, outcome: str | None, today: str | None = None) -> Proposal:
    """Look at a table, and propose a spec for it.

    Decisions of `today` are no predictor: those of rows to come are what is asked for.
    """
    file = TableFile(path)
    if file.kind == "npz":
        raise InputError(f"`--table {path}` must be a .csv or .parquet file.")
    names = [name for name in file.columns if name]
    if outcome is None or outcome not in names:
        asked = "say which column to decide about with `--outcome`"
        came = "." if outcome is None else f"; there is no {outcome!r}."
        raise InputError(f"{asked}{came}{suggestion(outcome or '', names)}")
    raw = file.whole(names)
    if raw.rows == 0:
        raise InputError(f"{path} has no rows.")
    first = examine(raw.columns, {}, decimal=file.decimal)
    settled = _settled(first, outcome)
    seen = examine(raw.columns, settled, decimal=file.decimal)
    open_still = [*raw.findings, *(f for f in seen.findings if f.stops)]
    if open_still:
        lines = "\n".join(f"  {finding}" for finding in open_still)
        raise InputError(f"{path} has to be put right first:\n{lines}")
    told = [f for f in first.findings if f.stops or (f.codes and f.column != outcome)]
    told += [finding for finding in seen.findings if not _is_told(finding, told)]
    if today is not None and (today not in names or today == outcome):
        said = suggestion(today, [name for name in names if name != outcome])
        raise InputError(f"`--today {today}` must be another column of {path.name}.{said}")
    look = _Look(seen.columns, outcome, raw.rows, today or _of_today(seen.columns, outcome))
    return look.proposal(file, settled, tuple(told))


def _of_today(columns: Mapping[str, Column], outcome: str) -> str | None:
    """The one column of numbers whose name says that it is what was ordered."""
    numbers = [n for n, c in columns.items() if c.kind is Kind.NUMBERS and n != outcome]
    found = [name for name in numbers if ORDERED.search(name)]
    return found[0] if len(found) == 1 else None


def _is_told(finding: Finding, told: Sequence[Finding]) -> bool:
    """Whether others say the same: a word that stands for no value leaves one missing."""
    others = [other for other in told if other.column == finding.column]
    rows = {row for other in others for row in other.rows}
    return bool(finding.rows) and rows.issuperset(finding.rows)


def _settled(first: Examined, outcome: str) -> dict[str, Hints]:
    """What the spec has to say of columns, so that nothing stops a fit."""
    change: dict[str, dict[str, str]] = {}
    for finding in first.findings:
        change.setdefault(finding.column, {}).update(finding.change)
    ambiguous = {f.column: f.format for f in first.findings if f.format is not None}
    codes = {f.column for f in first.findings if f.codes} - {outcome}
    return {
        name: Hints(
            Kind.CATEGORIES if name in codes else None,
            replace=change.get(name, {}),
            gaps=True,
            date_format=ambiguous.get(name),
        )
        for name in first.columns
    }


class _Term(NamedTuple):
    text: str
    column: str


@final
@dataclass(frozen=True)
class _Look:
    """A look at the columns of a table."""

    columns: Mapping[str, Column]
    outcome: str
    rows: int
    today: str | None
    left_out: dict[str, str] = field(default_factory=dict)

    def proposal(
        self, file: TableFile, settled: Mapping[str, Hints], findings: tuple[Finding, ...]
    ) -> Proposal:
        names = _names(list(self.columns))
        date = next((n for n, c in self.columns.items() if c.kind is Kind.DATES), None)
        terms = [term for name in self.columns for term in self._terms(name, names[name], date)]
        used = {self.outcome, *(term.column for term in terms), *((date,) if date else ())}
        lacking = np.zeros(self.rows, bool)
        for name in used:
            lacking |= self.columns[name].missing
        family, why = self._family(used - {self.outcome}, ~lacking)
        renamed = {names[n]: n for n in used if names[n] != n}
        if date is not None and not any(term.column == date for term in terms):
            renamed.pop(names[date], None)
        return Proposal(
            table=file.path,
            rows=int((~lacking).sum()),
            about=self.outcome,
            outcome=names[self.outcome],
            terms=tuple(term.text for term in terms),
            family=family,
            why=why,
            columns=renamed,
            label=self._label(date),
            date=date,
            missing=bool(lacking.any()),
            replace={
                n: dict(settled[n].replace) for n in settled if settled[n].replace and n in used
            },
            dates={n: s.date_format for n, s in settled.items() if s.date_format and n in used},
            categories=tuple(n for n in settled if settled[n].kind is not None and n in used),
            today=self.today,
            left_out=self.left_out,
            written=str(file.dialect) if file.kind == "csv" else file.kind,
            findings=findings,
        )

    def _there(self, name: str) -> np.ndarray:
        column = self.columns[name]
        return np.asarray(column.values[~column.missing])

    def _family(self, beside: Collection[str], rows: np.ndarray) -> tuple[str, str]:
        """What the outcomes look like, given the columns beside them."""
        column, values = self.columns[self.outcome], self._there(self.outcome)
        if column.kind is not Kind.NUMBERS:
            raise InputError(
                f"`--outcome {self.outcome}`: the column holds {column.kind}, where numbers are "
                f"needed to decide about."
            )
        if len(np.unique(values)) < 2:
            raise InputError(f"`--outcome {self.outcome}`: all outcomes are the same.")
        numbers = values.astype(float)
        whole = bool((numbers == np.round(numbers)).all())
        if set(np.unique(numbers)) <= {0.0, 1.0}:
            return "bernoulli", "outcomes are 0 or 1"
        if whole and numbers.min() >= 0 and numbers.max() < LARGE:
            counts = self.columns[self.outcome].values[rows].astype(float)
            design = [effects(self.columns[name], rows) for name in sorted(beside)]
            if dispersion(np.column_stack([np.ones(len(counts)), *design]), counts) < DISPERSED:
                return "poisson", "outcomes are counts that vary no more than by chance"
            return "negative binomial", "outcomes are counts that vary more than by chance"
        spread = numbers - numbers.mean()
        skewed = (spread**3).mean() > (spread**2).mean() ** 1.5
        if numbers.min() > 0 and skewed:
            return "gamma", "outcomes are above zero, a few of them large"
        return "normal", 'outcomes are any numbers; "student" allows for some far off'

    def _terms(self, name: str, called: str, date: str | None) -> list[_Term]:
        if name == self.outcome:
            return []
        column, there = self.columns[name], self._there(name)
        if name == date:
            return [_Term(text, name) for text in self._parts(name, called)]
        different, reason = np.unique(there), ""
        if name == self.today:
            reason = "it is what is decided today (`today`, below)"
        elif column.kind is Kind.DATES:
            reason = "a second column of dates"
        elif len(different) < 2:
            reason = "the same in all rows"
        elif 2 * column.missing.sum() > self.rows:
            reason = "missing in most rows"
        elif column.kind is Kind.CATEGORIES and len(different) > DISTINCT * len(there):
            reason = "a different word in nearly every row"
        elif column.kind is Kind.NUMBERS and _numbers_rows(there):
            reason = "it numbers the rows"
        elif same := self._same_as(name):
            reason = f"it goes with {same}, one to one"
        elif date is not None and self._is_of_weekday(name, date):
            reason = f"it depends on the weekday alone, which {date} already gives"
        if reason:
            self.left_out[name] = reason
            return []
        if column.kind is Kind.NUMBERS:
            return [_Term(called, name)]
        return [_Term(called if len(different) <= FEW else f"(1 | {called})", name)]

    def _same_as(self, name: str) -> str | None:
        """A column of words that tells the same: of two such columns the first one is kept."""
        own = self.columns[name]
        if own.kind is Kind.NUMBERS and not _are_codes(self._there(name)):
            return None  # such as the size of a shop, which tells something of other shops, too
        words = [n for n, c in self.columns.items() if c.kind is Kind.CATEGORIES]
        for other in words[: words.index(name)] if name in words else words:
            both = ~(own.missing | self.columns[other].missing)
            here, there = (each.values[both].tolist() for each in (own, self.columns[other]))
            pairs = set(zip(here, there, strict=True))
            if len(pairs) == len(set(here)) == len(set(there)):
                return other
        return None

    def _parts(self, name: str, called: str) -> list[str]:
        """A trend, and what returns every week."""
        if len(_days(self._there(name))) < 2:
            self.left_out[name] = "the same in all rows"
            return []
        weekly = [f"C({called}_weekday)"] if self._is_weekly(name) else []
        return [*weekly, f"{called}_days"]

    def _is_weekly(self, date: str) -> bool:
        """Whether there are enough days of each weekday to learn its effect."""
        days = _days(self._there(date))
        weekdays, counts = np.unique(_weekdays(days), return_counts=True)
        daily = len(weekdays) > 1 and np.median(np.diff(days)) <= DAILY
        return bool(daily and counts.min() >= LEAST_WEEKS)

    def _is_of_weekday(self, name: str, date: str) -> bool:
        """Whether a column adds nothing to an effect of each weekday, as "Mon" or "weekend"."""
        own, dates = self.columns[name], self.columns[date]
        both = ~(own.missing | dates.missing)
        days = dates.values[both].astype("datetime64[D]").astype(int)
        pairs = set(zip(_weekdays(days).tolist(), own.values[both].tolist(), strict=True))
        return self._is_weekly(date) and len(pairs) == len({weekday for weekday, _ in pairs})

    def _label(self, date: str | None) -> tuple[str, ...]:
        """What tells rows apart: dates, with categories where dates return."""
        words = [
            name
            for name, column in self.columns.items()
            if column.kind is Kind.CATEGORIES and 2 * column.missing.sum() <= self.rows
        ]
        label: list[str] = []
        told_apart = 0
        for name in [*([date] if date else []), *words]:
            tried = [*label, name]
            together = zip(*(self.columns[each].values.tolist() for each in tried), strict=True)
            apart = len(set(together))
            if apart > max(told_apart, 1):
                label, told_apart = tried, apart
            if told_apart >= (1 - TWICE) * self.rows:
                return tuple(label)
        return (date,) if date else ()


def _days(dates: np.ndarray) -> np.ndarray:
    """The different days, as numbers."""
    return np.unique(dates.astype("datetime64[D]")).astype(int)


def _weekdays(days: np.ndarray) -> np.ndarray:
    return np.asarray((days + 3) % 7)


def _numbers_rows(values: np.ndarray) -> bool:
    """Whether these are the numbers of the rows."""
    return len(values) > 2 and values.dtype.kind == "i" and bool((np.diff(values) == 1).all())


def _are_codes(values: np.ndarray) -> bool:
    """Whether these are like postcodes: whole numbers with as many digits, four or more."""
    if values.dtype.kind != "i":
        return False
    digits = {len(str(value)) for value in np.unique(values).tolist()}
    return len(digits) == 1 and digits.pop() >= CODE_DIGITS


def _names(columns: Sequence[str]) -> dict[str, str]:
    """What a formula can call each column: its name, or one made of it."""
    found: dict[str, str] = {}
    for column in columns:
        name = re.sub(r"\W+", "_", column).strip("_")
        if not name or not name[0].isalpha() or keyword.iskeyword(name):
            name = f"x_{name}".rstrip("_")
        while name in found.values() or (name != column and name in columns):
            name += "_2"
        found[column] = name
    return found


def effects(column: Column, rows: np.ndarray) -> np.ndarray:
    """A column as numbers that effects can be learned of: row x effect."""
    values = column.values[rows]
    if column.kind is Kind.DATES:
        days = values.astype("datetime64[D]").astype(int)
        return np.column_stack([np.eye(7)[(days + 3) % 7], _standard(days.astype(float))])
    if column.kind is Kind.CATEGORIES:
        words, codes = np.unique(values, return_inverse=True)
        return np.eye(len(words))[codes]
    return _standard(values.astype(float))[:, None]


def _standard(values: np.ndarray) -> np.ndarray:
    return np.asarray((values - values.mean()) / (values.std() or 1.0))


def dispersion(design: np.ndarray, counts: np.ndarray) -> float:
    """By how much counts vary around a Poisson regression, over what they would by chance.

    Pearson's statistic over its degrees of freedom, after reweighted least squares.
    """
    mean, kept = counts + 0.5, 1e-6 * np.eye(design.shape[1])
    for _ in range(25):
        working = np.log(mean) + (counts - mean) / mean
        weighted = design * mean[:, None]
        hat = np.linalg.solve(design.T @ weighted + kept, weighted.T @ working)
        mean = np.asarray(np.exp(np.clip(design @ hat, -20, 20)))
    free = len(counts) - np.linalg.matrix_rank(design)
    return float((((counts - mean) ** 2) / mean).sum() / free) if free > 0 else float("inf")
