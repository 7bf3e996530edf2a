"""`stakes run`: fit what a spec describes."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stakes.app.cli.arguments import Json, NoChoose, NoReport, Out, Set
from stakes.app.cli.command import command, say
from stakes.app.cli.ending import finish

if TYPE_CHECKING:
    from stakes.app.spec import Job


@command
def run(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="What to fit and decide.")],
    out: Out = None,
    no_choose: NoChoose = False,
    no_report: NoReport = False,
    set: Set = None,
    json: Json = False,
) -> None:
    """Fit what a spec describes, choose how to decide, and write decisions into a run folder.

    Checkpoints are saved on the way; after Ctrl-C the run can be resumed: `stakes resume RUN`.

    Example: stakes run sales.toml -o runs/sales
    """
    from stakes.app.spec import read_job

    job = read_job(spec, choose=not no_choose, changes=set or ())
    start(job, out or free_folder(spec.stem), report=not no_report, json=json)


def start(job: "Job", folder: Path, *, report: bool, json: bool) -> None:
    """Begin a run of the job and carry it out."""
    from stakes.app import runs

    for note in job.tables.notes:
        say(f"note: {note}")
    typed = shlex.join(["stakes", *sys.argv[1:]])
    finish(runs.begin(job, folder, command=typed), report=report, json=json)


def free_folder(name: str) -> Path:
    """The first of runs/NAME, runs/NAME-2, runs/NAME-3, ... that does not exist."""
    number, folder = 1, Path("runs") / name
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder
