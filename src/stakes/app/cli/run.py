"""`stakes run` fits what a spec describes, `resume` goes on with it; `demo` runs an example."""

import re
import shlex
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer

from stakes.app.cli.command import Exit, Json, NoChoose, NoReport, Out, RunPath, Set, command, say
from stakes.app.cli.results import finish, show_ended
from stakes.demos import NAMES
from stakes.host.supervisor import end_with_supervisor, supervise
from stakes.host.watching import Beat, Waiting

if TYPE_CHECKING:
    from distributed import Client

    from stakes.app.runs import Run
    from stakes.app.spec import Job
    from stakes.processes import Processes

# Exit codes that another try would not change.
FINAL = (Exit.DONE, Exit.BAD_INPUT, Exit.NUMERICAL_FAILURE, Exit.NOT_CONVERGED)


class Workers(NamedTuple):
    """What makes the fits, if not this process alone."""

    dask: Annotated[
        str | None,
        typer.Option(
            "--dask",
            metavar="HOST:PORT",
            help="Make the fits of the choice on the workers of this Dask scheduler.",
        ),
    ] = None
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            metavar="N",
            min=1,
            help="Divide the rows among this many processes, started and watched here.",
        ),
    ] = None
    coordinator: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="The address where process 0 listens; needs `--process I/N`."
        ),
    ] = None
    process: Annotated[
        str | None, typer.Option(metavar="I/N", help="The number I of this process, from 0, of N.")
    ] = None

    def join(self) -> "Processes | None":
        """Join the other processes; None where there are none."""
        from stakes.errors import InputError
        from stakes.processes import join

        if (self.coordinator is None) != (self.process is None):
            raise InputError("`--coordinator HOST:PORT` and `--process I/N` belong together.")
        if self.dask is not None and not (self.coordinator is None and self.processes is None):
            raise InputError(
                "`--dask` makes the fits of the choice on a cluster, and `--processes` or "
                "`--coordinator` one fit on several processes: leave one of them out."
            )
        if self.coordinator is None or self.process is None:
            return None
        if self.processes is not None:
            raise InputError("`--processes` starts all processes here; leave out `--coordinator`.")
        numbers = re.fullmatch(r"(\d{1,6})/(\d{1,6})", self.process)
        if numbers is None:
            raise InputError(
                f"`--process` is the number of this process and how many there are, such as 0/4; "
                f"got {self.process!r}."
            )
        return join(self.coordinator, process=int(numbers[1]), of=int(numbers[2]))

    def client(self) -> "AbstractContextManager[Client | None]":
        """A client of the cluster, which gets the user's own code."""
        from stakes.app.spec import user_modules
        from stakes.host.workers import connected

        return connected(self.dask, user_modules())


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
    """Fit what a spec describes, choose how to decide, and write decisions into a run folder.

    Checkpoints are saved on the way; after Ctrl-C, resume the run with `stakes resume RUN`.

    Example: stakes run sales.toml -o runs/sales
    """
    from stakes.app import runs
    from stakes.app.spec import read_job

    if out is not None:
        runs.check_free(out)  # before the table is read and checked, which takes a while
    others = workers.join()
    job = read_job(spec, choose=not no_choose, changes=set or ())
    if others is not None and not others.speaks:
        runs.assist(job, others)
        return
    folder = out or free_folder(spec.stem)
    if workers.processes is not None:
        _supervise(begin(job, folder), workers.processes, report=not no_report, json=json)
    with workers.client() as client:  # a scheduler that does not answer leaves no folder behind
        begun = begin(job, folder)
        finish(begun, report=not no_report, json=json, on=client, processes=others)


@command
def resume(
    run: RunPath,
    no_report: NoReport = False,
    json: Json = False,
    beats: Annotated[Path | None, typer.Option(hidden=True)] = None,
    *,
    workers: Workers,
) -> None:
    """Resume an interrupted run from its last checkpoint.

    It ends with the same numbers, bit for bit, as if it had not been interrupted. With a different
    number of processes, its minibatches differ from there on.

    Example: stakes resume runs/sales
    """
    from stakes.app import runs

    if beats is not None:
        end_with_supervisor(beats)
    others = workers.join()
    if beats is not None and others is not None:
        others.waiting = Waiting(beats, others.index)
    opened = runs.reopen(run)
    is_done = opened.manifest.status == "done"
    if others is not None and not others.speaks:
        if not is_done:
            runs.assist(opened.job, others, opened.folder)
    elif is_done:
        show_ended(opened, json=json)
    else:
        if workers.processes is not None:
            _supervise(opened, workers.processes, report=not no_report, json=json)
        beat = None if beats is None else Beat(beats)
        with workers.client() as client:
            finish(opened, report=not no_report, json=json, on=client, processes=others, beat=beat)


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
    """Solve a built-in example, and write decisions and report into a run folder.

    Example: stakes demo newsvendor
    """
    from stakes.app.spec import job_of, without_choice

    raw: dict[str, Any] = {"title": _title(name), "seed": seed, "model": {"example": name}}
    if steps is not None:
        raw["fit"] = {"steps": steps}
    raw = without_choice(raw) if no_choose else raw
    job = job_of(raw, Path.cwd(), where=f"`stakes demo {name}`")
    finish(begin(job, out or free_folder(name)), report=True, json=json)


def _title(name: str) -> str:
    title = name.replace("-", " ").capitalize()
    return f"{title}: {NAMES[name]}" if name in NAMES else title


def begin(job: "Job", folder: Path) -> "Run":
    """A new run of the job."""
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


def _supervise(run: "Run", count: int, *, report: bool, json: bool) -> NoReturn:
    """Carry out a run by processes that are started here, and exit as the first one does."""
    options = [*(() if report else ("--no-report",)), *(("--json",) if json else ())]

    def command(index: int, address: str, beats: Path) -> list[str]:
        joining = ["--coordinator", address, "--process", f"{index}/{count}"]
        resuming = [sys.executable, "-m", "stakes_command", "resume", str(run.folder.path)]
        return [*resuming, *joining, "--beats", str(beats), *options]

    raise typer.Exit(supervise(command, count, final_codes=FINAL, say=say))
