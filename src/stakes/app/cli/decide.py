"""`stakes decide`: decisions for new rows."""

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
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", metavar="OUT.csv", help="A .csv or .parquet file; - for standard output."
        ),
    ],
    known: Annotated[
        bool, typer.Option("--known", help="The rows are those of the fit, in the same order.")
    ] = False,
    way: Annotated[
        str | None,
        typer.Option(
            "--way",
            metavar="NAME",
            help="Decide by another way of the run's table than the chosen.",
        ),
    ] = None,
    allow_changed_model: AllowChangedModel = False,
    json: Json = False,
) -> None:
    """Decide about the rows of a table, by the way that a run has chosen.

    The table has the columns of the spec except the outcome; labels are kept. It is read in parts,
    so it may be of any length.

    Example: stakes decide runs/sales next-week.csv -o orders.csv
    """
    from stakes.app import runs
    from stakes.errors import InputError
    from stakes.host.files import STANDARD_OUTPUT
    from stakes.host.progress import rows_done

    if json and out in STANDARD_OUTPUT:
        raise InputError(f"`--json` and `-o {out}` would both print; leave one of them out.")
    started = time.monotonic()
    opened = runs.reopen(run, allow_changed_model=allow_changed_model)
    with rows_done() as tell:
        rows = runs.decide_file(opened, table, out, known=known, way=way, tell=tell)
    seconds = time.monotonic() - started
    if json:
        print_json({"run": str(run), "out": str(out), "rows": rows, "seconds": round(seconds, 3)})
    else:
        say(f"{rows:,} decisions in {seconds:.1f} s: {out}")
