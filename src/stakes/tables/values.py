"""What values in tables stand for: words as numbers, dates or categories, and parts of dates."""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    Series: TypeAlias = pd.Series[Any]

UNITS = "€|\\$|£|¥|%|EUR|USD|CHF|GBP|Euro"
WRITTEN = re.compile(
    rf"(?P<sign>[-+]?)\s*(?P<before>{UNITS})?\s*(?P<minus>[-+]?)"
    rf"(?P<digits>\d[\d.,' ]*|[.,]\d+)(?P<power>[eE][-+]?\d+)?\s*(?P<after>{UNITS})?",
    re.IGNORECASE,
)
PLAIN = re.compile(r"[-+]?\d+")
# Thousands may be set apart, all by the same sign.
DIGITS = {
    sign: re.compile(rf"(\d{{1,3}}([{other}' ])\d{{3}}(\2\d{{3}})*|\d*)({re.escape(sign)}\d*)?")
    for sign, other in ((".", ","), (",", "."))
}
TRUTHS = {"true": True, "false": False}
DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([T ].*)?")
# A time zone, which is left out: weekday and hour are those of the place, as written.
OFFSET = re.compile(r"(?<=:\d\d)(\.\d+)?(Z|[+-]\d\d:?\d\d)$")
# Ways to write a date, with an example of each.
FORMATS = {
    "ISO8601": "2024-12-31",
    "%d.%m.%Y": "31.12.2024",
    "%d.%m.%y": "31.12.24",
    "%d/%m/%Y": "31/12/2024",
    "%m/%d/%Y": "12/31/2024",
    "%d/%m/%y": "31/12/24",
    "%m/%d/%y": "12/31/24",
    "%d-%m-%Y": "31-12-2024",
    "%m-%d-%Y": "12-31-2024",
    "%Y/%m/%d": "2024/12/31",
}
# What an argument may ask of a date; all but the year count from 0.
DATE_PARTS: dict[str, "Callable[[Series], Series]"] = {
    "year": lambda dates: dates.dt.year,
    "quarter": lambda dates: dates.dt.quarter - 1,
    "month": lambda dates: dates.dt.month - 1,
    "week": lambda dates: dates.dt.isocalendar().week - 1,
    "day": lambda dates: dates.dt.day - 1,
    "dayofyear": lambda dates: dates.dt.day_of_year - 1,
    "weekday": lambda dates: dates.dt.day_of_week,
    "hour": lambda dates: dates.dt.hour,
}
# The part that counts from the first date of the fit.
DAYS = "days"


class Number(NamedTuple):
    """A number as people write it.

    Attributes:
        unit: what stands beside it, such as a currency.
        grouped: whether thousands are set apart.
    """

    value: float
    unit: str
    grouped: bool = False


@lru_cache(maxsize=2**16)
def number(word: str, decimal: str = ".") -> Number | None:
    """A word as a number, in the way people write them; None for what is none.

    Examples:
        >>> number("1.234,50 €", decimal=",")
        Number(value=1234.5, unit='€', grouped=True)
        >>> number("2,90") is None
        True
    """
    text = word.replace("\u00a0", " ").replace("\u202f", " ").replace("−", "-").strip()
    if text.lower() in ("inf", "-inf", "+inf", "infinity"):
        return Number(float(text), "")
    match = WRITTEN.fullmatch(text)
    if match is None or (match["sign"] and match["minus"]) or (match["before"] and match["after"]):
        return None
    digits = match["digits"].strip()
    grouped = DIGITS[decimal].fullmatch(digits)
    if grouped is None:
        return None
    if grouped[2]:
        digits = digits.replace(grouped[2], "")
    digits = digits.replace(decimal, ".")
    value = float(f"{match['sign'] or match['minus']}{digits}{match['power'] or ''}")
    return Number(value, match["before"] or match["after"] or "", bool(grouped[2]))


class NumericWords(NamedTuple):
    """Words read as numbers.

    Attributes:
        values: nan where a word is no number.
        others: which words are none.
        whole: whether all are whole numbers, written as such.
        units: what stands beside numbers -> the first word with it.
        grouped: the first number with its thousands set apart.
    """

    values: np.ndarray
    others: np.ndarray
    whole: bool
    units: dict[str, int]
    grouped: int | None


def numbers_in(words: Sequence[str], decimal: str) -> NumericWords:
    """Words as numbers, in the way people write them."""
    values = np.full(len(words), np.nan)
    others: list[int] = []
    units: dict[str, int] = {}
    grouped, whole = None, True
    for place, word in enumerate(words):
        if PLAIN.fullmatch(word):
            values[place] = float(word)
            continue
        read = number(word, decimal)
        if read is None:
            others.append(place)
            continue
        values[place] = read.value
        whole = whole and read.grouped and not read.unit and read.value == int(read.value)
        if read.unit:
            units.setdefault(read.unit, place)
        if read.grouped and grouped is None:
            grouped = place
    return NumericWords(values, np.array(others, int), whole, units, grouped)


def truths_in(words: Sequence[str]) -> np.ndarray | None:
    """True and false, where all words are these."""
    truths = [TRUTHS.get(word.strip().lower()) for word in words]
    return None if None in truths or not truths else np.array(truths, bool)


class Dates(NamedTuple):
    """Words read as dates.

    Attributes:
        values: by the day, or by the second where there are times; NaT where a word is no date.
        others: which words are none.
        formats: all ways to write a date by which as many are read.
    """

    values: np.ndarray
    others: np.ndarray
    formats: tuple[str, ...]


def dates_in(words: Sequence[str], written: str | None = None) -> Dates | None:
    """Words as dates, by the way to write them that reads the most; None where none reads any."""
    import pandas as pd

    if written is None and not any(DATE.fullmatch(word.strip()) for word in words[:100]):
        return None
    texts = pd.Series([OFFSET.sub("", word.strip()) for word in words], dtype=object)
    read = {
        format: pd.to_datetime(texts, format=format, errors="coerce")
        for format in ([written] if written else FORMATS)
    }
    most = max(int(dates.notna().sum()) for dates in read.values())
    best = tuple(name for name, dates in read.items() if int(dates.notna().sum()) == most)
    if not most and written is None:
        return None
    dates = read[best[0]]
    differing = tuple(name for name in best if name == best[0] or not read[name].equals(dates))
    values = by_day(dates.to_numpy().astype("datetime64[s]"))
    return Dates(values, np.flatnonzero(dates.isna()), differing)


def by_day(dates: np.ndarray) -> np.ndarray:
    """Dates by the day, where none has a time of day."""
    days = dates.astype("datetime64[D]")
    return days if (np.isnat(dates) | (days == dates)).all() else dates


@final
@dataclass(frozen=True, eq=False)
class Coding:
    """What the numbers in a fit's data stand for, so that other tables get the same ones.

    Attributes:
        categories: argument -> its categories, in the order of their codes.
        origins: argument -> the date from which its days are counted.
        zoned: arguments whose dates have a time zone; what counts is the clock there.
    """

    categories: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    origins: dict[str, np.datetime64] = field(default_factory=dict)
    zoned: set[str] = field(default_factory=set)


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
    """Return advice about dates, which are not numbers and hardly categories."""
    parts = ", ".join(f"`{column}_{part}`" for part in DATE_PARTS)
    counted = f", `{column}_{DAYS}` (days since the first date of the fit)" if days else ""
    return (
        f"column {column!r} holds dates. Name what the model needs of them instead: "
        f"{parts}{counted}."
    )
