"""Decisions found numerically, against decisions that are known."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from quick import QUICKLY, quickly
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
    by_parabolas,
    by_promise,
    numerical_decision,
    risks,
    rules,
    second_minimum_on,
    term_decision,
)
from stakes.decisions.minimise import At
from stakes.expectation import Mixture, ScoreFunction
from stakes.losses import AnyLoss
from stakes.predicting import draws_for, draws_to_decide
from stakes.utilities import ScaledLoss

KEY = jax.random.key(0)
decide = jax.jit(
    numerical_decision, static_argnames=("task", "expectation"), compiler_options=QUICKLY
)
DRAWS = 64
SPREAD = 2.0
LIKE = jnp.zeros(3)


def normals(centre=(0.0, 5.0, -100.0), between: float = 1.0, within: float = SPREAD):
    """Draws of θ along a leading axis: Normal outcomes about centres that differ a little."""
    theta = jnp.linspace(-between, between, DRAWS)[:, None]
    return jax.vmap(dist.Normal)(jnp.array(centre) + theta, jnp.full((DRAWS, 3), within))


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


def best_for(term, outcomes, like):
    return quickly(lambda outcomes: term_decision(term, KEY, outcomes, like, held=1), outcomes)


def test_the_linearized_term_is_maximised_by_the_bayes_decision():
    outcomes = normals()
    term = ScaledLoss(Tilted(0.2), 1.7).term(ClosedForm())
    found = best_for(term, outcomes, LIKE)
    exact = quickly(lambda outcomes: Tilted(0.2).exact_decision(Mixture(outcomes)), outcomes)
    np.testing.assert_allclose(found, exact, atol=0.02 * SPREAD)


def test_the_term_of_a_symmetric_utility_is_maximised_at_the_centre():
    term = ExpUtility(Squared(), 4.0).term(ClosedForm())
    found = best_for(term, normals(), LIKE)
    np.testing.assert_allclose(found, [0.0, 5.0, -100.0], atol=0.02 * SPREAD)


def test_the_term_prefers_another_decision_than_the_expected_utility_does():
    """log inside the mean over θ: the term shuns decisions that are hopeless under some θ."""
    centres = jnp.where(jnp.arange(DRAWS) < 48, 0.0, 6.0)[:, None]
    outcomes = jax.vmap(dist.Normal)(centres, jnp.ones((DRAWS, 1)))
    gain = ExpUtility(Squared(), 2.0)
    greedy = decide(DecisionTask(gain), ClosedForm(), KEY, outcomes, jnp.zeros(1))
    term = gain.term(ClosedForm())
    careful = best_for(term, outcomes, jnp.zeros(1))
    # For equal widths log ũ is a parabola, so that the term's best is the mean over θ.
    np.testing.assert_allclose(careful, 1.5, atol=0.02)
    assert greedy < 0.5


@pytest.mark.slow
def test_m_steps_walk_to_a_best_decision_beyond_the_outcomes():
    outcomes = normals(between=0.0, within=SPREAD)
    term = ScaledLoss(LinEx(4.0), 1.0).term(ClosedForm())
    decision = LIKE
    for _ in range(20):
        before, decision = decision, best_for(term, outcomes, decision)
    exact = np.array([0.0, 5.0, -100.0]) - 2 * SPREAD**2
    np.testing.assert_allclose(decision, exact, atol=0.02 * SPREAD)
    assert np.all(np.abs(before - exact) < 0.02 * SPREAD)  # and stay there


@pytest.mark.slow
def test_an_m_step_finds_its_way_from_draws_that_are_all_alike():
    """One draw in a thousand decides: 1000 (1-h)² if it happens, h² if not, best near a half."""
    outcomes = jax.vmap(dist.Bernoulli)(jnp.full((30, 1), 0.001))

    def cost(outcome, decision):
        return jnp.where(outcome > 0, 1000 * jnp.square(1 - decision), jnp.square(decision))

    term = ScaledLoss(cost, 1.0).term(Enumeration())
    decision = jnp.zeros(1)
    for _ in range(40):
        decision = best_for(term, outcomes, decision)
    np.testing.assert_allclose(decision, 0.5, atol=0.01)


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


def test_parabolas_find_the_bottom_and_are_never_worse_than_the_grid() -> None:
    def objective(h: Array) -> Array:
        bowl, kink, flat = (h - 0.3) ** 2, jnp.abs(h - 5) + 0.01 * h**2, 0 * h
        two_wells = -jnp.exp(-(h**2)) - 0.5 * jnp.exp(-((h - 3) ** 2))
        return jnp.stack([bowl[0], kink[1], flat[2], two_wells[3], h[4], -h[5]])

    grid = jnp.broadcast_to(jnp.linspace(-6.0, 6.5, 9)[:, None], (9, 6))
    found, value, of_grid = quickly(
        lambda: (
            (place := by_parabolas(objective, grid, 5).place),
            objective(place),
            jax.lax.map(objective, grid).min(axis=0),
        )
    )
    assert (value <= of_grid).all()
    assert found[:2] == pytest.approx(np.array([0.3, 5.0]), abs=0.02)
    assert found[3:] == pytest.approx(np.array([0.0, -6.0, 6.5]), abs=0.01)
    assert np.isnan(quickly(lambda: by_parabolas(lambda h: h * jnp.nan, grid, 5).place)).all()


def test_promises_lead_to_the_lowest_of_all_dips_wherever_it_is() -> None:
    curves = {
        "bowl": (lambda h: (h - 0.3) ** 2 + 1, 0.3),
        "kink": (lambda h: jnp.abs(h - 5) + 0.01 * h**2, 5.0),
        "jump": (lambda h: jnp.where(h > 0.777, 3 + h, 2 - h), 0.777),
        "dips": (lambda h: 2 + jnp.sin(9 * h) + 0.05 * (h - 0.4) ** 2, 0.5234),
        "plateau": (lambda h: jnp.clip(jnp.abs(h - 0.4) - 0.3, 0, 1) + 0.1, 0.4),
        "far above": (lambda h: (h - 1e4) ** 2 + 1e3, 1e4),
        "far below": (lambda h: jnp.abs(h + 1e5) + 1e3, -1e5),
        "flat, then a dip": (lambda h: jnp.minimum(jnp.abs(h - 30), 20.0) + 1, 30.0),
        "rises without end": (lambda h: -h, np.inf),
        "falls without end": (lambda h: 1 / (1 + jnp.exp(-h)) + 1, -np.inf),
        "falls until not defined": (lambda h: jnp.where(h < 99, -h, jnp.nan), np.nan),
        "not defined below": (lambda h: jnp.log(h + 7) ** 2 + 1, -6.0),
        "not defined": (lambda h: jnp.sqrt(h), np.nan),
        "nothing matters": (lambda h: 0 * h + 1, 0.0),
    }

    def objective(h: Array) -> Array:
        return jnp.stack([curve(h[i]) for i, (curve, _) in enumerate(curves.values())])

    shape = (66, len(curves))
    grid = jnp.broadcast_to(jnp.linspace(-6.0, 6.0, 66)[:, None], shape)
    found = quickly(lambda: by_promise(objective, grid, jnp.full(shape[1:], 12.0), 40))
    near = dict.fromkeys(curves, 0.02) | {"plateau": 0.31, "nothing matters": 6.0}
    near |= {"far above": 1.0, "far below": 1.0}
    for name, place, (_, lowest) in zip(curves, found, curves.values(), strict=True):
        assert float(place) == pytest.approx(lowest, abs=near[name], nan_ok=True), name


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


def test_a_line_of_counts_is_not_integrated():
    reason = Quadrature().objection(_lines(5.1), AnyLoss(pinball), jnp.zeros(2))
    assert reason is not None


def test_a_loss_of_ones_own_is_tried_with_fewer_draws_than_a_formula_takes():
    own = DecisionTask(AnyLoss(lambda outcome, decision: jnp.square(outcome - decision)))
    formula = DecisionTask(AnyLoss(Squared()))
    assert draws_to_decide(own, Quadrature(), 300) == 256
    assert draws_to_decide(formula, Quadrature(), 300) == draws_for(300) > 5000
