"""The base of all calibration maps: their inputs, their costs, and when a correction pays.

A correction is fitted to few rows and noisy costs, so it is judged by rows that it has not seen: it
is made in part, or not at all, unless that saves more than the noise of the saving.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, Self, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Array, Key
from stakes.errors import InputError
from stakes.problem import checked_key
from stakes.protocols import Criterion
from stakes.study.cases import LEVELS
from stakes.study.strategies.strategy import value_of

# Rows below which no correction can be told from luck: the base's decisions are kept.
FEWEST = 20
# Parts of the rows, each of which judges a correction fitted to the others.
FOLDS = 5
# A finite number in place of an undefined or infinite cost, so that means can be compared.
UNDEFINED = 1e100


class MapInputs(NamedTuple):
    """What a calibration map sees of each case.

    Attributes:
        decisions: the base's decisions.
        quantiles: the quantiles of the base's prediction, case x level, at `LEVELS`.
        covariates: one row for each case, for a map that asks for them.
    """

    decisions: np.ndarray
    quantiles: np.ndarray
    covariates: np.ndarray | None = None

    def rows(self, chosen: np.ndarray | slice) -> "MapInputs":
        """Return some of the rows."""
        covariates = None if self.covariates is None else self.covariates[chosen]
        return MapInputs(self.decisions[chosen], self.quantiles[chosen], covariates)


class FittedMap(Protocol):
    """A correction that was found."""

    def decide(self, inputs: MapInputs) -> np.ndarray:
        """Return a decision for each case."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Return its numbers, from which `CalibrationMap.restore` makes it; none for no change."""
        ...


class CalibrationMap(Protocol):
    """A kind of correction, from predictions to decisions; a frozen value."""

    @property
    def title(self) -> str:
        """Its short name in tables."""
        ...

    @property
    def description(self) -> str:
        """What it does to decisions, in plain words."""
        ...

    @property
    def covariates(self) -> tuple[str, ...]:
        """The data arguments it wants to see beside the predictions."""
        ...

    def fit(
        self, key: Key, inputs: MapInputs, outcomes: np.ndarray, criterion: Criterion
    ) -> FittedMap:
        """Return the correction for these outcomes; on them it costs no more than the base."""
        ...

    def restore(self, arrays: Mapping[str, np.ndarray]) -> FittedMap:
        """Return the correction that these arrays were made from."""
        ...


@final
@dataclass(frozen=True)
class Identity:
    """The base's own decisions, where no correction lowers the cost."""

    def decide(self, inputs: MapInputs) -> np.ndarray:
        """Return the base's decisions."""
        return checked(inputs).decisions

    def arrays(self) -> dict[str, np.ndarray]:
        """Return nothing: there is nothing to keep."""
        return {}


@final
@dataclass(frozen=True, eq=False)
class RowCosts:
    """The costs of decisions about the rows to which a map is fitted.

    Attributes:
        criterion: the loss or utility.
        outcomes: what happened.
    """

    criterion: Criterion
    outcomes: Array

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.outcomes)

    def each(self, decisions: np.ndarray) -> np.ndarray:
        """Return the cost of each row; undefined and infinite costs exceed any other."""
        found = _cost(self.criterion, self.outcomes, np.asarray(decisions, self.outcomes.dtype))
        each = np.asarray(found, np.float64)
        return np.where(np.isfinite(each), each, UNDEFINED)

    def mean(self, decisions: np.ndarray) -> float:
        """Return the mean cost of these decisions."""
        return float(self.each(decisions).mean())


@partial(jax.jit, static_argnums=0)
def _cost(criterion: Criterion, outcomes: Array, decisions: Array) -> Array:
    return criterion.cost(outcomes, decisions)


def check_columns(columns: np.ndarray, fitted: int) -> None:
    """Refuse other covariates than the map was fitted with."""
    more = columns.shape[1] - fitted
    if more:
        raise InputError(
            f"`inputs.covariates` must have the columns that the map was fitted with; it has "
            f"{abs(more)} {'more' if more > 0 else 'fewer'}."
        )


def checked(inputs: MapInputs) -> MapInputs:
    """Return the inputs as arrays of finite numbers, one row for each case, or refuse them."""
    checks.instance("`inputs`", inputs, MapInputs, "a `MapInputs(decisions, quantiles)`")
    rows = (*_shape(inputs.decisions), 1)[0]
    decisions = _numbers("`inputs.decisions`", inputs.decisions, (rows,))
    quantiles = _numbers("`inputs.quantiles`", inputs.quantiles, (rows, len(LEVELS)))
    rounding = 1e-5 * np.abs(quantiles).max(axis=1, initial=0.0)
    falling = (np.diff(quantiles) < -rounding[:, None]).any(axis=1)
    if falling.any():
        raise InputError(
            f"`inputs.quantiles` must not fall from one of `LEVELS` to the next; they do in row "
            f"{int(np.argmax(falling))}."
        )
    covariates = inputs.covariates
    if covariates is not None:
        width = (*_shape(covariates), 1, 1)[1]
        covariates = _numbers("`inputs.covariates`", covariates, (rows, width))
    return MapInputs(decisions, quantiles, covariates)


def _numbers(where: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return finite numbers of this shape, or refuse the value."""
    if _shape(value) != shape:
        rule = "one row for each case" if len(shape) > 1 else "one value for each case"
        raise InputError(
            f"{where} must have {rule}, and so shape {shape}; got shape {_shape(value)}."
        )
    if 0 in shape:
        return np.zeros(shape)
    found = checks.array(where, value).astype(np.float64)
    if bad := not_finite(found):
        raise InputError(
            f"{where} must be finite; {bad} of {found.size} values are not. Leave out the rows "
            f"that are missing."
        )
    return found


def _shape(value: Any) -> tuple[int, ...]:
    """Return the shape of a value; none for rows of different lengths."""
    try:
        return np.shape(value)
    except ValueError:  # rows of different lengths
        return ()


def not_finite(found: np.ndarray) -> int:
    """Return how many values are not finite."""
    return int((~np.isfinite(found)).sum())


def folds(key: Key, rows: int, count: int = FOLDS) -> np.ndarray:
    """Return a random fold for each row, all folds equally large."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(checked_key(key))))
    return rng.permutation(rows) % count


def pays(costs: RowCosts, decisions: np.ndarray, held_out: np.ndarray) -> bool:
    """Return whether corrections that had not seen their row save more than the noise of the
    saving.
    """
    saved = costs.each(decisions) - costs.each(held_out)
    return bool(saved.mean() > saved.std() / np.sqrt(costs.rows))


def best_share(costs: RowCosts, decisions: np.ndarray, held_out: np.ndarray) -> tuple[float, float]:
    """Return how much of a correction to make, and the mean cost of that.

    Shrinking towards no correction guards against noise. The share is the best one by corrections
    that had not seen their row; zero unless that pays.
    """
    changed = [(t, decisions + t * (held_out - decisions)) for t in np.linspace(0.1, 1, 10)]
    share, best = min(changed, key=lambda pair: costs.mean(pair[1]))
    if not pays(costs, decisions, best):
        share, best = 0.0, decisions
    return float(share), costs.mean(best)


class Numbers:
    """A correction that consists of the numbers in its fields; for frozen dataclasses."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the fields as named arrays."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the correction that these arrays were made from."""
        where = "A calibration map that was kept"
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        return cls(**{name: value_of(arrays, name, where)[()] for name in names})


class LearnedMap(ABC):
    """A map of the library: it changes nothing where it does not lower the cost of its rows."""

    covariates: tuple[str, ...] = ()
    fewest: ClassVar[int] = FEWEST

    @abstractmethod
    def learn(self, key: Key, inputs: MapInputs, costs: RowCosts) -> FittedMap:
        """Return the correction for these rows, which have been checked."""

    @abstractmethod
    def remade(self, arrays: Mapping[str, np.ndarray]) -> FittedMap:
        """Return the correction that these arrays, of which there are some, were made from."""

    def fit(
        self, key: Key, inputs: MapInputs, outcomes: np.ndarray, criterion: Criterion
    ) -> FittedMap:
        """Return the correction; none for few rows, or where it does not pay on them."""
        checked_key(key)
        inputs = checked(inputs)
        if self.covariates and inputs.covariates is None:
            raise InputError(
                f"`inputs.covariates` is None, but this map asks for {self.covariates}."
            )
        outcomes = _numbers("`outcomes`", outcomes, (len(inputs.decisions),))
        checks.choice("`criterion`", criterion, Criterion, "the `criterion` of a problem")
        costs = RowCosts(criterion, jnp.asarray(outcomes, jnp.result_type(float)))
        if costs.rows < self.fewest:
            return Identity()
        correction = self.learn(key, inputs, costs)
        is_better = costs.mean(correction.decide(inputs)) < costs.mean(inputs.decisions)
        return correction if is_better else Identity()

    def restore(self, arrays: Mapping[str, np.ndarray]) -> FittedMap:
        """Return the correction that was kept; no change where nothing was."""
        return self.remade(arrays) if arrays else Identity()
