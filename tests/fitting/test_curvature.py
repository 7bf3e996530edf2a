"""Linear response against a posterior that is known: a regression with correlated covariates."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import stakes
from stakes import predicting
from stakes.bridge import approximate
from stakes.fitting import linear_response
from stakes.predicting import LinearResponsePosterior

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) @ np.array([[1.0, 0.9, 0.0], [0.0, 0.4, 0.3], [0.0, 0.0, 1.0]])
Y = X @ np.array([1.0, -1.0, 0.5]) + RNG.normal(size=40)
PRECISION = np.eye(3) + X.T @ X
COVARIANCE = np.linalg.inv(PRECISION)


def regression(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(x @ weights, 1), obs=y)


def optimum(**change):
    """The mean-field optimum, which is known: the mean, and 1 / precision of each latent alone."""
    problem = stakes.Problem(regression, outcome="y", loss=stakes.Squared(), **change)
    approximation = approximate(problem, {"x": jnp.asarray(X), "y": jnp.asarray(Y)}, KEY)
    scale = jnp.asarray(1 / np.sqrt(np.diag(PRECISION)))
    params = {
        "weights_auto_loc": jnp.asarray(COVARIANCE @ X.T @ Y),
        "weights_auto_scale": jnp.log(jnp.expm1(scale)),
    }
    return approximation, jax.tree.map(lambda leaf: leaf.astype(float), params)


def test_covariances_are_those_of_the_exact_posterior():
    """A normal posterior has the same curvature everywhere, whatever the draws."""
    found = linear_response(*optimum(), KEY)
    np.testing.assert_allclose(found @ found.T, COVARIANCE, rtol=1e-3, atol=1e-5)
    assert (np.triu(found, 1) == 0).all()


def test_draws_have_these_covariances_and_weights_that_are_all_the_same():
    """A standard deviation of 20,000 draws is off by 2 % once in 15,000 times."""
    approximation, params = optimum()
    factor = jnp.asarray(linear_response(approximation, params, KEY))
    posterior = LinearResponsePosterior(approximation, params, factor.astype(float))
    log_ratio, latents = predicting.weighed_latents(posterior, KEY, 20_000)
    drawn = np.asarray(latents["weights"])
    np.testing.assert_allclose(np.sqrt(np.diag(COVARIANCE)), drawn.std(axis=0), rtol=0.02)
    np.testing.assert_allclose(np.corrcoef(drawn.T), _correlation(COVARIANCE), atol=0.03)
    # log p - log q is the evidence wherever q is the posterior itself.
    evidence = _log_evidence()
    np.testing.assert_allclose(np.asarray(log_ratio), evidence, atol=2e-3 * abs(evidence))
    again = posterior.latents(KEY, 4_000, predicting.Members({}))["weights"]
    np.testing.assert_allclose(np.asarray(again).std(axis=0), drawn.std(axis=0), rtol=0.05)


def test_a_posterior_that_leans_on_few_draws_is_corrected_by_its_weights():
    """Weights of draws of the guide vary, since it has no covariances."""
    approximation, params = optimum()
    plain = predicting.FittedPosterior(approximation, params)
    log_ratio, _ = predicting.weighed_latents(plain, KEY, 500)
    assert np.ptp(np.asarray(log_ratio)) > 1


def two_sided(n, y=None):
    """Two optima, at ±3: at 0, between them, the bound is curved upwards."""
    root = numpyro.sample("root", dist.Normal(0, 10))
    with numpyro.plate("row", n):
        numpyro.sample("y", dist.Normal(root**2, 1), obs=y)


def test_where_the_bound_is_curved_upwards_there_is_no_optimum():
    problem = stakes.Problem(two_sided, outcome="y", loss=stakes.Squared())
    approximation = approximate(problem, {"n": 3, "y": jnp.full(3, 9.0)}, KEY)
    params = {"root_auto_loc": jnp.zeros(()), "root_auto_scale": jnp.full((), -2.0)}
    with pytest.raises(stakes.NumericalError, match="not reached an optimum"):
        linear_response(approximation, params, KEY)


def shifted(n, y=None):
    """A parameter of the model's own, which the mean of the latent is added to."""
    level = numpyro.param("level", jnp.zeros(()))
    away = numpyro.sample("away", dist.Normal(0, 5))
    with numpyro.plate("row", n):
        numpyro.sample("y", dist.Normal(level + away, 1), obs=y)


def test_parameters_of_the_model_stay_where_they_are():
    """Given the level, the posterior of the latent has a precision of n + 1 / 25."""
    problem = stakes.Problem(shifted, outcome="y", loss=stakes.Squared())
    approximation = approximate(problem, {"n": 30, "y": jnp.ones(30)}, KEY)
    scale = (30 + 1 / 25) ** -0.5
    start = approximation.start
    params = {name: jnp.zeros_like(value) for name, value in start.items()}
    params["away_auto_scale"] = jnp.log(jnp.expm1(jnp.asarray(scale)))
    found = linear_response(approximation, params, KEY)
    np.testing.assert_allclose(found, [[scale]], rtol=1e-3)


def test_a_curvature_that_is_not_finite_is_refused():
    approximation, params = optimum()
    params["weights_auto_loc"] = params["weights_auto_loc"] * jnp.nan
    with pytest.raises(stakes.NumericalError, match="not finite"):
        linear_response(approximation, params, KEY)


def test_guides_with_covariances_of_their_own_are_refused():
    from numpyro.infer.autoguide import AutoMultivariateNormal

    problem = stakes.Problem(
        regression, outcome="y", loss=stakes.Squared(), guide=AutoMultivariateNormal
    )
    ways = [stakes.Plain(), stakes.LinearResponse()]
    data = {"x": jnp.asarray(X), "y": jnp.asarray(Y)}
    with pytest.raises(stakes.InputError, match="independent normals"):
        stakes.choose(KEY, problem, data, ways, folds=2, progress=False)


def _correlation(covariance):
    deviations = np.sqrt(np.diag(covariance))
    return covariance / np.outer(deviations, deviations)


def _log_evidence():
    marginal = np.eye(len(Y)) + X @ X.T
    sign, log_det = np.linalg.slogdet(2 * np.pi * marginal)
    assert sign > 0
    return -(log_det + Y @ np.linalg.solve(marginal, Y)) / 2
