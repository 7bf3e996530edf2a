"""`stakes decide`: decisions for new rows."""

import functools
import time
from pathlib import Path
from typing import Annotated

import typer

from stakes.app.cli.arguments import AllowChangedModel, Json, RunPath
from stakes.app.cli.command import command, print_json, say


@command
def decide(
    run: RunPath,
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

    The table has the columns of the spec except the outcome; labels are kept. It is read in parts,
    so it may be of any length.

    Example: stakes decide runs/sales next-week.csv -o orders.csv
    """
    from stakes.app import runs
    from stakes.host.progress import rows_done

    started = time.monotonic()
    opened = runs.reopen(run, allow_changed_model=allow_changed_model)
    restore = functools.partial(runs.restore, opened)
    with rows_done() as tell:
        rows = runs.decide_file(opened.job, restore, table, out, known=known, tell=tell)
    seconds = time.monotonic() - started
    if json:
        print_json({"run": str(run), "out": str(out), "rows": rows, "seconds": round(seconds, 3)})
    else:
        say(f"{rows:,} decisions in {seconds:.1f} s: {out}")
