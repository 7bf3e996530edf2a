"""`stakes compare`: one table over runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stakes.cli.speaking import Json, command, print_json

if TYPE_CHECKING:
    from stakes.storage import Manifest

HEAD = ("run", "on", "cases", "VI", "LCVI", "better by", "95 % interval", "fits")


@command
def compare(
    run: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    json: Json = False,
) -> None:
    """Show the risk of several runs side by side, with the gain of calibration in each.

    Risks compare with one another where loss and cases are the same; the percentages always do.

    Example: stakes compare runs/sales runs/sales-2
    """
    from stakes.errors import InputError
    from stakes.storage import RunFolder

    found = [(path, RunFolder(path).verified()) for path in run]
    unfinished = [str(path) for path, manifest in found if manifest.outcome is None]
    if unfinished:
        raise InputError(
            f"Not finished: {', '.join(unfinished)}. Go on with `stakes resume {unfinished[0]}`."
        )
    if json:
        print_json([_fields(path, manifest) for path, manifest in found])
        return
    rows = [HEAD, *(_row(path, manifest) for path, manifest in found)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())
    for path, manifest in found:
        assert manifest.outcome is not None
        typer.echo(f"\n{path}: {manifest.outcome.setting}\n{manifest.outcome.verdict}")


def _fields(path: Path, manifest: "Manifest") -> dict[str, object]:
    assert manifest.outcome is not None
    about = {"run": str(path), "title": manifest.title, "seed": manifest.seed}
    return about | manifest.outcome.model_dump()


def _row(path: Path, manifest: "Manifest") -> tuple[str, ...]:
    outcome = manifest.outcome
    assert outcome is not None
    sign = -1 if outcome.gain else 1
    low, high = outcome.interval
    return (
        str(path),
        "held out" if outcome.held_out else "the fit",
        f"{outcome.instances:,}",
        *(f"{sign * outcome.risk[name]:.4f}" for name in ("VI", "LCVI")),
        _percent(outcome.reduction),
        f"{_percent(low)} to {_percent(high)}",
        "converged" if outcome.converged else "not converged",
    )


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.2f} %"
