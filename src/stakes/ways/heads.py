"""Heads: what another way to a decision decides and predicts, corrected by what then happened.

After Kuśmierczyk, Sakaya and Klami, *Correcting Predictions for Approximate Bayesian Inference*
(2020), but meant for predictions of outcomes that the base has not seen. A head knows nothing of
models: it maps the base's decisions and predictive quantiles to decisions whose mean cost on the
rows shown is less, for any loss or utility, also one that jumps.
"""

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, final

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri

from stakes import checks
from stakes._types import Array, Key
from stakes.errors import InputError, NumericalError, name_of
from stakes.problem import checked_key
from stakes.protocols import Criterion

_LOW = (0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4)
LEVELS: tuple[float, ...] = (*_LOW, 0.5, *(round(1 - level, 3) for level in reversed(_LOW)))
"""The levels of the predictive quantiles that a head sees, denser in the tails."""
FEWEST = 20
"""Rows below which no correction can be told from luck: the base's decisions are kept."""
FOLDS = 5
SHARES = np.linspace(0, 1, 11)


class Shown(NamedTuple):
    """What a head sees of each instance: what its base decides and predicts."""

    decisions: np.ndarray
    """One of the base for each instance."""
    quantiles: np.ndarray
    """Of the base's prediction, one row for each instance, at `LEVELS`."""
    covariates: np.ndarray | None = None
    """One row for each instance, for a head that asks for them."""


class FittedHead(Protocol):
    """A correction that was found."""

    def decide(self, shown: Shown) -> np.ndarray:
        """A decision for each instance."""
        ...


class Head(Protocol):
    """A kind of correction; a frozen value."""

    @property
    def title(self) -> str:
        """Its short name in tables."""
        ...

    @property
    def covariates(self) -> tuple[str, ...]:
        """The data arguments it wants to see beside the predictions."""
        ...

    def fit(self, key: Key, shown: Shown, outcomes: np.ndarray, criterion: Criterion) -> FittedHead:
        """The correction for these outcomes; on them it costs no more than the base."""
        ...


@final
@dataclass(frozen=True)
class Unchanged:
    """The base's own decisions, where no correction lowers the cost."""

    def decide(self, shown: Shown) -> np.ndarray:
        return checked(shown).decisions


@final
@dataclass(frozen=True)
class Shift:
    """Move all decisions, and spread or shrink them around their mean: two numbers.

    Both are taken back towards the base, as far as rows that they were not fitted to ask for it.
    """

    title: ClassVar[str] = "shift"
    covariates: ClassVar[tuple[str, ...]] = ()

    def fit(self, key: Key, shown: Shown, outcomes: np.ndarray, criterion: Criterion) -> FittedHead:
        shown, costs = opened(key, shown, outcomes, criterion)
        if costs.rows < FEWEST:
            return Unchanged()
        fold = folds(key, costs.rows)
        lines = [_best_line(costs, shown.decisions, 1.0 * (fold != k)) for k in range(FOLDS)]
        held_out = np.choose(fold, [line.decide(shown) for line in lines])
        share, _ = best_share(costs, shown.decisions, held_out)
        found = _best_line(costs, shown.decisions, np.ones(costs.rows)).shrunk(share)
        return unless_worse(found, shown, costs)


@final
@dataclass(frozen=True)
class Line:
    """centre + shift + slope · (decision - centre)."""

    centre: float
    shift: float
    slope: float

    def shrunk(self, share: float) -> "Line":
        return Line(self.centre, share * self.shift, 1 + share * (self.slope - 1))

    def decide(self, shown: Shown) -> np.ndarray:
        decisions = checked(shown).decisions
        return self.centre + self.shift + self.slope * (decisions - self.centre)


def _best_line(costs: "Costs", decisions: np.ndarray, weight: np.ndarray) -> Line:
    """By a grid, then by a simplex: neither needs a slope of the cost, which may jump."""
    centre = float(np.average(decisions, weights=weight))
    unit, share = _unit(costs, decisions), weight / weight.sum()

    def risk(point: Any) -> float:
        shift, slope = point
        moved = centre + unit * shift + slope * (decisions - centre)
        return float((share * costs.each(moved)).sum()) if slope >= 0 else np.inf

    grid = [(a, b) for b in (1.0, 0.75, 0.5, 0.25, 0.0, 1.5) for a in (0, -0.2, 0.2, -1, 1)]
    start = np.array(min(grid, key=risk))
    simplex = start + np.array([[0, 0], [0.15, 0], [0, 0.15]])
    options = {
        "initial_simplex": simplex,
        "maxfev": 100,
        "xatol": 1e-3,
        "fatol": 1e-3 * risk(start),
    }
    shift, slope = minimize(risk, start, method="Nelder-Mead", options=options).x
    return Line(centre, float(unit * shift), float(slope))


@final
@dataclass(frozen=True)
class Level:
    """Another quantile of the base's prediction, of one level for all instances."""

    title: ClassVar[str] = "level"
    covariates: ClassVar[tuple[str, ...]] = ()

    def fit(self, key: Key, shown: Shown, outcomes: np.ndarray, criterion: Criterion) -> FittedHead:
        shown, costs = opened(key, shown, outcomes, criterion)
        if costs.rows < FEWEST:
            return Unchanged()

        fold, levels = folds(key, costs.rows), np.linspace(LEVELS[0], LEVELS[-1], 99)
        found = (costs.each(quantiles_at(shown.quantiles, level)) for level in levels)
        table = np.stack([np.bincount(fold, each, FOLDS) for each in found])
        others = [np.delete(table, k, axis=1).sum(axis=1).argmin() for k in range(FOLDS)]
        decided = [quantiles_at(shown.quantiles, levels[place]) for place in others]
        if not pays(costs, shown.decisions, np.choose(fold, decided)):
            return Unchanged()
        near = levels[table.sum(axis=1).argmin()] + np.linspace(-0.01, 0.01, 21)
        tried = [AtLevel(float(np.clip(level, LEVELS[0], LEVELS[-1]))) for level in near]
        best = min(tried, key=lambda each: costs.mean(each.decide(shown)))
        return unless_worse(best, shown, costs)


@final
@dataclass(frozen=True)
class AtLevel:
    level: float

    def decide(self, shown: Shown) -> np.ndarray:
        return quantiles_at(checked(shown).quantiles, self.level)


def quantiles_at(quantiles: np.ndarray, level: float) -> np.ndarray:
    """Between those of `LEVELS`, by a line in the normal's scores: exact where a normal is."""
    place = float(np.interp(ndtri(level), ndtri(LEVELS), np.arange(len(LEVELS))))
    low = min(int(place), len(LEVELS) - 2)
    return quantiles[:, low] + (place - low) * (quantiles[:, low + 1] - quantiles[:, low])


@final
@dataclass(frozen=True, eq=False)
class Regressor:
    """A regressor of your own: anything with `fit(X, y)` and `predict(X)`, as in scikit-learn.

    Its columns are the base's decision, its quantiles at `LEVELS` and the covariates; what it
    predicts is the decision. That its loss is that of the problem is up to you: a regressor of
    quantiles for a tilted loss, say.
    """

    estimator: Any
    covariates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        estimator = self.estimator
        able = all(callable(getattr(estimator, name, None)) for name in ("fit", "predict"))
        if isinstance(estimator, type) or not able:
            rule = "a regressor with methods `fit(X, y)` and `predict(X)`"
            raise checks.refused("`Regressor(estimator=...)`", rule, estimator)
        names = checks.names("`Regressor(covariates=...)`", self.covariates)
        object.__setattr__(self, "covariates", names)

    @property
    def title(self) -> str:
        return name_of(type(self.estimator))

    def fit(self, key: Key, shown: Shown, outcomes: np.ndarray, criterion: Criterion) -> FittedHead:
        shown, costs = opened(key, shown, outcomes, criterion, self.covariates)
        if not costs.rows:
            return Unchanged()
        own = _cloned(self.estimator)
        try:
            own.fit(_columns(shown), np.asarray(costs.outcomes))
        except Exception as error:
            raise InputError(
                f"`Regressor(estimator={self.title})` could not be fitted to {costs.rows} rows of "
                f"{_columns(shown).shape[1]} columns: {type(error).__name__}: {error}"
            ) from error
        return unless_worse(Regressed(own, self.title), shown, costs)


@final
@dataclass(frozen=True, eq=False)
class Regressed:
    estimator: Any
    title: str

    def decide(self, shown: Shown) -> np.ndarray:
        columns = _columns(checked(shown))
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
                f"`Regressor(estimator={self.title})` predicted {_bad(found)} decisions that are "
                f"not finite."
            )
        return found


def _columns(shown: Shown) -> np.ndarray:
    parts = [shown.decisions[:, None], shown.quantiles]
    return np.hstack(parts if shown.covariates is None else [*parts, shown.covariates])


def _cloned(estimator: Any) -> Any:
    """Unfitted where scikit-learn knows how, so that the user's own stays as it is."""
    own = getattr(estimator, "__sklearn_clone__", None)
    return copy.deepcopy(estimator) if own is None else own()


@final
@dataclass(frozen=True, eq=False)
class Costs:
    """What decisions cost on the rows that a head is fitted to."""

    criterion: Criterion
    outcomes: Array

    @property
    def rows(self) -> int:
        return len(self.outcomes)

    def each(self, decisions: np.ndarray) -> np.ndarray:
        """Of each row; where a cost is undefined or infinite, more than any other."""
        found = self.criterion.cost(self.outcomes, jnp.asarray(decisions, self.outcomes.dtype))
        each = np.asarray(found, np.float64)
        return np.where(np.isfinite(each), each, 1e300)

    def mean(self, decisions: np.ndarray) -> float:
        return float(self.each(decisions).mean())


def opened(
    key: Key,
    shown: Shown,
    outcomes: np.ndarray,
    criterion: Criterion,
    covariates: tuple[str, ...] = (),
) -> tuple[Shown, Costs]:
    """The arguments of a head's `fit`, checked."""
    checked_key(key)
    shown = checked(shown)
    if covariates and shown.covariates is None:
        raise InputError(f"`shown.covariates` is None, but this head asks for {covariates}.")
    outcomes = _numbers("`outcomes`", outcomes, (len(shown.decisions),))
    known = "the `criterion` of a problem"
    checks.choice("`criterion`", criterion, Criterion, known, hashable=False)
    return shown, Costs(criterion, jnp.asarray(outcomes, jnp.result_type(float)))


def checked(shown: Shown) -> Shown:
    """As arrays of finite numbers, one row for each instance."""
    checks.instance("`shown`", shown, Shown, "a `Shown(decisions, quantiles)`")
    rows = len(np.atleast_1d(shown.decisions))
    decisions = _numbers("`shown.decisions`", shown.decisions, (rows,))
    quantiles = _numbers("`shown.quantiles`", shown.quantiles, (rows, len(LEVELS)))
    rounding = 1e-5 * np.abs(quantiles).max(axis=1, initial=0.0)
    falling = (np.diff(quantiles) < -rounding[:, None]).any(axis=1)
    if falling.any():
        raise InputError(
            f"`shown.quantiles` must not fall from one of `LEVELS` to the next; they do in row "
            f"{int(np.argmax(falling))}."
        )
    covariates = shown.covariates
    if covariates is not None:
        wide = np.shape(covariates)[1:] or (1,)
        covariates = _numbers("`shown.covariates`", covariates, (rows, *wide[:1]))
    return Shown(decisions, quantiles, covariates)


def _numbers(where: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    if np.shape(value) != shape:
        rule = "one row for each instance, and so" if len(shape) > 1 else "one for each instance:"
        raise InputError(f"{where} must have {rule} shape {shape}; got shape {np.shape(value)}.")
    if not np.size(value):
        return np.zeros(shape)
    found = checks.array(where, value).astype(np.float64)
    if bad := _bad(found):
        raise InputError(
            f"{where} must be finite; {bad} of {found.size} values are not. Leave out the rows "
            f"that are missing."
        )
    return found


def _bad(found: np.ndarray) -> int:
    return int((~np.isfinite(found)).sum())


def _unit(costs: Costs, decisions: np.ndarray) -> float:
    """How far decisions may have to move: as far as outcomes are from them."""
    away = np.asarray(costs.outcomes, np.float64) - decisions
    return float(np.sqrt(np.mean(away**2))) or 1.0


def folds(key: Key, rows: int, count: int = FOLDS) -> np.ndarray:
    """A random fold for each row, all of them equally large."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    return rng.permutation(rows) % count


def pays(costs: Costs, decisions: np.ndarray, held_out: np.ndarray) -> bool:
    """Whether corrections that had not seen their row save more than the noise of the saving."""
    saved = costs.each(decisions) - costs.each(held_out)
    return bool(saved.mean() > saved.std() / np.sqrt(costs.rows))


def best_share(costs: Costs, decisions: np.ndarray, held_out: np.ndarray) -> tuple[float, float]:
    """How much of a correction to make, and the mean cost of that.

    It is what is best by corrections that had not seen their row, or nothing unless that pays.
    """
    changed = [(t, decisions + t * (held_out - decisions)) for t in SHARES[1:]]
    share, best = min(changed, key=lambda pair: costs.mean(pair[1]))
    if not pays(costs, decisions, best):
        share, best = 0.0, decisions
    return float(share), costs.mean(best)


def unless_worse(found: FittedHead, shown: Shown, costs: Costs) -> FittedHead:
    """The correction; or none, where it does not lower the mean cost of the rows shown."""
    return found if costs.mean(found.decide(shown)) < costs.mean(shown.decisions) else Unchanged()
