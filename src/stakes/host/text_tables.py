"""Tables of text, in columns."""

from collections.abc import Collection, Sequence


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
