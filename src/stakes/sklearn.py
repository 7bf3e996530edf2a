"""Decisions as predictions of a scikit-learn regressor.

So they can be a step of a pipeline, be cross-validated, or be searched over, as any regressor can.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_array,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from stakes._types import Array
from stakes.errors import InputError
from stakes.formulas import formula
from stakes.losses import Squared
from stakes.problem import Problem
from stakes.protocols import Loss
from stakes.study import Calibration, Keys, Options, Study, Work, calibration_of, prepare

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from sklearn.utils import Tags

Table: TypeAlias = "ArrayLike | pd.DataFrame"
# What the columns of an array are called in a formula.
COLUMN = "x{}"


@final
class DecisionRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The decisions that cost least, as `predict` of a scikit-learn regressor.

    `predict` gives decisions, not means: with `loss=stakes.Tilted(0.75)` they are what to order
    where a unit short costs three times a unit too many. `score` is minus the mean loss of the
    decisions, so that larger is better; with a loss other than `Squared()` it is not R².
    `calibration_` is the whole result, with its posterior and comparison.

    Sample weights, sparse matrices, missing values and several outcomes at once are not supported.

    Args:
        model: a formula such as `"sold ~ weekday + sunshine + (1 | store)"`, whose left side names
            `y`, and whose right side names columns of `X`, or `x0`, `x1`, ... where `X` is an
            array; a NumPyro model, which gets columns of `X` by the names of its arguments, or the
            array as `X`; or None for a normal linear regression on all columns.
        loss: what a wrong decision costs; `Squared()` by default.
        family: of the outcomes, for a formula.
        priors: in place of the usual ones, for a formula.
        outcome: the site of the outcomes, for a NumPyro model.
        steps: at most this many, for each of two fits.
        random_state: an integer seed, for the same decisions each time.

    Examples:
        >>> import numpy as np, pandas as pd, stakes
        >>> from stakes.sklearn import DecisionRegressor
        >>> X = pd.DataFrame({"sun": np.linspace(0, 1, 20)})
        >>> y = 10 + 5 * X["sun"] + np.tile([-1, 1], 10)
        >>> regressor = DecisionRegressor("sold ~ sun", loss=stakes.Tilted(0.9), steps=500)
        >>> bool((regressor.fit(X, y).predict(X) > 10 + 5 * X["sun"]).all())
        True
    """

    def __init__(
        self,
        model: str | Callable[..., object] | None = None,
        *,
        loss: Loss | None = None,
        family: str = "normal",
        priors: Mapping[str, object] | None = None,
        outcome: str = "y",
        steps: int = 30_000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.model = model
        self.loss = loss
        self.family = family
        self.priors = priors
        self.outcome = outcome
        self.steps = steps
        self.random_state = random_state

    def fit(self, X: Table, y: "ArrayLike") -> "DecisionRegressor":  # noqa: N803
        """Fit the posterior and calibrate it for the loss."""
        given = self._check(X, y, first=True)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        self._seed, self._given = int(seed), given
        key = jax.random.key(self._seed)
        problem, data = self._problem_and_data()
        result = calibration_of(
            Study(key, problem, data, Options(steps=self.steps), work=Work(progress=False))
        )
        self._fits = (result.vi, result.calibrated, result.transform, result.expectation)
        self._result: Calibration | None = result
        return self

    @property
    def calibration_(self) -> Calibration:
        """The result of `stakes.calibrate` behind the decisions."""
        check_is_fitted(self, "_fits")
        if self._result is None:  # it has been pickled: all but the fits is made again
            problem, data = self._problem_and_data()
            keys = Keys.of(jax.random.key(self._seed))
            vi, calibrated, transform, expectation = self._fits
            plan = prepare(keys.setup, problem, data, Options(steps=self.steps))
            plan = replace(plan, transform=transform, expectation=expectation)
            self._result = Calibration(plan=plan, keys=keys, vi=vi, calibrated=calibrated)
        return self._result

    def predict(self, X: Table) -> np.ndarray:  # noqa: N803
        """The decision that costs least, for each row."""
        check_is_fitted(self, "_fits")
        columns, _ = self._check(X, None, first=False)
        return np.asarray(self.calibration_.decide(self._data(columns, None)))

    def score(
        self,
        X: Table,  # noqa: N803
        y: "ArrayLike",
        sample_weight: "ArrayLike | None" = None,
    ) -> float:
        """Minus the mean loss of the decisions; larger is better."""
        outcomes = np.asarray(column_or_1d(y), float)
        costs = self._loss(jnp.asarray(outcomes), jnp.asarray(self.predict(X)))
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        return -float(np.average(np.asarray(costs, np.float64), weights=weights))

    @property
    def _loss(self) -> Loss:
        return Squared() if self.loss is None else self.loss

    def _check(self, X: Any, y: Any, *, first: bool) -> tuple[Any, Any]:  # noqa: N803
        """Return arrays of numbers; the columns of a table as they are, where they go by name.

        Args:
            X: an array or a table.
            y: outcomes; None for a prediction.
            first: whether these say how many columns there have to be, and of which names.
        """
        if self.model is None or not isinstance(X, pd.DataFrame):
            if not first:
                return validate_data(self, X, reset=False, dtype=np.float64), None
            X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
            return X, np.asarray(y, np.float64)
        _check_feature_names(self, X, reset=first)
        _check_n_features(self, X, reset=first)
        if not first:
            return X, None
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=None), warn=True)
        if len(y) != len(X):
            raise InputError(f"`fit(X, y)` has {len(X)} rows of `X` and {len(y)} of `y`.")
        return X, y

    def _problem_and_data(self) -> tuple[Problem, Any]:
        """Return the decision problem of the model, and the data of the fit."""
        data = self._data(*self._given)
        if self.model is None:
            return Problem(_linear, outcome="y", loss=self._loss), data
        if isinstance(self.model, str):
            model = formula(self.model, data, self.family, priors=self.priors)
            return Problem(model, outcome=model.response, loss=self._loss), data
        return Problem(self.model, outcome=self.outcome, loss=self._loss), data

    def _data(self, X: Any, y: Any) -> Any:  # noqa: N803
        """Return the arguments of the model, with the outcomes if there are any."""
        if self.model is None:
            return self._standard(X) | ({} if y is None else {"y": y})
        name = self.outcome
        if isinstance(self.model, str):
            name = self.model.partition("~")[0].strip()
            X = pd.DataFrame(X)
            X = X.rename(columns={i: COLUMN.format(i) for i in X if isinstance(i, int)})
        if isinstance(X, pd.DataFrame):
            return X if y is None else X.assign(**{name: np.asarray(y)})
        return {"X": X} | ({} if y is None else {name: y})

    def _standard(self, X: np.ndarray) -> dict[str, Any]:  # noqa: N803
        """Return `X` in units of the fit's data, in which any regression looks alike."""
        seen, outcomes = self._given
        units = np.where(seen.std(axis=0) > 0, seen.std(axis=0), 1.0)
        return {
            "X": (X - seen.mean(axis=0)) / units,
            "center": float(outcomes.mean()),
            "spread": float(outcomes.std()) or 1.0,
        }

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        # Compiled programs and the model stay behind; they are made again when asked for.
        return state | ({"_result": None} if "_result" in state else {})

    def __sklearn_is_fitted__(self) -> bool:
        return "_fits" in vars(self)

    def __sklearn_tags__(self) -> "Tags":
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # minus a loss, not R²
        return tags


def _linear(X: Array, center: float, spread: float, y: Array | None = None) -> None:  # noqa: N803
    """A linear regression, X in standard units."""
    level = numpyro.sample("level", dist.Normal(0, 1))
    width = X.shape[1]
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([width]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    with numpyro.plate("row", X.shape[0]):
        mean = center + spread * (level + X @ slopes)
        numpyro.sample("y", dist.Normal(mean, spread * noise), obs=y)
