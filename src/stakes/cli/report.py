"""`stakes report`: write the report of a run anew."""

import typer

from stakes.cli.decide import AllowChangedModel
from stakes.cli.resume import Run
from stakes.cli.speaking import Json, command, print_json


@command
def report(run: Run, allow_changed_model: AllowChangedModel = False, json: Json = False) -> None:
    """Write report.html of a finished run, from what the run has saved.

    Example: stakes report runs/sales
    """
    from stakes import runs
    from stakes.storage.folder import REPORT

    opened = runs.reopen(run, but=(REPORT,), allow_changed_model=allow_changed_model)
    path = runs.rewrite_report(opened)
    if json:
        print_json({"run": str(run), "report": str(path)})
    else:
        typer.echo(str(path))
