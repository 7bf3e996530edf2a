"""A regressor of the user's own as a head."""

import copy
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from stakes import checks
from stakes._types import Key
from stakes.errors import InputError, NumericalError, name_of
from stakes.protocols import Criterion
from stakes.study.strategies.correction import (
    FittedHead,
    Shown,
    Unchanged,
    check_columns,
    checked,
    not_finite,
    opened,
    unless_worse,
)


@final
@dataclass(frozen=True, eq=False)
class Regressor:
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
        return unless_worse(Regressed(own, self.title, _columns(shown).shape[1]), shown, costs)


@final
@dataclass(frozen=True, eq=False)
class Regressed:
    estimator: Any
    title: str
    columns: int

    def decide(self, shown: Shown) -> np.ndarray:
        columns = _columns(checked(shown))
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


def _columns(shown: Shown) -> np.ndarray:
    parts = [shown.decisions[:, None], shown.quantiles]
    return np.hstack(parts if shown.covariates is None else [*parts, shown.covariates])


def _cloned(estimator: Any) -> Any:
    """Unfitted where scikit-learn knows how, so that the user's own stays as it is."""
    own = getattr(estimator, "__sklearn_clone__", None)
    return copy.deepcopy(estimator) if own is None else own()
