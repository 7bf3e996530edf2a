"""`stakes compare`: several runs in one table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stakes.app.cli.command import Json, command, print_json
from stakes.wording import percent, percent_span, text_table

if TYPE_CHECKING:
    from stakes.app.runs import Ending, Manifest

HEAD = ("run", "on", "cases", "VI", "LCVI", "better by", "95 % interval", "fits")


@command
def compare(
    run: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    json: Json = False,
) -> None:
    """Show the risk of several runs side by side, with the gain from calibration in each.

    Risks are comparable where loss and cases are the same; the percentages always are.

    Example: stakes compare runs/sales runs/sales-2
    """
    from stakes.app.runs import RunFolder
    from stakes.errors import InputError

    manifests = [(path, RunFolder(path).manifest()) for path in run]
    finished = [(p, m, m.ending) for p, m in manifests if m.ending is not None]
    unfinished = [str(path) for path, manifest in manifests if manifest.ending is None]
    if unfinished:
        raise InputError(
            f"Not finished: {', '.join(unfinished)}. Resume it: `stakes resume {unfinished[0]}`."
        )
    if json:
        print_json([_fields(*one) for one in finished])
        return
    typer.echo("\n".join(text_table([HEAD, *(_row(*one) for one in finished)])))
    for path, _, ending in finished:
        typer.echo(f"\n{path}: {ending.setting}\n{ending.verdict}")


def _fields(path: Path, manifest: "Manifest", ending: "Ending") -> dict[str, object]:
    about = {"run": str(path), "title": manifest.title, "seed": manifest.seed}
    return about | ending.model_dump()


def _row(path: Path, manifest: "Manifest", ending: "Ending") -> tuple[str, ...]:
    from stakes.app.spec import unit_of

    sign = -1 if ending.gain else 1
    name = unit_of(manifest.spec)
    unit = f" {name}" if name else ""
    low, high = ending.interval
    return (
        str(path),
        "held out" if ending.held_out else "the fit",
        f"{ending.instances:,}",
        *(
            f"{sign * ending.risk[name]:.4f}{unit}" if name in ending.risk else "?"
            for name in ("VI", "LCVI")
        ),
        percent(ending.reduction, 2, unknown="?"),
        percent_span(low, high, 2, unknown="? to ?"),
        "converged" if ending.converged else "not converged",
    )
