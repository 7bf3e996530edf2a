"""A spec proposed for the user's own table.

The contents of the columns suggest a formula, a family for the outcomes, a split into rows to fit
to and rows held out, and labels. Costs are left for the user to fill in: only the user knows them.
"""

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np

from stakes.errors import InputError, suggestion
from stakes.tables import Column, Examined, Finding, Hints, Kind, TableFile, examine

# The most categories that have an effect each; more are groups, which learn from each other.
FEW = 4
# With more different words than this share of the rows, a column holds labels, not categories:
# there are too few rows of each to learn an effect from.
DISTINCT = 0.5
# Counts of this size and more are taken as any numbers: a normal describes them as well.
LARGE = 5000
# Counts that vary more than this many times as Poisson counts do are negative binomial: less than
# that may be chance in a table of some hundred rows.
DISPERSED = 1.3
# With fewer rows, none are held out: a fifth of them could not tell strategies apart.
LEAST_HELD_OUT = 50
# Dates at most this many days apart have weekdays; a shop may be closed on some of them.
DAILY = 3
# The fewest days of each weekday to learn its effect from.
LEAST_WEEKS = 3
# The fewest digits of a code, such as a postcode: shorter numbers are rather sizes or counts.
CODE_DIGITS = 4
# Names, in some languages, of columns with the quantity ordered.
ORDERED = re.compile(
    r"^(orders?|ordered|order_?qty|qty_?ordered|bestell|geplant|command|pedid|ordinat)", re.I
)
# Labels identify rows even if this share of the rows has the label of another row: a table may have
# a few rows twice.
TWICE = 0.02


def propose(path: Path, outcome: str | None, today: str | None = None) -> "Proposal":
    """Look at a table, and propose a spec for it.

    Args:
        path: of a .csv or .parquet file.
        outcome: the column to decide about.
        today: the column with today's decisions. It is no predictor: for new rows it is unknown.

    Returns:
        The proposal, which `spec_text` writes.

    Examples:
        >>> import pathlib, tempfile
        >>> table = pathlib.Path(tempfile.mkdtemp()) / "sales.csv"
        >>> _ = table.write_text(
        ...     "day,sun,sold\\n2024-05-01,3,8\\n2024-05-02,7,12\\n2024-05-03,5,9\\n"
        ... )
        >>> proposal = propose(table, "sold")
        >>> proposal.formula, proposal.label
        ('sold ~ day_days + sun', ('day',))
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
    hints = _hints(first, outcome)
    settled = examine(raw.columns, hints, decimal=file.decimal)
    unsettled = [*raw.findings, *(f for f in settled.findings if f.stops)]
    if unsettled:
        lines = "\n".join(f"  {finding}" for finding in unsettled)
        raise InputError(f"{path} needs corrections first:\n{lines}")
    findings = [f for f in first.findings if f.stops or (f.codes and f.column != outcome)]
    findings += [f for f in settled.findings if not _repeats(f, findings)]
    if today is not None and (today not in names or today == outcome):
        meant = suggestion(today, [name for name in names if name != outcome])
        raise InputError(f"`--today {today}` must be another column of {path.name}.{meant}")
    column = settled.columns[outcome]
    if column.kind is not Kind.NUMBERS:
        raise InputError(
            f"`--outcome {outcome}`: the column holds {column.kind}; outcomes must be numbers."
        )
    if len(np.unique(column.values[~column.missing])) < 2:
        raise InputError(f"`--outcome {outcome}`: all outcomes are the same.")
    today = today or _ordered_column(settled.columns, outcome)
    return Proposal(file, settled.columns, hints, tuple(findings), outcome, today)


def _ordered_column(columns: Mapping[str, Column], outcome: str) -> str | None:
    """The one column of numbers whose name says that it is what was ordered."""
    numbers = [n for n, c in columns.items() if c.kind is Kind.NUMBERS and n != outcome]
    named = [name for name in numbers if ORDERED.search(name)]
    return named[0] if len(named) == 1 else None


def _repeats(finding: Finding, others: Sequence[Finding]) -> bool:
    """Whether others say the same: a word that stands for no value leaves one missing."""
    rows = {row for other in others if other.column == finding.column for row in other.rows}
    return bool(finding.rows) and rows.issuperset(finding.rows)


def _hints(first: Examined, outcome: str) -> dict[str, Hints]:
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


@final
@dataclass(frozen=True, eq=False)
class Proposal:
    """The content of a spec for a table.

    Attributes:
        file: the table.
        columns: its columns, as they are meant.
        hints: what the spec says of columns.
        findings: all that is odd about the table.
        about: the column of the outcomes.
        today: the column with today's decisions; None where there is none.
    """

    file: TableFile
    columns: Mapping[str, Column]
    hints: Mapping[str, Hints]
    findings: tuple[Finding, ...]
    about: str
    today: str | None

    @property
    def formula(self) -> str:
        """The formula: the outcome, and all columns that may predict it."""
        terms = [term for texts in self._terms.values() for term in texts]
        return f"{self._names[self.about]} ~ {' + '.join(terms) or '1'}"

    @property
    def missing(self) -> str | None:
        """The value of `data.missing`: rows that lack a value are left out, if any do."""
        return "drop" if self._lacking.any() else None

    @property
    def held_out(self) -> dict[str, object] | None:
        """The rows that judge the fits, as in the spec; None for a table of few rows."""
        if int((~self._lacking).sum()) < LEAST_HELD_OUT:
            return None
        return {"fraction": 0.2, "pick": "last" if self.date else "random"}

    @property
    def renamed(self) -> dict[str, str]:
        """What the formula calls columns whose names are no words."""
        named = {self.about, *self._terms}
        return {self._names[n]: n for n in self.columns if n in named and self._names[n] != n}

    @property
    def hinted(self) -> dict[str, Hints]:
        """What the spec says of the columns that it uses."""
        return {name: hints for name, hints in self.hints.items() if name in self._used}

    @cached_property
    def date(self) -> str | None:
        """The column of dates that the rows are in order by; None where there is none."""
        return next((n for n, c in self.columns.items() if c.kind is Kind.DATES), None)

    @cached_property
    def left_out(self) -> dict[str, str]:
        """Column -> the reason why it is not in the formula."""
        reasons = {n: self._objection(n) for n in self.columns if n != self.about}
        return {name: reason for name, reason in reasons.items() if reason}

    @cached_property
    def label(self) -> tuple[str, ...]:
        """The columns that tell rows apart: a date, with categories where dates return."""
        words = [
            name
            for name, column in self.columns.items()
            if column.kind is Kind.CATEGORIES and 2 * column.missing.sum() <= self._rows
        ]
        dates = [self.date] if self.date else []
        label, different = list[str](), 1
        for name in [*dates, *words]:
            values = (self.columns[n].values.tolist() for n in [*label, name])
            count = len(set(zip(*values, strict=True)))
            if count > different:
                label, different = [*label, name], count
            if different >= (1 - TWICE) * self._rows:
                return tuple(label)
        return tuple(dates)

    @cached_property
    def family(self) -> tuple[str, str]:
        """The family of the outcomes, and the reason for it.

        Counts are Poisson if they vary around a regression on the other columns no more than by
        chance.
        """
        column, values = self.columns[self.about], self._there(self.about)
        numbers = values.astype(float)
        whole = bool((numbers == np.round(numbers)).all())
        if set(np.unique(numbers)) <= {0.0, 1.0}:
            return "bernoulli", "outcomes are 0 or 1"
        if whole and numbers.min() >= 0 and numbers.max() < LARGE:
            counts, rows = column.values[~self._lacking].astype(float), ~self._lacking
            design = [
                _effects(self.columns[name], rows) for name in sorted(self._used - {self.about})
            ]
            if dispersion(np.column_stack([np.ones(len(counts)), *design]), counts) < DISPERSED:
                return "poisson", "outcomes are counts that vary as Poisson counts do"
            return "negative binomial", "outcomes are counts that vary more than Poisson counts"
        spread = numbers - numbers.mean()
        skewed = (spread**3).mean() > (spread**2).mean() ** 1.5
        if numbers.min() > 0 and skewed:
            return "gamma", "outcomes are above zero, a few of them large"
        return "normal", 'outcomes are any numbers; "student" allows for outliers'

    @property
    def _rows(self) -> int:
        return len(self.columns[self.about].values)

    @cached_property
    def _names(self) -> dict[str, str]:
        return _names(list(self.columns))

    @property
    def _used(self) -> set[str]:
        """The columns that the formula needs, and the column that the rows are sorted by."""
        return {self.about, *self._terms, *([self.date] if self.date else [])}

    @property
    def _lacking(self) -> np.ndarray:
        """A mask of the rows that lack a value in a column that is needed."""
        return np.asarray(np.any([self.columns[n].missing for n in self._used], axis=0))

    @cached_property
    def _terms(self) -> dict[str, list[str]]:
        """Column -> its terms in the formula."""
        return {n: self._terms_of(n) for n in self.columns if n not in (self.about, *self.left_out)}

    def _terms_of(self, name: str) -> list[str]:
        """The terms of one column: a trend and weekdays, a group, or the column itself."""
        called = self._names[name]
        if name == self.date:  # a trend, and what returns every week
            return [*([f"C({called}_weekday)"] if self._is_weekly(name) else []), f"{called}_days"]
        is_group = (
            self.columns[name].kind is Kind.CATEGORIES and len(np.unique(self._there(name))) > FEW
        )
        return [f"(1 | {called})" if is_group else called]

    def _there(self, name: str) -> np.ndarray:
        """The values of a column that are not missing."""
        column = self.columns[name]
        return np.asarray(column.values[~column.missing])

    def _objection(self, name: str) -> str:
        """The reason why a column is not in the formula.

        A column says nothing if it is the same in all rows, different in each, or the same as an
        earlier one. Today's decision is unknown for new rows.

        Returns:
            The reason; empty where the column is in the formula.
        """
        column, there = self.columns[name], self._there(name)
        if name == self.date:
            return "the same in all rows" if len(_days(there)) < 2 else ""
        different = len(np.unique(there))
        if name == self.today:
            return "it has today's decisions (`today`, below)"
        if column.kind is Kind.DATES:
            return "a second column of dates"
        if different < 2:
            return "the same in all rows"
        if 2 * column.missing.sum() > self._rows:
            return "missing in most rows"
        if column.kind is Kind.CATEGORIES and different > DISTINCT * len(there):
            return "a different word in nearly every row"
        if column.kind is Kind.NUMBERS and _numbers_rows(there):
            return "it numbers the rows"
        if same := self._same_as(name):
            return f"it says the same as {same}"
        if self.date is not None and self._is_of_weekday(name, self.date):
            return f"it depends on the weekday alone, which {self.date} already gives"
        return ""

    def _same_as(self, name: str) -> str | None:
        """Find an earlier column of words that says the same as this one.

        Numbers are compared only if they look like codes: the size of a shop tells something of
        other shops, too.

        Returns:
            Its name; None where there is none.
        """
        own = self.columns[name]
        if own.kind is Kind.NUMBERS and not _are_codes(self._there(name)):
            return None
        words = [n for n, c in self.columns.items() if c.kind is Kind.CATEGORIES]
        for other in words[: words.index(name)] if name in words else words:
            both = ~(own.missing | self.columns[other].missing)
            mine, others = (c.values[both].tolist() for c in (own, self.columns[other]))
            pairs = set(zip(mine, others, strict=True))
            if len(pairs) == len(set(mine)) == len(set(others)):
                return other
        return None

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


def _days(dates: np.ndarray) -> np.ndarray:
    """The different days, as numbers."""
    return np.unique(dates.astype("datetime64[D]")).astype(int)


def _weekdays(days: np.ndarray) -> np.ndarray:
    """Days since 1970, a Thursday, as weekdays from Monday, 0."""
    return np.asarray((days + 3) % 7)


def _numbers_rows(values: np.ndarray) -> bool:
    """Whether values are the numbers of the rows."""
    return len(values) > 2 and values.dtype.kind == "i" and bool((np.diff(values) == 1).all())


def _are_codes(values: np.ndarray) -> bool:
    """Whether values look like postcodes: whole numbers of as many digits, four or more."""
    if values.dtype.kind != "i":
        return False
    digits = {len(str(value)) for value in np.unique(values).tolist()}
    return len(digits) == 1 and digits.pop() >= CODE_DIGITS


def _names(columns: Sequence[str]) -> dict[str, str]:
    """Column -> what a formula can call it: its name, or one made of it."""
    names: dict[str, str] = {}
    for column in columns:
        name = re.sub(r"\W+", "_", column).strip("_")
        if not name or not name[0].isalpha() or keyword.iskeyword(name):
            name = f"x_{name}".rstrip("_")
        while name in names.values() or (name != column and name in columns):
            name += "_2"
        names[column] = name
    return names


def _effects(column: Column, rows: np.ndarray) -> np.ndarray:
    """A column as numbers whose effects can be learned: row x effect."""
    values = column.values[rows]
    if column.kind is Kind.DATES:
        days = values.astype("datetime64[D]").astype(int)
        return np.column_stack([np.eye(7)[_weekdays(days)], _standard(days.astype(float))])
    if column.kind is Kind.CATEGORIES:
        words, codes = np.unique(values, return_inverse=True)
        return np.eye(len(words))[codes]
    return _standard(values.astype(float))[:, None]


def _standard(values: np.ndarray) -> np.ndarray:
    """Values less their mean, in units of their standard deviation."""
    return np.asarray((values - values.mean()) / (values.std() or 1.0))


def dispersion(design: np.ndarray, counts: np.ndarray) -> float:
    """How much counts vary around a Poisson regression, relative to chance.

    That is Pearson's statistic over its degrees of freedom, after reweighted least squares. It is
    about 1 for Poisson counts, and larger for counts that vary more.

    Args:
        design: row x effect.
        counts: the outcomes.
    """
    mean, kept = counts + 0.5, 1e-6 * np.eye(design.shape[1])
    for _ in range(25):
        working = np.log(mean) + (counts - mean) / mean
        weighted = design * mean[:, None]
        hat = np.linalg.solve(design.T @ weighted + kept, weighted.T @ working)
        mean = np.asarray(np.exp(np.clip(design @ hat, -20, 20)))
    free = len(counts) - np.linalg.matrix_rank(design)
    return float((((counts - mean) ** 2) / mean).sum() / free) if free > 0 else float("inf")
