"""Laws of every loss: what it costs, and which decision it makes best."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import oracles
import pytest
from catalogue import DISTRIBUTIONS, LOSSES
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from quick import quickly
from scipy import stats

from stakes import Absolute, InputError, LinEx, Squared, Tilted
from stakes.expectation import Mixture

FAILURE_RATE = 1e-4
"""Of the brute-force test, over all its cases, were its draws made anew."""

TWINS = {
    "squared": oracles.squared,
    "absolute": oracles.absolute,
    "tilted low": oracles.tilted(0.2),
    "tilted high": oracles.tilted(0.9),
    "linex over": oracles.LinEx(0.2),
    "linex under": oracles.LinEx(-0.2),
}
every_loss = pytest.mark.parametrize("name", LOSSES)
numbers = st.floats(-1e6, 1e6, width=32)


@every_loss
@given(outcome=numbers, decision=numbers)
def test_a_loss_is_never_negative(name, outcome, decision):
    assert LOSSES[name](jnp.float32(outcome), jnp.float32(decision)) >= 0


@every_loss
@given(outcome=numbers)
def test_a_loss_is_zero_at_agreement(name, outcome):
    assert LOSSES[name](jnp.float32(outcome), jnp.float32(outcome)) == 0


@every_loss
@given(values=arrays(np.float32, (2, 8), elements=st.floats(-30, 30, width=32)))
def test_a_loss_costs_what_its_formula_says(name, values):
    outcome, decision = values
    exact = TWINS[name](outcome.astype(float), decision.astype(float))
    np.testing.assert_allclose(LOSSES[name](outcome, decision), exact, rtol=1e-4, atol=1e-6)


@every_loss
def test_a_loss_works_elementwise_and_broadcasts(name):
    outcome, decision = jnp.linspace(-1, 1, 3)[:, None], jnp.linspace(0, 2, 4)
    losses = LOSSES[name](outcome, decision)
    assert losses.shape == (3, 4)
    for row, column in np.ndindex(3, 4):
        alone = LOSSES[name](outcome[row, 0], decision[column])
        np.testing.assert_allclose(losses[row, column], alone, rtol=1e-5)


@every_loss
def test_a_loss_takes_plain_numbers(name):
    assert LOSSES[name](3.0, 1.0) > 0


@given(outcome=numbers, decision=numbers)
def test_the_absolute_loss_is_twice_the_tilted_loss_at_one_half(outcome, decision):
    y, h = jnp.float32(outcome), jnp.float32(decision)
    assert Absolute()(y, h) == 2 * Tilted(0.5)(y, h)


@given(outcome=numbers, decision=numbers)
def test_the_tilted_loss_mirrored_has_the_other_quantile(outcome, decision):
    y, h = jnp.float32(outcome), jnp.float32(decision)
    np.testing.assert_allclose(Tilted(0.2)(y, h), Tilted(0.8)(-y, -h), rtol=1e-5)


# The best decision for draws ---------------------------------------------------------------


@every_loss
@given(
    draws=arrays(np.float32, st.sampled_from([1, 2, 7]), elements=st.integers(-20, 20).map(float))
)
def test_the_bayes_decision_of_a_few_draws_beats_every_other(name, draws):
    found = np.asarray(LOSSES[name].bayes_decision(jnp.asarray(draws)), float)
    grid = np.concatenate([draws, np.linspace(-20, 20, 161)]).astype(float)
    risk, risks = (TWINS[name](draws[:, None].astype(float), h).mean(0) for h in (found, grid))
    assert risk <= risks.min() * (1 + 1e-5) + 1e-6


@every_loss
def test_the_bayes_decision_of_many_draws_beats_a_fine_grid(name):
    draws = np.random.default_rng(0).gumbel(1.0, 2.0, (1000, 3))
    found = np.asarray(LOSSES[name].bayes_decision(jnp.asarray(draws)), float)
    assert found.shape == (3,)
    grid = np.linspace(-5, 15, 2001)[:, None]
    risk = TWINS[name](draws, found).mean(0)
    risks = TWINS[name](draws[:, None], grid).mean(0)
    assert np.all(risk <= risks.min(0) * (1 + 1e-5))


# The best decision for a mixture -----------------------------------------------------------

MIXTURES = {
    "Normal": tuple(LOSSES),
    "Poisson": ("squared", "absolute", "tilted low", "tilted high"),
    "NegativeBinomial2": ("squared", "absolute", "tilted low", "tilted high"),
    "Gamma": ("squared", "absolute", "tilted low", "tilted high"),
}
"""Outcome -> the losses whose best decision for a mixture is exact."""
COMPONENTS, INSTANCES = 5, 6
each_mixture = pytest.mark.parametrize(
    ("outcome", "name"), [(outcome, name) for outcome in MIXTURES for name in MIXTURES[outcome]]
)


def mixture_of(outcome: str) -> tuple[Mixture, list[oracles.Twin]]:
    """Components stacked along a leading axis, as a vmap over draws of θ does; and their twins."""
    family, rng = DISTRIBUTIONS[outcome], np.random.default_rng(1)
    size = COMPONENTS * INSTANCES
    parameters = {
        name: value.reshape(COMPONENTS, INSTANCES)
        for name, value in family.draw(rng, size, np.ones(size)).items()
    }
    components = jax.vmap(family.at)(parameters)
    twins = [family.twin(**{k: v[i] for k, v in parameters.items()}) for i in range(COMPONENTS)]
    return Mixture(components), twins


def risk_under(twins: list[oracles.Twin], name: str, decision: np.ndarray) -> np.ndarray:
    each = [oracles.expected(oracles.grid(t, decision), TWINS[name], decision) for t in twins]
    return np.mean(each, axis=0)


@pytest.mark.some(9)
@each_mixture
def test_the_exact_decision_minimises_the_expected_loss_of_a_mixture(outcome, name):
    mixture, twins = mixture_of(outcome)
    found = np.asarray(quickly(lambda: LOSSES[name].exact_decision(mixture)), float)
    assert found.shape == (INSTANCES,)
    risk = risk_under(twins, name, found)
    spread = np.sqrt(np.mean([twin.var() for twin in twins], axis=0))
    for away in np.concatenate([-np.geomspace(1e-3, 3, 12), np.geomspace(1e-3, 3, 12)]):
        assert np.all(risk <= risk_under(twins, name, found + away * spread) * (1 + 1e-5))


@pytest.mark.some(9)
@each_mixture
def test_the_exact_decision_agrees_with_brute_force(outcome, name):
    mixture, twins = mixture_of(outcome)
    exact = np.asarray(quickly(lambda: LOSSES[name].exact_decision(mixture)), float)
    rng = np.random.default_rng(2)
    draws = np.concatenate([twin.rvs((4000, INSTANCES), random_state=rng) for twin in twins])
    drawn = np.asarray(LOSSES[name].bayes_decision(jnp.asarray(draws)), float)
    # Risk is flat at its minimum: the drawn decision exceeds it by k·χ²/draws with k below three.
    likely = 3 * stats.chi2(1).isf(FAILURE_RATE / (INSTANCES * len(MIXTURES) * len(LOSSES)))
    excess = risk_under(twins, name, drawn) / risk_under(twins, name, exact) - 1
    assert np.all(excess > -1e-5)
    assert np.all(excess < likely / len(draws))


def test_the_exact_decision_of_one_component_is_its_quantile():
    one = Mixture(jax.vmap(dist.Normal)(jnp.array([[3.0]]), jnp.array([[2.0]])))
    found = quickly(lambda: Tilted(0.9).exact_decision(one))
    np.testing.assert_allclose(found, DISTRIBUTIONS["Normal"].twin(3, 2).ppf([0.9]), rtol=1e-5)


@pytest.mark.parametrize("q", [0.01, 0.3, 0.999])
def test_the_best_decision_about_rare_counts_is_a_whole_number_from_zero(q):
    rates = np.array([[1e-3, 0.1, 0.7], [5e-4, 0.05, 2.0]])
    twins = [DISTRIBUTIONS["Poisson"].twin(rate) for rate in rates]
    reached = np.array([np.mean([twin.cdf(k) for twin in twins], axis=0) >= q for k in range(30)])
    counts = jax.vmap(dist.Poisson)(jnp.asarray(rates))
    found = quickly(lambda counts: Tilted(q).exact_decision(Mixture(counts)), counts)
    np.testing.assert_array_equal(found, np.argmax(reached, axis=0))


# LinEx: neither overflow nor cancellation ---------------------------------------------------


@pytest.mark.parametrize("c", [1.0, -1.0, 20.0, -0.5])
def test_linex_stays_finite_where_its_exponential_would_overflow(c):
    error = jnp.array([-1e8, -1e4, -200.0, 200.0, 1e4, 1e8], jnp.float32)
    of = jax.jit(lambda h: jax.jvp(lambda h: LinEx(c)(0.0, h), (h,), (jnp.ones_like(h),)))
    loss, slope = of(error)
    assert np.all(np.isfinite(loss))
    assert np.all(np.isfinite(slope))
    assert np.all(np.sign(slope) == np.sign(error))


def test_linex_grows_with_the_error_even_beyond_overflow():
    error, loss = np.linspace(0, 1e4, 2001), jax.jit(LinEx(1.0))
    assert np.all(np.diff(loss(0.0, error)) > 0)
    assert np.all(np.diff(loss(0.0, -error)) > 0)


linex_and_slope = jax.jit(jax.value_and_grad(lambda h: LinEx(1.0)(0.0, h)))


@given(exponent=st.floats(-15, 1.5), sign=st.sampled_from([-1, 1]))
def test_linex_keeps_its_digits_for_small_and_moderate_errors(exponent, sign):
    x = np.float64(np.float32(sign * 10.0**exponent))
    series = sum(x**k / float(np.prod(np.arange(1.0, k + 1))) for k in range(2, 12))
    exact = series if abs(x) < 0.3 else np.expm1(x) - x
    loss, slope = linex_and_slope(jnp.float32(x))
    np.testing.assert_allclose(loss, exact, rtol=2e-6)
    np.testing.assert_allclose(slope, np.expm1(x), rtol=2e-6)


def test_linex_of_small_c_is_half_the_squared_loss():
    draws = jnp.linspace(-3.0, 3.0, 7)
    scaled = LinEx(1e-4)(draws, 0.5) / (1e-8 / 2)
    np.testing.assert_allclose(scaled, Squared()(draws, 0.5), rtol=1e-3)


def test_linex_decides_below_the_mean_when_too_high_is_what_costs():
    draws = jnp.array([-1.0, 0.0, 1.0])
    assert LinEx(1.0).bayes_decision(draws) < 0 < LinEx(-1.0).bayes_decision(draws)


# What cannot be a loss ---------------------------------------------------------------------


@pytest.mark.parametrize("q", [0.0, 1.0, -0.2, 1.5, float("nan")])
def test_a_tilt_outside_zero_and_one_is_refused(q):
    with pytest.raises(InputError, match=r"`Tilted\(q=...\)` must be .* strictly between 0 and 1"):
        Tilted(q)


@pytest.mark.parametrize("c", [0.0, float("inf"), float("nan")])
def test_a_linex_that_vanishes_or_explodes_is_refused_with_a_way_out(c):
    with pytest.raises(InputError, match=r"`LinEx\(c=...\)` must be .* other than zero.*Squared"):
        LinEx(c)
