"""Calibration maps: decisions of another way, corrected by what happened.

After Kuśmierczyk, Sakaya and Klami, *Correcting Predictions for Approximate Bayesian Inference*
(2020), but meant for predictions of outcomes that the base has not seen. A map knows nothing of
models: it maps the base's decisions and predictive quantiles to decisions whose mean cost on the
rows shown is less, for any loss or utility, also one that jumps.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy.special import ndtri

from stakes import checks
from stakes._types import Key
from stakes.errors import InputError, NumericalError, name_of
from stakes.study.cases import LEVELS
from stakes.study.strategies.correction import (
    FEWEST,
    FOLDS,
    FittedMap,
    Identity,
    LearnedMap,
    MapInputs,
    Numbers,
    RowCosts,
    best_share,
    check_columns,
    checked,
    folds,
    not_finite,
    pays,
)

# The most that decisions may be spread: if all are nearly the same, their differences are noise.
STEEPEST = 3.0


@final
@dataclass(frozen=True)
class Shift(LearnedMap):
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

    def learn(self, key: Key, inputs: MapInputs, costs: RowCosts) -> FittedMap:
        """Fit a line; keep the share of its correction that pays on other rows."""
        fold = folds(key, costs.rows)
        lines = [_best_line(costs, inputs.decisions, 1.0 * (fold != k)) for k in range(FOLDS)]
        held_out = np.choose(fold, [line.decide(inputs) for line in lines])
        share, _ = best_share(costs, inputs.decisions, held_out)
        return _best_line(costs, inputs.decisions, np.ones(costs.rows)).shrunk(share)

    def remade(self, arrays: Mapping[str, np.ndarray]) -> FittedMap:
        return Line.from_arrays(arrays)


@final
@dataclass(frozen=True)
class Line(Numbers):
    """centre + shift + slope · (decision - centre)."""

    centre: float
    shift: float
    slope: float

    def shrunk(self, share: float) -> "Line":
        """Return the line, moved towards no change: `share` of it is left."""
        return Line(self.centre, share * self.shift, 1 + share * (self.slope - 1))

    def decide(self, inputs: MapInputs) -> np.ndarray:
        """Return the decisions on the line."""
        decisions = checked(inputs).decisions
        return self.centre + self.shift + self.slope * (decisions - self.centre)


def _best_line(costs: RowCosts, decisions: np.ndarray, weight: np.ndarray) -> Line:
    """Find a line by a grid, then by a simplex: the cost may jump, and needs no slope for them."""
    from scipy.optimize import minimize

    centre = float(np.average(decisions, weights=weight))
    unit, share = _unit(costs, decisions), weight / weight.sum()

    def risk(point: tuple[float, float] | np.ndarray) -> float:
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
class Level(LearnedMap):
    """Another quantile of the base's prediction, of one level for all cases.

    Examples:
        >>> import stakes
        >>> stakes.Corrected(stakes.Plain(), stakes.Level()).name
        'plain VI, corrected by level'
    """

    title: ClassVar[str] = "level"
    description: ClassVar[str] = "another quantile of the prediction"

    def learn(self, key: Key, inputs: MapInputs, costs: RowCosts) -> FittedMap:
        """Try 99 levels; keep the best, to a thousandth, if such a level pays on other rows."""
        fold, levels = folds(key, costs.rows), np.linspace(LEVELS[0], LEVELS[-1], 99)
        found = (costs.each(quantiles_at(inputs.quantiles, level)) for level in levels)
        table = np.stack([np.bincount(fold, each, FOLDS) for each in found])
        others = [np.delete(table, k, axis=1).sum(axis=1).argmin() for k in range(FOLDS)]
        decided = [quantiles_at(inputs.quantiles, levels[place]) for place in others]
        if not pays(costs, inputs.decisions, np.choose(fold, decided)):
            return Identity()
        near = levels[table.sum(axis=1).argmin()] + np.linspace(-0.01, 0.01, 21)
        tried = [LevelMap(float(np.clip(level, LEVELS[0], LEVELS[-1]))) for level in near]
        return min(tried, key=lambda each: costs.mean(each.decide(inputs)))

    def remade(self, arrays: Mapping[str, np.ndarray]) -> FittedMap:
        return LevelMap.from_arrays(arrays)


@final
@dataclass(frozen=True)
class LevelMap(Numbers):
    """The quantile of the base's prediction at one level."""

    level: float

    def decide(self, inputs: MapInputs) -> np.ndarray:
        """Return the quantile of each case's prediction."""
        return quantiles_at(checked(inputs).quantiles, self.level)


def _unit(costs: RowCosts, decisions: np.ndarray) -> float:
    """Return how far decisions may have to move: as far as outcomes are from them."""
    away = np.asarray(costs.outcomes, np.float64) - decisions
    return float(np.sqrt(np.mean(away**2))) or 1.0


def quantiles_at(quantiles: np.ndarray, level: float) -> np.ndarray:
    """Return quantiles between `LEVELS`, linear in the normal's scores: exact for a normal."""
    place = float(np.interp(ndtri(level), ndtri(LEVELS), np.arange(len(LEVELS))))
    low = min(int(place), len(LEVELS) - 2)
    below, above = quantiles[:, low], quantiles[:, low + 1]
    return np.asarray(below + (place - low) * (above - below))


# Numbers of blocks that are tried, as far as each block has enough rows.
BLOCKS = (1, 2, 4, 8, 16, 32)
# Offsets that are tried, close to one another around zero; odd, so that zero is among them.
OFFSETS = 257


@final
@dataclass(frozen=True)
class Monotone(LearnedMap):
    """Move decisions by an amount that depends on the decision, without changing their order.

    Rows are grouped into blocks by the decisions of the base strategy. Each block gets the offset
    at which its outcomes cost least, among the offsets that keep the blocks in order. This works
    for any cost. Between blocks, offsets are interpolated. The number of blocks is chosen by rows
    that were left out.

    Examples:
        >>> import stakes
        >>> stakes.Corrected(stakes.Plain(), stakes.Monotone()).name
        'plain VI, corrected by monotone'
    """

    title: ClassVar[str] = "monotone"
    description: ClassVar[str] = "decisions moved by an amount that depends on the decision"

    def learn(self, key: Key, inputs: MapInputs, costs: RowCosts) -> FittedMap:
        """Fit offsets with several numbers of blocks; keep what pays most on other rows."""
        fold = folds(key, costs.rows)
        offsets = _offsets(costs, inputs.decisions)
        grids = [Blocks.of(inputs.decisions, n) for n in BLOCKS if n * FEWEST <= costs.rows]
        tables = _tables(costs, inputs.decisions, offsets, grids, fold)
        tried: list[tuple[float, int, float]] = []
        for blocks, table in zip(grids, tables, strict=True):
            maps = [blocks.best(np.delete(table, k, axis=0).sum(0), offsets) for k in range(FOLDS)]
            held_out = np.choose(fold, [each.decide(inputs) for each in maps])
            share, cost = best_share(costs, inputs.decisions, held_out)
            tried.append((cost, len(tried), share))
        _, chosen, share = min(tried)
        found = grids[chosen].best(tables[chosen].sum(0), offsets)
        return Offsets(found.at, share * found.by)

    def remade(self, arrays: Mapping[str, np.ndarray]) -> FittedMap:
        return Offsets.from_arrays(arrays)


@final
@dataclass(frozen=True, eq=False)
class Offsets(Numbers):
    """decision + offset, which is interpolated between those at some decisions."""

    at: np.ndarray
    by: np.ndarray

    def decide(self, inputs: MapInputs) -> np.ndarray:
        """Return the decisions, each moved by the offset there."""
        decisions = checked(inputs).decisions
        return np.asarray(decisions + np.interp(decisions, self.at, self.by))


@final
@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows by their decision, about equally many in each block, and ties together."""

    of_row: np.ndarray
    centres: np.ndarray

    @classmethod
    def of(cls, decisions: np.ndarray, count: int) -> "Blocks":
        """Return blocks of about equally many rows, with at least twenty in each."""
        levels = np.linspace(0, 1, count + 1)[1:-1]
        rising, start = np.sort(decisions), 0
        edges: list[float] = []
        for edge in np.quantile(decisions, levels, method="inverted_cdf"):
            below = int(np.searchsorted(rising, edge))
            if below - start >= FEWEST and len(rising) - below >= FEWEST:
                edges, start = [*edges, float(edge)], below
        of_row = np.searchsorted(edges, decisions, side="right")
        centres = np.bincount(of_row, decisions) / np.bincount(of_row)
        return cls(of_row, centres)

    def best(self, table: np.ndarray, offsets: np.ndarray) -> Offsets:
        """The offsets, one for each block, that cost least and keep the blocks in order.

        `table` has the cost of each block (rows) at each offset (columns). By dynamic programming:
        `least` is what the blocks so far cost, the last of them with this offset or less.
        """
        least, steps = np.zeros(len(offsets)), []
        for costs, gap in zip(table, np.diff(self.centres, prepend=-np.inf), strict=True):
            # The largest offset of the block before with which this one still lies above it.
            last = np.searchsorted(offsets, offsets + gap, side="right") - 1
            total = costs + least[last]
            best = _running_best(total, np.abs(offsets))
            steps.append((best, last))
            least = total[best]
        chosen, most = [], len(offsets) - 1
        for best, last in reversed(steps):
            chosen.append(offsets[best[most]])
            most = last[best[most]]
        return Offsets(self.centres, np.array(chosen[::-1]))


def _running_best(values: np.ndarray, far: np.ndarray) -> np.ndarray:
    """Return where the least of all values so far is; of ties, the least offset."""
    order, rank = np.lexsort((far, values)), np.empty(len(values), int)
    rank[order] = np.arange(len(values))
    return np.asarray(order[np.minimum.accumulate(rank)])


def _offsets(costs: RowCosts, decisions: np.ndarray) -> np.ndarray:
    """Return offsets as far as any outcome is from its decision, denser around zero."""
    away = np.asarray(costs.outcomes, np.float64) - decisions
    reach = float(np.abs(away).max()) or 1.0
    return np.asarray(reach * np.sinh(6 * np.linspace(-1, 1, OFFSETS)) / np.sinh(6))


def _tables(
    costs: RowCosts,
    decisions: np.ndarray,
    offsets: np.ndarray,
    grids: list[Blocks],
    fold: np.ndarray,
) -> list[np.ndarray]:
    """Return for each grid the costs of each fold (first axis) and block at each offset (last)."""
    tables = [np.zeros((FOLDS, len(blocks.centres), len(offsets))) for blocks in grids]
    for place, offset in enumerate(offsets):
        each = costs.each(decisions + offset)
        for table, blocks in zip(tables, grids, strict=True):
            count = len(blocks.centres)
            sums = np.bincount(fold * count + blocks.of_row, each, FOLDS * count)
            table[:, :, place] = sums.reshape(FOLDS, count)
    return tables


@final
@dataclass(frozen=True, eq=False)
class Regressor(LearnedMap):
    """A regressor of your own: anything with `fit(X, y)` and `predict(X)`, as in scikit-learn.

    The columns of `X` are the base's decision, its predictive quantiles at `LEVELS` and the
    covariates; what it predicts is the decision. It is up to you to give it the loss of the
    problem: for a tilted loss, a quantile regressor.

    Examples:
        >>> import numpy as np, stakes
        >>> class Median:
        ...     def fit(self, X, y):
        ...         self.median = np.median(y)
        ...
        ...     def predict(self, X):
        ...         return np.full(len(X), self.median)
        >>> stakes.Regressor(Median()).covariates
        ()
    """

    estimator: Any
    covariates: tuple[str, ...] = ()

    fewest: ClassVar[int] = 1

    def __post_init__(self) -> None:
        estimator = self.estimator
        able = all(callable(getattr(estimator, name, None)) for name in ("fit", "predict"))
        if isinstance(estimator, type) or not able:
            rule = "a regressor with methods `fit(X, y)` and `predict(X)`"
            raise checks.refused("`Regressor(estimator=...)`", rule, estimator)
        names = checks.names("`Regressor(covariates=...)`", self.covariates)
        checks.assign(self, covariates=names)

    @property
    def title(self) -> str:
        """Its short name in tables."""
        return name_of(type(self.estimator))

    @property
    def description(self) -> str:
        """What it does to decisions, in plain words."""
        return "decisions by a regressor that sees the prediction"

    def learn(self, key: Key, inputs: MapInputs, costs: RowCosts) -> FittedMap:
        """Fit a copy of the regressor."""
        own = _cloned(self.estimator)
        try:
            own.fit(_columns(inputs), np.asarray(costs.outcomes))
        except Exception as error:
            raise InputError(
                f"`Regressor(estimator={self.title})` could not be fitted to {costs.rows} rows of "
                f"{_columns(inputs).shape[1]} columns: {type(error).__name__}: {error}"
            ) from error
        return FittedRegressor(own, self.title, _columns(inputs).shape[1])

    def remade(self, arrays: Mapping[str, np.ndarray]) -> FittedMap:
        raise _no_numbers(self.title)


@final
@dataclass(frozen=True, eq=False)
class FittedRegressor:
    """The regressor, fitted."""

    estimator: Any
    title: str
    columns: int

    def arrays(self) -> dict[str, np.ndarray]:
        """Refuse: what a regressor has learned is known to itself alone."""
        raise _no_numbers(self.title)

    def decide(self, inputs: MapInputs) -> np.ndarray:
        """Return what the regressor predicts."""
        columns = _columns(checked(inputs))
        check_columns(columns, self.columns)
        if not len(columns):
            return np.zeros(0)
        found = np.asarray(self.estimator.predict(columns))
        if found.shape not in ((len(columns),), (len(columns), 1)):
            raise InputError(
                f"`Regressor(estimator={self.title})` must predict one number for each of "
                f"{len(columns)} rows; it predicted an array of shape {found.shape}."
            )
        found = found.reshape(-1).astype(np.float64)
        if not np.isfinite(found).all():
            raise NumericalError(
                f"`Regressor(estimator={self.title})` predicted {not_finite(found)} decisions "
                f"that are not finite."
            )
        return found


def _no_numbers(title: str) -> InputError:
    return InputError(f"`Regressor(estimator={title})` cannot be kept as plain numbers.")


def _columns(inputs: MapInputs) -> np.ndarray:
    """Return what a regressor sees of each row."""
    parts = [inputs.decisions[:, None], inputs.quantiles]
    return np.hstack(parts if inputs.covariates is None else [*parts, inputs.covariates])


def _cloned(estimator: Any) -> Any:
    """Return an unfitted copy, so that the user's own stays as it is."""
    own = getattr(estimator, "__sklearn_clone__", None)
    return copy.deepcopy(estimator) if own is None else own()
