"""`stakes demo`: a built-in example from end to end."""

from pathlib import Path
from typing import Annotated, Any

import typer

from stakes.app.cli.command import Json, NoChoose, Out, command
from stakes.app.cli.ending import finish
from stakes.app.cli.run import begin, free_folder
from stakes.demos import NAMES


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
