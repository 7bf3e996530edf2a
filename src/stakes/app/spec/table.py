"""A table as arguments of a model, and its division into rows to fit to and rows held out."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from stakes._types import Data
from stakes.app.spec.schema import HeldOutSection
from stakes.errors import InputError
from stakes.tables import Column, Kind, Values, codes_of

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Rows to fit to or decide about.

    Attributes:
        arguments: the arguments of the model; with a value for each row, as long as the table.
        labels: row x column of labels; None where nothing identifies rows.
        vocabulary: column -> its categories, in the order of their codes.
        groups: column -> values that are equal where rows belong together.
        beside: values of rows that no model takes: `by`, their group; `today`, a decision; and
            `when`, their day, where the spec names a column to order them by.
    """

    arguments: dict[str, Any]
    labels: np.ndarray | None
    vocabulary: dict[str, list[str]] = field(default_factory=dict)
    groups: dict[str, np.ndarray] = field(default_factory=dict)
    beside: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def names(self) -> np.ndarray | None:
        """One label for each row, of all its labels."""
        if self.labels is None:
            return None
        return np.array([", ".join(row) for row in self.labels.tolist()], str)

    def rows(self, chosen: np.ndarray, like: int) -> "Table":
        """Return some of the rows.

        Args:
            chosen: the places of these rows.
            like: the number of all rows; arguments of another length are kept whole.
        """

        def some(values: dict[str, Any]) -> dict[str, Any]:
            return {
                name: value[chosen] if np.ndim(value) and len(value) == like else value
                for name, value in values.items()
            }

        return Table(
            some(self.arguments),
            None if self.labels is None else self.labels[chosen],
            self.vocabulary,
            some(self.groups),
            {name: values[chosen] for name, values in self.beside.items()},
        )


def words_of(
    columns: Mapping[str, Values], names: Collection[str], replace: Mapping[str, Mapping[str, str]]
) -> dict[str, np.ndarray]:
    """The columns that label or group rows, as words.

    Args:
        columns: the columns of the table, as written.
        names: the columns asked for.
        replace: column -> words, and what the spec puts in their place.
    """
    words = {name: np.asarray(columns[name]).astype(str) for name in names}
    for name in words.keys() & replace.keys():
        replaced = [replace[name].get(word, word) for word in words[name].ravel().tolist()]
        words[name] = np.array(replaced, str).reshape(words[name].shape)
    return words


def by_name(
    arguments: Data,
    dates: Collection[str],
    categories: Collection[str] = (),
    first_row: int = 0,
) -> "pd.DataFrame":
    """The arguments of a formula's model as a table, whose rows are counted from one.

    Args:
        arguments: column -> its values.
        dates: columns that hold dates.
        categories: columns that hold categories, even if they look like numbers.
        first_row: the number of rows before these.
    """
    import pandas as pd

    columns = dict(arguments)
    for name in dates:
        columns[name] = pd.to_datetime(np.asarray(columns[name]).astype(str), format="ISO8601")
    for name in categories:
        if name in columns:
            columns[name] = pd.Categorical(np.asarray(columns[name]).astype(str))
    rows = len(next(iter(columns.values())))
    return pd.DataFrame(columns, index=pd.RangeIndex(first_row + 1, first_row + rows + 1))


def encode(column: Column, vocabulary: list[str] | None) -> np.ndarray:
    """The values of a column as a model takes them.

    Args:
        column: as the doctor sees it.
        vocabulary: its categories; None where it has none.

    Returns:
        Numbers as they are, dates as 2024-12-31, categories as their codes.
    """
    if vocabulary is None:
        return column.values.astype(str) if column.kind is Kind.DATES else column.values
    values = column.values.astype(str)
    return codes_of(values.ravel().tolist(), vocabulary).reshape(values.shape)


def split(whole: Table, how: HeldOutSection, rows: int) -> tuple[Table, Table]:
    """Divide a table into rows to fit to and rows held out.

    Args:
        whole: the table.
        how: the share held out, random or the last; where rows are in order of days, only whole
            days.
        rows: the number of rows.
    """
    assert how.fraction is not None
    count = round(how.fraction * rows)
    if not 0 < count < rows:
        raise InputError(
            f"`held_out.fraction = {how.fraction}` of {rows} rows leaves no rows to fit or none to "
            f"judge."
        )
    if how.pick == "last" and "when" in whole.beside:
        changes = np.flatnonzero(np.diff(whole.beside["when"])) + 1
        if not len(changes):
            raise InputError(
                "`held_out.pick = 'last'`: all rows have the same value in the column that "
                "`ordered` names, so none of them is the last. Use `pick = 'random'`."
            )
        count = rows - int(changes[np.abs(changes - (rows - count)).argmin()])
    order = _order(rows, how)
    fit, held_out = np.sort(order[: rows - count]), np.sort(order[rows - count :])
    return whole.rows(fit, rows), whole.rows(held_out, rows)


def _order(rows: int, how: HeldOutSection) -> np.ndarray:
    """The rows in an order whose end is held out."""
    if how.fraction is not None and how.pick == "random":
        return np.random.default_rng(how.seed).permutation(rows)
    return np.arange(rows)


def days_of(ordered: Column) -> np.ndarray:
    """The day of each row, for rows in order of time.

    The time, where all rows are of one day; and the value itself, where it is no date.
    """
    if ordered.kind is not Kind.DATES:
        return ordered.values
    days = ordered.values.astype("datetime64[D]")
    return days if len(np.unique(days)) > 1 else ordered.values


def joined(
    fit: Table, held_out: Table, rows: tuple[int, int], how: HeldOutSection, *, columns: bool
) -> Table | None:
    """Both tables as one again, in the order that it had.

    What has a value for each row is joined, and what is the same in both stays as it is.

    Args:
        fit: the rows to fit to.
        held_out: the rows held out.
        rows: the number of rows of each.
        how: the way in which they were held out.
        columns: whether each argument has a value for each row; otherwise an array that is the same
            in both, and as long as either, might be one or the other.

    Returns:
        The table; None where it cannot be told how the two go together.
    """
    order = _order(sum(rows), how)
    places = np.argsort(np.concatenate([np.sort(order[: rows[0]]), np.sort(order[rows[0] :])]))
    whole: list[dict[str, Any]] = []
    for name in ("arguments", "groups", "beside"):
        one, other = getattr(fit, name), getattr(held_out, name)
        if one.keys() != other.keys():
            return None
        whole.append({})
        for key, value in one.items():
            by_row, same = _are_of(value, other[key], rows), np.array_equal(value, other[key])
            if not (by_row or same) or (by_row and same and not columns):
                return None
            both = np.concatenate([value, other[key]])[places] if by_row else value
            whole[-1][key] = both
    arguments, groups, beside = whole
    labels = None
    if fit.labels is not None and held_out.labels is not None:
        labels = np.concatenate([fit.labels, held_out.labels])[places]
    return Table(arguments, labels, fit.vocabulary, groups, beside)


def _are_of(one: Any, other: Any, rows: tuple[int, int]) -> bool:
    """Whether two arrays have a value for each row, and values of the same shape."""
    shapes = np.shape(one), np.shape(other)
    return all(shapes) and (shapes[0][0], shapes[1][0]) == rows and shapes[0][1:] == shapes[1][1:]
