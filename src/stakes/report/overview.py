"""One picture of decisions, ranges and outcomes: which rows it shows, and how.

Rows with dates are shown in time, several rows of one date as their means; many rows without dates
as means of groups, if a column makes few enough of them. For two classes, the picture shows instead
how often the second one came where the model gave it some probability.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

import numpy as np

from stakes.report.decision_table import Column, Decisions
from stakes.report.pictures import (
    COLORS,
    INK,
    LETTER,
    NEUTRAL,
    PREDICTED,
    Mark,
    Range,
    draw_cases,
    drawable,
    legend_above,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The latest rows that are shown one by one: more cannot be told apart on a page.
MOST_ROWS = 90
# The fewest and the most groups whose means are shown in place of rows.
GROUPS = (2, 24)
# Cases with outcomes that a picture of probabilities needs: three in each bin.
FEWEST = 30
# Groups of cases of similar probability.
BINS = 10
# Letters of a name below the picture.
LONGEST = 24
# How a label begins that is a date.
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
# The order of parts in time.
ORDER = {"fit": 0, "held out": 1, "new": 2}


@final
@dataclass(frozen=True, eq=False)
class Overview:
    """Rows, or means of groups, from left to right; nan where a value is not known.

    Attributes:
        caption: what the picture shows, as a sentence.
        names: below the picture.
        values: (low end of the 90 % range, high end, decision, outcome) x row.
        parts: which rows begin another part, and what that is called.
    """

    caption: str
    names: tuple[str, ...]
    values: np.ndarray
    parts: tuple[tuple[int, str], ...] = ()

    @property
    def decisions(self) -> np.ndarray:
        """The decision of each row."""
        decisions: np.ndarray = self.values[2]
        return decisions

    def draw(self, ax: "Axes") -> None:
        """Draw decisions and outcomes over ranges, with as many names as there is room for."""
        low, high, decisions, observed = self.values
        marks = [
            Mark("outcome", ".", INK, observed),
            Mark("decision", "_", COLORS["LCVI"], decisions),
        ]
        draw_cases(ax, [Range("90 % range", low, high, 4)], marks, color=PREDICTED)
        for row, part in self.parts:
            ax.axvline(row - 0.5, color=NEUTRAL, linestyle="--", linewidth=1)
            at, where = (row - 0.5, 1.0), ax.get_xaxis_transform()
            ax.annotate(part, at, (5, 0), where, textcoords="offset points", va="top")
        room = max(min(max(map(len, self.names)), LONGEST) * LETTER + 14, 30)
        every = max(math.ceil(len(self.names) * room / ax.bbox.width), 1)
        shown = range(0, len(self.names), every)
        ax.set_xticks(shown, [drawable(self.names[row], LONGEST) for row in shown])
        ax.tick_params(length=0)
        ax.set_xlim(-0.5, len(self.names) - 0.5)
        ax.spines["left"].set_visible(False)
        ax.grid(axis="y")
        legend_above(ax)


@final
@dataclass(frozen=True, eq=False)
class Agreement:
    """How often the second of two classes came, where the model gave it some probability.

    Attributes:
        caption: what the picture shows, as a sentence.
        chances: the mean probability of each group of cases.
        shares: how often the class came there.
    """

    caption: str
    chances: np.ndarray
    shares: np.ndarray

    def draw(self, ax: "Axes") -> None:
        """Draw the groups as points; on the dashed line, chances and shares agree."""
        top = max(self.chances.max(), self.shares.max())
        ax.plot([0, top], [0, top], color=NEUTRAL, linestyle="--", linewidth=1)
        ax.plot(self.chances, self.shares, "o", color=COLORS["LCVI"], markersize=9)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(lambda share, _: f"{100 * share:.10g} %")
        ax.grid(axis="y")


Picture: TypeAlias = Overview | Agreement


def overview(table: Decisions, most: int = MOST_ROWS) -> Picture | None:
    """Over time, or by group, or the rows as they come; probabilities where there are two classes.

    Args:
        table: of all decisions.
        most: rows that are shown one by one, the latest of all.
    """
    if len(table.chances) == 2:
        return _agreement(table)
    if table.actions or table.about or len(table) == 0:
        return None
    order, dates = _in_time(table)
    if len(table) > MOST_ROWS and dates is not None and len(set(dates)) < len(dates):
        return _by_date(table, dates, most)
    groups = None if dates is not None or len(table) <= MOST_ROWS else _groups(table)
    if groups is not None:
        return _by_group(table, *groups)
    return _by_row(table, order[-most:], dates is not None)


def _in_time(table: Decisions) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the rows by their dates, or by their parts; and the dates, if there are any."""
    parts = np.array([ORDER.get(part, 0) for part in table.parts] or [0] * len(table))
    for values in (*table.labels.values(), *table.inputs.values()):
        if all(isinstance(value, str) and DATE.match(value) for value in values):
            dates = np.array(values)
            return np.lexsort((parts, dates)), dates
    return np.argsort(parts, kind="stable"), None


def _groups(table: Decisions) -> tuple[str, Column] | None:
    """Return the first column of words that makes few enough groups, and its name."""
    for name, values in (*table.inputs.items(), *table.labels.items()):
        are_words = all(isinstance(value, str) for value in values)
        if are_words and GROUPS[0] <= len(set(values)) <= GROUPS[1]:
            return name, values
    return None


def _by_row(table: Decisions, shown: np.ndarray, dated: bool) -> Overview:
    """Return the rows that are shown, one by one.

    Args:
        table: of all decisions.
        shown: numbers of the rows.
        dated: whether they are in order of time.
    """
    names = next(iter(table.labels.values()), tuple(range(1, len(table) + 1)))
    order = "day by day" if dated else "row by row"
    latest = f"; the latest {len(shown):,} of {len(table):,}" if len(shown) < len(table) else ""
    return Overview(
        f"{table.outcome}: decisions, ranges and outcomes, {order}{latest}.",
        tuple(str(names[row]) for row in shown),
        np.stack(_values(table))[:, shown],
        _starts([table.parts[row] for row in shown] if table.parts else []),
    )


def _by_group(table: Decisions, name: str, values: Column) -> Overview:
    """Return the means of each group."""
    kinds, members = np.unique(np.array(values, str), return_inverse=True)
    caption = f"{table.outcome}: means of decisions, ranges and outcomes, by {name}."
    return Overview(caption, tuple(kinds.tolist()), _means(table, members))


def _by_date(table: Decisions, dates: np.ndarray, most: int) -> Overview:
    """Return the means of the rows of each date."""
    days, first, members = np.unique(dates, return_index=True, return_inverse=True)
    # As the user writes them, where a label does.
    as_written = (np.array(values) for values in table.labels.values())
    alike = (values for values in as_written if (values[first][members] == values).all())
    names = next(alike, dates)[first]
    latest = f"; the latest {most:,} of {len(days):,} dates" if len(days) > most else ""
    return Overview(
        f"{table.outcome}: means of decisions, ranges and outcomes, day by day{latest}.",
        tuple(str(name) for name in names[-most:]),
        _means(table, members)[:, -most:],
        _starts([table.parts[row] for row in first[-most:]] if table.parts else []),
    )


def _values(table: Decisions) -> tuple[np.ndarray, ...]:
    """Return what the picture shows of each row."""
    return (table.low, table.high, table.taken, table.observed)


def _means(table: Decisions, members: np.ndarray) -> np.ndarray:
    """Return means of each group; nan where nothing is known of it."""
    import pandas as pd

    return pd.DataFrame(np.stack(_values(table), axis=1)).groupby(members).mean().to_numpy().T


def _starts(parts: Sequence[str]) -> tuple[tuple[int, str], ...]:
    """Return where rows of another part begin, and which."""
    return tuple((i, parts[i]) for i in range(1, len(parts)) if parts[i] != parts[i - 1])


def _agreement(table: Decisions) -> Agreement | None:
    """Return ten groups of cases by probability; None for too few outcomes."""
    known = np.isfinite(table.observed)
    chance, came = table.chances["1"][known], table.observed[known]
    if len(came) < FEWEST:
        return None
    bins = np.array_split(np.argsort(chance, kind="stable"), BINS)
    return Agreement(
        f"Predicted probability of {table.outcome} = 1 (horizontal), and how often it occurred "
        f"(vertical), in {BINS} groups of cases; on the line the two agree.",
        np.array([chance[rows].mean() for rows in bins]),
        np.array([came[rows].mean() for rows in bins]),
    )
