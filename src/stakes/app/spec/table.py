"""The user's table as arguments of the model: numbers, codes of categories, and labels."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from stakes.app.spec.messages import Collector
from stakes.errors import suggestion
from stakes.tables import DATE_PARTS, Column, Kind, TableFile, codes_of

if TYPE_CHECKING:
    import pandas as pd

Vocabulary = Mapping[str, list[str]]
"""Column -> its categories, in the order of their codes."""


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Rows to fit or decide about: the model's arguments, and a label for each row."""

    arguments: dict[str, Any]
    labels: np.ndarray | None
    """Row x column of labels."""
    vocabulary: dict[str, list[str]] = field(default_factory=dict)
    groups: dict[str, np.ndarray] = field(default_factory=dict)
    """Column -> values that are equal where rows belong together."""
    beside: dict[str, np.ndarray] = field(default_factory=dict)
    """What rows have beside the model's arguments: `by`, their group, `today`, a decision, and
    `when`, the number of their day."""

    @property
    def names(self) -> np.ndarray | None:
        """One label for each row, of all its labels."""
        if self.labels is None:
            return None
        return np.array([", ".join(row) for row in self.labels.tolist()], str)

    def rows(self, chosen: np.ndarray, like: int) -> "Table":
        """Some of the rows; arguments that are not as long as the table stay whole."""

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
    columns: Mapping[str, Any], names: Collection[str], replace: Mapping[str, Mapping[str, str]]
) -> dict[str, np.ndarray]:
    """The columns that label or group rows, with the words that the spec replaces replaced."""
    found = {name: np.asarray(columns[name]).astype(str) for name in names}
    for name, words in found.items():
        given = replace.get(name, {})
        replaced = [given.get(word, word) for word in words.ravel().tolist()]
        found[name] = np.array(replaced, str).reshape(words.shape)
    return found


def source_of(name: str, there: Collection[str]) -> tuple[str, str | None]:
    """A column, and which part of its dates is asked for: `date_weekday` is one of `date`."""
    column, _, part = name.rpartition("_")
    if name not in there and column in there and part in DATE_PARTS:
        return column, part
    return name, None


def part_of(column: Column, part: str) -> Column:
    """The weekday, month or the like of dates."""
    import pandas as pd

    filled = np.where(column.values == "", "1970-01-01", column.values)
    dates = pd.Series(pd.to_datetime(filled, format="ISO8601"))
    return Column(Kind.NUMBERS, DATE_PARTS[part](dates).to_numpy().astype(int), column.missing)


def by_name(
    arguments: Mapping[str, Any],
    dates: Collection[str],
    categories: Collection[str] = (),
    first_row: int = 0,
) -> "pd.DataFrame":
    """Columns as a table for a formula, rows counted from one; these are dates and categories."""
    import pandas as pd

    columns = dict(arguments)
    for name in dates:
        columns[name] = pd.to_datetime(np.asarray(columns[name]).astype(str), format="ISO8601")
    for name in categories:
        if name in columns:
            columns[name] = pd.Categorical(np.asarray(columns[name]).astype(str))
    rows = len(next(iter(columns.values())))
    return pd.DataFrame(columns, index=pd.RangeIndex(first_row + 1, first_row + rows + 1))


def encoded(column: Column, vocabulary: list[str] | None) -> np.ndarray:
    """Numbers as they are, categories as their codes."""
    if vocabulary is None:
        return column.values
    values = column.values.astype(str)
    return codes_of(values.ravel().tolist(), vocabulary).reshape(values.shape)


def check_columns(where: str, file: TableFile, wanted: Mapping[str, str], found: Collector) -> bool:
    """Whether all columns are there; `wanted`: the field that names one -> the column."""
    with found.at(where):
        there = file.columns
        for asking, name in wanted.items():
            if name not in there:
                found.add(
                    asking, f"{file.path.name} has no column {name!r}.{suggestion(name, there)}"
                )
        return set(wanted.values()) <= set(there)
    return False
