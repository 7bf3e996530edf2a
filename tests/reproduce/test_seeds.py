"""Several seeds as one batch, and natural gradients, on a conjugate problem."""

import os
import signal
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro.infer import autoguide
from quick import quickly

import stakes
from reproduce import seeds
from stakes.bridge import approximate
from stakes.errors import NumericalError
from stakes.fitting import History, Stop, adam, run
from stakes.port import NormalPair
from stakes.study import Plan, prepare
from stakes.study.options import Keys
from tests.cluster import two_workers

Y = np.array([1.0, 2.0, 4.0, 5.0], np.float32)


def normal_mean(y: Any = None) -> None:
    """Posterior of the mean: precision 1/100 + 4, so N(2.993, 0.499)."""
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    with numpyro.plate("case", 4):
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def plan_for(optimizer: optax.GradientTransformation, *, draws: int = 8) -> Plan:
    return prepare(
        jax.random.key(0),
        stakes.Problem(normal_mean, outcome="y", loss=stakes.Tilted(0.2)),
        {"y": Y},
        stakes.Options(steps=300, draws=draws, optimizer=optimizer, all_steps=True),
    )


KEYS = jax.random.split(jax.random.key(3), 3)


@pytest.fixture(scope="module")
def together() -> tuple[seeds.PlainFits, list[stakes.Calibration]]:
    plan = plan_for(optax.adam(0.05))
    plain = seeds.fit_vi(KEYS, plan)
    return plain, seeds.calibrate_seeds(plain, plan)


@pytest.mark.slow
def test_a_fit_cut_short_does_not_pass_for_a_whole_one() -> None:
    def interrupt(history: History) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    # A shell may have started the tests with Ctrl-C ignored.
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            seeds.fit_vi(KEYS, plan_for(optax.adam(0.05)), watch=interrupt)
    finally:
        signal.signal(signal.SIGINT, outside)


def test_a_fit_that_gave_up_is_an_error(together: Any) -> None:
    plain, _ = together
    gave_up = replace(plain.fits[0], reason=Stop.NUMERICAL_FAILURE)
    with pytest.raises(NumericalError, match=r"no finite gradient.*after 300 steps"):
        gave_up.check_whole("VI")


def test_a_seed_in_a_batch_ends_where_it_ends_alone(together: Any) -> None:
    plain, _ = together
    plan = plan_for(optax.adam(0.05))
    state = plan.vi_state(plain.starts[1])
    key = Keys.of(KEYS[1]).vi
    alone = run("VI", plan.vi_step(), plan.approximation, state, key, plan.settings)
    for name, value in alone.params.items():
        np.testing.assert_allclose(plain.fits[1].params[name], value, rtol=1e-4, atol=1e-5)


def test_seeds_have_starts_and_scales_of_their_own(together: Any) -> None:
    plain, results = together
    starts = np.array([start["mean_auto_loc"] for start in plain.starts])
    assert len(np.unique(starts)) == len(KEYS)
    assert len({result.scale for result in results}) == len(KEYS)


@pytest.mark.slow
def test_a_calibrated_fit_with_an_endless_scale_is_plain_vi_continued(together: Any) -> None:
    """With the same minibatches and draws, so that tables compare utilities, not luck or length."""
    plain, _ = together
    plan = plan_for(optax.adam(0.05))
    longer = seeds.continued(plain, plan)
    [endless] = seeds.calibrate_scales(plain, plan, [1e8])
    for name, value in longer.fits[0].params.items():
        np.testing.assert_allclose(endless.calibrated.params[name], value, rtol=1e-4, atol=1e-4)
        assert np.any(np.abs(plain.fits[0].params[name] - value) > 1e-3)


def test_the_decisions_of_plain_vi_are_found_once_for_each_loss(together: Any) -> None:
    plain, _ = together
    plan = plan_for(optax.adam(0.05))
    exponential = replace(plan, transform=stakes.Exponential())
    before = [decisions for _, decisions in plain.ready(plan)]
    after = [decisions for _, decisions in plain.ready(exponential)]
    assert all(a is b for a, b in zip(before, after, strict=True))


def test_seeds_of_a_batch_share_the_model_as_traced_on_other_cases(together: Any) -> None:
    _, results = together
    assert len({id(result.plan.predictors) for result in results}) == 1


def test_a_cold_start_is_from_where_plain_vi_started(together: Any) -> None:
    plain, _ = together
    cold = replace(plan_for(optax.sgd(0.0)), warm_start=False)
    [first, *_] = seeds.calibrate_seeds(plain, cold)
    for name, value in plain.starts[0].items():
        np.testing.assert_array_equal(first.calibrated.params[name], value)


@pytest.mark.slow
def test_scales_in_a_batch_calibrate_less_the_larger_they_are(together: Any) -> None:
    plain, _ = together
    plan = plan_for(optax.adam(0.05))
    results = seeds.calibrate_scales(plain, plan, [0.05, 1e6])
    widths = [float(jax.nn.softplus(r.calibrated.params["mean_auto_scale"])) for r in results]
    assert results[0].scale == 0.05
    assert widths[0] < 0.8 * widths[1]


def test_natural_gradients_find_the_exact_posterior() -> None:
    """The noise of 64 draws leaves some 1 % in the scale: 5 % fails less than once in a million."""
    falling = optax.scale_by_schedule(optax.cosine_decay_schedule(1.0, 300))
    plan = plan_for(optax.chain(stakes.natural_gradient(0.1), falling), draws=64)
    fit = seeds.fit_vi(KEYS[:1], plan).fits[0]
    precision = 1 / 100 + 4
    assert float(fit.params["mean_auto_loc"]) == pytest.approx(12 / precision, rel=0.02)
    scale = float(jax.nn.softplus(fit.params["mean_auto_scale"]))
    assert scale == pytest.approx(precision**-0.5, rel=0.05)


def test_natural_gradients_are_the_gradient_over_the_fisher_information() -> None:
    params = {"m": jnp.array(1.0), "s": jnp.array(-1.0)}
    tree = {"params": params, "decisions": jnp.array(2.0)}
    slope = {"params": {"m": jnp.array(0.3), "s": jnp.array(0.1)}, "decisions": jnp.array(0.1)}
    optimizer, normals = stakes.natural_gradient(0.5), (NormalPair("m", "s", jax.nn.softplus),)
    updates, _ = optimizer.update(slope, optimizer.init(tree), tree, normals=normals)

    def fisher(m: float, u: float) -> Any:
        """By brute force: E ∇ log q ∇ log q' over a grid."""
        scale = np.log1p(np.exp(u))
        grid = jnp.linspace(m - 8 * scale, m + 8 * scale, 20_001)

        def log_q(at: Any, z: Any) -> Any:
            return dist.Normal(at[0], jax.nn.softplus(at[1])).log_prob(z)

        at = jnp.array([m, u])
        scores = jax.vmap(jax.grad(log_q), (None, 0))(at, grid)
        weights = jnp.exp(log_q(at, grid)) * (grid[1] - grid[0])
        return jnp.einsum("n,ni,nj->ij", weights, scores, scores)

    information = quickly(lambda: fisher(1.0, -1.0))
    expected = -0.5 * np.linalg.solve(information, [0.3, 0.1])
    found = [updates["params"]["m"], updates["params"]["s"]]
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert float(updates["decisions"]) == pytest.approx(-0.03, rel=1e-4)


def test_what_is_not_of_a_normal_is_moved_by_adam_as_optax_has_it() -> None:
    tree = {"params": {"m": jnp.array(1.0), "s": jnp.array(-1.0)}, "decisions": jnp.arange(3.0)}
    normals = (NormalPair("m", "s", jax.nn.softplus),)
    ours, theirs = stakes.natural_gradient(adam=0.1), adam(0.1)
    state, other = ours.init(tree), theirs.init(tree["decisions"])
    for key in jax.random.split(jax.random.key(0), 5):
        slope = {"params": tree["params"], "decisions": jax.random.normal(key, (3,))}
        updates, state = ours.update(slope, state, tree, normals=normals)
        expected, other = theirs.update(slope["decisions"], other)
        np.testing.assert_allclose(updates["decisions"], expected, rtol=1e-5)


def test_a_step_is_cut_off_and_follows_the_mean_of_those_before() -> None:
    tree = {"m": jnp.array(0.0), "s": jnp.array(10.0)}
    optimizer, normals = stakes.natural_gradient(0.01), (NormalPair("m", "s", jax.nn.softplus),)
    slope = {"m": jnp.array(-1e6), "s": jnp.array(0.0)}
    first, state = optimizer.update(slope, optimizer.init(tree), tree, normals=normals)
    assert float(first["m"]) == pytest.approx(0.01 * 10 * 10, rel=1e-3)
    quick = stakes.natural_gradient(1.0)
    assert float(quick.update(slope, quick.init(tree), tree, normals=normals)[0]["m"]) == (
        pytest.approx(0.2 * 10, rel=1e-3)
    )
    second, _ = optimizer.update(jax.tree.map(jnp.zeros_like, slope), state, tree, normals=normals)
    assert float(second["m"]) == pytest.approx(float(first["m"]) * 0.09 / 0.19, rel=1e-3)


def test_normals_of_a_guide_are_told_by_its_type() -> None:
    def model(y: Any = None) -> None:
        z = numpyro.sample("z_auto_loc", dist.Normal(0, 1))  # not what the name says
        numpyro.param("own_auto_loc", jnp.array(0.0))
        numpyro.param("own_auto_scale", jnp.array(1.0))
        with numpyro.plate("case", 3):
            numpyro.sample("y", dist.Normal(z, 1), obs=y)

    def normals(guide: Any) -> list[tuple[str, str]]:
        problem = stakes.Problem(model, outcome="y", loss=stakes.Squared(), guide=guide)
        found = approximate(problem, {"y": jnp.zeros(3)}, jax.random.key(0)).normals
        return [pair[:2] for pair in found]

    assert normals(autoguide.AutoNormal) == [("z_auto_loc_auto_loc", "z_auto_loc_auto_scale")]
    assert normals(autoguide.AutoDiagonalNormal) == [("auto_loc", "auto_scale")]
    assert normals(autoguide.AutoMultivariateNormal) == []


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5])
def test_a_rate_outside_its_range_is_refused(rate: float) -> None:
    with pytest.raises(stakes.InputError, match=r"natural_gradient\(rate=...\).*at most 1"):
        stakes.natural_gradient(rate)


def test_a_guide_without_normals_of_its_own_is_refused_rather_than_fitted_by_adam() -> None:
    optimizer = stakes.natural_gradient(0.1)
    params = {"z_auto_loc": jnp.zeros(2), "z_auto_scale": jnp.ones(2)}  # of nobody knows what
    with pytest.raises(stakes.InputError, match="AutoNormal"):
        optimizer.update(params, optimizer.init(params), params)


@pytest.mark.slow
def test_seeds_on_a_cluster_end_where_they_end_here() -> None:
    """Bit for bit, if as many of them are one batch."""
    plan = plan_for(optax.adam(0.05))
    here = seeds.fit_vi(KEYS, plan, together=1)
    results = seeds.calibrate_seeds(here, plan, together=1)
    with two_workers() as client:
        there = seeds.fit_vi(KEYS, plan, together=1, on=client)
        again = seeds.calibrate_seeds(there, plan, together=1, on=client)
    for before, after in zip(results, again, strict=True):
        for fit in ("vi", "calibrated"):
            jax.tree.map(
                np.testing.assert_array_equal,
                getattr(after, fit).variables,
                getattr(before, fit).variables,
            )


def test_a_watch_sees_all_seeds_or_none() -> None:
    with pytest.raises(stakes.InputError, match="sees all seeds as one batch"):
        seeds.fit_vi(KEYS, plan_for(optax.adam(0.05)), watch=print, together=1)
