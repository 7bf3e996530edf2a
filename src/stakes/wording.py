"""Numbers in words: percentages, intervals, amounts and counts; and results as they are printed.

Tables, sentences and the report use these; nothing else writes a percentage by hand.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import final

INTERVAL = "95 % interval"
"""The heading of intervals in tables, and their name in sentences."""


def percent(share: float | None, decimals: int = 1, unknown: str = "") -> str:
    """Write a share in per cent: 0.123 is "12.3 %".

    Args:
        share: None or nan where it is not known.
        decimals: digits after the decimal point.
        unknown: what to write where the share is not known.

    Examples:
        >>> percent(0.123), percent(-0.0001), percent(None, unknown="?")
        ('12.3 %', '0.0 %', '?')
    """
    if share is None or math.isnan(share):
        return unknown
    return f"{100 * share:z.{decimals}f} %"


def percent_span(
    low: float | None, high: float | None, decimals: int = 1, unknown: str = ""
) -> str:
    """Write an interval of shares in per cent; an end that is infinite is left open.

    Args:
        low: the lower end; None or nan where it is not known.
        high: the upper end, likewise.
        decimals: digits after the decimal point.
        unknown: what to write where neither end is known.

    Examples:
        >>> percent_span(0.004, 0.056)
        '0.4 to 5.6 %'
        >>> percent_span(0.004, math.inf)
        'at least 0.4 %'
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return unknown
    if math.isinf(low) and math.isinf(high):
        return unknown
    if math.isinf(high):
        return f"at least {percent(low, decimals)}"
    if math.isinf(low):
        return f"at most {percent(high, decimals)}"
    return f"{percent(low, decimals).removesuffix(' %')} to {percent(high, decimals)}"


def change_span(low: float, high: float, words: tuple[str, str], unknown: str) -> str:
    """Write the 95 % interval of a change, in the direction of a sentence that has named it.

    Args:
        low: the lower end, as a share; below zero the change is in the other direction.
        high: the upper end.
        words: the direction of the sentence and the opposite one, such as "lower" and "higher".
        unknown: why there is no interval.

    Examples:
        >>> change_span(0.004, 0.056, ("lower", "higher"), "")
        '95 % interval 0.4 to 5.6 %'
        >>> change_span(-0.017, 0.08, ("lower", "higher"), "")
        '95 % interval from 1.7 % higher to 8.0 % lower'
        >>> change_span(-math.inf, math.inf, ("lower", "higher"), "2 cases are too few")
        'no 95 % interval: 2 cases are too few'
    """
    onward, back = words
    if math.isinf(low) and math.isinf(high):
        return f"no {INTERVAL}: {unknown}"
    if low >= 0:
        return f"{INTERVAL} {percent_span(low, high)}"
    if math.isinf(low):
        return f"{INTERVAL} up to {percent(high)} {onward}"
    if math.isinf(high):
        return f"{INTERVAL} up to {percent(-low)} {back}"
    return f"{INTERVAL} from {percent(-low)} {back} to {percent(high)} {onward}"


def amount(value: float, unit: str | None = None) -> str:
    """Write a mean cost: money with two digits and its unit, other numbers with four digits.

    Examples:
        >>> amount(1234.5678, "€"), amount(0.0123456), amount(12.0)
        ('1,234.57 €', '0.01235', '12.00')
    """
    return f"{value:,.2f} {unit}" if unit else f"{value:#.4g}".rstrip(".")


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Write how many there are: "1 row", "2,000 rows".

    Examples:
        >>> count(1, "row"), count(2000, "row"), count(2, "class", "classes")
        ('1 row', '2,000 rows', '2 classes')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def text_table(
    rows: Sequence[Sequence[str]], *, right: Collection[int] = (), gap: int = 2
) -> list[str]:
    """The lines of a table; columns in `right` are aligned to the right, all others to the left."""
    from io import StringIO

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, gap, 0, 0))
    for column in range(len(rows[0])):
        table.add_column(justify="right" if column in right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    page = StringIO()
    # Wide enough for any table: a terminal may wrap lines, but nothing is left out.
    # A notebook would show the table itself, and leave the page empty.
    console = Console(file=page, width=10_000, color_system=None, force_jupyter=False)
    console.print(table)
    return [line.rstrip() for line in page.getvalue().rstrip("\n").split("\n")]


def with_capital(text: str) -> str:
    """Begin a sentence: the text with its first letter as a capital."""
    return text[:1].upper() + text[1:]


def with_code(text: str) -> str:
    """Write a sentence as HTML: what is in backticks becomes code.

    Examples:
        >>> with_code("Use `a < b`.")
        'Use <code>a &lt; b</code>.'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


MARKS = "¹²³⁴⁵⁶⁷⁸⁹"
"""Marks of footnotes; a ninth note and all after it share the last mark."""


def footnotes(about: str, notes: Iterable[str]) -> tuple[Mapping[str, str], list[str]]:
    """Return a mark for each distinct note, and the notes as lines; one note needs no mark.

    Args:
        about: the heading of the column that the notes explain.
        notes: one for each cell, empty where there is nothing to say.

    Examples:
        >>> footnotes("95 % interval", ["clustered by store", "", "clustered by store"])
        ({'clustered by store': ''}, ['95 % interval: clustered by store.'])
        >>> footnotes("95 % interval", ["ordered", "bootstrap"])[1]
        ['¹ 95 % interval: ordered.', '² 95 % interval: bootstrap.']
    """
    distinct = list(dict.fromkeys(note for note in notes if note))
    if len(distinct) == 1:
        return {distinct[0]: ""}, [f"{about}: {distinct[0]}."]
    marks = {note: MARKS[min(i, len(MARKS) - 1)] for i, note in enumerate(distinct)}
    return marks, [f"{mark} {about}: {note}." for note, mark in marks.items()]


@final
@dataclass(frozen=True)
class Printout:
    """A result as printed: a table, footnotes, and sentences that explain it."""

    rows: Sequence[Sequence[str]]
    """The headings, and one row for each line of the table."""
    right: Collection[int] = ()
    """Columns of numbers, aligned to the right."""
    notes: Sequence[str] = ()
    sentences: Sequence[str] = ()
    chosen: str | None = None
    """The first cell of the row to point out."""

    @property
    def text(self) -> str:
        """The result for a terminal."""
        marks = {self.chosen: "> "} if self.chosen is not None else {}
        gap = "  " if marks else ""
        rows = [[marks.get(row[0], gap) + row[0], *row[1:]] for row in self.rows]
        table = text_table(rows, right=self.right, gap=3) if rows else []
        parts = [table, self.notes, self.sentences]
        return "\n\n".join("\n".join(lines) for lines in parts if lines)

    @property
    def html(self) -> str:
        """The result for a notebook."""
        tags = ["th", *["td"] * (len(self.rows) - 1)]
        cells = (
            "".join(self._cell(row, column, tag) for column in range(len(row)))
            for row, tag in zip(self.rows, tags, strict=bool(self.rows))
        )
        lines = "".join(f"<tr>{row}</tr>" for row in cells)
        said = "".join(f"<p>{with_code(sentence)}</p>" for sentence in self.sentences)
        small = "<br>".join(map(with_code, self.notes))
        return f"<table>{lines}</table>{said}<p><small>{small}</small></p>"

    def _cell(self, row: Sequence[str], column: int, tag: str) -> str:
        side, text = "right" if column in self.right else "left", escape(row[column])
        if self.chosen is not None and row[0] == self.chosen:
            text = f"<strong>{text}</strong>"
        return f'<{tag} style="text-align: {side}">{text}</{tag}>'


class Printed(ABC):
    """A result that shows itself: as text in a terminal, and as a table in a notebook."""

    @property
    @abstractmethod
    def printout(self) -> Printout:
        """What is shown."""

    def __repr__(self) -> str:
        return self.printout.text

    def _repr_html_(self) -> str:
        return self.printout.html
