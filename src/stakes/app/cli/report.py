"""`stakes report`: write the report of a run again."""

from pathlib import Path
from typing import Annotated

import typer

from stakes.app.cli.arguments import AllowChangedModel, Json, RunPath
from stakes.app.cli.command import command, print_json


@command
def report(
    run: RunPath,
    table: Annotated[
        Path | None,
        typer.Option(
            "--for", metavar="NEW.csv", help="Rows to decide about, to open the report with."
        ),
    ] = None,
    allow_changed_model: AllowChangedModel = False,
    json: Json = False,
) -> None:
    """Write report.html of a finished run, from what the run has saved.

    Example: stakes report runs/sales --for next-week.csv
    """
    from stakes.app import runs

    opened = runs.reopen(run, allow_changed_model=allow_changed_model)
    path = runs.rewrite_report(opened, table)
    if json:
        print_json({"run": str(run), "report": str(path)})
    else:
        typer.echo(str(path))
