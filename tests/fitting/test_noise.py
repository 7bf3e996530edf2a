"""Draws of a step in pairs and evenly spread: each as if alone, together with less noise."""

from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.autoguide import AutoDiagonalNormal, AutoNormal
from quick import quickly
from scipy import stats

import stakes
from stakes.bridge import NumPyroApproximation, approximate
from stakes.fitting import EM, FitSettings, bound
from stakes.fitting.noise import spread

KEY = jax.random.key(0)


@pytest.mark.some(2)
@pytest.mark.parametrize("draws", [1, 2, 5, 10, 16])
def test_each_draw_is_standard_normal_and_its_numbers_independent(draws: int) -> None:
    drawn = np.asarray(quickly(lambda: spread(KEY, draws, 20_000))).reshape(draws, 200, 100)
    for one in drawn:
        assert stats.kstest(one.ravel(), "norm").pvalue > 1e-4
        beside = np.corrcoef(one[:, ::2].ravel(), one[:, 1::2].ravel())[0, 1]
        sizes = np.corrcoef(np.abs(one[:, ::2]).ravel(), np.abs(one[:, 1::2]).ravel())[0, 1]
        assert max(abs(beside), abs(sizes)) < 4.5 / np.sqrt(one.size / 2)


@pytest.mark.parametrize("draws", [10, 16])
def test_draws_come_in_pairs_with_one_of_each_stratum(draws: int) -> None:
    drawn = np.asarray(quickly(lambda: spread(KEY, draws, 50)))
    np.testing.assert_array_equal(drawn[: draws // 2], -drawn[draws // 2 :])
    share = 2 * stats.norm.cdf(np.abs(drawn[: draws // 2])) - 1
    strata = np.sort(np.floor(share * (draws // 2) + 1e-6 * (share < 0.5)), axis=0)
    np.testing.assert_array_equal(strata, np.arange(draws // 2)[:, None].repeat(50, axis=1))


def test_far_draws_are_finite() -> None:
    assert np.isfinite(quickly(lambda: spread(KEY, 2, 2_000_000))).all()


def model(x: Any, y: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 5))
    spread_of = numpyro.sample("spread", dist.HalfNormal(1))
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("row", len(x)):
        own = numpyro.sample("own", dist.Gamma(2, 1))
        numpyro.sample("y", dist.Normal(level + x @ slopes + own, spread_of), obs=y)


def of(guide: type) -> NumPyroApproximation:
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(4, 2)), "y": rng.normal(size=4)}
    problem = stakes.Problem(model, outcome="y", loss=stakes.Squared(), guide=guide)
    return approximate(problem, data, KEY)


@pytest.fixture(scope="module", params=[AutoNormal, AutoDiagonalNormal])
def approximation(request: Any) -> NumPyroApproximation:
    return of(request.param)


def test_a_draw_at_given_noise_is_that_of_the_guide(approximation: NumPyroApproximation) -> None:
    """NumPyro's own draw, and the noise found back from it."""
    params, key = approximation.start, jax.random.key(3)
    draw = lambda *noise: quickly(lambda: approximation.draw(params, key, {}, *noise))  # noqa: E731
    plain = draw()
    sites = approximation._guide_sites(params, key, {})
    noise = {}
    for pair, site in zip(approximation.normals, approximation._normal_sites, strict=True):
        fn, value = sites[site]["fn"], sites[site]["value"]
        while not isinstance(fn, dist.Normal):
            value = fn.transforms[0].inv(value) if hasattr(fn, "transforms") else value
            fn = fn.base_dist
        noise[pair.loc] = (value - fn.loc) / fn.scale
    given = draw(noise)
    np.testing.assert_allclose(given.log_ratio, plain.log_ratio, rtol=2e-5)
    np.testing.assert_allclose(given.outcome.loc, plain.outcome.loc, rtol=2e-4)
    moved = {name: value + 1 for name, value in noise.items()}
    assert abs(draw(moved).log_ratio - plain.log_ratio) > 1e-3


@pytest.mark.some(1)
def test_the_bound_has_the_same_mean_and_gradient_and_less_noise(
    approximation: NumPyroApproximation,
) -> None:
    params = approximation.start

    def estimates(independent: bool) -> np.ndarray:
        def one(key: Any) -> Any:
            ask = jax.value_and_grad(
                lambda here: bound(
                    approximation, None, 10, key, {}, here, None, independent=independent
                )[0]
            )
            return ask(params)

        found = quickly(jax.vmap(one), jax.random.split(jax.random.key(independent), 4_000))
        flat = [np.asarray(leaf).reshape(4_000, -1) for leaf in jax.tree.leaves(found)]
        return np.concatenate(flat, axis=1)

    even, alone = estimates(False), estimates(True)
    error = np.sqrt((even.var(axis=0) + alone.var(axis=0)) / 4_000)
    np.testing.assert_array_less(np.abs(even.mean(axis=0) - alone.mean(axis=0)), 4.5 * error)
    assert np.median(even.var(axis=0) / alone.var(axis=0)) < 0.5


def test_an_m_step_draws_with_less_noise_too() -> None:
    """The mean of its outcomes, which is the best decision under a squared loss."""
    approximation = of(AutoNormal)

    def decided(independent: bool) -> np.ndarray:
        settings = FitSettings(independent=independent)

        def one(key: Any) -> Any:
            outcomes, _ = EM().drawn(approximation, approximation.start, key, {}, settings)
            return outcomes.loc.mean(axis=0)

        keys = jax.random.split(jax.random.key(independent), 2_000)
        return np.asarray(quickly(jax.vmap(one), keys))

    even, alone = decided(False), decided(True)
    error = np.sqrt((even.var(axis=0) + alone.var(axis=0)) / 2_000)
    np.testing.assert_array_less(np.abs(even.mean(axis=0) - alone.mean(axis=0)), 4.5 * error)
    assert np.all(even.var(axis=0) < 0.5 * alone.var(axis=0))


def test_other_guides_draw_as_they_did() -> None:
    def guide(x: Any, y: Any = None) -> None:
        numpyro.sample("level", dist.Normal(numpyro.param("at", 0.3), 1.0))

    def alone(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 5))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(level, 1), obs=y)

    problem = stakes.Problem(alone, outcome="y", loss=stakes.Squared(), guide=guide)
    by_hand = approximate(problem, {"x": np.zeros(3), "y": np.ones(3)}, KEY)
    at = (by_hand, None, 4, KEY, {}, by_hand.start, None)
    np.testing.assert_array_equal(bound(*at)[0], bound(*at, independent=True)[0])
