"""`stakes run`: fit what a spec describes."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stakes.app.cli.arguments import (
    Coordinator,
    Dask,
    Json,
    NoChoose,
    NoReport,
    Out,
    Process,
    ProcessCount,
    Set,
)
from stakes.app.cli.cluster import on_cluster
from stakes.app.cli.command import command, say
from stakes.app.cli.ending import finish
from stakes.app.cli.processes import joined, supervised

if TYPE_CHECKING:
    from stakes.app.runs import Run
    from stakes.app.spec import Job
    from stakes.processes import Processes


@command
def run(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The spec to run.")],
    out: Out = None,
    no_choose: NoChoose = False,
    no_report: NoReport = False,
    set: Set = None,
    dask: Dask = None,
    json: Json = False,
    processes: ProcessCount = None,
    coordinator: Coordinator = None,
    process: Process = None,
) -> None:
    """Fit what a spec describes, choose how to decide, and write decisions into a run folder.

    Checkpoints are saved on the way; after Ctrl-C, resume the run with `stakes resume RUN`.

    Example: stakes run sales.toml -o runs/sales
    """
    from stakes.app import runs
    from stakes.app.spec import read_job

    if out is not None:
        runs.check_free(out)  # before the table is read and checked, which takes a while
    others = joined(coordinator, process, processes, dask)
    job = read_job(spec, choose=not no_choose, changes=set or ())
    if others is not None and not others.speaks:
        runs.assist(job, others)
        return
    folder = out or free_folder(spec.stem)
    if processes is None:
        start(job, folder, report=not no_report, json=json, dask=dask, others=others)
    else:
        begun(job, folder)
        supervised(folder, processes, report=not no_report, json=json)


def start(
    job: "Job",
    folder: Path,
    *,
    report: bool,
    json: bool,
    dask: str | None = None,
    others: "Processes | None" = None,
) -> None:
    """Begin a run of the job and carry it out."""
    with on_cluster(dask) as client:
        finish(begun(job, folder), report=report, json=json, on=client, processes=others)


def begun(job: "Job", folder: Path) -> "Run":
    from stakes.app import runs

    for note in job.notes:
        say(f"note: {note}")
    return runs.begin(job, folder, command=shlex.join(["stakes", *sys.argv[1:]]))


def free_folder(name: str) -> Path:
    """The first of runs/NAME, runs/NAME-2, runs/NAME-3, ... that does not exist."""
    number, folder = 1, Path("runs") / name
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder
