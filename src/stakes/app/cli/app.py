"""The commands of `stakes`, in the order of `--help`.

Each is a function in a module of its own name, or of that of a similar command. Its docstring is
its help, its annotations are its options. A new command is added to the list below.

Everything is imported when a command runs, so that help appears at once.
"""

from typing import Annotated

import typer

from stakes.app.cli.check import check
from stakes.app.cli.decide import decide, report
from stakes.app.cli.init import init
from stakes.app.cli.results import compare
from stakes.app.cli.run import demo, resume, run

HELP = """Bayesian decisions: variational posteriors calibrated for what a decision costs.

Exit codes: 0 done; 2 bad input; 3 numerical failure, with the last good state saved; 4 not
converged, with results written; 5 workers of a cluster lost; 129, 130 and 143 ended by a signal:
`stakes resume RUN` resumes a run; 141 nobody reads the output.
"""

app = typer.Typer(
    name="stakes",
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    """Print the version and exit, if that is asked for."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"stakes {version('stakes')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """The options of `stakes` itself.

    Args:
        version: whether to print the version.
    """
    pass


for function in (demo, init, check, run, resume, decide, compare, report):
    app.command()(function)
