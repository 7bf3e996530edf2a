"""One column of a table as numbers: what they stand for is remembered for other tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from stakes.errors import InputError, listed, suggestion
from stakes.tables.categories import alike, categories_of, codes_of, numbers_among
from stakes.tables.native import TableRows

if TYPE_CHECKING:
    import pandas as pd

    Series: TypeAlias = pd.Series[Any]

SHOWN = 5
"""Rows that a message names."""
DATE_PARTS: dict[str, Callable[[Any], Any]] = {
    "year": lambda dates: dates.dt.year,
    "quarter": lambda dates: dates.dt.quarter - 1,
    "month": lambda dates: dates.dt.month - 1,
    "week": lambda dates: dates.dt.isocalendar().week.astype(int) - 1,
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

    categories: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Argument -> its categories, in the order of their codes."""
    origins: Mapping[str, Any] = field(default_factory=dict)
    """Argument -> the date from which its days are counted."""


class Coded(NamedTuple):
    """A column as numbers."""

    values: np.ndarray
    categories: tuple[Any, ...] | None = None
    origin: Any = None


class Place(NamedTuple):
    """Where a column is: for messages."""

    column: str
    rows: TableRows

    def fault(self, what: str) -> InputError:
        return InputError(f"column {self.column!r} {what}")

    def named(self, at: Any) -> str:
        names = self.rows.named(at)
        return f"row{'s' if len(names) > 1 else ''} {listed(names, SHOWN)}"


def is_date(column: "Series") -> bool:
    import pandas as pd

    return pd.api.types.is_datetime64_any_dtype(column) or _holds_dates(column)


def _holds_dates(column: "Series") -> bool:
    from datetime import date

    known = column.dropna()
    return column.dtype == object and len(known) > 0 and all(isinstance(v, date) for v in known)


def coded(
    column: "Series",
    place: Place,
    before: tuple[Any, ...] | None,
    *,
    first: bool,
    anew: bool,
    is_outcome: bool,
) -> Coded:
    """Numbers and truth values as they are, categories as codes.

    Args:
        before: the categories that the column had in the fit.
        first: whether this is the fit.
        anew: whether those here are numbered from 0 again, known ones first, and may be new.
    """
    import pandas as pd

    _check_missing(column, place)
    if is_date(column):
        asked = ", ".join(f"`{place.column}_{part}`" for part in (*DATE_PARTS, DAYS))
        raise place.fault(
            f"holds dates. Ask for what the model needs of them by the name of its argument: "
            f"{asked} (days since the first date of the fit)."
        )
    column = column.infer_objects()
    kind = getattr(column.dtype, "kind", "O")
    declared = isinstance(column.dtype, pd.CategoricalDtype)
    if before is None and not declared and kind in "biuf":
        return _numbers(column, place, is_outcome=is_outcome)
    if before is None and not first:
        raise place.fault(
            f"holds {column.tolist()[0]!r} in {place.named(slice(0, 1))}, where the fit had "
            f"numbers."
        )
    if before is None:
        found = _categories(column, place, declared=declared, is_outcome=is_outcome)
        return Coded(codes_of(column.tolist(), found), found)
    values = [_like(value, before) for value in column.tolist()]
    codes = codes_of(values, before)
    unseen = np.flatnonzero(codes < 0)
    if len(unseen) and not anew:
        value = values[unseen[0]]
        raise place.fault(
            f"has {len(unseen)} value{'s' if len(unseen) > 1 else ''} that the data of the fit did "
            f"not have: {value!r} in {place.named(unseen[:1])}."
            f"{suggestion(str(value), map(str, before))} New ones can be drawn where the model has "
            f"a plate for them whose members it counts, as in `len(np.unique({place.column}))`."
        )
    if not anew:
        return Coded(codes, before)
    fresh = dict.fromkeys(values[row] for row in unseen)
    here = (*(before[code] for code in np.unique(codes[codes >= 0])), *fresh)
    return Coded(codes_of(values, here), here)


def part_of_date(column: "Series", place: Place, part: str, origin: Any) -> Coded:
    """What an argument asks of a column of dates."""
    import pandas as pd

    _check_missing(column, place)
    dates = pd.to_datetime(column)
    if part != DAYS:
        return Coded(DATE_PARTS[part](dates).to_numpy().astype(np.int32))
    if origin is None:
        origin = dates.min().normalize()
    try:
        return Coded(((dates - origin) / pd.Timedelta(days=1)).to_numpy(), origin=origin)
    except TypeError:
        fault = "must have a time zone where it had one in the fit, and only there."
        raise place.fault(fault) from None


def _check_missing(column: "Series", place: Place) -> None:
    missing = np.flatnonzero(
        column.isna().to_numpy() | (column == "").to_numpy(bool, na_value=True)
    )
    if len(missing):
        raise place.fault(
            f"has no value in {place.named(missing)}"
            f"{f' ({len(missing)} rows)' if len(missing) > SHOWN else ''}. Drop or fill them."
        )


def _numbers(column: "Series", place: Place, *, is_outcome: bool) -> Coded:
    values = column.to_numpy(dtype=getattr(column.dtype, "numpy_dtype", None))
    infinite = np.flatnonzero(~np.isfinite(values))
    if len(infinite):
        raise place.fault(f"is infinite in {place.named(infinite)}. Drop or fill them.")
    return Coded(values.astype(np.int32) if is_outcome and values.dtype.kind == "b" else values)


def _categories(
    column: "Series", place: Place, *, declared: bool, is_outcome: bool
) -> tuple[Any, ...]:
    """Those declared, as they are; those of words in order, where words are meant."""
    if declared:
        return tuple(column.cat.categories.tolist())
    values = column.tolist()
    odd = np.flatnonzero([not isinstance(value, str) for value in values])
    if len(odd):
        raise place.fault(
            f"must hold numbers or words; {place.named(odd[:1])} has {values[odd[0]]!r}."
        )
    remedy = "If they are categories, say so: `frame[column].astype('category')`."
    numbers = numbers_among(values)
    if numbers is not None:
        others = f"; {place.named(numbers.others)} say{'s' * (len(numbers.others) == 1)} " + listed(
            (repr(values[row]) for row in numbers.others), SHOWN
        )
        raise place.fault(
            f"is text, but {numbers.found} of {len(values)} values are numbers"
            f"{others if len(numbers.others) else ''}. Convert it with `pandas.to_numeric`. "
            f"{remedy}"
        )
    if is_outcome:
        raise place.fault(f"has the outcomes, and they are words. {remedy}")
    found = categories_of([np.array(values)])
    close = alike(found)
    if close:
        pairs = "; ".join(" and ".join(map(repr, words)) for words in close[:SHOWN])
        raise place.fault(
            f"has words that differ by spaces or capital letters alone: {pairs}. Make them one, "
            f"as with `frame[column].str.strip()`. {remedy}"
        )
    return tuple(found)


def _like(value: Any, before: tuple[Any, ...]) -> Any:
    """A value as the fit had it: a number where it had numbers, a word where it had words."""
    if before and isinstance(before[0], str) and not isinstance(value, str):
        return str(value)
    return value
