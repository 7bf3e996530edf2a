"""The commands of `stakes`, one module each."""

import typer

app = typer.Typer(
    name="stakes",
    help="Bayesian decisions: variational posteriors calibrated for what a decision costs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
