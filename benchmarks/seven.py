"""Seven ordinary problems for comparing optimisers: models of several kinds, with their data."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import stakes
from examples import matrix_factorization, radon
from stakes.demos import eight_schools

Task = tuple[stakes.Problem, dict[str, Any]]


def logistic() -> Task:
    """1,000 rows, ten covariates that are correlated by 0.7."""

    def model(x: Any, y: Any = None) -> None:
        slopes = numpyro.sample("slopes", dist.Normal(0, 2).expand([x.shape[1]]).to_event(1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Bernoulli(logits=x @ slopes), obs=y)

    rng = np.random.default_rng(1)
    x = np.sqrt(0.3) * rng.normal(size=(1_000, 10)) + np.sqrt(0.7) * rng.normal(size=(1_000, 1))
    y = rng.random(1_000) < 1 / (1 + np.exp(-x @ rng.normal(size=10)))
    return stakes.Problem(model, outcome="y", loss=stakes.Squared()), {"x": x, "y": y.astype(float)}


def poisson() -> Task:
    """500 counts, five covariates, a group effect of twenty groups."""

    def model(x: Any, group: Any, groups: int = 20, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 5))
        slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
        spread = numpyro.sample("spread", dist.HalfNormal(1))
        with numpyro.plate("group", groups):
            own = numpyro.sample("own", dist.Normal(0, 1))
        rate = jnp.exp(level + x @ slopes + spread * own[group])
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Poisson(rate), obs=y)

    rng = np.random.default_rng(2)
    x, group = rng.normal(size=(500, 5)), rng.integers(0, 20, 500)
    rate = np.exp(2 + 0.3 * x @ rng.normal(size=5) + 0.5 * rng.normal(size=20)[group])
    data = {"x": x, "group": group, "y": rng.poisson(rate).astype(float)}
    return stakes.Problem(model, outcome="y", loss=stakes.Squared()), data


def gaussian_process() -> Task:
    """60 points of a smooth curve, with length, height and noise unknown."""

    def model(x: Any, y: Any = None) -> None:
        length = numpyro.sample("length", dist.LogNormal(0, 0.5))
        height = numpyro.sample("height", dist.HalfNormal(2))
        noise = numpyro.sample("noise", dist.HalfNormal(1))
        gap = (x[:, None] - x) / length
        covariance = height**2 * jnp.exp(-jnp.square(gap) / 2) + 1e-4 * jnp.eye(len(x))
        raw = numpyro.sample("raw", dist.Normal(0, 1).expand([len(x)]).to_event(1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(jnp.linalg.cholesky(covariance) @ raw, noise), obs=y)

    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 6, 60))
    data = {"x": x, "y": np.sin(1.5 * x) + 0.3 * rng.normal(size=60)}
    return stakes.Problem(model, outcome="y", loss=stakes.Squared()), data


def network() -> Task:
    """200 points, one layer of ten units."""

    def model(x: Any, units: int = 10, y: Any = None) -> None:
        normal = dist.Normal(0, 1)
        inner = numpyro.sample("inner", normal.expand([2, units]).to_event(2))
        outer = numpyro.sample("outer", normal.expand([units]).to_event(1))
        noise = numpyro.sample("noise", dist.HalfNormal(1))
        hidden = jnp.tanh(jnp.stack([x, jnp.ones_like(x)], axis=-1) @ inner)
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(hidden @ outer, noise), obs=y)

    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, 200)
    data = {"x": x, "y": np.sin(2 * x) + 0.2 * rng.normal(size=200)}
    return stakes.Problem(model, outcome="y", loss=stakes.Squared()), data


def factorisation() -> Task:
    """200 x 50, half observed, ten factors, minibatches of 100 rows."""
    data = {**matrix_factorization.simulate(200, 50, 10), "factors": 10}
    return stakes.Problem(matrix_factorization.model, outcome="y", loss=stakes.Squared()), data


SEVEN: dict[str, Callable[[], Task]] = {
    "eight schools": lambda: (eight_schools.problem(), dict(eight_schools.data())),
    "radon": lambda: (radon.problem(), radon.data()),
    "factorisation": factorisation,
    "logistic regression": logistic,
    "Poisson GLM": poisson,
    "Gaussian process": gaussian_process,
    "neural network": network,
}
