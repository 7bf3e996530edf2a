"""`stakes report`: write the report of a run again."""

from pathlib import Path
from typing import Annotated

import typer

from stakes.app.cli.arguments import AllowChangedModel, Json, RunPath, Set
from stakes.app.cli.command import command, print_json, say


@command
def report(
    run: RunPath,
    table: Annotated[
        Path | None,
        typer.Option(
            "--for", metavar="NEW.csv", help="Rows to decide about; they come first in the report."
        ),
    ] = None,
    set: Set = None,
    allow_changed_model: AllowChangedModel = False,
    json: Json = False,
) -> None:
    """Write report.html of a finished run, from what the run has saved.

    Example: stakes report runs/sales --for next-week.csv
    """
    from stakes.app import runs
    from stakes.host.progress import told_in_place

    opened = runs.reopen(run, allow_changed_model=allow_changed_model)
    with told_in_place(say):
        path = runs.rewrite_report(opened, table, set or ())
    if json:
        print_json({"run": str(run), "report": str(path)})
    else:
        typer.echo(str(path))
