"""`stakes decide` and `stakes report`: decisions for new rows, as a table and as a page.

Both decide by what the run has chosen, and show the same numbers for the same rows.

A run carries no code. The model is read from where it was, so both ask whether its file may have
changed since.
"""

import time
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from stakes.app.cli.command import Json, RunPath, Set, command, print_json, say

AllowChangedModel = Annotated[
    bool,
    typer.Option(
        "--allow-changed-model",
        help="Proceed even if the model's file has changed since the run.",
    ),
]


class DecideOptions(NamedTuple):
    """How to decide, if not as the run has chosen.

    Attributes:
        known: whether the rows are those of the fit, in the same order. They then have the latents
            of the fit, where new rows have latents of their own.
        way: the name of the strategy to decide by.
        set: values to try in place of those of the spec: costs, limits of decisions, and how the
            table is read.
    """

    known: Annotated[
        bool, typer.Option("--known", help="The rows are those of the fit, in the same order.")
    ] = False
    way: Annotated[
        str | None,
        typer.Option(
            "--way",
            metavar="NAME",
            help="Decide by this strategy of the run's table instead of the chosen one.",
        ),
    ] = None
    set: Set = None


@command
def decide(
    run: RunPath,
    table: Annotated[
        Path,
        typer.Argument(
            metavar="NEW.csv",
            help="Rows to decide about: CSV, Parquet or .npz; - for standard input.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", metavar="OUT.csv", help="A .csv or .parquet file; - for standard output."
        ),
    ],
    options: DecideOptions,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", metavar="MODEL.py", help="The model's file, or its folder, if it has moved."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace OUT.csv if it exists.")
    ] = False,
    allow_changed_model: AllowChangedModel = False,
    json: Json = False,
) -> None:
    """Decide about the rows of a table, as a run has chosen.

    The table must have the columns of the spec, except the outcome; it may have others. The output
    has all columns of the table, the decision, the central 90 % of the prediction, and what the
    decision will cost on average. Rows that lack a value get no decision.

    The fit to all rows decides, where the run has made one. With --set loss.FIELD=VALUE, plain VI
    decides at other costs; with --set data.FIELD=VALUE, the table is read in another way.

    Example: stakes decide runs/sales next-week.csv -o orders.csv
    """
    from stakes.app import runs
    from stakes.errors import InputError
    from stakes.host.files import STANDARD_OUTPUT
    from stakes.host.progress import show_status

    if json and out in STANDARD_OUTPUT:
        raise InputError(f"`--json` and `-o {out}` would both print; leave one of them out.")
    started = time.monotonic()
    opened = runs.reopen(run, allow_changed_model=allow_changed_model, model=model)
    with show_status(say) as show:
        rows, decisions, doubts, written, basis = runs.decide_file(
            opened,
            table,
            out,
            known=options.known,
            way=options.way,
            changes=options.set or (),
            overwrite=overwrite,
            tell=lambda rows: show(f"{rows:,} rows decided"),
        )
    seconds = time.monotonic() - started
    for doubt in doubts:
        say(f"warning: {doubt}")
    if json:
        about = {"run": str(run), "out": str(out), "rows": rows, "decisions": decisions}
        print_json({**about, "basis": basis, "seconds": round(seconds, 3), "warnings": doubts})
    else:
        left = f" for {rows:,} rows" if decisions < rows else ""
        count = "1 decision" if decisions == 1 else f"{decisions:,} decisions"
        how = f" (as the table: {written})" if written else ""
        unit = f"; costs in {opened.job.unit}" if opened.job.unit else ""
        say(f"{count}{left} {basis}, in {seconds:.1f} s: {out}{how}{unit}")
        if decisions < rows:
            say("Rows with a value missing get no decision.")
        as_chosen = not (options.way or options.set)  # the page decides as the run does
        if as_chosen and out not in STANDARD_OUTPUT and table not in STANDARD_OUTPUT:
            say(f"For a page to show: stakes report {run} --for {table}")


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

    With --for, the page opens with decisions about the rows of a table. They are those of `stakes
    decide`. The page replaces the one that is there.

    Example: stakes report runs/sales --for next-week.csv
    """
    from stakes.app import runs
    from stakes.host.progress import show_status

    opened = runs.reopen(run, allow_changed_model=allow_changed_model)
    with show_status(say):
        path = runs.rewrite_report(opened, table, set or ())
    if json:
        print_json({"run": str(run), "report": str(path)})
    else:
        typer.echo(str(path))
