"""`stakes resume`: go on with a run that was cut short."""

from pathlib import Path
from typing import Annotated

import typer

from stakes.cli.outcome import conclude, finish, summary
from stakes.cli.run import NoReport
from stakes.cli.speaking import Json, command, print_json, say

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


@command
def resume(run: Run, no_report: NoReport = False, json: Json = False) -> None:
    """Go on with an interrupted run from its last checkpoint.

    It ends with the same numbers, bit for bit, as if it had not been interrupted.

    Example: stakes resume runs/sales
    """
    from stakes import runs

    opened = runs.reopen(run)
    if opened.manifest.status != "done":
        finish(opened, report=not no_report, json=json)
        return
    say(f"The run in {run} is finished already.")
    assert opened.manifest.outcome is not None
    if json:
        print_json(summary(opened, opened.manifest))
    else:
        typer.echo(opened.manifest.outcome.verdict)
    conclude(opened.manifest)
