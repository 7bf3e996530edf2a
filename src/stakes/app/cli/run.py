"""`stakes run` fits what a spec describes, `resume` goes on with it; `demo` runs an example."""

import shlex
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from stakes.app.cli.command import Json, NoChoose, NoReport, Out, RunPath, Set, command, say
from stakes.app.cli.results import finish, show_ended
from stakes.demos import NAMES

if TYPE_CHECKING:
    from distributed import Client

    from stakes.app.runs import Run
    from stakes.app.spec import Job


class Workers(NamedTuple):
    """The workers that make the fits, if not this process alone.

    Attributes:
        dask: the address of a Dask scheduler.
        processes: the number of workers of a Dask cluster on this machine.
    """

    dask: Annotated[
        str | None,
        typer.Option(
            "--dask",
            metavar="HOST:PORT",
            help="Make the fits on the workers of this Dask scheduler.",
        ),
    ] = None
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            metavar="N",
            min=1,
            help="Make the fits on N workers, a Dask cluster on this machine.",
        ),
    ] = None

    def client(self) -> "AbstractContextManager[Client | None]":
        """A client of the cluster, which gets the user's own code."""
        from stakes.app.spec import user_modules
        from stakes.errors import InputError
        from stakes.host.workers import connected

        if self.dask is not None and self.processes is not None:
            raise InputError(
                "`--dask` makes the fits on a cluster, and `--processes` on one that is started "
                "here: leave one of them out."
            )
        return connected(self.dask, self.processes, user_modules())


@command
def run(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The spec to run.")],
    out: Out = None,
    no_choose: NoChoose = False,
    no_report: NoReport = False,
    set: Set = None,
    json: Json = False,
    *,
    workers: Workers,
) -> None:
    """Fit what a spec describes, and decide.

    The run chooses how to decide, and writes decisions and report into a run folder. Checkpoints
    are saved on the way; after Ctrl-C, resume the run with `stakes resume RUN`.

    Example: stakes run sales.toml -o runs/sales
    """
    from stakes.app import runs
    from stakes.app.spec import read_job

    if out is not None:
        runs.check_free(out)  # before the table is read and checked, which takes a while
    job = read_job(spec, choose=not no_choose, changes=set or ())
    folder = out or free_folder(spec.stem)
    with workers.client() as client:  # a scheduler that does not answer leaves no folder behind
        begun = begin(job, folder)
        finish(begun, report=not no_report, json=json, on=client)


@command
def resume(
    run: RunPath,
    no_report: NoReport = False,
    json: Json = False,
    *,
    workers: Workers,
) -> None:
    """Resume an interrupted run from its last checkpoint.

    It ends with the same numbers, bit for bit, as if it had not been interrupted. With a different
    number of workers, its minibatches differ from there on.

    Example: stakes resume runs/sales
    """
    from stakes.app import runs

    opened = runs.reopen(run)
    if opened.manifest.status == "done":
        show_ended(opened, json=json)
        return
    with workers.client() as client:
        finish(opened, report=not no_report, json=json, on=client)


@command
def demo(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"One of {', '.join(NAMES)}.")
    ] = "eight-schools",
    out: Out = None,
    seed: Annotated[int, typer.Option(help="The seed for everything random.", min=0)] = 0,
    steps: Annotated[
        int | None,
        typer.Option(help="The most steps of each fit; few for a quick look.", min=1),
    ] = None,
    no_choose: NoChoose = False,
    json: Json = False,
) -> None:
    """Solve a built-in example.

    Decisions and report are written into a run folder.

    Example: stakes demo newsvendor
    """
    from stakes.app.spec import job_of, without_choice

    title = name.replace("-", " ").capitalize()
    title = f"{title}: {NAMES[name]}" if name in NAMES else title
    raw: dict[str, Any] = {"title": title, "seed": seed, "model": {"example": name}}
    if steps is not None:
        raw["fit"] = {"steps": steps}
    raw = without_choice(raw) if no_choose else raw
    job = job_of(raw, Path.cwd(), where=f"`stakes demo {name}`")
    finish(begin(job, out or free_folder(name)), report=True, json=json)


def begin(job: "Job", folder: Path) -> "Run":
    """Begin a new run, and print what is odd about its tables.

    Args:
        job: what is to be fitted and decided.
        folder: of the run, which must be free.
    """
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
