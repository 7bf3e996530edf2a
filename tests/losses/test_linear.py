"""Decisions with several parts: the best of all that can be decided together."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import stakes
from stakes import (
    IntervalScore,
    Vector,
)
from stakes.decisions import DecisionTask, best_decision
from stakes.expectation import choose
from stakes.losses import AnyLoss
from stakes.utilities import ScaledLoss

KEY = jax.random.key(0)
LOCS = np.array([[0.3, 4.2, -2.0], [1.4, 7.9, -1.0]])
SCALES = np.array([[0.8], [2.0]]) * np.ones(3)


def outcomes() -> Any:
    return jax.vmap(dist.Normal)(jnp.asarray(LOCS), jnp.asarray(SCALES))


def found_for(loss: Any, space: Vector) -> np.ndarray:
    like = jnp.zeros(3)
    one = jax.tree.map(lambda leaf: leaf[0], outcomes())
    parts = space.unpack(jnp.zeros((len(space), 3)))
    expectation = choose(one, ScaledLoss(loss, 1.0), parts).size_for([outcomes()])
    decide = jax.jit(best_decision, static_argnums=(0, 1))
    return np.asarray(
        decide(DecisionTask(AnyLoss(loss), space), expectation, KEY, outcomes(), like), float
    )


@pytest.mark.usefixtures("double_precision")
def test_the_best_interval_lies_between_quantiles():
    low, high = found_for(IntervalScore(0.8), IntervalScore(0.8).space)
    for case in range(3):
        both = stats.norm(LOCS[:, case], SCALES[:, case])
        np.testing.assert_allclose(both.cdf(low[case]).mean(), 0.1, atol=1e-6)
        np.testing.assert_allclose(both.cdf(high[case]).mean(), 0.9, atol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("double_precision")
def test_the_expected_score_and_its_slopes_are_those_of_the_density():
    score, places = IntervalScore(0.8), (jnp.array([-1.0, 0.5]), jnp.array([0.7, 3.0]))

    def ours(loc: Any, scale: Any, parts: Any) -> Any:
        return jnp.sum(stakes.ClosedForm().expected(None, dist.Normal(loc, scale), score, parts))

    def theirs(loc: Any, scale: Any, parts: Any) -> Any:
        z = jnp.linspace(-12, 12, 40_001)[:, None]
        y, weights = loc + scale * z, jnp.exp(-jnp.square(z) / 2) / jnp.sqrt(2 * jnp.pi)
        return jnp.sum(weights * score(y, parts)) * 24 / 40_000

    at = (jnp.array([0.3, 1.0]), jnp.array([0.8, 2.0]), places)
    value, slopes = jax.value_and_grad(ours, argnums=(0, 1, 2))(*at)
    truth, truths = jax.value_and_grad(theirs, argnums=(0, 1, 2))(*at)
    np.testing.assert_allclose(value, truth, rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-3), slopes, truths)
