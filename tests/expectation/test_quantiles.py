"""Decisions found numerically, against decisions that are known."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from quick import quickly
from scipy import stats

from stakes import (
    Enumeration,
    Quadrature,
)
from stakes.expectation import Mixture
from stakes.losses import AnyLoss


def pinball(outcome, decision):
    return jnp.where(outcome > decision, 0.9 * (outcome - decision), 0.1 * (decision - outcome))


@pytest.mark.some(3)
@pytest.mark.parametrize("level", [0.001, 0.5, 0.999, 0.999999])
@pytest.mark.parametrize(
    ("components", "values", "scipy_cdf"),
    [
        (
            dist.Poisson(jnp.array([[0.3, 90.0, 3e3]])),
            None,
            lambda k: stats.poisson.cdf(k, [0.3, 90, 3e3]),
        ),
        (
            dist.Binomial(jnp.array([[50, 5000, 3]]), jnp.array([[0.5, 0.998, 0.0]])),
            Enumeration(points=5024),
            lambda k: stats.binom.cdf(k, [50, 5000, 3], [0.5, 0.998, 0.0]),
        ),
    ],
)
def test_quantiles_of_counts_stay_where_there_is_mass(components, values, scipy_cdf, level):
    """Single precision knows a distribution function to a few 1e-6, and not more."""
    found = quickly(lambda components: Mixture(components, values).quantile(level), components)
    found = np.asarray(found, np.float64)
    assert np.all(scipy_cdf(found) >= level - 3e-4)
    assert np.all(scipy_cdf(found - 1) <= level + 3e-4)
    assert np.all(scipy_cdf(found) - scipy_cdf(found - 1) > 0)  # no count without mass


def test_quantiles_of_a_discrete_uniform_are_exact_though_numpyros_inverse_is_not():
    die = Mixture(dist.DiscreteUniform(jnp.array([[2]]), jnp.array([[9]])))
    found = quickly(lambda: jnp.stack([die.quantile(level)[0] for level in (0.1, 0.5, 0.9)]))
    assert found.tolist() == [2.0, 5.0, 9.0]


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("components", "twins"),
    [
        (
            jax.vmap(dist.StudentT)(
                jnp.array([[0.5], [1.5], [30.0]]),
                jnp.array([[0.0], [10.0], [-1e3]]),
                jnp.array([[1.0], [2.0], [50.0]]),
            ),
            [stats.t(0.5, 0, 1), stats.t(1.5, 10, 2), stats.t(30, -1e3, 50)],
        ),
        (
            jax.vmap(dist.InverseGamma)(jnp.array([[0.5], [1.5]]), jnp.array([[1.0], [100.0]])),
            [stats.invgamma(0.5, scale=1), stats.invgamma(1.5, scale=100)],
        ),
        (
            jax.vmap(dist.Pareto)(jnp.array([[1.0], [10.0]]), jnp.array([[0.5], [3.0]])),
            [stats.pareto(0.5, scale=1), stats.pareto(3, scale=10)],
        ),
    ],
    ids=["StudentT", "InverseGamma", "Pareto"],
)
def test_quantiles_need_no_variance(components, twins):
    level = 0.9
    found = quickly(lambda components: Mixture(components).quantile(level), components)
    found = np.asarray(found, np.float64)
    np.testing.assert_allclose(
        np.mean([twin.cdf(found) for twin in twins], axis=0), level, atol=3e-4
    )


def test_counts_too_large_to_tell_from_their_neighbours_come_to_an_end():
    huge = quickly(lambda: Mixture(dist.Poisson(jnp.array([[3e7]]))).quantile(0.95))
    np.testing.assert_allclose(huge, 3e7, rtol=1e-3)


def _lines(slope):
    """Of counts from zero to six, all alike, in 64 draws of θ."""
    counts = dist.DiscreteUniform(0, jnp.full(2, 6))
    return dist.TransformedDistribution(counts, dist.transforms.AffineTransform(10.3, slope))


def test_a_line_of_counts_is_not_integrated():
    reason = Quadrature().objection(_lines(5.1), AnyLoss(pinball), jnp.zeros(2))
    assert reason is not None
