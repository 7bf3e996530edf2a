"""`stakes decide`: decisions for new rows."""

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from stakes.cli.resume import Run
from stakes.cli.speaking import Json, command, print_json, say

AllowChangedModel = Annotated[
    bool,
    typer.Option(
        "--allow-changed-model", help="Go on although the model's file has changed since the run."
    ),
]


@command
def decide(
    run: Run,
    table: Annotated[
        Path, typer.Argument(metavar="NEW.csv", help="Rows to decide about: CSV, Parquet or .npz.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="OUT.csv", help="The file to write.")],
    known: Annotated[
        bool, typer.Option("--known", help="The rows are those of the fit, in the same order.")
    ] = False,
    allow_changed_model: AllowChangedModel = False,
    json: Json = False,
) -> None:
    """Decide about the rows of a table, with the calibrated fit of a run.

    The table has the columns of the spec but for the outcome; labels are kept. It is read a part
    at a time, so that it may be of any length.

    Example: stakes decide runs/sales next-week.csv -o orders.csv
    """
    from stakes import runs

    started = time.monotonic()
    opened = runs.reopen(run, allow_changed_model=allow_changed_model)
    restore = functools.partial(runs.restore, opened)
    with _rows_done() as report:
        rows = runs.decide_file(opened.job, restore, table, out, known=known, report=report)
    seconds = time.monotonic() - started
    if json:
        print_json({"run": str(run), "out": str(out), "rows": rows, "seconds": round(seconds, 3)})
    else:
        say(f"{rows:,} decisions in {seconds:.1f} s: {out}")


@contextlib.contextmanager
def _rows_done() -> Iterator[Callable[[int], None]]:
    """A count of rows on a terminal; a file's length is not known before it is read."""
    if not sys.stderr.isatty():
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} rows decided"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda rows: progress.update(task, completed=rows)
