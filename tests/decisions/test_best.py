"""Decisions found numerically, against decisions that are known."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from normal_mixtures import DRAWS, LIKE, SPREAD, decide, normals
from quick import quickly
from scipy import stats

import stakes
from stakes import (
    Absolute,
    ClosedForm,
    Enumeration,
    ExpUtility,
    LinEx,
    MonteCarlo,
    Quadrature,
    Squared,
    Tilted,
    Utility,
)
from stakes._types import Array
from stakes.decisions import (
    DecisionTask,
    best,
    best_decision,
    numerical_decision,
    risks,
    rules,
    second_minimum_on,
    term_decision,
)
from stakes.decisions.minimise import At
from stakes.expectation import Mixture, ScoreFunction
from stakes.losses import AnyLoss
from stakes.predicting import draws_to_decide
from stakes.predicting.decisions import draws_for
from stakes.utilities import ScaledLoss

KEY = jax.random.key(0)


def pinball(outcome, decision):
    return jnp.where(outcome > decision, 0.9 * (outcome - decision), 0.1 * (decision - outcome))


@pytest.mark.slow
def test_a_callable_pinball_loss_leads_to_the_exact_quantile():
    outcomes = normals()
    found = decide(DecisionTask(AnyLoss(pinball)), Quadrature(), KEY, outcomes, LIKE)
    exact = Tilted(0.9).exact_decision(Mixture(outcomes))
    assert found.shape == LIKE.shape
    assert found.dtype == LIKE.dtype
    np.testing.assert_allclose(found, exact, atol=0.02 * SPREAD)


@pytest.mark.some(2)
@pytest.mark.parametrize("loss", [Squared(), Absolute(), Tilted(0.2), LinEx(0.5)], ids=str)
def test_a_numerical_decision_agrees_with_the_exact_one(loss):
    outcomes = normals()
    found = decide(DecisionTask(AnyLoss(loss)), ClosedForm(), KEY, outcomes, LIKE)
    exact = quickly(lambda outcomes: loss.exact_decision(Mixture(outcomes)), outcomes)
    np.testing.assert_allclose(found, exact, atol=0.02 * SPREAD)


def test_a_numerical_decision_about_counts_is_the_exact_quantile():
    rates = jnp.array([[3.0, 20.0], [5.0, 30.0]])
    outcomes = jax.vmap(dist.Poisson)(jnp.repeat(rates, 32, axis=0))
    found = decide(
        DecisionTask(AnyLoss(pinball)), Enumeration(points=128), KEY, outcomes, jnp.zeros(2)
    )
    twins = [stats.poisson(rate) for rate in np.asarray(rates)]
    reached = np.array([np.mean([t.cdf(k) for t in twins], axis=0) >= 0.9 for k in range(80)])
    np.testing.assert_allclose(found, np.argmax(reached, axis=0), atol=0.05)


def test_the_higher_of_two_peaks_is_found():
    """A mixture whose lesser mode is the broader: most draws lie there, the best decision not."""
    centres = jnp.where(jnp.arange(DRAWS) % 8 < 3, 10.0, -10.0)[:, None]
    widths = jnp.where(jnp.arange(DRAWS) % 8 < 3, 0.5, 4.0)[:, None]
    outcomes = jax.vmap(dist.Normal)(centres, widths)
    hit = Utility(lambda outcome, decision: jnp.exp(-jnp.square(outcome - decision)))
    found = decide(DecisionTask(hit), Quadrature(), KEY, outcomes, jnp.zeros(1))
    np.testing.assert_allclose(found, 10.0, atol=0.05)


@pytest.mark.slow
def test_a_utility_with_two_peaks_leads_to_the_better_one():
    """Being one too high is worth more than being one too low, and just right is worth little."""

    def two_peaks(outcome, decision):
        error = (decision - outcome) / 0.3
        low, high = (jnp.exp(-jnp.square(error + side / 0.3) / 2) for side in (1, -1))
        return 0.8 * low + high

    outcomes = normals(between=0.0, within=0.6)
    found = decide(DecisionTask(Utility(two_peaks)), Quadrature(), KEY, outcomes, LIKE)
    h, width = np.linspace(-3, 3, 60_001), np.hypot(0.3, 0.6)
    best = h[np.argmax(0.8 * stats.norm(-1, width).pdf(h) + stats.norm(1, width).pdf(h))]
    np.testing.assert_allclose(found, best + np.array([0.0, 5.0, -100.0]), atol=0.02)


@pytest.mark.slow
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("c", [-4.0, pytest.param(4.0, marks=pytest.mark.slow)])
def test_a_best_decision_beyond_the_bulk_of_the_outcomes_is_found(c):
    outcomes = normals(between=0.0, within=SPREAD)
    mine = lambda outcome, decision: LinEx(c)(outcome, decision)  # noqa: E731
    found = decide(DecisionTask(AnyLoss(mine)), Quadrature(), KEY, outcomes, LIKE)
    exact = np.array([0.0, 5.0, -100.0]) - c * SPREAD**2 / 2  # four standard deviations away
    np.testing.assert_allclose(found, exact, atol=0.1 * SPREAD)


@pytest.mark.parametrize(
    ("outcomes", "twin", "c"),
    [
        (jax.vmap(dist.Gamma)(jnp.full((64, 1), 5.0), jnp.full((64, 1), 1.5)), "gamma", -1.2),
        (jax.vmap(dist.Laplace)(jnp.zeros((64, 1)), jnp.full((64, 1), 0.9)), "laplace", 1.0),
    ],
)
def test_a_linex_decision_is_not_left_to_draws_where_quadrature_is_at_hand(outcomes, twin, c):
    """The best decision is -log(E exp(-cy))/c, which a few draws of a heavy tail get wrong."""
    found = quickly(
        lambda: best_decision(
            DecisionTask(AnyLoss(LinEx(c))), Quadrature(), KEY, outcomes, jnp.zeros(1)
        )
    )
    mgf = {"gamma": (1 + c / 1.5) ** -5.0, "laplace": 1 / (1 - 0.81 * c**2)}[twin]
    np.testing.assert_allclose(found, -np.log(mgf) / c, atol=0.01)


def test_a_monte_carlo_expectation_leaves_the_decision_to_draws():
    outcomes = normals()
    found, exact = quickly(
        lambda outcomes: (
            best_decision(DecisionTask(AnyLoss(LinEx(0.5))), MonteCarlo(), KEY, outcomes, LIKE),
            LinEx(0.5).exact_decision(Mixture(outcomes)),
        ),
        outcomes,
    )
    np.testing.assert_allclose(found, exact, atol=0.3)


def test_an_exponential_utility_of_a_cost_far_from_zero_does_not_underflow():
    """Whatever the decision, the cost is hundreds of times the scale."""

    def cost(outcome, decision):
        return 500 + 0.1 * jnp.square(decision - 3 * outcome)

    outcomes = normals(centre=(20.0, 5.0, -100.0), between=0.0)
    found = decide(DecisionTask(ExpUtility(cost, 2.0)), Quadrature(), KEY, outcomes, LIKE)
    np.testing.assert_allclose(found, [60.0, 15.0, -300.0], atol=0.2)


def test_a_cost_that_never_rises_again_has_no_silent_decision():
    """It falls as the decision rises, or falls, or is nothing once the decision is high enough."""

    def cost(outcome, decision):
        above = decision - outcome
        costs = [1e6 - above, 1e6 + above, jnp.maximum(-above, 0.0)]
        return jnp.stack([each[..., i] for i, each in enumerate(costs)], axis=-1)

    found = decide(DecisionTask(AnyLoss(cost)), Quadrature(), KEY, normals(), LIKE)
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.inf])


def test_a_decision_about_counts_may_be_a_count_at_which_the_cost_jumps():
    outcomes = jax.vmap(dist.Poisson)(jnp.full((64, 1), 4.0))
    short = lambda outcome, decision: 9.0 * (outcome > decision) + jnp.abs(decision)  # noqa: E731
    found = decide(
        DecisionTask(AnyLoss(short)), Enumeration(points=64), KEY, outcomes, jnp.zeros(1)
    )
    assert found == np.argmin(9 * stats.poisson(4.0).sf(np.arange(20)) + np.arange(20))


@pytest.mark.parametrize(
    "search",
    [
        lambda: numerical_decision(
            DecisionTask(AnyLoss(pinball)), MonteCarlo(), KEY, normals(), LIKE
        ),
        lambda: term_decision(
            ScaledLoss(Squared(), 1.0).term(MonteCarlo()), KEY, normals(), LIKE, held=1
        ),
    ],
    ids=["a decision", "an M-step"],
)
def test_where_a_search_looks_and_what_it_finds_there_have_random_keys_of_their_own(
    monkeypatch, search
):
    """Otherwise an expectation over draws would be least at these very draws."""
    keys: dict[str, list[Array]] = {}

    def noted(module, name, at):
        real = getattr(module, name)

        def called(*arguments):
            keys.setdefault(name, []).append(arguments[at])
            return real(*arguments)

        return called

    places = {"draws_of": (0, best, rules), "each_draw": (1, risks, rules)}
    for name, (at, *modules) in places.items():
        for module in modules:
            monkeypatch.setattr(module, name, noted(module, name, at))
    jax.eval_shape(search)
    assert not any(a is b for a in keys["draws_of"] for b in keys["each_draw"])


@pytest.mark.slow
def test_few_draws_at_once_change_nothing(monkeypatch):
    # Not compiled as a whole, lest the second call find the first one's code.
    together, in_parts = [], []
    for found, most in ((together, 2**24), (in_parts, 16)):
        monkeypatch.setattr("stakes.decisions.risks.MOST_ELEMENTS", most)
        found.append(
            numerical_decision(DecisionTask(AnyLoss(Squared())), ClosedForm(), KEY, normals(), LIKE)
        )
    np.testing.assert_allclose(in_parts, together, atol=0.02 * SPREAD)


def test_a_second_minimum_lies_beyond_a_barrier_and_is_nearly_as_low() -> None:
    places = jnp.linspace(-2, 2, 41)[:, None] * jnp.ones(3)
    # Dips at -1 and 1: alike, one better by far, and one dip alone.
    deep = 2 + jnp.square(jnp.square(places) - 1)
    tilt = jnp.stack([0.002 * places[:, 0], 0.2 * places[:, 0], 0.0 * places[:, 0]], axis=-1)
    values = jnp.where(jnp.arange(3) == 2, 2 + jnp.square(places), deep + tilt)
    found = second_minimum_on(At(places, values))
    assert found.exists.tolist() == [True, False, False]
    assert float(found.best.place[0]) == pytest.approx(-1, abs=0.06)
    assert float(found.other.place[0]) == pytest.approx(1, abs=0.06)
    assert float(found.between[0]) == pytest.approx(3, abs=0.01)


@pytest.mark.slow
def test_decisions_far_apart_that_are_nearly_equally_good_are_warned_of() -> None:
    def model(y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 0.1))
        with numpyro.plate("row", 8):
            numpyro.sample("y", dist.Normal(level, 0.3), obs=y)

    def either(outcome: Any, decision: Any) -> Any:
        """Off by three is as good as right."""
        away = outcome - decision
        return 1 + jnp.minimum(jnp.minimum(jnp.square(away - 3), jnp.square(away + 3)), 4.0)

    problem = stakes.Problem(model, outcome="y", loss=either)
    data = {"y": np.linspace(-0.5, 0.5, 8)}
    with pytest.warns(stakes.StakesWarning, match=r"nearly equally good in \d of 8 cases"):
        stakes.calibrate(jax.random.key(0), problem, data, steps=20, draws=2, progress=False)


def _lines(slope):
    """Of counts from zero to six, all alike, in 64 draws of θ."""
    counts = dist.DiscreteUniform(0, jnp.full(2, 6))
    return dist.TransformedDistribution(counts, dist.transforms.AffineTransform(10.3, slope))


@pytest.mark.some(1)
@pytest.mark.parametrize("slope", [-5.1, 5.1])
def test_a_decision_about_a_line_of_counts_is_where_a_cost_jumps(slope):
    """Being late costs 400, and every day that is allowed for costs one."""
    late = lambda y, h: 400.0 * (y > h) + jnp.abs(h + 60.0)  # noqa: E731
    outcomes = jax.vmap(lambda _: _lines(slope))(jnp.arange(64))
    found = quickly(
        lambda: best_decision(
            DecisionTask(AnyLoss(late)), ScoreFunction(), KEY, outcomes, jnp.zeros(2)
        )
    )
    values = 10.3 + slope * np.arange(7)
    exact = values[np.argmin([np.mean(400.0 * (values > h + 1e-6)) + h + 60 for h in values])]
    np.testing.assert_allclose(found, exact, atol=1e-5)


def test_a_loss_of_ones_own_is_tried_with_fewer_draws_than_a_formula_takes():
    own = DecisionTask(AnyLoss(lambda outcome, decision: jnp.square(outcome - decision)))
    formula = DecisionTask(AnyLoss(Squared()))
    assert draws_to_decide(own, Quadrature(), 300) == 256
    assert draws_to_decide(formula, Quadrature(), 300) == draws_for(300) > 5000
