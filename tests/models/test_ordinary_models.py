"""First runs of ordinary models: with all defaults they converge, and decide as well as NUTS does.

Data are simulated from each model. Decisions are judged by what they cost for new rows; those of
the posterior that NUTS draws from are the yardstick.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.autoguide import AutoMultivariateNormal

import stakes
from stakes._types import Model
from stakes.protocols import Loss

ROWS, NEW = 150, 1500
DRAWS = 2000
"""Of NUTS: enough for an R-hat of at most 1.01 and 400 effective draws, but where latents depend on
each other, as a level and what is added to it do."""
COLUMNS = 3

pytestmark = pytest.mark.slow

Data = dict[str, Any]


@dataclass(frozen=True)
class Ordinary:
    """A model, how its data come about, and the loss to decide by."""

    model: Model
    simulate: Callable[[np.random.Generator, int], Data]
    loss: Loss = stakes.Tilted(0.8)  # noqa: RUF009
    guide: Any = None
    worse: float = 0.05
    """By how much the decisions may cost more than those of NUTS."""
    draws: int = DRAWS
    steps: int = 30_000
    identified: bool = True
    """Whether latents are, so that chains can agree about them and not only about outcomes."""


def weights() -> Any:
    return numpyro.sample("w", dist.Normal(0, 1).expand([COLUMNS]).to_event(1))


def columns(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Covariates, and what they add up to."""
    x = rng.normal(size=(rows, COLUMNS))
    return x, x @ np.array([0.8, -0.5, 0.3])


# Generalised linear models -------------------------------------------------------------------


def regression(x, y=None):
    level, noise = numpyro.sample("a", dist.Normal(0, 2)), numpyro.sample("s", dist.HalfNormal(2))
    mean = level + x @ weights()
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(mean, noise), obs=y)


def simulated_regression(rng, rows):
    x, mean = columns(rng, rows)
    return {"x": x, "y": 1 + mean + rng.normal(size=rows)}


def robust(x, y=None):
    level, noise = numpyro.sample("a", dist.Normal(0, 2)), numpyro.sample("s", dist.HalfNormal(2))
    freedom = numpyro.sample("df", dist.Gamma(2, 0.1))
    mean = level + x @ weights()
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.StudentT(freedom, mean, noise), obs=y)


def simulated_robust(rng, rows):
    x, mean = columns(rng, rows)
    return {"x": x, "y": 1 + mean + 0.7 * rng.standard_t(4, size=rows)}


def logistic(x, y=None):
    logits = numpyro.sample("a", dist.Normal(0, 2)) + x @ weights()
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)


def simulated_logistic(rng, rows):
    x, mean = columns(rng, rows)
    return {"x": x, "y": rng.binomial(1, 1 / (1 + np.exp(-mean)))}


def five_to_one(outcome, decision):
    short = outcome - decision
    return jnp.where(short > 0, 5.0, 1.0) * short**2


def binomial(x, trials, y=None):
    logits = numpyro.sample("a", dist.Normal(0, 2)) + x @ weights()
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Binomial(trials, logits=logits), obs=y)


def simulated_binomial(rng, rows):
    x, mean = columns(rng, rows)
    return {"x": x, "trials": 20, "y": rng.binomial(20, 1 / (1 + np.exp(-mean)))}


def poisson(x, y=None):
    log_rate = numpyro.sample("a", dist.Normal(0, 2)) + x @ weights()
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Poisson(jnp.exp(log_rate)), obs=y)


def simulated_poisson(rng, rows):
    x, mean = columns(rng, rows)
    return {"x": x, "y": rng.poisson(np.exp(1.5 + mean))}


def negative_binomial(x, y=None):
    log_rate = numpyro.sample("a", dist.Normal(0, 2)) + x @ weights()
    concentration = numpyro.sample("concentration", dist.Gamma(2, 0.2))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(log_rate), concentration), obs=y)


def simulated_negative_binomial(rng, rows):
    x, mean = columns(rng, rows)
    return {"x": x, "y": rng.poisson(np.exp(2 + mean) * rng.gamma(3.0, 1 / 3.0, size=rows))}


def zero_inflated(x, y=None):
    log_rate = numpyro.sample("a", dist.Normal(0, 2)) + x @ weights()
    gate = numpyro.sample("gate", dist.Beta(1, 1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.ZeroInflatedPoisson(gate, jnp.exp(log_rate)), obs=y)


def simulated_zero_inflated(rng, rows):
    x, mean = columns(rng, rows)
    return {"x": x, "y": rng.poisson(np.exp(2 + mean)) * rng.binomial(1, 0.7, size=rows)}


def gamma(x, y=None):
    log_mean = numpyro.sample("a", dist.Normal(0, 2)) + x @ weights()
    shape = numpyro.sample("shape", dist.Gamma(2, 0.5))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Gamma(shape, shape * jnp.exp(-log_mean)), obs=y)


def simulated_gamma(rng, rows):
    x, mean = columns(rng, rows)
    return {"x": x, "y": np.exp(1 + mean) * rng.gamma(2.0, 0.5, size=rows)}


def beta(x, y=None):
    logits = numpyro.sample("a", dist.Normal(0, 2)) + x @ weights()
    size = numpyro.sample("size", dist.Gamma(2, 0.1))
    mean = jax.nn.sigmoid(logits)
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Beta(size * mean, size * (1 - mean)), obs=y)


def simulated_beta(rng, rows):
    x, mean = columns(rng, rows)
    share = 1 / (1 + np.exp(-mean))
    return {"x": x, "y": np.clip(rng.beta(10 * share, 10 * (1 - share)), 1e-3, 1 - 1e-3)}


# Structure -----------------------------------------------------------------------------------

SHOPS = 12


def hierarchical(shop, shops, y=None):
    level, spread = numpyro.sample("a", dist.Normal(0, 5)), numpyro.sample("t", dist.HalfNormal(2))
    noise = numpyro.sample("s", dist.HalfNormal(2))
    with numpyro.plate("shop", shops):
        away = numpyro.sample("away", dist.Normal(0, 1))
    with numpyro.plate("row", len(shop)):
        numpyro.sample("y", dist.Normal(level + spread * away[shop], noise), obs=y)


def simulated_hierarchical(rng, rows):
    shop = np.arange(rows) % SHOPS
    levels = 5 + np.random.default_rng(0).normal(size=SHOPS)
    return {"shop": shop, "shops": SHOPS, "y": levels[shop] + rng.normal(size=rows)}


KNOTS = np.linspace(-2, 2, 8)


def spline(x, y=None):
    basis = jnp.exp(-jnp.square(x[:, None] - KNOTS))
    noise = numpyro.sample("s", dist.HalfNormal(1))
    heights = numpyro.sample("heights", dist.Normal(0, 1).expand([len(KNOTS)]).to_event(1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(basis @ heights, noise), obs=y)


def simulated_spline(rng, rows):
    x = rng.uniform(-2, 2, size=rows)
    return {"x": x, "y": np.sin(2 * x) + 0.3 * rng.normal(size=rows)}


def network(x, y=None):
    first = numpyro.sample("first", dist.Normal(0, 1).expand([COLUMNS, 8]).to_event(2))
    second = numpyro.sample("second", dist.Normal(0, 0.5).expand([8]).to_event(1))
    noise = numpyro.sample("s", dist.HalfNormal(1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(jnp.tanh(x @ first) @ second, noise), obs=y)


def simulated_network(rng, rows):
    x, _ = columns(rng, rows)
    return {"x": x, "y": np.tanh(2 * x[:, 0]) - 0.5 * x[:, 1] + 0.3 * rng.normal(size=rows)}


PLACES = np.linspace(0, 1, 25)


def gaussian_process(place, y=None):
    """A smooth curve over fixed places."""
    apart = jnp.square(PLACES[:, None] - PLACES[None, :])
    root = jnp.linalg.cholesky(jnp.exp(-apart / 0.08) + 1e-4 * jnp.eye(len(PLACES)))
    noise = numpyro.sample("s", dist.HalfNormal(1))
    white = numpyro.sample("white", dist.Normal(0, 1).expand([len(PLACES)]).to_event(1))
    with numpyro.plate("row", len(place)):
        numpyro.sample("y", dist.Normal((root @ white)[place], noise), obs=y)


def simulated_gaussian_process(rng, rows):
    place = rng.integers(len(PLACES), size=rows)
    return {"place": place, "y": np.sin(6 * PLACES[place]) + 0.3 * rng.normal(size=rows)}


def autoregression(before, y=None):
    """The next value, given the one before."""
    level, pull = numpyro.sample("a", dist.Normal(0, 1)), numpyro.sample("b", dist.Normal(0, 1))
    noise = numpyro.sample("s", dist.HalfNormal(1))
    with numpyro.plate("day", len(before)):
        numpyro.sample("y", dist.Normal(level + pull * before, noise), obs=y)


def simulated_autoregression(rng, rows):
    y = [0.0]
    for shock in rng.normal(size=rows):
        y.append(0.5 + 0.7 * y[-1] + 0.5 * shock)
    return {"before": np.array(y[:-1]), "y": np.array(y[1:])}


def censored(x, ended, y=None):
    """Waiting times, of which some were still running when they were last seen."""
    log_scale = numpyro.sample("a", dist.Normal(0, 2)) + x @ weights()
    shape = numpyro.sample("shape", dist.Gamma(4, 2))
    waiting = dist.Weibull(jnp.exp(log_scale), shape)
    with numpyro.plate("row", len(x)):
        if y is not None:
            beyond = -((y / jnp.exp(log_scale)) ** shape)
            numpyro.factor("still running", jnp.where(ended, 0.0, beyond))
        numpyro.sample("y", waiting.mask(ended), obs=y)


def simulated_censored(rng, rows):
    x, mean = columns(rng, rows)
    time, end = np.exp(1 + mean) * rng.weibull(1.5, size=rows), rng.exponential(12.0, size=rows)
    return {"x": x, "ended": time < end, "y": np.minimum(time, end)}


MODELS = {
    "regression": Ordinary(regression, simulated_regression),
    "robust regression": Ordinary(robust, simulated_robust),
    "logistic regression": Ordinary(logistic, simulated_logistic, five_to_one),
    "binomial regression": Ordinary(binomial, simulated_binomial),
    "Poisson regression": Ordinary(poisson, simulated_poisson),
    "negative binomial regression": Ordinary(negative_binomial, simulated_negative_binomial),
    "zero-inflated counts": Ordinary(zero_inflated, simulated_zero_inflated),
    "gamma regression": Ordinary(gamma, simulated_gamma, stakes.Absolute()),
    "beta regression": Ordinary(beta, simulated_beta),
    "hierarchical": Ordinary(hierarchical, simulated_hierarchical, draws=2 * DRAWS),
    "splines": Ordinary(spline, simulated_spline),
    # Hidden units may change places and signs, and chains have them in different ones.
    "neural network": Ordinary(network, simulated_network, identified=False),
    # A full covariance settles slowly: the default number of steps ends in a warning to take more.
    "Gaussian process": Ordinary(
        gaussian_process,
        simulated_gaussian_process,
        guide=AutoMultivariateNormal,
        draws=2 * DRAWS,
        steps=60_000,
    ),
    "time series": Ordinary(autoregression, simulated_autoregression, draws=2 * DRAWS),
    "censored": Ordinary(censored, simulated_censored),
}


@pytest.mark.parametrize("name", MODELS)
def test_an_ordinary_model_converges_and_decides_as_nuts_does(name):
    one = MODELS[name]
    rng = np.random.default_rng(len(name))
    seen, new = one.simulate(rng, ROWS), one.simulate(rng, NEW)
    problem = stakes.Problem(one.model, outcome="y", loss=one.loss, guide=one.guide)
    result = stakes.calibrate(jax.random.key(1), problem, seen, steps=one.steps, progress=False)
    comparison = result.compare(new, nuts=one.draws)
    print(f"\n{name}\n{comparison}")
    if one.identified:
        assert not comparison.nuts.problems
    else:
        assert "NUTS is not a reliable reference here" in comparison.verdict
    assert result.vi.converged
    assert result.calibrated.converged
    risk = comparison.risk
    assert risk["VI"] <= (1 + one.worse) * risk["NUTS"]
    assert risk["LCVI"] <= (1 + one.worse) * risk["NUTS"]


def mixture(x, y=None):
    share = numpyro.sample("share", dist.Beta(2, 2))
    both = dist.Normal(jnp.array([-1.0, 1.0]), 0.5)
    with numpyro.plate("row", len(x)):
        parts = dist.Categorical(probs=jnp.stack([share, 1 - share]))
        numpyro.sample("y", dist.MixtureSameFamily(parts, both), obs=y)


def test_decisions_about_a_mixture_are_those_of_its_draws():
    rng = np.random.default_rng(0)
    data = {"x": np.ones(40), "y": np.where(rng.random(40) < 0.3, -1, 1) + rng.normal(0, 0.5, 40)}
    problem = stakes.Problem(mixture, outcome="y", loss=stakes.Tilted(0.8))
    result = stakes.calibrate(jax.random.key(0), problem, data, steps=400, progress=False)
    drawn = result.predictive(fit=result.vi, draws=4000)["y"].values[0, :, :5]
    expected = np.quantile(drawn, 0.8)  # all rows are alike
    np.testing.assert_allclose(result.vi_decisions.values, expected, atol=0.03)
    assert np.isfinite(result.decisions.values).all()
