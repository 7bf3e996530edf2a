"""What the numbers in a fit's data stand for: categories, and parts of dates."""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    Dates: TypeAlias = pd.Series[Any]

DATE_PARTS: dict[str, "Callable[[Dates], Dates]"] = {
    "year": lambda dates: dates.dt.year,
    "quarter": lambda dates: dates.dt.quarter - 1,
    "month": lambda dates: dates.dt.month - 1,
    "week": lambda dates: dates.dt.isocalendar().week - 1,
    "day": lambda dates: dates.dt.day - 1,
    "dayofyear": lambda dates: dates.dt.day_of_year - 1,
    "weekday": lambda dates: dates.dt.day_of_week,
    "hour": lambda dates: dates.dt.hour,
}
"""What an argument may ask of a date; all but the year count from 0."""
DAYS = "days"
"""The part that counts from the first date of the fit."""


@final
@dataclass(frozen=True, eq=False)
class Coding:
    """What the numbers in a fit's data stand for, so that other tables get the same ones."""

    categories: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Argument -> its categories, in the order of their codes."""
    origins: dict[str, np.datetime64] = field(default_factory=dict)
    """Argument -> the date from which its days are counted."""
    zoned: set[str] = field(default_factory=set)
    """Arguments whose dates have a time zone; what counts is the clock there."""


def categories_of(parts: Iterable[np.ndarray]) -> list[str]:
    """The words in a column, in order; an empty one stands for no value."""
    words = np.unique(np.concatenate([np.asarray(part).astype(str) for part in parts]))
    return [str(word) for word in words if word != ""]


def codes_of(values: Iterable[Hashable], categories: Sequence[Hashable]) -> np.ndarray:
    """The place of each value among the categories; -1 for one that is not there."""
    places = {category: place for place, category in enumerate(categories)}
    return np.array([places.get(value, -1) for value in values], np.intp)


def source_of(name: str, there: Collection[str], *, days: bool = False) -> tuple[str, str | None]:
    """A column, and which part of its dates is asked for: `date_weekday` is one of `date`.

    Args:
        there: the columns of the table.
        days: whether days since the first date of the fit can be counted.
    """
    column, _, part = name.rpartition("_")
    if name not in there and column in there and (part in DATE_PARTS or (days and part == DAYS)):
        return column, part
    return name, None


def part_of(dates: np.ndarray, part: str) -> np.ndarray:
    """The weekday, month or the like of dates; any where there is none."""
    import pandas as pd

    filled = np.where(np.isnat(dates), np.datetime64("1970-01-01"), dates)
    return DATE_PARTS[part](pd.Series(filled)).to_numpy().astype(np.int32)


def days_since(origin: np.datetime64, dates: np.ndarray) -> np.ndarray:
    return np.asarray((dates - origin) / np.timedelta64(1, "D"))


def holds_dates(column: str, *, days: bool = False) -> str:
    """What to do about dates, which are no numbers, and hardly categories."""
    parts = ", ".join(f"`{column}_{part}`" for part in DATE_PARTS)
    counted = f", `{column}_{DAYS}` (days since the first date of the fit)" if days else ""
    return (
        f"column {column!r} holds dates. Name what the model needs of them instead: "
        f"{parts}{counted}."
    )
