"""Tables as a formula takes them: its columns, groups, trials and outcomes, checked."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stakes.errors import InputError
from stakes.formulas.families import FAMILIES
from stakes.formulas.grammar import Parsed
from stakes.tables import DATE_PARTS, DAYS, Coding, Read, TableRows, Wanted, read

if TYPE_CHECKING:
    import pandas as pd


def framed(
    table: Any, parsed: Parsed, coding: Coding | None, *, needs_outcome: bool
) -> "tuple[pd.DataFrame, Read]":
    """The columns of the formula as formulae takes them: numbers, and categories with an order."""
    import pandas as pd

    right = tuple(dict.fromkeys((*parsed.names, *parsed.groups)))
    needed = (*right, parsed.trials) if isinstance(parsed.trials, str) else right
    wanted = Wanted((*needed, parsed.response), needed, parsed.response, "formula")
    only_groups = [name for name in parsed.groups if name not in parsed.names]
    found = read(table, wanted, coding, counted=only_groups, needs_outcome=needs_outcome)
    columns: dict[str, Any] = {}
    for name in right:
        words, values = found.coding.categories.get(name), found.arguments[name]
        if words is None:
            columns[name] = values
        else:
            levels = pd.Index([str(word) for word in words])
            columns[name] = pd.Categorical.from_codes(values, levels, ordered=True)
    return pd.DataFrame(columns, index=range(len(found.rows))), found


def members_of(frame: "pd.DataFrame", columns: Sequence[str]) -> tuple[np.ndarray, tuple[Any, ...]]:
    """The group of each row, and all groups."""
    listed = [frame[name].tolist() for name in columns]
    labels = (
        listed[0]
        if len(listed) == 1
        else [":".join(map(str, e)) for e in zip(*listed, strict=True)]
    )
    groups = tuple(sorted(set(labels), key=lambda label: (isinstance(label, str), label)))
    places = {group: place for place, group in enumerate(groups)}
    return np.array([places[label] for label in labels], np.int32), groups


def trials_of(trials: str | int, found: Read, rows: int) -> np.ndarray:
    values = np.full(rows, trials) if isinstance(trials, int) else found.arguments[trials]
    bad = np.flatnonzero((values < 0) | (values != np.round(values)))
    if len(bad):
        raise InputError(
            f"The numbers of trials must be whole and not negative; row "
            f"{found.rows.names(bad[:1])[0]} has {values[bad[0]]}."
        )
    return values.astype(np.int32)


def check_outcomes(family: str, name: str, outcomes: np.ndarray, rows: TableRows) -> None:
    bad = np.flatnonzero(~FAMILIES[family].allows(outcomes))
    if len(bad):
        raise InputError(
            f"`formula(family={family!r})` is for outcomes that are {FAMILIES[family].rule}; "
            f"{name!r} is {outcomes[bad[0]]} in row {rows.names(bad[:1])[0]}"
            f"{f', and {len(bad) - 1} more are not allowed' if len(bad) > 1 else ''}."
        )


def parts_of_dates(columns: Sequence[str]) -> list[str]:
    """What a formula may ask of columns that hold dates."""
    return [f"{name}_{part}" for name in columns for part in (*DATE_PARTS, DAYS)]
