"""The commands of `stakes`, one module each."""

import typer

from stakes.cli.decide import decide
from stakes.cli.resume import resume
from stakes.cli.run import run

app = typer.Typer(
    name="stakes",
    help="Bayesian decisions: variational posteriors calibrated for what a decision costs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for each in (run, resume, decide):
    app.command()(each)
