"""`stakes init`: a spec to start from.

It comes with an example model and table, or is written for a table of the user. Nothing that exists
is overwritten.
"""

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from stakes.app.cli.command import command, say

SPEC = "stakes.toml"
FILES = (SPEC, "model.py", "sales.csv", "tomorrow.csv")


@command
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to write; created if it does not exist.")
    ] = Path("."),
    table: Annotated[
        Path | None,
        typer.Option(
            "--table", metavar="TABLE.csv", help="A table of your own to write a spec for."
        ),
    ] = None,
    outcome: Annotated[
        str | None,
        typer.Option(
            "--outcome", metavar="COLUMN", help="The column of that table to decide about."
        ),
    ] = None,
    today: Annotated[
        str | None,
        typer.Option(
            "--today",
            metavar="COLUMN",
            help="The column with today's decisions, such as the quantity ordered.",
        ),
    ] = None,
) -> None:
    """Write a commented spec to start from, which runs as it is.

    With --table, the spec is for a table of your own: from its columns, a formula and a split are
    proposed, and costs to fill in. Separators, decimal commas, encodings and dates are recognised,
    and what is odd about the table is printed. Otherwise an example model and table are written,
    too.

    Example: stakes init mine --table sales.csv --outcome loaves
    """
    from stakes.app.spec import findings_text, propose, spec_text
    from stakes.errors import InputError
    from stakes.host import files

    for option, column in (("--outcome", outcome), ("--today", today)):
        if column is not None and table is None:
            raise InputError(f"`{option}` is a column of a table; name the table with `--table`.")
    names = FILES if table is None else (SPEC,)
    taken = [name for name in names if (folder / name).exists()]
    if taken:
        raise InputError(f"{folder} already has {', '.join(taken)}; choose another folder.")
    if table is None:
        contents = _start()
    else:
        proposal = propose(table.resolve(), outcome, today)
        for line in findings_text(proposal):
            say(f"note: {line}")
        contents = {SPEC: spec_text(proposal, folder.resolve()).encode()}
    with files.explained("make the folder", folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        files.write(folder / name, content)
        typer.echo(str(folder / name))
    run, new = ("start", folder / FILES[3]) if table is None else (folder.resolve().name, "NEW.csv")
    spec = folder / SPEC
    costs = "" if table is None else f"Fill in what wrong decisions cost, under [loss] in {spec}. "
    typer.echo(f"\n{costs}Then:\n  stakes check {spec}\n  stakes run {spec} -o runs/{run}")
    typer.echo(f"  stakes decide runs/{run} {new} -o decided.csv")


def _start() -> dict[str, bytes]:
    """The files of the example: spec, model, table, and a table of new rows.

    The model and the tables are those of the bakery in the documents.

    Returns:
        Name -> content.
    """
    templates = resources.files("stakes.app.cli") / "start"
    # Python in the package carries a suffix, so that no tool takes it for the library's own.
    sources = {name: f"{name}.txt" if name.endswith(".py") else name for name in FILES}
    return {name: (templates / source).read_bytes() for name, source in sources.items()}
