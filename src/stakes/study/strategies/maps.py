"""Calibration maps: decisions of another way, corrected by what happened.

After Kuśmierczyk, Sakaya and Klami, *Correcting Predictions for Approximate Bayesian Inference*
(2020), but meant for predictions of outcomes that the base has not seen. A map knows nothing of
models: it maps the base's decisions and predictive quantiles to decisions whose mean cost on the
rows shown is less, for any loss or utility, also one that jumps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri

from stakes._types import Key
from stakes.protocols import Criterion
from stakes.study.levels import LEVELS
from stakes.study.strategies.correction import (
    FEWEST,
    FOLDS,
    CalibrationMap,
    FittedMap,
    Identity,
    MapInputs,
    RowCosts,
    best_share,
    checked,
    folds,
    number_in,
    numbers_of,
    opened,
    pays,
    unless_worse,
)
from stakes.study.strategies.monotone import Monotone
from stakes.study.strategies.network import Network
from stakes.study.strategies.regressor import Regressor

__all__ = [
    "LEVELS",
    "CalibrationMap",
    "FittedMap",
    "Identity",
    "Level",
    "MapInputs",
    "Monotone",
    "Network",
    "Regressor",
    "Shift",
]
STEEPEST = 3.0
"""How far decisions may be spread: if all are nearly the same, how they differ is noise."""


@final
@dataclass(frozen=True)
class Shift:
    """Move all decisions, and spread or shrink them around their mean: two numbers.

    Both are shrunk towards the base's decisions, by as much as rows that they were not fitted to
    suggest.

    Examples:
        >>> import stakes
        >>> stakes.Corrected(stakes.Plain(), stakes.Shift()).name
        'plain VI, corrected by shift'
    """

    title: ClassVar[str] = "shift"
    description: ClassVar[str] = "all decisions moved and spread by two numbers"
    covariates: ClassVar[tuple[str, ...]] = ()

    def fit(
        self, key: Key, inputs: MapInputs, outcomes: np.ndarray, criterion: Criterion
    ) -> FittedMap:
        inputs, costs = opened(key, inputs, outcomes, criterion)
        if costs.rows < FEWEST:
            return Identity()
        fold = folds(key, costs.rows)
        lines = [_best_line(costs, inputs.decisions, 1.0 * (fold != k)) for k in range(FOLDS)]
        held_out = np.choose(fold, [line.decide(inputs) for line in lines])
        share, _ = best_share(costs, inputs.decisions, held_out)
        found = _best_line(costs, inputs.decisions, np.ones(costs.rows)).shrunk(share)
        return unless_worse(found, inputs, costs)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> FittedMap:
        """The line that was found."""
        if not arrays:
            return Identity()
        return Line(*(float(number_in(arrays, n)) for n in ("centre", "shift", "slope")))


@final
@dataclass(frozen=True)
class Line:
    """centre + shift + slope · (decision - centre)."""

    centre: float
    shift: float
    slope: float

    def shrunk(self, share: float) -> "Line":
        return Line(self.centre, share * self.shift, 1 + share * (self.slope - 1))

    def decide(self, inputs: MapInputs) -> np.ndarray:
        decisions = checked(inputs).decisions
        return self.centre + self.shift + self.slope * (decisions - self.centre)

    def arrays(self) -> dict[str, np.ndarray]:
        """Its three numbers."""
        return numbers_of(self)


def _best_line(costs: RowCosts, decisions: np.ndarray, weight: np.ndarray) -> Line:
    """By a grid, then by a simplex: neither needs a slope of the cost, which may jump."""
    centre = float(np.average(decisions, weights=weight))
    unit, share = _unit(costs, decisions), weight / weight.sum()

    def risk(point: Any) -> float:
        shift, slope = point
        moved = centre + unit * shift + slope * (decisions - centre)
        return float((share * costs.each(moved)).sum()) if 0 <= slope <= STEEPEST else np.inf

    grid = [(a, b) for b in (1.0, 0.75, 0.5, 0.25, 0.0, 1.5) for a in (0, -0.2, 0.2, -1, 1)]
    start = np.array(min(grid, key=risk))
    simplex = start + np.array([[0, 0], [0.15, 0], [0, 0.15]])
    options = {"initial_simplex": simplex, "maxfev": 100, "xatol": 1e-3, "fatol": np.inf}
    shift, slope = minimize(risk, start, method="Nelder-Mead", options=options).x
    return Line(centre, float(unit * shift), float(slope))


@final
@dataclass(frozen=True)
class Level:
    """Another quantile of the base's prediction, of one level for all instances.

    Examples:
        >>> import stakes
        >>> stakes.Corrected(stakes.Plain(), stakes.Level()).name
        'plain VI, corrected by level'
    """

    title: ClassVar[str] = "level"
    description: ClassVar[str] = "another quantile of the prediction"
    covariates: ClassVar[tuple[str, ...]] = ()

    def fit(
        self, key: Key, inputs: MapInputs, outcomes: np.ndarray, criterion: Criterion
    ) -> FittedMap:
        inputs, costs = opened(key, inputs, outcomes, criterion)
        if costs.rows < FEWEST:
            return Identity()
        fold, levels = folds(key, costs.rows), np.linspace(LEVELS[0], LEVELS[-1], 99)
        found = (costs.each(quantiles_at(inputs.quantiles, level)) for level in levels)
        table = np.stack([np.bincount(fold, each, FOLDS) for each in found])
        others = [np.delete(table, k, axis=1).sum(axis=1).argmin() for k in range(FOLDS)]
        decided = [quantiles_at(inputs.quantiles, levels[place]) for place in others]
        if not pays(costs, inputs.decisions, np.choose(fold, decided)):
            return Identity()
        near = levels[table.sum(axis=1).argmin()] + np.linspace(-0.01, 0.01, 21)
        tried = [LevelMap(float(np.clip(level, LEVELS[0], LEVELS[-1]))) for level in near]
        best = min(tried, key=lambda each: costs.mean(each.decide(inputs)))
        return unless_worse(best, inputs, costs)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> FittedMap:
        """The level that was found."""
        return LevelMap(float(number_in(arrays, "level"))) if arrays else Identity()


@final
@dataclass(frozen=True)
class LevelMap:
    """The quantile of the base's prediction at one level."""

    level: float

    def decide(self, inputs: MapInputs) -> np.ndarray:
        return quantiles_at(checked(inputs).quantiles, self.level)

    def arrays(self) -> dict[str, np.ndarray]:
        """The level."""
        return numbers_of(self)


def _unit(costs: RowCosts, decisions: np.ndarray) -> float:
    """How far decisions may have to move: as far as outcomes are from them."""
    away = np.asarray(costs.outcomes, np.float64) - decisions
    return float(np.sqrt(np.mean(away**2))) or 1.0


def quantiles_at(quantiles: np.ndarray, level: float) -> np.ndarray:
    """Between those of `LEVELS`, by a line in the normal's scores: exact where a normal is."""
    place = float(np.interp(ndtri(level), ndtri(LEVELS), np.arange(len(LEVELS))))
    low = min(int(place), len(LEVELS) - 2)
    below, above = quantiles[:, low], quantiles[:, low + 1]
    return np.asarray(below + (place - low) * (above - below))
