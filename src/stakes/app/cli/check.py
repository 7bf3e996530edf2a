"""`stakes check`: everything that can be known about a run before it starts."""

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
    from stakes.host.progress import told_in_place

    with told_in_place(say):
        found = checked(read_job(spec, changes=set or ()))
    if json:
        print_json(found.as_dict())
        return
    typer.echo(_text(spec, found))


def _text(spec: Path, found: "Checked") -> str:
    from stakes.host.text_tables import text_table

    head = ("site", "kind", "shape", "plates", "type")
    sites = [
        (s.name, s.kind, str(s.shape), " x ".join(s.plates) or "-", s.dtype) for s in found.sites
    ]
    data = [(d.name, d.kind, str(d.shape), "", d.dtype) for d in found.arguments]
    rows = [head, *sites, ("",) * 5, ("argument", *head[1:3], "", "type"), *data]
    table = found.formula or "\n".join(text_table(rows))
    about = {
        "problem": found.problem,
        "rows": f"{found.rows:,} to fit, {found.held_out:,} held out{_again(found)}",
        "parameters": f"{found.parameters:,}",
        "minibatches": found.minibatches,
        "expectation": found.expectation,
        "memory": f"about {found.megabytes:,.0f} MB in addition to Python and JAX",
        "time": _time(found),
        "ways": "; ".join(found.ways) or "the two fits alone",
    }
    if found.ways:
        about["to choose"] = (
            f"about {_span(found.least_choice_seconds, found.choice_seconds)} in addition, for "
            f"{found.folds} folds; corrections and NUTS take extra time"
        )
    lines = "\n".join(f"{name + ':':<13}{value}" for name, value in about.items())
    seen = "\n".join([*found.about, *(f"note: {note}" for note in found.notes)])
    return "\n\n".join(part for part in (f"{spec} is valid.", table, seen, lines) if part)


def _again(found: "Checked") -> str:
    return f"; then {found.refit:,} to fit, for decisions about new ones" if found.refit else ""


def _time(found: "Checked") -> str:
    span = _span(found.least_seconds, found.seconds)
    steps = f"{found.steps:,} steps"
    if found.least_steps < found.steps:
        steps = f"{found.least_steps:,} to {steps}, until it converges"
    after = _duration(found.deciding_seconds)
    return (
        f"about {span}, each fit taking {steps}; deciding and the report about {after} in addition"
    )


def _span(least: float, most: float) -> str:
    low, high = _duration(least), _duration(most)
    return low if low == high else f"{low} to {high}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 120 * 60 else f"{seconds / 3600:.0f} h"
