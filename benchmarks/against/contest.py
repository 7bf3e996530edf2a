"""A contest: data, split and costs that all tools share, and the model that `stakes` brings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from benchmarks.against.costs import Cost


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Features and outcomes, one row per instance: some to fit, `new` ones to decide and judge."""

    name: str
    x: np.ndarray
    y: np.ndarray
    new_x: np.ndarray
    new_y: np.ndarray


@final
@dataclass(frozen=True, eq=False)
class Model:
    """What `stakes` gets: a NumPyro model, data, and the cases to decide."""

    function: Callable[..., None]
    outcome: str
    data: Mapping[str, Any]
    new_data: Mapping[str, Any]
    known: tuple[str, ...] = ()
    """Plates whose members are the same in both."""
    new: tuple[str, ...] = ()
    """Plates whose members are new ones in `new_data`."""
    arranged: Callable[[np.ndarray], np.ndarray] = np.atleast_2d
    """From decisions for `new_data` to one row per table, in the order of `new_y`."""
    choosing: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `choose`, such as folds in order of time."""


@final
@dataclass(frozen=True, eq=False)
class Contest:
    """Decisions for all tables, under each cost, by every tool."""

    name: str
    title: str
    unit: str
    """What costs are counted in."""
    costs: tuple[Cost, ...]
    tables: tuple[Table, ...]
    model: Model
    cluster: np.ndarray
    """For each new row, what it belongs to: rows of one cluster may depend on each other."""
    in_order: bool = False
    """Whether rows, and clusters, are in order of time."""

    @property
    def outcomes(self) -> np.ndarray:
        """(table, row)."""
        return np.stack([table.new_y for table in self.tables])
