"""A NumPyro model behind the port, for tests of the bridge."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from quick import quickly
from scipy import stats

import stakes
from stakes import bridge
from stakes._types import Batch, Params
from stakes.bridge import NumPyroApproximation
from stakes.port import Draw, params_in

KEY = jax.random.key(0)


FAILURE_RATE = 1e-6
"""How often a test that draws may fail by chance, over all that it compares."""


def problem(model: Callable[..., None], guide: Any = None, loss: Any = None) -> stakes.Problem:
    return stakes.Problem(model, outcome="y", loss=loss or stakes.Squared(), guide=guide)


def approximate(
    model: Callable[..., None], data: dict[str, Any], guide: Any = None
) -> NumPyroApproximation:
    chosen = problem(model, guide)
    checked = chosen.check_data(data, needs_outcome=True)
    return bridge.approximate(chosen, checked, KEY)


def draw(approximation: NumPyroApproximation, params: Params, batch: Batch | None = None) -> Draw:
    """One draw, from all parameters: those of the batch's members are gathered first."""
    here = params_in(approximation, params, batch or {})
    return quickly(lambda here: approximation.draw(here, KEY, batch or {}), here)


def level_guide(**data: Any) -> None:
    """For models whose one latent is a `level`; an autoguide takes seconds to set up."""
    scale = numpyro.param("scale", 0.1, constraint=constraints.positive)
    numpyro.sample("level", dist.Normal(numpyro.param("loc", 0.0), scale))


def assert_same_mean(one: Any, other: Any) -> None:
    """Two samples (draw, component) of equal means, each tested at its share of the rate."""
    one, other = (np.reshape(sample, (len(sample), -1)).astype(float) for sample in (one, other))
    error = np.sqrt(one.var(axis=0) / len(one) + other.var(axis=0) / len(other))
    error += 1e-5 * np.abs(one.mean(axis=0)) + 1e-6  # rounding, where nothing varies
    z = (one.mean(axis=0) - other.mean(axis=0)) / error
    assert np.abs(z).max() < stats.norm.isf(FAILURE_RATE / 2 / z.size)


GROUP = np.array([0, 1, 2, 0, 1])


FAR_APART = 1000.0 * np.arange(6)


def local(x: Any, y: Any = None, batch: int = 2) -> None:
    """One latent a row, rows in minibatches; `x` sets rows far apart."""
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    with numpyro.plate("row", len(x), subsample_size=batch) as members:
        level = numpyro.sample("level", dist.Normal(mean, 5))
        seen = None if y is None else y[members]
        numpyro.sample("y", dist.Normal(level + x[members], 1), obs=seen)


def local_by_hand(x: Any, y: Any = None, batch: int = 2) -> None:
    numpyro.sample("mean", dist.Normal(numpyro.param("m", 0.0), 0.1))
    with numpyro.plate("row", len(x), subsample_size=batch):
        loc = numpyro.param("level_loc", jnp.zeros(len(x)), event_dim=0)
        numpyro.sample("level", dist.Normal(loc, 0.1))


LOCAL_DATA = {"x": FAR_APART, "y": FAR_APART + np.arange(6), "batch": 2}
