"""Words as numbers or dates: what people write in tables, read as they mean it."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

UNITS = "€|\\$|£|¥|%|EUR|USD|CHF|GBP|Euro"
WRITTEN = re.compile(
    rf"(?P<sign>[-+]?)\s*(?P<before>{UNITS})?\s*(?P<minus>[-+]?)"
    rf"(?P<digits>\d[\d.,' ]*|[.,]\d+)(?P<power>[eE][-+]?\d+)?\s*(?P<after>{UNITS})?",
    re.IGNORECASE,
)
PLAIN = re.compile(r"[-+]?\d+")
DIGITS = {
    sign: re.compile(rf"(\d{{1,3}}([{other}' ])\d{{3}}(\2\d{{3}})*|\d*)({re.escape(sign)}\d*)?")
    for sign, other in ((".", ","), (",", "."))
}
"""Thousands may be set apart, all by the same sign."""
TRUTHS = {"true": True, "false": False}
DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([T ].*)?")
OFFSET = re.compile(r"(?<=:\d\d)(\.\d+)?(Z|[+-]\d\d:?\d\d)$")
"""Of a time zone: weekday and hour are those of the place, as written."""
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
"""Ways to write a date, with an example of each."""


class Number(NamedTuple):
    value: float
    unit: str
    """What stands beside it, such as a currency."""
    grouped: bool = False
    """Whether thousands are set apart."""


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


class Numbers(NamedTuple):
    """Words read as numbers."""

    values: np.ndarray
    """nan where a word is no number."""
    others: np.ndarray
    """Which words are none."""
    whole: bool
    """Whether all are whole numbers, written as such."""
    units: dict[str, int]
    """What stands beside numbers -> the first word with it."""
    grouped: int | None
    """The first number with its thousands set apart."""


def numbers_in(words: Sequence[str], decimal: str) -> Numbers:
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
    return Numbers(values, np.array(others, int), whole, units, grouped)


def truths_in(words: Sequence[str]) -> np.ndarray | None:
    """True and false, where all words are these."""
    truths = [TRUTHS.get(word.strip().lower()) for word in words]
    return None if None in truths or not truths else np.array(truths, bool)


class Dates(NamedTuple):
    """Words read as dates."""

    values: np.ndarray
    """By the day, or by the second where there are times; NaT where a word is no date."""
    others: np.ndarray
    """Which words are none."""
    formats: tuple[str, ...]
    """All ways to write a date by which as many are read."""


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
