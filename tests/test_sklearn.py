"""Decisions as predictions of a scikit-learn regressor."""

import pickle
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import stakes
from stakes.sklearn import DecisionRegressor

ROWS = 30
X = pd.DataFrame(
    {"sun": np.linspace(0, 1, ROWS), "store": np.array(["a", "b"])[np.arange(ROWS) % 2]}
)
Y = 10 + 5 * X["sun"] + np.random.default_rng(0).normal(size=ROWS)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_scikit_learn_has_no_objection() -> None:
    check_estimator(DecisionRegressor(loss=stakes.Tilted(0.8), steps=20))


@pytest.mark.slow
def test_a_formula_decides_by_name_and_survives_pickling() -> None:
    regressor = DecisionRegressor("sold ~ sun + store", loss=stakes.Tilted(0.8), steps=50)
    regressor.set_params(random_state=1).fit(X, Y)
    decisions = regressor.predict(X[["sun", "store"]])
    lost = np.where(decisions <= Y, 0.8 * (Y - decisions), 0.2 * (decisions - Y))
    assert regressor.score(X, Y) == pytest.approx(-lost.mean(), rel=1e-4)
    assert regressor.calibration_.decisions.shape == (ROWS,)
    again = pickle.loads(pickle.dumps(regressor))
    np.testing.assert_allclose(again.predict(X), decisions, rtol=1e-6)
    with pytest.raises(stakes.InputError, match=r"'store': row 0: 'c' was not in the data"):
        regressor.predict(pd.DataFrame({"sun": [0.5], "store": ["c"]}))


@pytest.mark.slow
def test_pipelines_cross_validation_and_grids_work() -> None:
    regressor = DecisionRegressor(loss=stakes.Tilted(0.9), steps=300, random_state=0)
    pipeline = make_pipeline(StandardScaler(), regressor)
    scores = cross_val_score(pipeline, X[["sun"]], Y, cv=2)
    assert (scores < 0).all()
    grid = {"loss": [stakes.Tilted(0.9)], "model": ["y ~ sun", "y ~ sun + poly(sun, 2)"]}
    found = GridSearchCV(regressor, grid, cv=2).fit(X, Y)
    assert found.best_params_["loss"] == stakes.Tilted(0.9)
    assert found.best_estimator_.predict(X).mean() > Y.mean()


@pytest.mark.slow
def test_a_model_of_ones_own_gets_columns_by_the_names_of_its_arguments() -> None:
    def line(sun: Any, sold: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(10, 5))
        slope = numpyro.sample("slope", dist.Normal(0, 5))
        with numpyro.plate("row", len(sun)):
            numpyro.sample("sold", dist.Normal(level + slope * sun, 1), obs=sold)

    regressor = DecisionRegressor(line, outcome="sold", loss=stakes.Squared(), steps=2000)
    found = regressor.fit(X, Y).predict(X)
    expected = np.polynomial.Polynomial.fit(X["sun"], Y, 1)(X["sun"].to_numpy())
    np.testing.assert_allclose(found, expected, atol=0.3)
