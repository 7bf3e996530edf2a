"""`stakes check`: everything that can be known about a run before it starts."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stakes.app.cli.command import Json, Set, command, print_json, say

if TYPE_CHECKING:
    from stakes.app.runs import Checked


@command
def check(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The spec to check.")],
    set: Set = None,
    json: Json = False,
) -> None:
    """Validate a spec, its model and its data without fitting.

    Reports everything odd about the table, with row and column. Shows sites, shapes, plates and
    types, or the priors of a formula; which expectation will be used; and how much memory and time
    a run will take.

    Example: stakes check sales.toml
    """
    from stakes.app.runs import checked
    from stakes.app.spec import read_job
    from stakes.host.progress import show_status

    with show_status(say):
        outlook = checked(read_job(spec, changes=set or ()))
    if json:
        print_json(asdict(outlook))
    else:
        typer.echo(_text(spec, outlook))


def _text(spec: Path, outlook: "Checked") -> str:
    """The findings of a check, for people.

    Args:
        spec: the path of the spec.
        outlook: the findings.
    """
    from stakes.wording import text_table

    head = ("site", "kind", "shape", "plates", "type")
    sites = [
        (s.name, s.kind, str(s.shape), " x ".join(s.plates) or "-", s.dtype) for s in outlook.sites
    ]
    data = [(d.name, d.kind, str(d.shape), "", d.dtype) for d in outlook.arguments]
    rows = [head, *sites, ("",) * 5, ("argument", *head[1:3], "", "type"), *data]
    again = f"; then {outlook.refit:,} to fit, to decide about new rows"
    steps = f"{outlook.steps:,} steps"
    if outlook.least_steps < outlook.steps:
        steps = f"{outlook.least_steps:,} to {steps}, until it converges"
    about = {
        "problem": outlook.problem,
        "rows": f"{outlook.rows:,} to fit, {outlook.held_out:,} held out"
        + (again if outlook.refit else ""),
        "parameters": f"{outlook.parameters:,}",
        "minibatches": outlook.minibatches,
        "expectation": outlook.expectation,
        "memory": f"about {outlook.megabytes:,.0f} MB in addition to Python and JAX",
        "time": f"about {_span(outlook.least_seconds, outlook.seconds)}, each fit taking {steps}; "
        f"decisions and report about another {_duration(outlook.deciding_seconds)}",
        "ways": "; ".join(outlook.ways) or "the two fits alone",
    }
    if outlook.ways:
        about["to choose"] = (
            f"about another {_span(outlook.least_choice_seconds, outlook.choice_seconds)}, for "
            f"{outlook.folds} folds; corrections and NUTS take extra time"
        )
    parts = [
        f"{spec} is valid.",
        outlook.formula or "\n".join(text_table(rows)),
        "\n".join([*outlook.about, *(f"note: {note}" for note in outlook.notes)]),
        "\n".join(f"{name + ':':<13}{value}" for name, value in about.items()),
    ]
    return "\n\n".join(filter(None, parts))


def _span(least: float, most: float) -> str:
    """From one duration to another; a single one where they read the same."""
    low, high = _duration(least), _duration(most)
    return low if low == high else f"{low} to {high}"


def _duration(seconds: float) -> str:
    """A time in its usual unit.

    Examples:
        >>> _duration(90), _duration(600), _duration(36_000)
        ('90 s', '10 min', '10 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 120 * 60 else f"{seconds / 3600:.0f} h"
