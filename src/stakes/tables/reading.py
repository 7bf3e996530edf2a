"""A whole table as arguments of a model; all that is wrong with it is told at once."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stakes.errors import InputError, suggestion
from stakes.tables.columns import (
    DATE_PARTS,
    DAYS,
    Coded,
    Coding,
    Place,
    coded,
    is_date,
    part_of_date,
)
from stakes.tables.native import TableRows, as_pandas, columns_in

if TYPE_CHECKING:
    import pandas as pd


class Wanted(NamedTuple):
    """What a model takes."""

    names: tuple[str, ...]
    required: tuple[str, ...]
    outcome: str
    """The argument with the observed outcomes."""
    program: str
    """What the model is called."""


class Read(NamedTuple):
    """A table as arguments of a model."""

    arguments: dict[str, np.ndarray]
    rows: TableRows
    coding: Coding
    """What the numbers here stand for."""
    members: Mapping[str, tuple[Any, ...]] = {}
    """Plate -> its members, where the model itself says who they are."""


def read(
    table: Any,
    wanted: Wanted,
    fitted: Coding | None = None,
    *,
    counted: Collection[str] = (),
    needs_outcome: bool,
) -> Read:
    """The columns that the model's arguments name.

    Args:
        fitted: what the numbers in the data of the fit stand for; None for the fit itself.
        counted: categories whose members the model counts, so that there may be others here.
        needs_outcome: otherwise outcomes are left out where one of them is missing.
    """
    there = columns_in(table)
    sources = _sources(wanted, there)
    if not needs_outcome and wanted.outcome in sources and wanted.outcome in there:
        only, _ = as_pandas(table, [wanted.outcome])
        if only[wanted.outcome].isna().any():
            sources.pop(wanted.outcome)
    faults = lacking(wanted, sources, there, needs_outcome=needs_outcome)
    frame, rows = as_pandas(table, list(dict.fromkeys(column for column, _ in sources.values())))
    if not len(rows):
        raise InputError("`data` has no rows.")
    before = fitted or Coding()
    found: dict[str, Coded] = {}
    for name, (column, part) in sources.items():
        place = Place(column, rows)
        try:
            if part is None:
                found[name] = coded(
                    frame[column],
                    place,
                    before.categories.get(name),
                    first=fitted is None,
                    anew=fitted is not None and name in counted,
                    is_outcome=name == wanted.outcome,
                )
            else:
                found[name] = _part(frame[column], place, part, before.origins.get(name))
        except InputError as error:
            faults.append(str(error))
    told("`data`", faults)
    return Read(
        {name: each.values for name, each in found.items()},
        rows,
        Coding(
            {n: each.categories for n, each in found.items() if each.categories is not None},
            {n: each.origin for n, each in found.items() if each.origin is not None},
        ),
    )


def as_frame(table: Any, names: Iterable[str]) -> "tuple[pd.DataFrame, TableRows]":
    """Some columns of any table, as pandas has them, and its rows."""
    return as_pandas(table, list(names))


def told(where: str, faults: list[str]) -> None:
    """All at once."""
    if len(faults) == 1:
        raise InputError(f"{where}: {faults[0]}")
    if faults:
        lines = "\n".join(f"  {fault}" for fault in faults)
        raise InputError(f"{where} has {len(faults)} faults:\n{lines}")


def lacking(
    wanted: Wanted, sources: Collection[str], there: list[str], *, needs_outcome: bool
) -> list[str]:
    """Columns that the model needs and the table does not have."""
    needed = [name for name in wanted.required if name != wanted.outcome]
    needed += [wanted.outcome] if needs_outcome else []
    return [
        f"there is no column {name!r}, which `{wanted.program}` "
        f"{'observes' if name == wanted.outcome else 'takes'}.{suggestion(name, there)}"
        for name in dict.fromkeys(needed)
        if name not in sources
    ]


def _sources(wanted: Wanted, there: list[str]) -> dict[str, tuple[str, str | None]]:
    """For each argument its column, and which part of a date it asks for."""
    found: dict[str, tuple[str, str | None]] = {}
    for name in wanted.names:
        column, _, part = name.rpartition("_")
        if name in there:
            found[name] = (name, None)
        elif column in there and part in (*DATE_PARTS, DAYS):
            found[name] = (column, part)
    return found


def _part(column: Any, place: Place, part: str, origin: Any) -> Coded:
    if not is_date(column):
        raise place.fault(f"holds no dates, of which `{place.column}_{part}` is a part.")
    return part_of_date(column, place, part, origin)
