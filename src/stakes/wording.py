"""Numbers in words: percentages, spans of percentages and counts; and tables of text.

Tables, sentences and the report use these; nothing else writes a percentage by hand.
"""

import math
from collections.abc import Collection, Sequence


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

    Examples:
        >>> percent_span(0.004, 0.056)
        '0.4 % to 5.6 %'
        >>> percent_span(0.004, math.inf)
        '0.4 % or more'
    """
    if low is not None and high is not None:
        if math.isinf(high) and math.isfinite(low):
            return f"{percent(low, decimals)} or more"
        if math.isinf(low) and math.isfinite(high):
            return f"{percent(high, decimals)} or less"
        if not math.isnan(low) and not math.isnan(high):
            return f"{percent(low, decimals)} to {percent(high, decimals)}"
    return unknown


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
