"""A table of pandas, Polars, PyArrow or the like, as arguments of a model.

A column is an argument by its name; `day_weekday` is the weekday of the column `day`. Categories
become codes, dates days or parts of dates, and `Coding` keeps what they stand for, so that another
table gets the same numbers. All that is wrong with a table is raised at once.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from stakes.errors import InputError, name_rows, suggestion, warn
from stakes.host.packages import how_to_install
from stakes.tables.columns import Column, Hints, Kind, Values
from stakes.tables.doctor import examine
from stakes.tables.findings import IN_FRAME, refuse
from stakes.tables.values import (
    DAYS,
    Coding,
    by_day,
    categories_of,
    codes_of,
    days_since,
    holds_dates,
    part_of,
    source_of,
)

if TYPE_CHECKING:
    import pandas as pd

    Series: TypeAlias = pd.Series[Any]

NONE: Mapping[Any, str] = {}
# Attributes by which tables of other libraries are known.
SIGNS = ("__narwhals_dataframe__", "__dataframe__", "__arrow_c_stream__", "__narwhals_lazyframe__")


class Wanted(NamedTuple):
    """What a model takes of a table.

    Attributes:
        names: the arguments that it takes.
        required: those without a default.
        outcome: the argument with the observed outcomes.
        program: the name of the model, for messages.
    """

    names: tuple[str, ...]
    required: tuple[str, ...]
    outcome: str
    program: str


@final
@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table, and how to make a column for them that is of the table's kind.

    Attributes:
        index: what rows are called, as pandas has it.
        like: the table as narwhals sees it; None for a table of pandas.
    """

    index: "pd.Index[Any]"
    like: Any = None

    def __len__(self) -> int:
        return len(self.index)

    @property
    def labels(self) -> list[Hashable] | None:
        """The labels of the rows; None where they are just numbered, which identifies nobody."""
        import pandas as pd

        index = self.index
        # pandas makes a range of any evenly spaced numbers, such as the ids 10, 20, 30.
        if isinstance(index, pd.RangeIndex) and index.step == 1 and index.name is None:
            return None
        return index.tolist()

    def names(self, at: np.ndarray) -> list[str]:
        """What these rows are called in messages."""
        return [repr(label) for label in self.index[at].tolist()]

    def series(self, values: np.ndarray, name: str) -> Any:
        """A column with a value for each row, of the same kind as the table."""
        if self.like is None:
            import pandas as pd

            return pd.Series(values, index=self.index, name=name)
        import narwhals as nw

        plain = np.asarray(values).tolist()
        made = nw.new_series(name, plain, backend=nw.get_native_namespace(self.like))
        return made.to_native()


class Read(NamedTuple):
    """A table as arguments of a model.

    Attributes:
        arguments: by name.
        rows: what the rows are called.
        coding: what the numbers here stand for.
        members: plate -> its members, where the model itself says who they are.
    """

    arguments: dict[str, np.ndarray]
    rows: TableRows
    coding: Coding
    members: Mapping[str, tuple[Any, ...]] = {}


def is_table(data: object) -> bool:
    """Whether data are a table with named columns: of pandas, Polars, PyArrow or the like.

    Examples:
        >>> import pandas as pd
        >>> is_table(pd.DataFrame({"x": [1.0]})), is_table({"x": [1.0]})
        (True, False)
    """
    if isinstance(data, type):
        return False
    return any(hasattr(data, sign) for sign in SIGNS) or _is_lazy(data)


def _is_lazy(data: object) -> bool:
    """Whether a table is a query that is not computed yet."""
    return type(data).__name__ == "LazyFrame"


def columns_in(table: object) -> list[str]:
    """The names of all columns of a table."""
    return [str(name) for name in _open(table).columns]


def read(
    table: object,
    wanted: Wanted,
    fitted: Coding | None = None,
    *,
    counted: Collection[str] = (),
    needs_outcome: bool,
) -> Read:
    """Read the columns that the model's arguments name.

    Args:
        table: a table from pandas, Polars, PyArrow or the like.
        wanted: what the model takes.
        fitted: what the numbers in the data of the fit stand for; None for the fit itself.
        counted: categories whose members the model counts, so that there may be others here.
        needs_outcome: whether there must be outcomes; otherwise they are left out if one is
            missing.
    """
    there = columns_in(table)
    sources = {name: source_of(name, there, days=True) for name in wanted.names}
    sources = {name: source for name, source in sources.items() if source[0] in there}
    if not needs_outcome and sources.get(wanted.outcome) == (wanted.outcome, None):
        outcomes, _ = as_frame(table, [wanted.outcome])
        if outcomes[wanted.outcome].isna().any():
            sources.pop(wanted.outcome)
    faults = lacking(wanted, sources, there, needs_outcome=needs_outcome)
    frame, rows = as_frame(table, dict.fromkeys(column for column, _ in sources.values()))
    if not len(rows):
        raise InputError("`data` has no rows.")
    coding = Coding()
    arguments: dict[str, np.ndarray] = {}
    for name, (column, part) in sources.items():
        reader = _ColumnReader(name, column, frame[column].infer_objects(), rows, fitted, coding)
        try:
            if part is not None:
                arguments[name] = reader.part(part)
            else:
                arguments[name] = reader.values(
                    anew=fitted is not None and name in counted, is_outcome=name == wanted.outcome
                )
        except _Faults as error:
            faults.extend(error.args)
    refuse("`data`", list(dict.fromkeys(faults)))
    return Read(arguments, rows, coding)


def lacking(
    wanted: Wanted, sources: Collection[str], there: list[str], *, needs_outcome: bool
) -> list[str]:
    """Return a sentence for each column that the model needs and the table lacks."""
    needed = [name for name in wanted.required if name != wanted.outcome]
    needed += [wanted.outcome] if needs_outcome else []
    return [
        f"there is no column {name!r}, which `{wanted.program}` "
        f"{'observes' if name == wanted.outcome else 'takes'}.{suggestion(name, there)}"
        for name in dict.fromkeys(needed)
        if name not in sources
    ]


class _Faults(Exception):  # noqa: N818 (gathered, and raised together)
    """All that is wrong with one column, each in words."""


@final
@dataclass(frozen=True, eq=False)
class _ColumnReader:
    """Reads one column as an argument, and notes what its numbers stand for.

    Attributes:
        name: the name of the argument.
        column: the column of the table.
        series: its values.
        rows: what rows are called.
        fitted: what the numbers in the data of the fit stand for; None for the fit itself.
        coding: where it is noted what numbers stand for here.
    """

    name: str
    column: str
    series: "Series"
    rows: TableRows
    fitted: Coding | None
    coding: Coding

    def part(self, part: str) -> np.ndarray:
        """A part of dates, such as the weekday, or days since the first date of the fit."""
        import pandas as pd

        dates = self._examined(values_of(self.series), Hints(Kind.DATES)).values
        if part != DAYS:
            return part_of(dates, part)
        zoned = isinstance(self.series.dtype, pd.DatetimeTZDtype)
        if self.fitted is not None and zoned != (self.name in self.fitted.zoned):
            raise self._fault("must have a time zone where it had one in the fit, and only there.")
        if zoned:
            self.coding.zoned.add(self.name)
        origin = {} if self.fitted is None else self.fitted.origins
        first = self.coding.origins[self.name] = origin.get(self.name, dates.min().astype("M8[D]"))
        return days_since(first, dates)

    def values(self, *, anew: bool, is_outcome: bool) -> np.ndarray:
        """Numbers and truth values as they are, categories as codes.

        Args:
            anew: whether categories are numbered from 0 again, known ones first, and may be new.
            is_outcome: whether they are the outcomes, whose truth values become numbers.
        """
        import pandas as pd

        series, before = self.series, None
        if self.fitted is not None:
            before = self.fitted.categories.get(self.name)
        declared = isinstance(series.dtype, pd.CategoricalDtype)
        known = None if before is None else [str(category) for category in before]
        raw = values_of(series, dict(zip(before or (), known or (), strict=True)))
        is_text = not isinstance(raw, np.ndarray)
        if is_text and self.fitted is not None and before is None:
            raise self._fault(
                f"holds {series.iloc[0]!r} in {self._row(0)}, where the fit had numbers."
            )
        if is_text and not declared and before is None:
            self._check_words()
        kind = Kind.CATEGORIES if declared or before is not None else None
        column = self._examined(raw, Hints(kind, known=known, new=anew))
        if column.kind is Kind.DATES:
            raise _Faults(holds_dates(self.column, days=True))
        remedy = "If they are categories, say so: `frame[column].astype('category')`."
        if column.kind is Kind.NUMBERS and is_text:
            raise self._fault(
                f"is text, but {len(raw)} of {len(raw)} values are numbers. Convert it with "
                f"`pandas.to_numeric`. {remedy}"
            )
        if column.kind is Kind.NUMBERS:
            is_truth = is_outcome and column.values.dtype.kind == "b"
            return column.values.astype(np.int32) if is_truth else column.values
        if is_outcome and not declared and before is None:
            raise self._fault(f"has the outcomes, and they are words. {remedy}")
        if before is None:
            words = categories_of([column.values])
            before = tuple(series.cat.categories.tolist() if declared else words)
        elif anew:
            before = _renumbered(before, column.values.tolist(), series.tolist())
        self.coding.categories[self.name] = before
        return codes_of(column.values.tolist(), [str(category) for category in before])

    def _examined(self, values: Values, hints: Hints) -> Column:
        """The column as the doctor sees it; faults are raised, notes are warnings."""
        seen = examine(
            {self.column: values},
            {self.column: hints},
            names=self.rows.names,
            remedies=IN_FRAME,
        )
        faults = [str(finding) for finding in seen.findings if finding.stops]
        if faults:
            raise _Faults(*faults)
        for finding in seen.findings:
            warn(f"`data`: {finding}")
        return seen.columns[self.column]

    def _check_words(self) -> None:
        """Refuse values that are neither numbers nor words, such as lists."""
        gaps = self.series.isna().tolist()
        for row, value in enumerate(self.series.tolist() if self.series.dtype == object else []):
            if not gaps[row] and not isinstance(value, str):
                raise self._fault(f"must hold numbers or words; {self._row(row)} has {value!r}.")

    def _row(self, row: int) -> str:
        return name_rows(self.rows.names(np.array([row])))

    def _fault(self, what: str) -> _Faults:
        return _Faults(f"column {self.column!r} {what}")


def _renumbered(before: tuple[Any, ...], words: list[str], values: list[Any]) -> tuple[Any, ...]:
    """The categories of these rows: known ones first, in their order, and then new ones."""
    known = {str(category): category for category in before}
    own = dict(zip(words, words if known.keys() == set(before) else values, strict=True))
    fresh = (value for word, value in own.items() if word not in known)
    return (*(category for word, category in known.items() if word in own), *fresh)


def values_of(series: "Series", words: Mapping[Any, str] = NONE) -> Values:
    """A column as the doctor takes it: numbers and dates as they are, all else as words.

    Args:
        series: the column.
        words: values, and the words that stand for them.
    """
    import pandas as pd

    there = series.dropna()
    is_date = pd.api.types.is_datetime64_any_dtype(series) or (
        series.dtype == object and len(there) > 0 and all(isinstance(v, date) for v in there)
    )
    if is_date:
        dates = pd.to_datetime(series)
        return by_day(dates.dt.tz_localize(None).to_numpy())
    if series.dtype.kind in "biuf" and not words:
        if len(there) < len(series):
            return series.to_numpy(np.float64, na_value=np.nan)
        return series.to_numpy()
    values, gaps = series.tolist(), series.isna().tolist()
    return [
        "" if gap else words.get(value, str(value)) for value, gap in zip(values, gaps, strict=True)
    ]


def as_frame(table: object, names: Iterable[str]) -> "tuple[pd.DataFrame, TableRows]":
    """Some columns of a table, as pandas has them, and its rows."""
    import pandas as pd

    columns = list(names)
    if isinstance(table, pd.DataFrame):
        twice = [name for name in columns if list(table.columns).count(name) > 1]
        if twice:
            raise InputError(f"The table has the column {twice[0]!r} more than once.")
        return table[columns], TableRows(table.index)
    opened = _open(table)
    rows = pd.RangeIndex(len(opened))
    try:
        frame = opened.select(columns).to_pandas() if columns else pd.DataFrame(index=rows)
    except ModuleNotFoundError as error:
        raise InputError(
            f"Reading a table of {type(table).__module__.split('.')[0]} needs {error.name}: "
            f"pip install {error.name}."
        ) from None
    return frame.reset_index(drop=True), TableRows(rows, opened)


def _open(table: object) -> Any:
    """A table as narwhals sees it; one of pandas as it is."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table
    try:
        import narwhals as nw
    except ModuleNotFoundError:
        raise InputError(
            f"`data` is a {type(table).__name__}, for which narwhals is needed: "
            f"{how_to_install('tables')}; or give a DataFrame of pandas."
        ) from None
    if _is_lazy(table):
        raise InputError("`data` is a table that is not computed yet; give `table.collect()`.")
    try:
        return nw.from_native(table, eager_only=True)
    except TypeError:
        raise InputError(
            f"`data` is a {type(table).__name__}, which cannot be read as a table; give a "
            f"DataFrame of pandas or a mapping from the model's arguments to arrays."
        ) from None
