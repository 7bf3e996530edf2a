"""Decisions without their own outcome: against formulas, arviz-stats and fits without it."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats
from numpyro import handlers
from numpyro.infer import autoguide

import stakes
from examples import radon
from stakes import bridge, predicting
from stakes.demos import eight_schools
from stakes.study import leave_one_out as loo
from stakes.study import prepare
from stakes.study.options import Keys

RNG = np.random.default_rng(0)
ROWS, SPREAD = 12, 0.5
X = np.stack([np.ones(ROWS), RNG.normal(size=ROWS)], axis=1)
Y = X @ [1.0, 2.0] + SPREAD * RNG.normal(size=ROWS)
PRECISION = np.eye(2) + X.T @ X / SPREAD**2
MEAN = np.linalg.solve(PRECISION, X.T @ Y) / SPREAD**2
LOWER = np.linalg.cholesky(np.linalg.inv(PRECISION))
KEY = jax.random.key(0)


def line(x: Any, y: Any = None) -> None:
    slopes = numpyro.sample("slopes", dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(x @ slopes, SPREAD), obs=y)


def guide(wider: float) -> Any:
    """The exact posterior, made wider."""

    def program(x: Any, y: Any = None) -> None:
        mean = numpyro.param("mean", jnp.asarray(MEAN))
        numpyro.sample("slopes", dist.MultivariateNormal(mean, scale_tril=wider * LOWER))

    return program


def unfitted(wider: float = 1.0) -> stakes.Calibration:
    """Both fits where they start, at the exact posterior."""
    problem = stakes.Problem(line, outcome="y", loss=stakes.Squared(), guide=guide(wider))
    options = stakes.Options(transform=stakes.Linearized(scale=1))
    plan = prepare(KEY, problem, {"x": X, "y": Y}, options)
    fit = stakes.Fit(
        variables={"params": plan.approximation.start},
        elbo=np.zeros(3),
        utility=np.zeros(3),
        reason=stakes.Stop.CONVERGED,
        skipped=0,
        seconds=1.0,
        step_seconds=0.1,
    )
    return stakes.Calibration(plan=plan, keys=Keys.of(KEY), vi=fit, calibrated=fit)


def exact_without_each() -> np.ndarray:
    """The best decisions for the squared loss: means of y given all other rows."""
    found = []
    for row in range(ROWS):
        x, y = np.delete(X, row, axis=0), np.delete(Y, row)
        precision = np.eye(2) + x.T @ x / SPREAD**2
        found.append(X[row] @ np.linalg.solve(precision, x.T @ y) / SPREAD**2)
    return np.array(found)


@pytest.mark.parametrize("wider", [1.0, 1.3])
def test_reweighted_draws_decide_as_the_exact_posterior_without_the_row(wider: float) -> None:
    """Also where the draws come from a posterior that is too wide; off by 4 standard errors of the
    mean of 4,000 draws once in 10,000 times."""
    result = unfitted(wider)
    posterior = result.on_fit.posteriors["VI"]
    drawn = predicting.weighed(posterior, KEY, 4000)
    weights = loo.weights_without_each(drawn)
    assert (weights.k_hat < 0.7).all()
    found = predicting.decide_weighted(
        result.problem.task,
        result.expectation,
        KEY,
        drawn,
        weights.log_weights,
    )
    sizes = 1 / np.exp(2 * weights.log_weights).sum(axis=0)
    spread = np.sqrt(np.einsum("ij,jk,ik->i", X, np.linalg.inv(PRECISION), X))
    # Without a row that stands alone, the posterior is up to twice as wide.
    assert (np.abs(found - exact_without_each()) < 4 * 2 * spread / np.sqrt(sizes)).all()


def test_log_q_is_that_of_the_draw_and_not_its_expectation() -> None:
    drawn = predicting.weighed(unfitted().on_fit.posteriors["VI"], KEY, 50)
    np.testing.assert_allclose(drawn.log_ratio, drawn.log_ratio[0], rtol=1e-4)
    wide = predicting.weighed(unfitted(1.3).on_fit.posteriors["VI"], KEY, 50)
    assert np.ptp(np.asarray(wide.log_ratio)) > 0.5


def test_a_weight_that_is_no_number_is_never_relied_on() -> None:
    columns = np.random.default_rng(0).normal(size=(500, 3))
    columns[7, 1], columns[9, 2] = np.nan, -np.inf
    weights = loo.smooth_weights(columns)
    assert np.isnan(weights.k_hat).tolist() == [False, True, False]


def test_weights_are_those_of_arviz() -> None:
    drawn = predicting.weighed(unfitted(1.3).on_fit.posteriors["VI"], KEY, 1000)
    found = loo.weights_without_each(drawn)
    for row in range(ROWS):
        raw = np.asarray(drawn.log_ratio, float) - np.asarray(drawn.log_likelihood[:, row], float)
        log_weights, k_hat = array_stats.psislw(-raw)
        np.testing.assert_allclose(found.log_weights[:, row], log_weights, atol=1e-10)
        assert found.k_hat[row] == pytest.approx(float(k_hat))
    equal = loo.smooth_weights(np.zeros((100, 2)))
    np.testing.assert_allclose(np.exp(equal.log_weights), 0.01)


def test_leave_one_out_costs_are_those_of_the_formula() -> None:
    """By weights, except for a row far from all others, without which it is fitted again."""
    found = unfitted().leave_one_out()
    costs = (Y - exact_without_each()) ** 2
    np.testing.assert_allclose(found.costs["VI"], costs, atol=0.1)
    assert found.risk["LCVI"] == pytest.approx(costs.mean(), rel=0.05)
    assert found.risk["VI"] > 1.1 * unfitted().compare().risk["VI"]
    assert found.held_out
    assert "12 cases, each left out in turn; fitted again without each row" in str(found)
    assert "1 under VI: 9; 1 under LCVI: 9" in str(found)


def test_members_without_other_outcomes_are_as_good_as_new() -> None:
    def towns(town: Any, y: Any = None) -> None:
        with numpyro.plate("town", 4):
            level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("row", len(town)):
            numpyro.sample("y", dist.Normal(level[town], 1), obs=y)

    problem = stakes.Problem(towns, outcome="y", loss=stakes.Squared())
    data = {"town": np.array([0, 0, 1, 2, 2, 3]), "y": np.zeros(6)}
    plan = prepare(KEY, problem, data, stakes.Options())

    def members(left_out: int) -> dict[str, np.ndarray]:
        counted = jnp.arange(6) != left_out
        return bridge.seen_members(plan.approximation.counting(counted), KEY)

    assert members(0) == {}
    assert members(2)["town"].tolist() == [0, -1, 2, 3]


def check_alike(name: str, found: stakes.Comparison, costs: np.ndarray) -> None:
    """Mean costs that differ by no more than two standard errors over pairs, or one per cent.

    All rows share the draws that are reweighted, and their error, which pairs do not show.
    """
    differences = found.costs[name] - costs
    error = differences.std(ddof=1) / np.sqrt(len(costs))
    print(f"{name}: {found.risk[name]:.4f}, refitted {costs.mean():.4f}; ", end="")
    print(f"difference {differences.mean():.4f}, standard error {error:.4f}")
    assert abs(differences.mean()) < max(2 * error, 0.01 * costs.mean())


@pytest.mark.slow
def test_leave_one_out_equals_fits_without_each_school() -> None:
    """Fits from scratch to seven schools each, that decide for the eighth as a new one."""
    sigma, effect = np.array(eight_schools.SIGMA), np.array(eight_schools.EFFECT)

    def fitted(rows: list[int]) -> stakes.Calibration:
        data = {"sigma": sigma[rows], "effect": effect[rows]}
        how: dict[str, Any] = {"transform": stakes.Linearized(scale=7), "steps": 6000}
        return stakes.calibrate(KEY, eight_schools.problem(), data, progress=False, **how)

    found = fitted(list(range(8))).leave_one_out()
    decided: dict[str, list[float]] = {"VI": [], "LCVI": []}
    for row in range(8):
        result = fitted([other for other in range(8) if other != row])
        for name, fit in result.fits.items():
            new = result.decide({"sigma": sigma[[row]]}, new="school", fit=fit)
            decided[name].append(float(new[0]))
    for name, each in decided.items():
        check_alike(name, found, np.asarray(stakes.Tilted(0.2)(effect, np.array(each))))


def homes(
    county: Any, floor: Any, uranium: Any, within: float = 0.75, log_radon: Any = None
) -> None:
    """Radon, given how much counties differ: a normal posterior."""
    model = handlers.condition(radon.model, {"between": jnp.array(0.3)})
    model(county, floor, uranium, within, log_radon)


@pytest.mark.slow
@pytest.mark.parametrize("model", [radon.model, homes])
def test_leave_one_out_equals_fits_without_each_home(model: Any) -> None:
    """Of 40 homes in eight counties: mostly by fits without a home, and mostly by weights.

    With fits that have converged: fits without a row go on from there, and would come further.
    """
    every = radon.data()
    rows = np.flatnonzero(np.isin(every["county"], [1, 3, 6, 20, 24, 30, 45, 60]))[:40]
    counties, county = np.unique(every["county"][rows], return_inverse=True)
    data = {name: every[name][rows] for name in ("floor", "log_radon")}
    data |= {"county": county, "uranium": every["uranium"][counties], "within": every["within"]}
    problem = stakes.Problem(
        model,
        outcome="log_radon",
        loss=stakes.LinEx(-1.0),
        guide=autoguide.AutoMultivariateNormal,
    )
    result = stakes.calibrate(KEY, problem, data, progress=False)
    assert result.vi.converged
    assert result.calibrated.converged
    found = result.leave_one_out()
    print(found)
    assert result.plan is not None
    everyone = dict.fromkeys(result.fits, np.arange(40))
    for name, fits in loo.refit(result.plan, result.fits, everyone, result.on_fit).items():
        decided = [
            result.on_fit.decide(replace(result.on_fit.posteriors[name], params=fit.params))[row]
            for row, fit in fits.items()
        ]
        check_alike(name, found, np.asarray(problem.loss(data["log_radon"], np.array(decided))))
