"""Decisions of losses whose best one is where a curve crosses zero."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from quick import quickly
from scipy import optimize, stats

import stakes
from stakes.expectation import Mixture, choose

RNG = np.random.default_rng(8)
# No tail reaches beyond the grid on which costs are added up.
LOCS, SCALES = RNG.normal(size=(40, 5)) * 3, np.exp(0.4 * RNG.normal(size=(40, 5)))
RATES = np.exp(RNG.normal(1.0, 0.7, size=(40, 5)))
POINTS = 40_001


def _normals() -> tuple[Mixture, np.ndarray, np.ndarray]:
    """The mixtures, and their densities on a fine grid."""
    values = np.linspace(-40, 40, POINTS)[:, None, None]
    weights = stats.norm.pdf(values, LOCS, SCALES).mean(axis=1) * (80 / (POINTS - 1))
    return (
        Mixture(jax.vmap(dist.Normal)(jnp.asarray(LOCS), jnp.asarray(SCALES))),
        values[:, 0, 0],
        weights,
    )


def _counts() -> tuple[Mixture, np.ndarray, np.ndarray]:
    values = np.arange(200.0)
    weights = stats.poisson.pmf(values[:, None, None], RATES).mean(axis=1)
    return Mixture(jax.vmap(dist.Poisson)(jnp.asarray(RATES))), values, weights


LOSSES = [
    stakes.Huber(1.5),
    stakes.Huber(0.01),
    stakes.Huber(50.0),
    stakes.Expectile(0.5),
    stakes.Expectile(0.97),
    stakes.Expectile(0.1),
]


@pytest.mark.some(6)
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("of", [_normals, _counts])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_decision_is_that_of_a_scalar_minimiser(of, loss):
    mixture, values, weights = of()
    found = np.asarray(quickly(lambda: loss.exact_decision(mixture)))

    def risk(decision, row):
        return float(np.asarray(loss(values, decision)) @ weights[:, row])

    for row, decision in enumerate(found):
        best = optimize.minimize_scalar(
            risk, bounds=(-30, 60), args=(row,), method="bounded", options={"xatol": 1e-9}
        )
        assert risk(decision, row) <= best.fun * (1 + 1e-9)


def test_single_precision_costs_nothing():
    """Nearby decisions cost the same: what counts is that no other costs less."""
    mixture, values, weights = _normals()
    for loss in LOSSES:
        found = np.asarray(quickly(lambda: loss.exact_decision(mixture)), float)  # noqa: B023
        around = found + np.linspace(-0.2, 0.2, 21)[:, None]
        risks = [(loss(values[:, None], each) * weights).sum(axis=0) for each in (found, *around)]
        assert np.all(risks[0] <= np.min(risks[1:], axis=0) * (1 + 1e-5)), loss


@pytest.mark.parametrize("q", [1e-4, 0.001, 0.99, 0.9999, 0.99999])
def test_far_expectiles_hold_in_single_precision(q):
    """They lie a few spreads from the mean, and might lie 1/q of them from it."""
    normal = Mixture(dist.Normal(jnp.zeros(1), jnp.ones(1)))

    def pull(h):
        short = stats.norm.pdf(h) - h * stats.norm.sf(h)
        return q * short - (1 - q) * (short + h)

    best = optimize.brentq(pull, -10, 10, xtol=1e-12)
    found = float(np.ravel(quickly(lambda: stakes.Expectile(q).exact_decision(normal)))[0])
    np.testing.assert_allclose(found, best, rtol=0, atol=3e-3)


@pytest.mark.parametrize("q", [1e-4, 0.01, 0.5, 5 / 6, 0.9999])
def test_the_formula_of_an_expectile_holds_near_and_far_from_the_mean(q):
    outcome, loss = dist.Normal(2.0, 1.5), stakes.Expectile(q)
    places = jnp.array([-40.0, -3.0, 1.0, 2.0, 2.6, 9.0, 60.0])
    values, step = np.linspace(-13, 17, 300_001, retstep=True)
    weights = stats.norm(2.0, 1.5).pdf(values) * step

    def expected(h):
        missed = values - h
        return (np.where(missed > 0, q, 1 - q) * missed**2) @ weights

    found = stakes.ClosedForm().expected(None, outcome, loss, places)
    np.testing.assert_allclose(found, [expected(h) for h in np.asarray(places, float)], rtol=2e-5)
    slope = jax.vmap(jax.grad(lambda h: stakes.ClosedForm().expected(None, outcome, loss, h)))
    rise = [(expected(h + 1e-3) - expected(h - 1e-3)) / 2e-3 for h in np.asarray(places, float)]
    np.testing.assert_allclose(slope(places), rise, rtol=1e-4, atol=1e-4)


def test_the_formula_of_an_expectile_is_taken_where_it_is_known():
    gain = stakes.utilities.ScaledLoss(stakes.Expectile(0.8), 1.0)
    asked = jnp.zeros(3)
    assert isinstance(choose(dist.Normal(jnp.zeros(3), 1.0), gain, asked), stakes.ClosedForm)
    assert isinstance(choose(dist.Laplace(jnp.zeros(3), 1.0), gain, asked), stakes.Quadrature)


def test_a_heavy_tail_does_not_carry_a_huber_decision_away():
    """The mean is a quarter of a million, the median one: single precision knows no more of it."""
    heavy = Mixture(dist.LogNormal(jnp.zeros(1), 5 * jnp.ones(1)))
    found = float(np.ravel(quickly(lambda: stakes.Huber(10.0).exact_decision(heavy)))[0])
    outcomes = stats.lognorm(5.0).ppf((np.arange(200_000) + 0.5) / 200_000)
    risks = [
        float(np.mean(stakes.Huber(10.0)(outcomes, h))) for h in (found, *np.linspace(0, 10, 41))
    ]
    assert risks[0] <= min(risks[1:]) * (1 + 1e-4)


def test_a_loss_without_an_expectation_has_no_decision():
    cauchy = Mixture(jax.vmap(dist.Cauchy)(jnp.asarray(LOCS), jnp.asarray(SCALES)))
    assert np.all(np.isnan(stakes.Huber(1.0).exact_decision(cauchy)))
