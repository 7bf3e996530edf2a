"""`stakes reproduce`: the experiments of the paper."""

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from stakes.app.cli.command import command

NAMES = ("eight-schools", "losses", "algorithms", "quantiles", "linearization")


@command
def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"{', '.join(NAMES)}, or all.")],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder or file of the Last.fm counts. Else the folder in STAKES_DATA is used, "
            "and without that the retail matrix that comes with stakes."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder of results and figures; results in it are used.")
    ] = Path("reproduced"),
    seeds: Annotated[
        int,
        typer.Option(
            min=1, help="Random starts, in eight-schools and losses; others have one. Quick: 2."
        ),
    ] = 10,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version: shows that it runs, no more.")
    ] = False,
    as_published: Annotated[
        bool,
        typer.Option(
            "--as-published",
            help="In losses, also the paper's estimator: 300 draws of θ, one of y; one seed.",
        ),
    ] = False,
) -> None:
    """Run an experiment of the paper and print its table beside the published figures.

    Results go into OUT/NAME/results.json as they come, figures beside it as SVG and PNG. An
    interrupted experiment, started again, is resumed after the rows that were finished.

    Example: stakes reproduce losses --data lastfm/ --out reproduced
    """
    from stakes.errors import InputError, Interrupted
    from stakes.paper import EXPERIMENTS, Settings, summary

    if name != "all" and name not in EXPERIMENTS:
        raise InputError(f"NAME must be one of {', '.join(EXPERIMENTS)} or all; got {name!r}.")
    settings = Settings(folder=out, data=data, seeds=seeds, quick=quick, as_published=as_published)
    tables = {}
    for each in EXPERIMENTS if name == "all" else (name,):
        try:
            tables[each] = EXPERIMENTS[each](settings)
        except KeyboardInterrupt:
            kept = "Interrupted. What was finished is kept: the same command resumes from there."
            raise Interrupted(kept, signal.SIGINT) from None
        _write(tables[each], out / each / "table")
    if name == "all":
        _write(summary(tables), out / "summary")
    typer.echo(f"Results and figures: {out}")


def _write(table: Any, path: Path) -> None:
    """As text, on the screen too, and for a page."""
    path.with_suffix(".txt").write_text(f"{table}\n")
    path.with_suffix(".md").write_text(table.markdown())
    typer.echo(f"{table}\n")
