"""Outcomes that are vectors, decided about as a whole."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats

from stakes import (
    InputError,
    Interval,
    MonteCarlo,
    Problem,
    Real,
    Squared,
    Utility,
    Vector,
    calibrate,
)

KEY = jax.random.key(0)
CORRELATION = np.array([[1.0, 0.6], [0.6, 1.0]])


def correlated(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(jnp.zeros(2), 1).to_event(1))
    with numpyro.plate("row", len(x)):
        loc = x[:, None] * slope
        numpyro.sample("y", dist.MultivariateNormal(loc, jnp.asarray(CORRELATION)), obs=y)


def side_by_side(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(jnp.zeros(2), 1).to_event(1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(x[:, None] * slope, 1.0).to_event(1), obs=y)


ROWS = 10
X = np.linspace(-1, 1, ROWS)
Y = X[:, None] * np.array([2.0, 1.0]) + np.random.default_rng(0).multivariate_normal(
    np.zeros(2), CORRELATION, ROWS
)
DATA = {"x": X, "y": Y}


def stock(outcome, decision):
    """One stock for both: three for each unit short of their sum, one for each too many."""
    short = outcome.sum(axis=-1) - decision
    return jnp.maximum(3 * short, -short)


@pytest.fixture(scope="module")
def result():
    problem = Problem(correlated, outcome="y", loss=stock, together=True)
    return calibrate(KEY, problem, DATA, steps=400, draws=4, progress=False)


def test_a_decision_about_a_sum_knows_how_its_parts_go_together(result):
    assert result.decisions.dims == ("row",)
    drawn = result.predictive(fit=result.vi, draws=4000)["y"].values[0]
    assert drawn.shape == (4000, ROWS, 2)
    expected = np.quantile(drawn.sum(axis=-1), 0.75, axis=0)
    # 256 draws of θ with 30 even draws of y each; the spread of the sum is 1.8.
    np.testing.assert_allclose(result.vi_decisions.values, expected, atol=0.2)
    assert np.corrcoef(drawn[:, 0].T)[0, 1] > 0.5


def test_it_is_compared_and_decided_for_other_cases(result):
    risk = np.mean(np.asarray(stock(jnp.asarray(Y), jnp.asarray(result.vi_decisions.values))))
    assert result.compare().risk["VI"] == pytest.approx(float(risk), rel=1e-4)
    other = result.decide({"x": np.array([0.0, 0.5, 1.0])}, new="row")
    assert np.all(np.diff(other.values) > 0)
    assert result.observed().dims == ("row", "y_dim_0")


@pytest.mark.slow
def test_even_draws_are_right_on_average_and_less_noisy():
    outcome = dist.MultivariateNormal(jnp.array([0.5, -1.0]), jnp.asarray(CORRELATION))
    exact = float(4 * _excess(-0.5, np.sqrt(CORRELATION.sum()), 0.3) + 1 * (0.3 + 0.5))

    def found(key, loc):
        moved = dist.MultivariateNormal(loc, jnp.asarray(CORRELATION))
        return MonteCarlo(draws=32).expected(key, moved, stock, jnp.asarray(0.3))

    keys = jax.random.split(KEY, 400)
    values, slopes = jax.vmap(jax.value_and_grad(found, argnums=1), (0, None))(keys, outcome.loc)
    plain = jax.vmap(lambda key: stock(outcome.sample(key, (32,)), 0.3).mean())(keys)
    assert float(values.std()) < 0.5 * float(plain.std())
    np.testing.assert_allclose(values.mean(), exact, atol=5 * float(values.std()) / 20)
    above = stats.norm.sf((0.3 + 0.5) / np.sqrt(CORRELATION.sum()))
    np.testing.assert_allclose(slopes.mean(axis=0), 4 * above - 1, atol=0.03)


def _excess(loc, scale, h):
    z = (loc - h) / scale
    return scale * (stats.norm.pdf(z) + z * stats.norm.cdf(z))


@pytest.mark.slow
def test_a_vector_of_decisions_about_a_vector():
    def loss(outcome, decision):
        off = outcome - jnp.stack(decision, axis=-1)
        return jnp.square(off).sum(axis=-1) + 0.5 * jnp.square(off.sum(axis=-1))

    space = Vector(first=Real(), second=Interval(-1, 1))
    problem = Problem(side_by_side, outcome="y", loss=loss, decision=space, together=True)
    result = calibrate(KEY, problem, DATA, steps=300, draws=4, progress=False)
    drawn = result.predictive(fit=result.vi, draws=2000)["y"].values[0]
    second = np.clip(drawn[..., 1].mean(axis=0), -1, 1)
    np.testing.assert_allclose(result.vi_decisions.sel(part="second"), second, atol=0.2)


@pytest.mark.slow
def test_a_utility_of_vectors():
    utility = Utility(lambda y, h: jnp.exp(-jnp.square(y.sum(axis=-1) - h) / 8))
    problem = Problem(side_by_side, outcome="y", utility=utility, together=True)
    result = calibrate(KEY, problem, DATA, steps=300, draws=4, progress=False)
    drawn = result.predictive(fit=result.vi, draws=2000)["y"].values[0]
    np.testing.assert_allclose(result.vi_decisions, drawn.sum(axis=-1).mean(axis=0), atol=0.3)


BAD = {
    "a vector without saying so": lambda: calibrate(
        KEY, Problem(correlated, outcome="y", loss=Squared()), DATA
    ),
    "a loss of numbers": lambda: Problem(correlated, outcome="y", loss=Squared(), together=True),
    "a loss that gives a vector": lambda: calibrate(
        KEY,
        Problem(
            correlated, outcome="y", loss=lambda y, h: jnp.square(y - h[..., None]), together=True
        ),
        DATA,
    ),
    "no vectors": lambda: calibrate(
        KEY,
        Problem(
            lambda x, y=None: side_by_side(x, None), outcome="slope", loss=stock, together=True
        ),
        DATA,
    ),
    "together, as a word": lambda: Problem(correlated, outcome="y", loss=stock, together="yes"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_vector_is_refused_before_any_fit(name, monkeypatch):
    def run(*args, **options):
        raise AssertionError("a fit was started")

    monkeypatch.setattr("stakes.fitting.VI.init", run)
    with pytest.raises(InputError):
        BAD[name]()
