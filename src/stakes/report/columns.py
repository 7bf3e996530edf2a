"""The columns of the decision table, as the page and its scripts take them."""

import math
from typing import Any, NamedTuple

import numpy as np

from stakes.report.content import Column, Decisions

ON_PAPER = 3
"""Columns of input that a printed table has room for."""


class Shown(NamedTuple):
    """A column, one value for each row."""

    name: str
    title: str
    kind: str
    """`text`, `number` with so many decimals, or `given`: a number as it came."""
    values: list[Any]
    decimals: int = 0
    style: str = ""
    """`wide` columns are left out where there is little room, `extra` ones on paper."""


def columns(table: Decisions, unit: str | None, *, gain: bool = False) -> list[Shown]:
    """From left to right: which row, what was known, what to decide, what may come, what came."""
    digits, first = table.decimals, next(iter(table.labels), None)
    found = [
        _text(name, values, "" if name == first else "wide", "label")
        for name, values in table.labels.items()
    ]
    if table.parts:
        found.append(Shown("part", "Rows", "text", list(table.parts), style="wide"))
    inputs = {name: values for name, values in table.inputs.items() if name not in table.labels}
    for place, (name, values) in enumerate(inputs.items()):
        found.append(_text(name, values, "wide" if place < ON_PAPER else "wide extra"))
    found += _decided(table)
    if table.chances:
        for name, each in table.chances.items():
            found.append(_number("chance", f"P({name})", each, 3))
    elif table.about is None:
        found.append(_number("low", "5 %", table.low, digits, "wide"))
        found.append(_number("high", "95 %", table.high, digits, "wide"))
    if table.costs is not None:
        title = f"Expected {'gain' if gain else 'cost'}" + (f", {unit}" if unit else "")
        found.append(_number("cost", title, table.costs, money(table.costs)))
    if np.isfinite(table.observed).any():
        found.append(_number("observed", "Observed", table.observed, digits))
    return found


def _decided(table: Decisions) -> list[Shown]:
    if table.chosen is not None:
        return [_choice(table, "chosen", "Decision", "decision")]
    return [
        _choice(table, "vi", "Plain VI", "vi-name wide"),
        _choice(table, "calibrated", "Calibrated", "calibrated-name"),
    ]


def _choice(table: Decisions, name: str, title: str, style: str) -> Shown:
    values = getattr(table, name)
    if table.actions:
        return Shown(name, title, "text", [table.actions[int(v)] for v in values], style=style)
    return _number(name, title, values, table.decimals, style)


def _text(title: str, values: Column, style: str, name: str = "input") -> Shown:
    if all(isinstance(value, int | float) for value in values):
        return Shown(name, title, "given", [finite(v) for v in values], style=style)
    return Shown(name, title, "text", [str(v) for v in values], style=style)


def _number(name: str, title: str, values: np.ndarray, decimals: int, style: str = "") -> Shown:
    return Shown(name, title, "number", rounded(values, decimals + 2), decimals, style)


def money(values: np.ndarray) -> int:
    """Decimals that show three digits of a typical cost."""
    size = float(np.median(np.abs(values))) if len(values) else 1.0
    return int(np.clip(2 - math.floor(math.log10(size)), 0, 6)) if size > 0 else 2


def rounded(values: np.ndarray, digits: int) -> list[float | int | None]:
    return [_compact(value) for value in np.round(np.asarray(values, float), digits).tolist()]


def _compact(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value


def finite(value: str | int | float) -> str | int | float:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
