"""The result of a run on the command line, its exit code, and `stakes compare` for several runs."""

import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stakes.app.cli.command import Exit, Json, command, print_json, say
from stakes.host.progress import report_to
from stakes.wording import INTERVAL, amount, percent, percent_span, text_table

if TYPE_CHECKING:
    from distributed import Client

    from stakes.app.runs import Ending, Manifest, Run
    from stakes.study import Comparison

HEAD = ("run", "on", "cases", "VI", "LCVI", "better by", INTERVAL, "fits")


def finish(
    run: "Run",
    *,
    report: bool,
    json: bool,
    on: "Client | None" = None,
) -> None:
    """Carry out a run, print its result, and exit accordingly.

    Args:
        run: newly begun, or reopened.
        report: whether to write its report.
        json: whether to print JSON, for other programs to read.
        on: a client of a Dask cluster, whose workers make the fits.
    """
    from stakes.app import runs

    say(f"Run folder: {run.folder.path}")
    on_terminal = sys.stderr.isatty()
    with nullcontext() if on_terminal else report_to(say):  # lines in place of bars
        manifest, comparison = runs.carry_out(run, report=report, progress=on_terminal, on=on)
    if json:
        print_json(_summary(run, manifest))
    else:
        typer.echo(_verdict(manifest, comparison, run.job.unit))
        typer.echo(f"\n{_written(run)}")
        if held_out := _held_out(run, manifest):
            say(held_out)
    _conclude(manifest)


def show_ended(run: "Run", *, json: bool) -> None:
    """Print the result of a run that is finished already, and exit accordingly.

    Args:
        run: the run, reopened.
        json: whether to print JSON, for other programs to read.
    """
    say(f"The run in {run.folder.path} is finished already.")
    if json:
        print_json(_summary(run, run.manifest))
    else:
        typer.echo(_verdict(run.manifest, None, run.job.unit))
    _conclude(run.manifest)


def _held_out(run: "Run", manifest: "Manifest") -> str:
    """A sentence on the rows that judged decisions, and those that new decisions rest on."""
    job = run.job
    if job.held_out is None or job.spec.model.example is not None:
        return ""
    folds = (
        "" if manifest.choice is None else f"{manifest.choice.outcomes:,} outcomes in folds and "
    )
    judged = f"Judged on {folds}{job.rows_in(job.held_out):,} rows held out that no fit had seen"
    if manifest.refit is None:
        return f"{judged}; the same fits decide about new rows."
    return f"{judged}; decisions about new rows rest on a fit to all {manifest.refit.rows:,} rows."


def _verdict(manifest: "Manifest", comparison: "Comparison | None", unit: str | None) -> str:
    """The result of a run in words.

    It is the choice among strategies, or the comparison of the two fits, or why there is neither.

    Args:
        manifest: the run's manifest.
        comparison: the comparison of the two fits; None for a run that was finished before.
        unit: the unit of costs.
    """
    if manifest.choice is not None:
        return manifest.choice.printout(unit).text
    assert manifest.ending is not None
    if comparison is None:
        return manifest.ending.verdict
    return f"{comparison!r}" + (f"\nThe risk is in {unit}." if unit else "")


def _conclude(manifest: "Manifest") -> None:
    """Exit with the code of the run's ending, and say why, unless all is well."""
    from stakes.app.runs import unsettled
    from stakes.fitting import Stop

    assert manifest.ending is not None
    if str(Stop.NUMERICAL_FAILURE) in manifest.ending.stopped.values():
        say("error: many steps of a fit had no finite gradient; its last good state is saved.")
        raise typer.Exit(Exit.NUMERICAL_FAILURE)
    if not manifest.ending.converged:
        say(f"Not converged: the results are written, but not reliable. {unsettled(manifest)}")
        raise typer.Exit(Exit.NOT_CONVERGED)


def _summary(run: "Run", manifest: "Manifest") -> dict[str, object]:
    """The result of a run, for other programs."""
    return {
        "run": str(run.folder.path),
        "status": manifest.status,
        "title": manifest.title,
        "seed": manifest.seed,
        "choice": asdict(manifest.choice) if manifest.choice else None,
        "refit": manifest.refit.model_dump() if manifest.refit else None,
        "ending": manifest.ending.model_dump() if manifest.ending else None,
        "timings": manifest.timings,
        "files": sorted(manifest.files),
    }


def _written(run: "Run") -> str:
    """The files that a run has written, for people.

    Those that could not be written are left out.
    """
    from stakes.app.runs import DECISIONS, DRAWS, REPORT

    names = {DECISIONS: "Decisions", DRAWS: "Draws", REPORT: "Report"}
    there = [(what, run.folder / name) for name, what in names.items()]
    how = {DECISIONS: run.job.tables.dialect.unusual}
    return "\n".join(
        f"{what + ':':<11}{path}{f' ({how[path.name]})' if how.get(path.name) else ''}"
        for what, path in there
        if path.exists()
    )


@command
def compare(
    run: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    json: Json = False,
) -> None:
    """Show the risk of several runs side by side.

    Beside the risk of both fits, it shows what calibration has gained. Risks are comparable where
    loss and cases are the same; the percentages always are.

    Example: stakes compare runs/sales runs/sales-2
    """
    from stakes.app.runs import RunFolder
    from stakes.errors import InputError

    manifests = [(path, RunFolder(path).manifest()) for path in run]
    finished = [(p, m, m.ending) for p, m in manifests if m.ending is not None]
    unfinished = [str(path) for path, manifest in manifests if manifest.ending is None]
    if unfinished:
        raise InputError(
            f"Not finished: {', '.join(unfinished)}. Resume it: `stakes resume {unfinished[0]}`."
        )
    if json:
        about = [{"run": str(p), "title": m.title, "seed": m.seed} for p, m, _ in finished]
        print_json([{**a, **e.model_dump()} for a, (_, _, e) in zip(about, finished, strict=True)])
        return
    typer.echo("\n".join(text_table([HEAD, *(_row(*one) for one in finished)])))
    for path, _, ending in finished:
        typer.echo(f"\n{path}: {ending.setting}\n{ending.verdict}")


def _row(path: Path, manifest: "Manifest", ending: "Ending") -> tuple[str, ...]:
    """The result of one run, as a row of the table of several.

    What an unfinished fit could not tell is shown as a question mark.
    """
    from stakes.app.spec import unit_of
    from stakes.study import unbounded

    sign = -1 if ending.gain else 1
    unit = unit_of(manifest.spec)
    low, high = ending.interval
    return (
        str(path),
        "held out" if ending.held_out else "the fit",
        f"{ending.cases:,}",
        *(
            amount(sign * ending.risk[name], unit) if name in ending.risk else "?"
            for name in ("VI", "LCVI")
        ),
        percent(ending.reduction, unknown="?"),
        percent_span(*unbounded(low, high), unknown="none"),
        "converged" if ending.converged else "not converged",
    )
