"""Losses that grow linearly: the score of an interval, and what its best one is."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from normal_mixtures import LOCS, SCALES, best_parts
from scipy import stats

import stakes
from stakes import (
    IntervalScore,
)

KEY = jax.random.key(0)


@pytest.mark.usefixtures("double_precision")
def test_the_best_interval_lies_between_quantiles():
    low, high = best_parts(IntervalScore(0.8), IntervalScore(0.8).space)
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
