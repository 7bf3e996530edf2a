"""`stakes demo`: a built-in example from end to end."""

from pathlib import Path
from typing import Annotated, Any

import typer

from stakes.app.cli.arguments import Json, NoChoose, Out
from stakes.app.cli.command import command
from stakes.app.cli.run import free_folder, start

ABOUT = {
    "eight-schools": "how large an effect to promise each school",
    "newsvendor": "how many portions to prepare each day",
    "retail": "how much of each product each customer will buy",
    "radon": "how much radon to expect in each home",
    "bank": "whom to call",
    "remediation": "remediate, test again or leave a home",
    "portions": "how many portions, within what the kitchen can make",
    "pricing": "one price for each region",
    "promises": "which effect to promise each school",
}
"""By the names of the built-in examples."""


@command
def demo(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"One of {', '.join(ABOUT)}.")
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
    start(job, out or free_folder(name), report=True, json=json)


def _title(name: str) -> str:
    title = name.replace("-", " ").capitalize()
    return f"{title}: {ABOUT[name]}" if name in ABOUT else title
