"""The decision table: what is known, decided and predicted for each row, and its columns.

The table is kept as arrays, one value for each row; the page draws those rows that are in view.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple, TypeAlias, final

import numpy as np

from stakes.errors import InputError
from stakes.report.rows import Labels, Rows
from stakes.study import are_whole_numbers

# Rows of the decision table; one of more cases is cut short, and the page says so.
MOST_ROWS = 100_000
# Columns of input that a printed table has room for.
ON_PAPER = 3

# The values of a column, one for each row.
Column: TypeAlias = tuple[str | int | float, ...]


@final
@dataclass(frozen=True, eq=False)
class Decisions:
    """The decision table: one row for each case; nan where a value is not known.

    Attributes:
        outcome: its name.
        labels: column name -> what identifies each row.
        low: lower end of the 90 % range, of the chosen strategy or the calibrated posterior.
        high: upper end.
        vi: decisions of plain VI.
        calibrated: decisions of the calibrated fit.
        observed: outcomes that came.
        decimals: of decisions and outcomes.
        total: cases there are: more than rows, if the table was cut short.
        draws: of the predictive distribution, from which the ranges come.
        chosen: decisions of the chosen strategy; None where strategies were not compared.
        costs: what each decision is expected to cost, or to gain; None where that is not known.
        inputs: column name -> what the model was told about each row.
        parts: where each row comes from: "new", "held out" or "fit"; none if all come from the fit.
        chances: for classes: class -> its probability for each row.
        actions: names of the actions, of which decisions are the numbers from zero; none for
            numbers.
        about: what is decided, where that changes the outcome and is no guess of it, such as a
            price.
    """

    outcome: str
    labels: Mapping[str, Column]
    low: np.ndarray
    high: np.ndarray
    vi: np.ndarray
    calibrated: np.ndarray
    observed: np.ndarray
    decimals: int
    total: int
    draws: int
    chosen: np.ndarray | None = None
    costs: np.ndarray | None = None
    inputs: Mapping[str, Column] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    chances: Mapping[str, np.ndarray] = field(default_factory=dict)
    actions: tuple[str, ...] = ()
    about: str | None = None

    def __len__(self) -> int:
        return len(self.calibrated)

    @property
    def taken(self) -> np.ndarray:
        """The decisions to take."""
        return self.calibrated if self.chosen is None else self.chosen


def decision_table(parts: Sequence[Rows], *, gain: bool = False) -> Decisions:
    """Return one row for each case, part by part, or for the first ones where there are too many.

    Args:
        parts: the first has the decisions to take.
        gain: whether costs are minus a utility.
    """

    def joined(values: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(values)[:MOST_ROWS]

    first, sign = parts[0], -1.0 if gain else 1.0
    about = first.cases.problem.action
    ends = joined([part.ranges[:, [0, -1]] for part in parts])
    if about is not None:  # what comes depends on the decision
        ends = np.full(ends.shape, np.nan)
    taken = joined([part.decisions for part in parts])
    calibrated = taken  # unless there is such a fit
    if all("LCVI" in part.cases.posteriors for part in parts):
        calibrated = joined([part.cases.by_posterior["LCVI"].ravel() for part in parts])
    names = [part.part for part in parts for _ in range(len(part.decisions))]
    shown = all(are_whole_numbers(part.draws) for part in parts)
    whole_numbers = shown and are_whole_numbers(calibrated) and are_whole_numbers(taken)
    classes = dict.fromkeys(name for part in parts for name in part.chances)
    costs = sign * joined([part.costs for part in parts])
    return Decisions(
        outcome=first.about or first.cases.problem.outcome,
        labels=_side_by_side({part: _row_labels(part) for part in parts}),
        low=ends[:, 0],
        high=ends[:, 1],
        vi=joined([part.cases.by_posterior["VI"].ravel() for part in parts]),
        calibrated=calibrated,
        observed=joined([part.seen for part in parts]),
        decimals=_decimals(ends if about is None else _around(calibrated), whole_numbers),
        total=sum(len(part.decisions) for part in parts),
        draws=len(first.draws),
        chosen=None if first.decided is None and first.method == "LCVI" else taken,
        costs=costs if np.isfinite(costs).all() else None,
        inputs=_side_by_side({part: _columns("inputs", part.inputs, part) for part in parts}),
        parts=tuple(names[:MOST_ROWS]) if len(parts) > 1 else (),
        chances={
            name: joined([part.chances.get(name, np.zeros(len(part.decisions))) for part in parts])
            for name in (classes if about is None else ())
        },
        actions=first.actions,
        about=about,
    )


def _around(decisions: np.ndarray) -> np.ndarray:
    """Return the span of decisions that are no guesses of outcomes, for their decimals."""
    size = np.ptp(decisions) or abs(float(decisions[0]))
    return np.array([[0.0, size]])


def _decimals(ends: np.ndarray, whole_numbers: bool) -> int:
    """Return decimals enough to show a hundredth of the width of a typical interval."""
    width = float(np.median(ends[:, 1] - ends[:, 0]))
    if whole_numbers or not 0 < width < math.inf:
        return 0 if whole_numbers else 3
    return int(np.clip(2 - math.floor(math.log10(width)), 0, 9))


def _side_by_side(parts: dict[Rows, dict[str, Column]]) -> dict[str, Column]:
    """Return columns of all parts, one below the other; empty where a part lacks one."""
    names = dict.fromkeys(name for columns in parts.values() for name in columns)
    return {
        name: tuple(
            value
            for part, columns in parts.items()
            for value in columns.get(name, ("",) * len(part.decisions))
        )[:MOST_ROWS]
        for name in names
    }


def _row_labels(part: Rows) -> dict[str, Column]:
    """Return labels that were given, or those of the plates."""
    if part.labels is not None:
        return _columns("labels", part.labels, part)
    decisions = part.cases.vi_decisions
    if not decisions.dims:
        return {"instance": (part.cases.problem.outcome,)}
    members = [decisions.coords[dim].values.tolist() for dim in decisions.dims]
    columns = zip(*product(*members), strict=True)
    return {str(dim): _plain(values) for dim, values in zip(decisions.dims, columns, strict=True)}


def _columns(argument: str, labels: Labels, part: Rows) -> dict[str, Column]:
    """Return columns as plain values, one for each case, or refuse them."""
    total = len(part.decisions)
    columns = {str(name): np.ravel(np.asarray(values)) for name, values in labels.items()}
    for name, values in columns.items():
        if len(values) != total:
            raise InputError(
                f"`Rows({argument}=...)`: {name!r} has {len(values)} values for {total} "
                f"cases; give one for each, in the order of the data."
            )
    return {name: _plain(values.tolist()) for name, values in columns.items()}


def _plain(values: Sequence[object]) -> Column:
    """Return numbers as numbers, so that they sort as such; all else as text."""
    return tuple(v if type(v) is int or type(v) is float else str(v) for v in values)


class ShownColumn(NamedTuple):
    """A column of the page's table, one value for each row.

    Attributes:
        kind: `text`, `number` with so many decimals, or `given`: a number as it came.
        style: `wide` columns are left out where there is little room, `extra` ones on paper.
    """

    name: str
    title: str
    kind: str
    values: Sequence[str | int | float | None]
    decimals: int = 0
    style: str = ""


def columns(table: Decisions, unit: str | None, *, gain: bool = False) -> list[ShownColumn]:
    """Return the columns from left to right.

    First which row it is, then what was known, what to decide, what may come, and what came.

    Args:
        table: of decisions.
        unit: what costs are counted in.
        gain: whether costs are minus a utility.
    """
    digits, first = table.decimals, next(iter(table.labels), None)
    shown = [
        _words(name, values, "" if name == first else "wide", "label")
        for name, values in table.labels.items()
    ]
    if table.parts:
        shown.append(ShownColumn("part", "Rows", "text", table.parts, style="wide"))
    inputs = {name: values for name, values in table.inputs.items() if name not in table.labels}
    for number, (name, values) in enumerate(inputs.items()):
        shown.append(_words(name, values, "wide" if number < ON_PAPER else "wide extra"))
    if table.chosen is not None:
        shown.append(_choice(table, "chosen", "Decision", table.chosen, "decision"))
    else:
        shown.append(_choice(table, "vi", "Plain VI", table.vi, "vi-name wide"))
        style = "calibrated-name"
        shown.append(_choice(table, "calibrated", "Calibrated", table.calibrated, style))
    if table.chances:
        for name, chance in table.chances.items():
            shown.append(_numbers("chance", f"P({name})", chance, 3))
    elif table.about is None:
        shown.append(_numbers("low", "5 %", table.low, digits, "wide"))
        shown.append(_numbers("high", "95 %", table.high, digits, "wide"))
    if table.costs is not None:
        title = f"Expected {'gain' if gain else 'cost'}" + (f", {unit}" if unit else "")
        shown.append(_numbers("cost", title, table.costs, _cost_decimals(table.costs)))
    if np.isfinite(table.observed).any():
        shown.append(_numbers("observed", "Observed", table.observed, digits))
    return shown


def _choice(table: Decisions, name: str, title: str, values: np.ndarray, style: str) -> ShownColumn:
    """Return a column of decisions: names of actions, or numbers."""
    if table.actions:
        words = [table.actions[int(value)] for value in values]
        return ShownColumn(name, title, "text", words, style=style)
    return _numbers(name, title, values, table.decimals, style)


def _words(title: str, values: Column, style: str, name: str = "input") -> ShownColumn:
    """Return a column of labels or inputs: numbers as they came if all are numbers, or words."""
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) < len(values):
        return ShownColumn(name, title, "text", [str(value) for value in values], style=style)
    given = [value if math.isfinite(value) else str(value) for value in numbers]
    return ShownColumn(name, title, "given", given, style=style)


def _numbers(
    name: str, title: str, values: np.ndarray, decimals: int, style: str = ""
) -> ShownColumn:
    """Return a column of numbers with this number of decimals."""
    return ShownColumn(name, title, "number", round_all(values, decimals + 2), decimals, style)


def _cost_decimals(costs: np.ndarray) -> int:
    """Return how many decimals show three digits of a typical cost."""
    size = float(np.median(np.abs(costs))) if len(costs) else 1.0
    return int(np.clip(2 - math.floor(math.log10(size)), 0, 6)) if size > 0 else 2


def round_all(values: np.ndarray, digits: int) -> list[float | int | None]:
    """Round to so many digits, for JSON: None where a value is not known."""
    return [_compact(value) for value in np.round(np.asarray(values, float), digits).tolist()]


def _compact(value: float) -> float | int | None:
    """Return whole numbers without a decimal point, and None for what is not finite."""
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value
