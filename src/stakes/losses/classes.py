"""Losses for outcomes that are one of some classes, or that may be sorted into some.

Their expectations are sums of probabilities: of classes one by one, or of the values between two
edges by the distribution function.
"""

from collections.abc import Mapping, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, final

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from stakes import checks, varying
from stakes._types import Array
from stakes.errors import InputError, NoClosedForm, some
from stakes.protocols import Predicted
from stakes.spaces import OneOf
from stakes.varying import CanVary, Varying, value_at, with_values


@final
@dataclass(frozen=True)
class ZeroOne(CanVary):
    """One where the outcome is further than `width` from the decision, and nothing otherwise.

    With a width of zero, the default, it counts wrong classes.

    Examples:
        >>> import stakes
        >>> float(stakes.ZeroOne(width=0.5)(3.2, 3.0)), float(stakes.ZeroOne()(1, 0))
        (0.0, 1.0)
    """

    width: Varying = 0.0

    def __post_init__(self) -> None:
        self._check_numbers("width", least=0)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        missed = jnp.abs(jnp.asarray(decision) - outcome) > self.width
        return jnp.asarray(missed, jnp.result_type(float))

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        """1 - P(h - width ≤ y ≤ h + width)."""
        low, high = decision - self.width, decision + self.width
        held: Array = predicted.cdf(high) - predicted.below(low)
        return 1 - held

    def objection(self, *, is_discrete: bool, classes: int | None) -> str | None:
        """Return that no decision hits a continuous outcome exactly, with a width of zero."""
        if is_discrete or self.width != 0:
            return None
        return (
            "is a number, which no decision hits exactly. Say how near is near enough: "
            "`ZeroOne(width=...)`"
        )


@final
@dataclass(frozen=True)
class CostTable:
    """What each action costs for each class of outcome: 0, 1, 2, ...

    Args:
        costs: action -> its cost for each class; or an array or DataFrame, actions by classes. A
            cost is a number, the name of a data argument, or an array with a number for each case.
        bins: where the outcome is a number and not a class, the increasing edges between its
            classes: the first class lies below the first edge, the last at the last edge or above
            it.

    Decisions are the labels of the actions.

    Examples:
        >>> import stakes
        >>> costs = stakes.CostTable({"call": [5, 1], "skip": [0, 20]})
        >>> float(costs(1, 0)), costs.actions  # called someone of class 1
        (1.0, ('call', 'skip'))
    """

    costs: Any
    bins: Any = None
    actions: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        actions, rows = _rows(self.costs)
        labels = OneOf(actions).labels
        costs = tuple(_checked(action, row) for action, row in zip(actions, rows, strict=True))
        checks.assign(self, actions=labels, costs=costs)
        widths = sorted({len(row) for row in self.costs})
        if len(widths) > 1 or widths[0] < 2:
            raise InputError(
                f"`CostTable(costs=...)` must have a cost of every action for each of two classes "
                f"or more; got {some(widths)} costs."
            )
        if self.bins is not None:
            checks.assign(self, bins=_edges(self.bins, widths[0]))

    def __repr__(self) -> str:
        return f"CostTable of {len(self.actions)} actions by {self.classes} classes"

    @property
    def classes(self) -> int:
        """The number of classes that the table has costs for."""
        return len(self.costs[0])

    @property
    def space(self) -> OneOf:
        """The actions, by their labels."""
        return OneOf(self.actions)

    @property
    def needs(self) -> tuple[varying.Need, ...]:
        """Costs that differ from case to case."""
        return varying.needs(cost for row in self.costs for cost in row)

    def at(self, columns: varying.Columns) -> "CostTable":
        """Return the table for some cases, with their costs in place."""
        costs = tuple(tuple(value_at(cost, columns) for cost in row) for row in self.costs)
        return with_values(self, costs=costs)

    def check(self, columns: varying.Columns) -> None:
        """Refuse costs of some cases that could not be those of all."""
        for need in self.needs:
            where = f"`CostTable(costs=...)`: {need!r}"
            varying.number(where, np.asarray(columns[need]).ravel(), least=0)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        number = self.class_of(outcome)
        chances = [(number == k).astype(number.dtype) for k in range(self.classes)]
        # What is no class of the table, or no action, has no cost: not even none.
        return jnp.where(sum(chances) > 0, self._sum(decision, chances), jnp.nan)

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        """Σ P(class) cost, with the probabilities between edges; classes alone are enumerated."""
        if self.bins is None:
            raise NoClosedForm("The classes of an outcome are added up one by one.")
        below = [predicted.below(jnp.asarray(edge)) for edge in self.bins]
        ends = [jnp.zeros_like(below[0]), *below, jnp.ones_like(below[0])]
        return self._sum(decision, [b - a for a, b in pairwise(ends)])

    def objection(self, *, is_discrete: bool, classes: int | None) -> str | None:
        """Refuse an outcome with other classes than the table has costs for."""
        if self.bins is not None or classes == self.classes:
            return None
        kind = "is a number" if classes is None else f"has {classes} classes"
        return (
            f"{kind}. A table has a cost for each class; where the outcome is a number, say with "
            f"`bins=` which values make a class"
        )

    def class_of(self, outcome: ArrayLike) -> Array:
        """The number of the class that an outcome belongs to."""
        number: Array = jnp.asarray(outcome, jnp.result_type(float))
        if self.bins is None:
            return number
        edges = jnp.asarray(self.bins, number.dtype)
        return jnp.searchsorted(edges, number, side="right").astype(number.dtype)

    def _sum(self, decision: Array, chances: list[Array]) -> Array:
        """Of costs times chances of the classes, for the action that is decided on."""
        total: Any = jnp.nan
        for number, row in zip(self.space.actions, self.costs, strict=True):
            cost = sum(of_class * chance for of_class, chance in zip(row, chances, strict=True))
            total = jnp.where(jnp.asarray(decision) == number, cost, total)
        return jnp.asarray(total)


def _rows(costs: Any) -> tuple[list[Any], list[Any]]:
    """Return the labels of the actions, and what each costs: from a mapping, a DataFrame or an
    array."""
    if isinstance(costs, Mapping):
        return list(costs), list(costs.values())
    with suppress(AttributeError, TypeError):  # a DataFrame
        return list(costs.index), [list(row) for row in costs.to_numpy()]
    try:
        table = np.asarray(costs, object)
    except (TypeError, ValueError):  # what is no array
        table = np.asarray(None)
    if table.ndim != 2 or not table.size:
        rule = "a mapping such as {'call': [5, 1], 'skip': [0, 20]}, or actions by classes"
        raise checks.refused("`CostTable(costs=...)`", rule, costs)
    return list(range(len(table))), [list(row) for row in table]


def _checked(action: Any, row: Any) -> tuple[Any, ...]:
    """Return the costs of an action, each a number, the name of an argument or an array."""
    where = f"`CostTable(costs=...)`: the costs of {action!r}"
    is_list = isinstance(row, Sized) and not isinstance(row, str | bytes | Mapping)
    if not is_list:
        raise checks.refused(where, "a list with a cost for each class", row)
    hint = "Where an action earns something, add the same amount to all costs."
    return tuple(varying.number(where, cost, least=0, hint=hint) for cost in row)


def _edges(bins: Any, classes: int) -> tuple[float, ...]:
    """Return the edges between classes, in increasing order and one fewer than classes."""
    where = "`CostTable(bins=...)`"
    edges = checks.array(where, bins).astype(float).ravel()
    if not np.isfinite(edges).all() or not (np.diff(edges) > 0).all():
        raise checks.refused(where, "increasing edges", bins)
    if len(edges) != classes - 1:
        raise InputError(
            f"{where} has {len(edges)} edges, which make {len(edges) + 1} classes; the table has "
            f"costs for {classes}."
        )
    return tuple(map(float, edges))
