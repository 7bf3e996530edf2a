"""How a run ends, for `run`, `resume` and `demo`: the comparison, the files, the exit code."""

import sys
from typing import TYPE_CHECKING

import typer

from stakes.cli.speaking import Exit, print_json, say

if TYPE_CHECKING:
    from stakes.runs import Reopened
    from stakes.storage import Manifest


def finish(run: "Reopened", *, report: bool, json: bool) -> None:
    """Carry the run out, tell what came of it, and exit accordingly."""
    from stakes import runs

    path = run.folder.path
    say(f"Run folder: {path}")
    with runs.listening() as stopper:
        manifest, comparison = runs.carry_out(
            run, stopper, report=report, progress=sys.stderr.isatty()
        )
    if json:
        print_json(summary(run, manifest))
    else:
        typer.echo(str(comparison))
        typer.echo(f"\n{_written(run)}")
    conclude(manifest)


def conclude(manifest: "Manifest") -> None:
    from stakes.fitting import Stop

    assert manifest.outcome is not None
    if str(Stop.NUMERICAL_FAILURE) in manifest.outcome.stopped.values():
        say("error: a fit met no finite gradient in many steps; its last good state is saved.")
        raise typer.Exit(Exit.NUMERICAL_FAILURE)
    if not manifest.outcome.converged:
        say(
            "Not converged: results are written, and not to be relied on. Allow more `fit.steps`, "
            "or longer ones by `fit.learning_rate` (0.03 where it is left out)."
        )
        raise typer.Exit(Exit.NOT_CONVERGED)


def summary(run: "Reopened", manifest: "Manifest") -> dict[str, object]:
    outcome = manifest.outcome.model_dump() if manifest.outcome else None
    return {
        "run": str(run.folder.path),
        "status": manifest.status,
        "title": manifest.title,
        "seed": manifest.seed,
        "outcome": outcome,
        "timings": manifest.timings,
        "files": sorted(manifest.files),
    }


def _written(run: "Reopened") -> str:
    from stakes.storage.folder import DECISIONS, DRAWS, REPORT

    names = {DECISIONS: "Decisions", DRAWS: "Draws", REPORT: "Report"}
    there = [(what, run.folder / name) for name, what in names.items()]
    return "\n".join(f"{what + ':':<11}{path}" for what, path in there if path.exists())
