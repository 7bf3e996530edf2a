"""A regressor of the user's own as a calibration map."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from stakes import checks
from stakes._types import Key
from stakes.errors import InputError, NumericalError, name_of
from stakes.protocols import Criterion
from stakes.study.strategies.correction import (
    FittedMap,
    Identity,
    MapInputs,
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
        checks.assign(self, covariates=names)

    @property
    def title(self) -> str:
        return name_of(type(self.estimator))

    @property
    def description(self) -> str:
        """What it does to decisions, in plain words."""
        return "decisions by a regressor that sees the prediction"

    def fit(
        self, key: Key, inputs: MapInputs, outcomes: np.ndarray, criterion: Criterion
    ) -> FittedMap:
        inputs, costs = opened(key, inputs, outcomes, criterion, self.covariates)
        if not costs.rows:
            return Identity()
        own = _cloned(self.estimator)
        try:
            own.fit(_columns(inputs), np.asarray(costs.outcomes))
        except Exception as error:
            raise InputError(
                f"`Regressor(estimator={self.title})` could not be fitted to {costs.rows} rows of "
                f"{_columns(inputs).shape[1]} columns: {type(error).__name__}: {error}"
            ) from error
        return unless_worse(
            FittedRegressor(own, self.title, _columns(inputs).shape[1]), inputs, costs
        )

    def restore(self, arrays: Mapping[str, np.ndarray]) -> FittedMap:
        """No change, or refused: a fitted regressor cannot be kept."""
        if arrays:
            raise _no_numbers(self.title)
        return Identity()


@final
@dataclass(frozen=True, eq=False)
class FittedRegressor:
    """The regressor, fitted."""

    estimator: Any
    title: str
    columns: int

    def arrays(self) -> dict[str, np.ndarray]:
        """Refused: what a regressor has learned is known to itself alone."""
        raise _no_numbers(self.title)

    def decide(self, inputs: MapInputs) -> np.ndarray:
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
    parts = [inputs.decisions[:, None], inputs.quantiles]
    return np.hstack(parts if inputs.covariates is None else [*parts, inputs.covariates])


def _cloned(estimator: Any) -> Any:
    """Unfitted where scikit-learn knows how, so that the user's own stays as it is."""
    own = getattr(estimator, "__sklearn_clone__", None)
    return copy.deepcopy(estimator) if own is None else own()
