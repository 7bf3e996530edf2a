"""`stakes init`: a spec, a model and a table to start from."""

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from stakes.app.cli.command import command

FILES = ("stakes.toml", "model.py", "sales.csv", "tomorrow.csv")


@command
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to write; created if it does not exist.")
    ] = Path("."),
) -> None:
    """Write a commented spec, a model and a table that run as they are.

    Example: stakes init bakery && stakes run bakery/stakes.toml
    """
    from stakes.errors import InputError
    from stakes.host import files

    there = [name for name in FILES if (folder / name).exists()]
    if there:
        raise InputError(f"{folder} already has {', '.join(there)}; choose another folder.")
    with files.explained("make the folder", folder):
        folder.mkdir(parents=True, exist_ok=True)
    templates = resources.files("stakes.app.cli") / "start"
    for name in FILES:
        # Python in the package carries a suffix, so that no tool takes it for the library's own.
        source = templates / (f"{name}.txt" if name.endswith(".py") else name)
        files.write(folder / name, source.read_bytes())
        typer.echo(str(folder / name))
    spec, new = folder / FILES[0], folder / FILES[3]
    typer.echo(f"\nTry: stakes check {spec}\nand: stakes run {spec} -o runs/start")
    typer.echo(f"and: stakes decide runs/start {new} -o decided.csv")
