"""Arguments and options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="RUN", help="The folder to make; runs/NAME by default."),
]
NoReport = Annotated[
    bool, typer.Option("--no-report", help="Leave report.html to a later `stakes report`.")
]
NoChoose = Annotated[
    bool,
    typer.Option("--no-choose", help="Fit plain and calibrated VI alone; decide by the latter."),
]
AllowChangedModel = Annotated[
    bool,
    typer.Option(
        "--allow-changed-model",
        help="Proceed even if the model's file has changed since the run.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Try another value, such as fit.steps=9000; repeatable.",
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="HOST:PORT",
        help="Make the fits of the choice on the workers of this Dask scheduler.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs to read.")]
ProcessCount = Annotated[
    int | None,
    typer.Option(
        "--processes",
        metavar="N",
        min=1,
        help="Divide the rows among this many processes, started and watched here.",
    ),
]
Coordinator = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="The address where process 0 listens; needs `--process I/N`."
    ),
]
Process = Annotated[
    str | None, typer.Option(metavar="I/N", help="The number I of this process, from 0, of N.")
]
Beats = Annotated[Path | None, typer.Option(hidden=True)]
