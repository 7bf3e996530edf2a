"""The experiments of the paper, from the command line: `python -m reproduce losses`."""

from pathlib import Path
from typing import Annotated

import typer

from reproduce import EXPERIMENTS, PaperTable, Settings, summary
from stakes.app.cli.command import command
from stakes.errors import InputError, Interrupted
from stakes.host.interrupts import signal_of

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
@command
def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"{', '.join(EXPERIMENTS)}, or all.")],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder or file with the Last.fm counts; by default the folder in STAKES_DATA or, "
            "without that, the retail matrix that comes with stakes."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for results and figures; results in it are reused.")
    ] = Path("reproduced"),
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            help="Random starts, in eight-schools and losses; others have one. At most 2 if quick.",
        ),
    ] = 10,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version, which only shows that it runs.")
    ] = False,
    as_published: Annotated[
        bool,
        typer.Option(
            "--as-published",
            help="In losses, also run the paper's estimator: 300 draws of θ, one of y; one seed.",
        ),
    ] = False,
) -> None:
    """Run an experiment from the paper and print its table beside the published figures.

    Results go into OUT/NAME/results.json as they come, figures beside it as SVG and PNG. An
    interrupted experiment resumes after its finished rows when it is started again.

    Example: python -m reproduce losses --data lastfm/ --out reproduced
    """
    if name != "all" and name not in EXPERIMENTS:
        raise InputError(f"NAME must be one of {', '.join(EXPERIMENTS)} or all; got {name!r}.")
    settings = Settings(folder=out, data=data, seeds=seeds, quick=quick, as_published=as_published)
    tables = {}
    for experiment in EXPERIMENTS if name == "all" else (name,):
        try:
            tables[experiment] = EXPERIMENTS[experiment](settings)
        except KeyboardInterrupt as error:
            kept = "Interrupted. What was finished is kept: the same command resumes from there."
            raise Interrupted(kept, signal_of(error)) from None
        _write(tables[experiment], out / experiment / "table")
    if name == "all":
        _write(summary(tables), out / "summary")
    typer.echo(f"Results and figures: {out}")


def _write(table: PaperTable, path: Path) -> None:
    """As text, which is also printed, and as Markdown."""
    path.with_suffix(".txt").write_text(f"{table}\n")
    path.with_suffix(".md").write_text(table.markdown())
    typer.echo(f"{table}\n")


if __name__ == "__main__":
    app(prog_name="python -m reproduce")
