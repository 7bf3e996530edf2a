"""One picture of outcomes, ranges and decisions, laid out here and drawn by the page as SVG.

It needs no JavaScript, and takes its colours from the style sheet.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from stakes.report.content import Column, Decisions

WIDTH, HEIGHT = 900, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 14, 34
MOST_ROWS = 90
"""The latest rows that are shown one by one."""
GROUPS = (2, 24)
"""How many groups there may be to show these in place of rows."""
FEWEST = 30
"""Cases with outcomes that a picture of probabilities needs."""
BINS = 10
LETTER = 7
"""The width of a letter below the picture."""
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
ORDER = {"fit": 0, "held out": 1, "new": 2}


@final
@dataclass(frozen=True)
class Mark:
    """A row or a group, in places of the picture."""

    x: float
    decision: float
    low: float | None = None
    high: float | None = None
    observed: float | None = None
    size: float = 0.0


@final
@dataclass(frozen=True)
class Picture:
    kind: str
    """`rows`, `groups` or `chances`."""
    caption: str
    marks: tuple[Mark, ...]
    down: tuple[tuple[float, str], ...]
    """Ticks of the vertical axis: place and text."""
    across: tuple[tuple[float, str], ...]
    parts: tuple[tuple[float, str], ...] = ()
    """Where rows of another part begin, and which."""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    bottom: int = HEIGHT - BOTTOM


def picture(table: Decisions, width: int = WIDTH, most: int = MOST_ROWS) -> Picture | None:
    """Over time, or by group, or the rows as they come; probabilities where there are two classes.

    Args:
        width: of the picture; the page has one for large and one for small screens.
        most: rows that are shown one by one, the latest of all.
    """
    if len(table.chances) == 2:
        return _chances(table, width)
    if table.actions or table.about or len(table) == 0:
        return None
    order, dates = _in_time(table)
    if len(table) > MOST_ROWS and dates is not None and len(set(dates)) < len(dates):
        return _by_date(table, width, dates, most)
    groups = None if dates is not None or len(table) <= MOST_ROWS else _groups(table)
    if groups is not None:
        return _by_group(table, width, *groups)
    return _rows(table, width, order[-most:], dates is not None)


def _in_time(table: Decisions) -> tuple[np.ndarray, np.ndarray | None]:
    """The rows by their dates, or by their parts; and the dates, if there are any."""
    parts = np.array([ORDER.get(part, 0) for part in table.parts] or [0] * len(table))
    for values in (*table.labels.values(), *table.inputs.values()):
        if all(isinstance(value, str) and DATE.match(value) for value in values):
            dates = np.array(values)
            return np.lexsort((parts, dates)), dates
    return np.argsort(parts, kind="stable"), None


def _groups(table: Decisions) -> tuple[str, Column] | None:
    for name, values in (*table.inputs.items(), *table.labels.items()):
        words = all(isinstance(value, str) for value in values)
        if words and GROUPS[0] <= len(set(values)) <= GROUPS[1]:
            return name, values
    return None


def _rows(table: Decisions, width: int, shown: np.ndarray, dated: bool) -> Picture:
    names = next(iter(table.labels.values()), tuple(range(1, len(table) + 1)))
    what = "day by day" if dated else "row by row"
    latest = f"; the latest {len(shown):,} of {len(table):,}" if len(shown) < len(table) else ""
    parts = [table.parts[row] for row in shown] if table.parts else []
    columns = (table.low, table.high, table.taken, table.observed)
    return _picture(
        width,
        "rows",
        f"{table.outcome}: decisions, ranges and outcomes, {what}{latest}.",
        [values[shown] for values in columns],
        [str(names[row]) for row in shown],
        parts,
    )


def _by_group(table: Decisions, width: int, name: str, values: Column) -> Picture:
    kinds, members = np.unique(np.array(values, str), return_inverse=True)
    caption = f"{table.outcome}: means of decisions, ranges and outcomes, by {name}."
    return _picture(width, "groups", caption, _means(table, members), kinds.tolist(), [])


def _by_date(table: Decisions, width: int, dates: np.ndarray, most: int) -> Picture:
    """Of several rows for each date, their means."""
    days, first, members = np.unique(dates, return_index=True, return_inverse=True)
    # As the user writes them, where a label does.
    as_written = (np.array(v) for v in table.labels.values())
    alike = (v for v in as_written if (v[first][members] == v).all())
    names = next(alike, dates)[first]
    latest = f"; the latest {most:,} of {len(days):,} dates" if len(days) > most else ""
    return _picture(
        width,
        "groups",
        f"{table.outcome}: means of decisions, ranges and outcomes, day by day{latest}.",
        [column[-most:] for column in _means(table, members)],
        [str(name) for name in names[-most:]],
        [table.parts[row] for row in first[-most:]] if table.parts else [],
    )


def _means(table: Decisions, members: np.ndarray) -> list[np.ndarray]:
    """Of ranges, decisions and outcomes, for each group."""
    groups = int(members.max()) + 1

    def mean(column: np.ndarray) -> np.ndarray:
        known = np.isfinite(column)
        count = np.bincount(members[known], minlength=groups)
        total = np.bincount(members[known], column[known], groups)
        found: np.ndarray = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        return found

    return [mean(values) for values in (table.low, table.high, table.taken, table.observed)]


def _picture(
    width: int,
    kind: str,
    caption: str,
    columns: list[np.ndarray],
    names: list[str],
    parts: list[str],
) -> Picture:
    low, high, taken, observed = columns
    ends = np.concatenate([c[np.isfinite(c)] for c in columns])
    ticks = nice(float(ends.min()), float(ends.max()))
    bottom, top = min(ticks[0], ends.min()), max(ticks[-1], ends.max())

    def place(value: float) -> float | None:
        if not math.isfinite(value):
            return None
        share = (value - bottom) / ((top - bottom) or 1.0)
        return round(float(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)), 1)

    step = (width - LEFT - RIGHT) / len(names)
    across = [round(LEFT + (i + 0.5) * step, 1) for i in range(len(names))]
    marks = [
        Mark(x, place(h) or 0.0, place(a), place(b), place(y))
        for x, a, b, h, y in zip(across, low, high, taken, observed, strict=True)
    ]
    begin = [i for i in range(1, len(parts)) if parts[i] != parts[i - 1]]
    return Picture(
        kind=kind,
        caption=caption,
        marks=tuple(marks),
        down=tuple((place(tick) or 0.0, f"{tick:,.10g}".replace("-", "−")) for tick in ticks),
        across=_spread(across, names, width),
        parts=tuple((round(across[i] - step / 2, 1), parts[i]) for i in begin),
        width=width,
    )


def _chances(table: Decisions, width: int) -> Picture | None:
    """How often the second class came, where the model gave it some probability."""
    known = np.isfinite(table.observed)
    chance, came = table.chances["1"][known], table.observed[known]
    if len(came) < FEWEST:
        return None
    groups = np.array_split(np.argsort(chance, kind="stable"), BINS)
    pairs = [(float(chance[some].mean()), float(came[some].mean())) for some in groups]
    top = max(max(pair) for pair in pairs)
    ticks = nice(0.0, 100 * top)
    across, down = width - LEFT - RIGHT, HEIGHT - BOTTOM - TOP

    def at(share: float) -> tuple[float, float]:
        part = 100 * share / ticks[-1]
        return round(LEFT + part * across, 1), round(HEIGHT - BOTTOM - part * down, 1)

    return Picture(
        kind="chances",
        caption=f"Probability of {table.outcome} = 1 by the model (across), and how often it came "
        f"(upwards), in {BINS} groups of cases; on the line the two agree.",
        marks=tuple(Mark(at(x)[0], at(y)[1], size=5.0) for x, y in pairs),
        down=tuple((at(tick / 100)[1], f"{tick:g} %") for tick in ticks),
        across=tuple((at(tick / 100)[0], f"{tick:g} %") for tick in ticks),
        width=width,
    )


def _spread(
    places: Sequence[float], names: Sequence[str], width: int
) -> tuple[tuple[float, str], ...]:
    """As many names as there is room for; none is cut off by the edge of the picture."""
    room = max(min(max(map(len, names)), 24) * LETTER + 14, 30)
    every = max(math.ceil(len(names) * room / (width - LEFT - RIGHT)), 1)
    shown = [(x, _short(name)) for x, name in zip(places[::every], names[::every], strict=True)]
    first, *rest = [(min(x, width - len(name) * LETTER / 2), x, name) for x, name in shown]
    return ((first[0], first[2]), *((x, name) for most, x, name in rest if x <= most))


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def nice(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from `low` or below to `high` or above."""
    width = (high - low) or abs(high) or 1.0
    size = 10.0 ** math.floor(math.log10(width / about))
    step = next(size * k for k in (1, 2, 2.5, 5, 10) if width / (size * k) <= about)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{k * step:.10g}") for k in range(first, last + 1)]
