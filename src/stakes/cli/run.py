"""`stakes run`: model, data and decision from a spec, into a run folder."""

import shlex
import sys
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from stakes.cli.outcome import finish
from stakes.cli.speaking import Json, command

Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="RUN", help="The folder to make; runs/NAME by default."),
]
NoReport = Annotated[
    bool, typer.Option("--no-report", help="Leave report.html to a later `stakes report`.")
]


@command
def run(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="What to fit and decide.")],
    out: Out = None,
    no_report: NoReport = False,
    json: Json = False,
) -> None:
    """Fit what a spec describes, into a run folder.

    Checkpoints are saved on the way; Ctrl-C ends the run so that `stakes resume` goes on with it.

    Example: stakes run sales.toml -o runs/sales
    """
    from stakes import runs
    from stakes.spec import read_job

    job = read_job(spec)
    folder = out or free_folder(Path("runs"), spec.stem)
    raw = tomllib.loads(spec.read_text(encoding="utf-8"))
    finish(runs.begin(job, raw, folder, command=typed()), report=not no_report, json=json)


def free_folder(parent: Path, name: str) -> Path:
    """The first of NAME, NAME-2, NAME-3, ... that does not exist."""
    number, folder = 1, parent / name
    while folder.exists():
        number += 1
        folder = parent / f"{name}-{number}"
    return folder


def typed() -> str:
    """The command as it was typed."""
    return shlex.join(["stakes", *sys.argv[1:]])
