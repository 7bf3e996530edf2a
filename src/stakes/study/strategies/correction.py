"""What all heads share: what they see, what it costs, and when a correction pays."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Array, Key
from stakes.errors import InputError
from stakes.problem import checked_key
from stakes.protocols import Criterion

_LOW = (0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4)
LEVELS: tuple[float, ...] = (*_LOW, 0.5, *(round(1 - level, 3) for level in reversed(_LOW)))
"""The levels of the predictive quantiles that a head sees, denser in the tails."""
FEWEST = 20
"""Rows below which no correction can be told from luck: the base's decisions are kept."""
FOLDS = 5
"""Parts of the rows, each of which judges a correction fitted to the others."""
UNDEFINED = 1e100
"""What stands for a cost that is undefined or infinite."""


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
        found = _cost(self.criterion, self.outcomes, np.asarray(decisions, self.outcomes.dtype))
        each = np.asarray(found, np.float64)
        return np.where(np.isfinite(each), each, UNDEFINED)

    def mean(self, decisions: np.ndarray) -> float:
        return float(self.each(decisions).mean())


@partial(jax.jit, static_argnums=0)
def _cost(criterion: Criterion, outcomes: Array, decisions: Array) -> Array:
    return criterion.cost(outcomes, decisions)


def check_columns(columns: np.ndarray, fitted: int) -> None:
    """Refuse other covariates than the head was fitted with."""
    more = columns.shape[1] - fitted
    if more:
        raise InputError(
            f"`shown.covariates` must have the columns that the head was fitted with; it has "
            f"{abs(more)} {'more' if more > 0 else 'fewer'}."
        )


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
    checks.choice("`criterion`", criterion, Criterion, known)
    return shown, Costs(criterion, jnp.asarray(outcomes, jnp.result_type(float)))


def checked(shown: Shown) -> Shown:
    """As arrays of finite numbers, one row for each instance."""
    checks.instance("`shown`", shown, Shown, "a `Shown(decisions, quantiles)`")
    rows = (*_shape(shown.decisions), 1)[0]
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
        width = (*_shape(covariates), 1, 1)[1]
        covariates = _numbers("`shown.covariates`", covariates, (rows, width))
    return Shown(decisions, quantiles, covariates)


def _numbers(where: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    if _shape(value) != shape:
        rule = "one row for each instance" if len(shape) > 1 else "one value for each instance"
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
    try:
        return np.shape(value)
    except ValueError:  # rows of different lengths
        return ()


def not_finite(found: np.ndarray) -> int:
    """How many of them are not."""
    return int((~np.isfinite(found)).sum())


def folds(key: Key, rows: int, count: int = FOLDS) -> np.ndarray:
    """A random fold for each row, all of them equally large."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(checked_key(key))))
    return rng.permutation(rows) % count


def pays(costs: Costs, decisions: np.ndarray, held_out: np.ndarray) -> bool:
    """Whether corrections that had not seen their row save more than the noise of the saving."""
    saved = costs.each(decisions) - costs.each(held_out)
    return bool(saved.mean() > saved.std() / np.sqrt(costs.rows))


def best_share(costs: Costs, decisions: np.ndarray, held_out: np.ndarray) -> tuple[float, float]:
    """How much of a correction to make, and the mean cost of that.

    It is what is best by corrections that had not seen their row, or nothing unless that pays.
    """
    changed = [(t, decisions + t * (held_out - decisions)) for t in np.linspace(0.1, 1, 10)]
    share, best = min(changed, key=lambda pair: costs.mean(pair[1]))
    if not pays(costs, decisions, best):
        share, best = 0.0, decisions
    return float(share), costs.mean(best)


def unless_worse(found: FittedHead, shown: Shown, costs: Costs) -> FittedHead:
    """The correction; or none, where it does not lower the mean cost of the rows shown."""
    return found if costs.mean(found.decide(shown)) < costs.mean(shown.decisions) else Unchanged()
