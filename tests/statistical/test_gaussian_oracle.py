"""VI, joint optimisation and EM on a conjugate Gaussian reach the optimum known on paper.

The model is y_i ~ N(θ, s²) for i = 1..n with θ ~ N(m₀, s₀²), and q(θ) = N(m, v). Up to constants

    ELBO = -Σ ((y_i - m)² + v) / 2s² - ((m - m₀)² + v) / 2s₀² + (log v) / 2.

Predicted outcomes are N(m, s² + v), so that the utility terms are, for each instance,

    squared, linearized       U = -(s² + v + (m - h)²) / M                    best h = m
    squared, exponential      U = const - (v + (m - h)²) / (M + 2s²)          best h = m
    tilted(τ), linearized     U = -√(s² + v) φ(z) / M at the best             h = m + z √(s² + v)

where z = Φ⁻¹(τ). The second holds because E_y exp(-(y - h)²/M) of y ~ N(θ, s²) is proportional
to exp(-(θ - h)²/(M + 2s²)); the third is the expected tilted loss of a normal at its quantile.

At the best h none of them depends on m. The optimal m is therefore the posterior mean, whatever
the loss, and calibration shows in v alone. Setting d(ELBO + nU)/dv = 0 and multiplying by -2
gives 1/v = n/s² + 1/s₀² + 2n·κ, with κ = -dU/dv:

    squared, linearized       κ = 1/M
    squared, exponential      κ = 1/(M + 2s²)
    tilted(τ), linearized     κ = φ(z) / (2M √(s² + v)), to be solved for v

and κ = 0 is plain VI, whose optimum is the exact posterior.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gaussian_port import OneMean
from scipy import optimize, stats

import stakes
from stakes import BayesDecisions, NumericalDecisions
from stakes.decisions import objective_of
from stakes.expectation import ClosedForm
from stakes.fitting import EM, VI, Fit, FitSettings, Joint, run
from stakes.protocols import Gain

Y = np.array([1.0, 4.5, 2.0, -0.5, 3.0])
PORT = OneMean(jnp.asarray(Y))
SETTINGS = FitSettings(steps=6000, draws=64, patience=6, progress=False)
METHODS = {
    "joint": Joint(),
    "EM with Bayes decisions": EM(m_step=BayesDecisions(), draws=100),
    "EM with numerical decisions": EM(m_step=NumericalDecisions(), draws=100),
}
M = 4.0
TILT = 0.9


class Optimum(NamedTuple):
    mean: float
    sd: float
    decision: float


def optimum(
    curvature: Callable[[float], float], shift: Callable[[float], float] = lambda v: 0.0
) -> Optimum:
    """Where the bound peaks, given κ(v) and the best h - m at v; see the module's docstring."""
    posterior = len(Y) / PORT.noise**2 + 1 / PORT.prior_sd**2
    mean = (Y.sum() / PORT.noise**2 + PORT.prior_mean / PORT.prior_sd**2) / posterior
    excess = lambda v: 1 / v - posterior - 2 * len(Y) * curvature(v)  # noqa: E731
    v = optimize.brentq(excess, 1e-6, 1 / posterior + 1e-9)
    return Optimum(float(mean), float(np.sqrt(v)), float(mean + shift(v)))


Z = float(stats.norm.ppf(TILT))
EXACT_POSTERIOR = optimum(lambda v: 0.0)
PROBLEMS = {
    "squared": (
        stakes.Linearized()(stakes.Squared(), M),
        optimum(lambda v: 1 / M),
    ),
    "tilted": (
        stakes.Linearized()(stakes.Tilted(TILT), M / 20),
        optimum(
            lambda v: stats.norm.pdf(Z) / (2 * M / 20 * np.sqrt(PORT.noise**2 + v)),
            lambda v: Z * np.sqrt(PORT.noise**2 + v),
        ),
    ),
}


@pytest.fixture(scope="module")
def vi() -> Fit:
    state = VI().init(PORT.init(jax.random.key(1)), SETTINGS)
    return run("VI", VI().step(SETTINGS), PORT, state, jax.random.key(2), SETTINGS)


def fit(method: Joint | EM, gain: Gain) -> Fit:
    objective = objective_of(gain, ClosedForm())
    state = method.init(PORT.init(jax.random.key(1)), jnp.zeros(len(Y)), SETTINGS)
    step = method.step(objective, SETTINGS)
    return run("calibrated", step, PORT, state, jax.random.key(2), SETTINGS)


def assert_reached(found: Fit, expected: Optimum) -> None:
    """Within a twentieth of a standard deviation in location and 3 % in spread.

    Calibration moves the spread by much more; for decisions it is the sd of the outcome.
    """
    assert found.converged
    assert float(found.params["mean"]) == pytest.approx(expected.mean, abs=0.05 * expected.sd)
    assert float(jnp.exp(found.params["log_sd"])) == pytest.approx(expected.sd, rel=0.03)
    if "decisions" in found.variables:
        decisions = np.asarray(found.variables["decisions"])
        outcome_sd = np.hypot(PORT.noise, expected.sd)
        np.testing.assert_allclose(decisions, expected.decision, atol=0.05 * outcome_sd)


def test_vi_recovers_the_exact_posterior(vi: Fit) -> None:
    assert_reached(vi, EXACT_POSTERIOR)


@pytest.mark.some(3)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_calibrated_fit_reaches_the_optimum_on_paper(
    problem: tuple[Gain, Optimum], method: Joint | EM
) -> None:
    """Hence joint optimisation and EM, by Bayes or numerical decisions, agree with each other."""
    gain, expected = problem
    assert expected.sd < 0.75 * EXACT_POSTERIOR.sd
    assert_reached(fit(method, gain), expected)


@pytest.mark.some(1)
@pytest.mark.parametrize("method", [EM(draws=100), Joint()], ids=["EM", "joint"])
def test_exponential_utility_reaches_the_optimum_on_paper(method: Joint | EM) -> None:
    gain = stakes.Exponential()(stakes.Squared(), M)
    expected = optimum(lambda v: 1 / (M + 2 * PORT.noise**2))
    assert expected.sd < 0.9 * EXACT_POSTERIOR.sd
    assert_reached(fit(method, gain), expected)


@pytest.mark.some(1)
@pytest.mark.parametrize("method", [Joint(), EM()], ids=["joint", "EM"])
def test_a_vanishing_stake_recovers_plain_vi(method: Joint | EM) -> None:
    """M → ∞ leaves the ELBO alone. Decisions then follow the posterior only where they are set
    to their best: the gradient that joint optimisation follows vanishes with 1/M."""
    found = fit(method, stakes.Linearized()(stakes.Squared(), 1e9))
    assert float(found.params["mean"]) == pytest.approx(
        EXACT_POSTERIOR.mean, abs=0.05 * EXACT_POSTERIOR.sd
    )
    assert float(jnp.exp(found.params["log_sd"])) == pytest.approx(EXACT_POSTERIOR.sd, rel=0.03)
    assert abs(found.utility).max() < 1e-5


def test_the_trace_of_the_bound_ends_at_the_log_evidence(vi: Fit) -> None:
    evidence = stats.multivariate_normal(
        np.full(len(Y), PORT.prior_mean),
        PORT.noise**2 * np.eye(len(Y)) + PORT.prior_sd**2,
    ).logpdf(Y)
    # With q the exact posterior the log ratio is the log evidence at every draw.
    assert np.mean(vi.bound[-500:]) == pytest.approx(evidence, abs=0.02)
