"""Rows held out of a table, and put back where they were."""

from typing import Any

import numpy as np

from stakes.app.spec.schema import HeldOutSection
from stakes.app.spec.table import Table
from stakes.errors import InputError
from stakes.tables import Column, Kind

DAY = len("2024-01-31")
"""Of a date as text, what comes before the time of day."""


def split(
    whole: Table, how: HeldOutSection, rows: int, ordered: Column | None = None
) -> tuple[Table, Table]:
    """The rows to fit, and those held out.

    Args:
        ordered: the column that the rows are in order of: the last ones are held out from where
            its value changes.
    """
    assert how.fraction is not None
    count = round(how.fraction * rows)
    if not 0 < count < rows:
        raise InputError(
            f"`held_out.fraction = {how.fraction}` of {rows} rows leaves no rows on one side."
        )
    if how.pick == "last" and ordered is not None:
        count = rows - _between(ordered, rows - count)
    order = _order(rows, how)
    fit, held_out = np.sort(order[: rows - count]), np.sort(order[rows - count :])
    return whole.rows(fit, rows), whole.rows(held_out, rows)


def _order(rows: int, how: HeldOutSection) -> np.ndarray:
    """The last ones of these are held out."""
    if how.fraction is not None and how.pick == "random":
        return np.random.default_rng(how.seed).permutation(rows)
    return np.arange(rows)


def _between(ordered: Column, place: int) -> int:
    """The place nearest to this one where another day begins."""
    values = days_of(ordered)
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    if not len(changes):
        raise InputError(
            f"`held_out.pick = 'last'`: all rows say {values[0]!r} in the column that `ordered` "
            f"names, so that none of them is the last. Take `pick = 'random'`."
        )
    return int(changes[np.abs(changes - place).argmin()])


def days_of(ordered: Column) -> np.ndarray:
    """The day of each row; the time, where all are of one day, and what is no date, as it is."""
    if ordered.kind is not Kind.DATES:
        return ordered.values
    days = np.array([str(value)[:DAY] for value in ordered.values])
    return days if len(set(days)) > 1 else ordered.values


def joined(
    fit: Table, held_out: Table, rows: tuple[int, int], how: HeldOutSection, *, columns: bool
) -> Table | None:
    """One table again, in the order that it had; None where it cannot be told how.

    What is as long as the rows is joined, and what is the same in both stays as it is.

    Args:
        rows: how many each of them has.
        columns: whether all has a value for each row; otherwise an array that is the same in both,
            and as long as either, might be one or the other.
    """
    order = _order(sum(rows), how)
    places = np.argsort(np.concatenate([np.sort(order[: rows[0]]), np.sort(order[rows[0] :])]))
    whole: list[dict[str, Any]] = []
    for name in ("arguments", "groups", "beside"):
        one, other = getattr(fit, name), getattr(held_out, name)
        if one.keys() != other.keys():
            return None
        whole.append({})
        for key, value in one.items():
            by_row, alike = _are_of(value, other[key], rows), np.array_equal(value, other[key])
            if not (by_row or alike) or (by_row and alike and not columns):
                return None
            both = np.concatenate([value, other[key]])[places] if by_row else value
            whole[-1][key] = both
    arguments, groups, beside = whole
    labels = None
    if fit.labels is not None and held_out.labels is not None:
        labels = np.concatenate([fit.labels, held_out.labels])[places]
    return Table(arguments, labels, fit.vocabulary, groups, beside)


def _are_of(one: Any, other: Any, rows: tuple[int, int]) -> bool:
    """Whether these have a value for each of the rows, and values of the same shape."""
    shapes = np.shape(one), np.shape(other)
    return all(shapes) and (shapes[0][0], shapes[1][0]) == rows and shapes[0][1:] == shapes[1][1:]
