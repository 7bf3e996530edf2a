"""What a report says of actions, as plain values."""

from dataclasses import dataclass
from typing import final

import numpy as np

TOLD = (0.05, 0.1, 0.2, 0.3, 0.5)
"""Thresholds whose net benefit is told in numbers."""


@final
@dataclass(frozen=True)
class Benefit:
    """What acting on all above a chance is worth, in cases for each 1,000."""

    threshold: float
    by_model: float
    on_all: float


@final
@dataclass(frozen=True)
class ActionTable:
    """Actions by the classes that came."""

    actions: tuple[str, ...]
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    """Action x class."""
    costs: tuple[tuple[float, ...], ...]
    """What all cases of an action and a class cost together."""
    benefits: tuple[Benefit, ...] = ()
    """For two actions and two classes."""

    @property
    def some_benefits(self) -> tuple[Benefit, ...]:
        """Those at round thresholds, for a table."""
        return tuple(each for each in self.benefits if each.threshold in TOLD)

    @property
    def total(self) -> float:
        return float(np.sum(self.costs))
