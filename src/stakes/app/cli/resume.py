"""`stakes resume`: resume a run that was cut short."""

import typer

from stakes.app.cli.arguments import Json, NoReport, RunPath
from stakes.app.cli.command import command, print_json, say
from stakes.app.cli.ending import conclude, finish, summary, text_of


@command
def resume(run: RunPath, no_report: NoReport = False, json: Json = False) -> None:
    """Resume an interrupted run from its last checkpoint.

    It ends with the same numbers, bit for bit, as if it had not been interrupted.

    Example: stakes resume runs/sales
    """
    from stakes.app import runs

    opened = runs.reopen(run)
    if opened.manifest.status != "done":
        finish(opened, report=not no_report, json=json)
        return
    say(f"The run in {run} is finished already.")
    assert opened.manifest.ending is not None
    if json:
        print_json(summary(opened, opened.manifest))
    elif opened.manifest.choice is not None:
        typer.echo(text_of(opened.manifest.choice))
    else:
        typer.echo(opened.manifest.ending.verdict)
    conclude(opened.manifest)
