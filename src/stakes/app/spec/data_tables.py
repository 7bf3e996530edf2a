"""The tables that the [data] section of a spec names: rows to fit to, and rows held out.

A file is read once. The doctor (`stakes.tables`) says what its columns hold, and all that is odd
about them is reported with the field of the spec that names the column.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from stakes.app.spec.messages import Collector
from stakes.app.spec.schema import ChooseSection, DataSection
from stakes.app.spec.table import Table, days_of, encode, split, words_of
from stakes.errors import name_rows, suggestion
from stakes.tables import (
    Column,
    Dialect,
    Examined,
    Finding,
    Hints,
    Kind,
    Raw,
    TableFile,
    Values,
    categories_of,
    examine,
    holds_dates,
    part_of,
    source_of,
)

# The two parts of the data: rows to fit to, and rows that judge the fits.
FIT, HELD_OUT = "fit", "held out"
# The key of the column that [choose] names as `by`, beside the columns of the model.
BY = "choose.by"


@final
@dataclass(frozen=True, eq=False)
class Tables:
    """The data of a job.

    Attributes:
        fit: the rows to fit to.
        held_out: the rows that judge the fits; None where there are none.
        files: the files that they were read from.
        notes: what is odd about them, but stops no fit.
        about: how each file is written, and what each column holds.
        dialect: how the file of the fit is written, as far as that is known.
    """

    fit: Table
    held_out: Table | None
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    dialect: Dialect = field(default_factory=Dialect)

    @property
    def parts(self) -> dict[str, Table]:
        """The tables by the names that decisions and reports use."""
        return {FIT: self.fit} | ({} if self.held_out is None else {HELD_OUT: self.held_out})


def wanted(data: DataSection, outcome: str) -> dict[str, str]:
    """The columns that the arguments of a model are read from.

    Args:
        data: the [data] section.
        outcome: the argument with the outcomes.

    Returns:
        Argument -> its column; the outcome comes last.
    """
    others = {name: column for name, column in data.columns.items() if name != outcome}
    return {**others, outcome: data.outcome or data.columns.get(outcome, outcome)}


def table_file(data: DataSection, path: Path) -> TableFile:
    """A file that is written in the dialect that the spec names."""
    return TableFile(path, Dialect(data.separator, data.decimal, data.encoding))


def check_columns(
    where: str, file: TableFile, fields: Mapping[str, str], mistakes: Collector
) -> bool:
    """Check that a file has all columns that are needed.

    Args:
        where: what names the file, for mistakes.
        file: the file.
        fields: what names a column -> the column.
        mistakes: where a lack is noted.

    Returns:
        Whether it has them.
    """
    with mistakes.at(where):
        there = file.columns
        asked = {name: source_of(column, there)[0] for name, column in fields.items()}
        for name, column in asked.items():
            if column not in there:
                hint = suggestion(column, there)
                mistakes.add(name, f"{file.path.name} has no column {column!r}.{hint}")
        return set(asked.values()) <= set(there)
    return False


def hints_of(data: DataSection, column: str, kind: Kind | None) -> Hints:
    """What the spec says of a column.

    Args:
        data: the [data] section.
        column: the name of the column.
        kind: what the column holds, where that is known.
    """
    words, format = data.replace.get(column, {}), data.dates.get(column)
    return Hints(kind, words, date_format=format, gaps=data.missing == "drop")


def columns_of(
    table: Mapping[str, Values],
    names: Collection[str],
    hints: Mapping[str, Hints],
    decimal: str,
    first_row: int = 0,
) -> Examined:
    """Look at the columns of a table, and at parts of its dates.

    Args:
        table: column -> its values, as read.
        names: the columns asked for; `date_weekday` is the weekday of `date`.
        hints: what is known of columns.
        decimal: the decimal sign of numbers that are words.
        first_row: the number of rows before these.

    Returns:
        The columns by these names, and all that is odd about them.
    """
    sources = {name: source_of(name, table) for name in names}
    asked = {column: table[column] for column, _ in sources.values()}
    seen = examine(asked, hints, decimal=decimal, first_row=first_row)
    columns = {}
    for name, (column, part) in sources.items():
        own = columns[name] = seen.columns[column]
        if part is not None:
            columns[name] = Column(Kind.NUMBERS, part_of(own.values, part), own.missing)
    return Examined(columns, seen.findings)


def lacking_in(columns: Mapping[str, Column], rows: int) -> np.ndarray:
    """Which rows lack a value.

    Args:
        columns: columns of the table; those with another shape than one value a row do not count.
        rows: the number of rows.
    """
    lacking = np.zeros(rows, bool)
    for column in columns.values():
        if column.missing.shape == lacking.shape:
            lacking |= column.missing
    return lacking


def read_tables(
    data: DataSection,
    choose: ChooseSection | None,
    outcome: str,
    folder: Path,
    mistakes: Collector,
    *,
    coded: bool = True,
    dates: Collection[str] = (),
) -> Tables | None:
    """Read the table to fit to and the one held out.

    Args:
        data: the [data] section.
        choose: the [choose] section, which may name columns of its own.
        outcome: the argument with the outcomes.
        folder: where relative paths start from.
        mistakes: where mistakes are noted.
        coded: whether words become codes; a formula takes the words.
        dates: columns that hold dates.

    Returns:
        The tables; None where there are mistakes.
    """
    named = [("data.file", data.file)]
    if data.held_out is not None and data.held_out.file is not None:
        named.append(("data.held_out.file", data.held_out.file))
    chosen = {} if choose is None or choose.skip else {"by": choose.by, "today": choose.today}
    beside = {name: column for name, column in chosen.items() if column is not None}
    reader = _FileReader(data, beside, outcome, mistakes, coded, tuple(dates))
    files = [(where, table_file(data, (folder / name).resolve())) for where, name in named]
    if not all([check_columns(where, file, reader.fields, mistakes) for where, file in files]):
        return None
    with mistakes.at("data"):
        return reader.tables(files)
    return None


@final
@dataclass(frozen=True)
class _FileReader:
    """Reads the files of one spec.

    Attributes:
        data: the [data] section.
        beside: field of [choose] -> its column, for values that no model takes.
        outcome: the argument with the outcomes.
        mistakes: where mistakes are noted.
        coded: whether words become codes.
        dates: columns that hold dates.
    """

    data: DataSection
    beside: dict[str, str]
    outcome: str
    mistakes: Collector
    coded: bool
    dates: tuple[str, ...]

    @property
    def arguments(self) -> dict[str, str]:
        return wanted(self.data, self.outcome)

    @property
    def fields(self) -> dict[str, str]:
        """The field of the spec that names a column -> the column."""
        data, outcome = self.data, self.outcome
        fields = {f"data.columns.{name}": column for name, column in self.arguments.items()}
        fields["data.outcome"] = fields.pop(f"data.columns.{outcome}")
        fields |= {f"data.counts.{name}": column for name, column in data.counts.items()}
        fields |= {f"data.categories.{i}": column for i, column in enumerate(data.categories)}
        fields |= {f"data.by.{i}": column for i, column in enumerate(data.by)}
        fields |= {f"data.replace.{column}": column for column in data.replace}
        fields |= {f"data.dates.{column}": column for column in data.dates}
        fields |= {} if data.order is None else {"data.ordered": data.order}
        several = len(data.label) > 1
        labels = {
            f"data.label.{i}" if several else "data.label": c for i, c in enumerate(data.label)
        }
        return fields | labels | {f"choose.{name}": column for name, column in self.beside.items()}

    def tables(self, files: list[tuple[str, TableFile]]) -> Tables | None:
        """Read the files, code their words alike, and hold out what the spec says."""
        read: list[_Read] = []
        notes: list[str] = []
        for where, file in files:
            part = self._read(where, file, read[0].columns if read else {})
            read.append(part)
            notes += [f"{file.path.name}, {note}" for note in part.findings if not note.stops]
            gone = (np.setdiff1d(np.arange(part.raw.rows), part.kept) + 1).tolist()
            if gone:
                left_out = f"{name_rows(gone)} left out: a value is missing"
                notes.append(f"{file.path.name}: {left_out}")
        vocabulary = self._vocabulary([part.columns for part in read])
        grouped = [part.columns[BY].values for part in read if BY in part.columns]
        groups = categories_of(grouped) if grouped else []
        fit, *others = [self._table(part, vocabulary, groups) for part in read]
        if self.mistakes.mistakes:
            return None
        held_out, how = others[0] if others else None, self.data.held_out
        if how is not None and how.fraction is not None:
            fit, held_out = split(fit, how, len(read[0].kept))
        about = [f"{file.path.name}: {file.written}" for _, file in files]
        about += [f"{name}: {column.summary}" for name, column in read[0].columns.items()]
        paths = tuple(file.path for _, file in files)
        return Tables(fit, held_out, paths, tuple(notes), tuple(about), files[0][1].dialect)

    def _read(self, where: str, file: TableFile, like: Mapping[str, Column]) -> "_Read":
        """Read the columns of one file, each as the kind that it is in the first file."""
        sources = [source_of(name, file.columns) for name in self.fields.values()]
        raw = file.whole(list(dict.fromkeys(column for column, _ in sources)))
        dates = {*self.dates, *self.data.dates, *(column for column, part in sources if part)}
        names = [*self.arguments.values(), *self.data.counts.values()]
        names += [] if self.data.order is None else [self.data.order]
        hints = {}
        for name in raw.columns:
            kind = like[name].kind if name in like else None
            kind = None if kind is Kind.CATEGORIES else kind
            kind = Kind.DATES if name in dates else kind
            kind = Kind.CATEGORIES if name in self.data.categories else kind
            hints[name] = hints_of(self.data, name, kind)
        table = dict(raw.columns)
        for name, column in self.beside.items():
            kind = Kind.CATEGORIES if name == "by" else Kind.NUMBERS
            hints[f"choose.{name}"] = hints_of(self.data, column, kind)
            table[f"choose.{name}"] = raw.columns[column]
            names.append(f"choose.{name}")
        seen = columns_of(table, names, hints, file.decimal)
        findings = [*raw.findings, *seen.findings]
        field_of = {column: field for field, column in reversed(self.fields.items())}
        for finding in findings:
            if finding.stops:
                field = field_of.get(finding.column, finding.column or where)
                self.mistakes.add(field if where == "data.file" else where, str(finding))
        for argument, name in self.arguments.items():
            if seen.columns[name].kind is Kind.DATES and name not in self.dates:
                field = "outcome" if argument == self.outcome else f"columns.{argument}"
                categories = "If it is meant as categories, list it in `data.categories`."
                self.mistakes.add(f"data.{field}", f"{holds_dates(name)} {categories}")
        lacking = lacking_in(seen.columns, len(seen.columns[self.arguments[self.outcome]].values))
        order = np.arange(len(lacking))
        if self.data.order is not None:
            order = np.argsort(seen.columns[self.data.order].values, kind="stable")
        return _Read(raw, seen.columns, findings, order[~lacking[order]])

    def _vocabulary(self, parts: list[dict[str, Column]]) -> dict[str, list[str]]:
        """Column -> its categories, in all files together, in the order of their codes."""
        data, mistakes = self.data, self.mistakes
        named = dict.fromkeys([*self.arguments.values(), *data.counts.values()])
        vocabulary = {
            name: categories_of([part[name].values for part in parts])
            for name in (named if self.coded else ())
            if any(part[name].kind is Kind.CATEGORIES for part in parts)
        }
        column = self.arguments[self.outcome]
        if column in vocabulary and column not in data.categories:
            mistakes.add(
                "data.outcome",
                f"column {column!r} holds words. List it in `data.categories` to code them as 0, "
                f"1, 2, ...",
            )
        if column in data.categories and all(_holds_numbers(part[column]) for part in parts):
            mistakes.add(
                "data.categories",
                f"column {column!r} has the outcomes, and they are numbers: as categories they "
                f"would be renumbered as 0, 1, 2, ... Leave it out.",
            )
        for argument, column in data.counts.items():
            if column not in vocabulary:
                mistakes.add(
                    f"data.counts.{argument}",
                    f"column {column!r} has no categories.{suggestion(column, vocabulary)} List it "
                    f"in `data.categories` to code its values.",
                )
        return vocabulary

    def _table(self, read: "_Read", vocabulary: dict[str, list[str]], groups: list[str]) -> Table:
        """The rows of one file as arguments of the model, with labels and groups."""
        data, columns = self.data, read.columns
        arguments: dict[str, object] = {}
        for argument, name in self.arguments.items():
            column = columns[name]
            if column.values.ndim and len(column.values) == 0:
                self.mistakes.add("data.file", "the table has no rows.")
            elif column.values.ndim and not len(read.kept):
                self.mistakes.add("data.file", "no row has a value in every column.")
            arguments[argument] = encode(column, vocabulary.get(name))
        arguments |= {name: len(vocabulary.get(col, ())) for name, col in data.counts.items()}
        labels = None
        if data.label:
            named = words_of(read.raw.columns, data.label, data.replace)
            labels = np.stack(list(named.values()), -1)
        together = words_of(read.raw.columns, data.by, data.replace)
        shape = columns[self.arguments[self.outcome]].values.shape
        _check_together(data, together, shape, self.mistakes)
        own = {name: columns[f"choose.{name}"] for name in self.beside}
        beside = {n: encode(column, groups if n == "by" else None) for n, column in own.items()}
        if data.order is not None:
            beside["when"] = np.unique(days_of(columns[data.order]), return_inverse=True)[1]
        table = Table({**arguments, **data.constants}, labels, vocabulary, together, beside)
        same = not shape or np.array_equal(read.kept, np.arange(shape[0]))
        return table if same else table.rows(read.kept, shape[0])


class _Read(NamedTuple):
    """What was read from one file.

    Attributes:
        raw: its columns as written.
        columns: its columns as they are meant.
        findings: all that is odd about them.
        kept: the rows that are used, in their order.
    """

    raw: Raw
    columns: dict[str, Column]
    findings: list[Finding]
    kept: np.ndarray


def _holds_numbers(column: Column) -> bool:
    """Whether all values are numbers, even if they were read as words."""
    try:
        np.asarray(column.values[column.values != ""], float)
    except ValueError:
        return False
    return True


def _check_together(
    data: DataSection, groups: Mapping[str, np.ndarray], shape: tuple[int, ...], mistakes: Collector
) -> None:
    """Check the shapes of groups, and that an order is one of rows.

    The arrays of an .npz file may have any shape.
    """
    for column, values in groups.items():
        if values.shape != shape and not (values.ndim == 1 and len(values) in shape):
            mistakes.add(
                "data.by",
                f"{column!r} has shape {values.shape}, where the outcomes have shape {shape}. Give "
                f"a value for each outcome, or along one axis of them.",
            )
    if data.ordered and len(shape) != 1:
        mistakes.add(
            "data.ordered",
            f"needs outcomes along one axis, but these have shape {shape}; leave it out.",
        )
