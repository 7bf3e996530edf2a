"""Estimators of the utility term against its exact value, with one declared failure rate."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from catalogue import DISCRETE, DISTRIBUTIONS, LABELS, UTILITIES, quickly_chosen
from quick import quickly
from scipy import stats

from stakes import (
    ClosedForm,
    Enumeration,
    ExpUtility,
    InputError,
    Jensen,
    MonteCarlo,
    Nested,
    NoClosedForm,
    Options,
    Quadrature,
    Squared,
    StakesWarning,
    Taylor,
    Tilted,
    Utility,
)
from stakes.protocols import Expectation, UtilityTerm
from stakes.utilities import ScaledLoss

FAILURE_RATE = 1e-4
"""Of all random tests here together, were their keys drawn anew."""
COMPARISONS = 100
Z = stats.norm.isf(FAILURE_RATE / COMPARISONS / 2)

OUTCOME = dist.Normal(jnp.array([0.0, 1.0, -0.5]), jnp.array([1.0, 0.7, 1.5]))
DECISION = jnp.array([0.3, -0.2, 1.0])
SCALE = 3.0
HIT = ExpUtility(Squared(), SCALE)
BUMP = UTILITIES["bump"]
REPLICATES = 20_000
SAME = 1e-12
"""Of terms that are the same on paper, in double precision."""


def exact(gain, estimator=None) -> np.ndarray:
    expectation = Quadrature() if isinstance(gain, Utility) else ClosedForm()
    term = gain.term(expectation, estimator)
    return np.asarray(quickly(lambda: term(None, OUTCOME, DECISION)), float)


def repeated(term: UtilityTerm, replicates: int = REPLICATES) -> np.ndarray:
    """The term for many keys: (replicate, instance)."""
    keys = jax.random.split(jax.random.key(1), replicates)
    return np.asarray(quickly(jax.vmap(lambda key: term(key, OUTCOME, DECISION)), keys), float)


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values))


def relative_variance() -> np.ndarray:
    """Var u / (E u)² of exp(-ℓ/M), whose square is exp(-ℓ/(M/2))."""
    return np.exp(exact(ExpUtility(Squared(), SCALE / 2)) - 2 * exact(HIT)) - 1


# Nested Monte Carlo ------------------------------------------------------------------------


def test_the_bias_of_nested_draws_shrinks_as_there_are_more_of_them():
    draws = (2, 8, 32)
    found = [mean_and_error(repeated(HIT.term(MonteCarlo(n), Nested()))) for n in draws]
    for (fewer, error), (more, other_error) in pairwise(found):
        assert np.all(more - fewer > Z * np.hypot(error, other_error))
    last, error = found[-1]
    assert np.all(last < exact(HIT) + Z * error)


def test_nested_draws_converge_to_the_exact_term_at_the_rate_of_theory():
    draws = 512
    mean, error = mean_and_error(repeated(HIT.term(MonteCarlo(draws)), 2000))
    bias = -relative_variance() / (2 * draws)
    assert np.all(np.abs(mean - (exact(HIT) + bias)) < Z * error)
    assert np.all(np.abs(mean - exact(HIT)) < 0.01)


def test_taylors_correction_reduces_the_bias_of_nested_draws():
    nested, taylor = (
        mean_and_error(repeated(HIT.term(MonteCarlo(8), estimator), 50_000))
        for estimator in (Nested(), Taylor())
    )
    at_least = np.abs(nested[0] - exact(HIT)) - Z * nested[1]
    at_most = np.abs(taylor[0] - exact(HIT)) + Z * taylor[1]
    assert np.all(at_most < at_least)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "gain", [HIT, ExpUtility(Tilted(0.2), 0.5), BUMP], ids=["hit", "tilted", "bump"]
)
@pytest.mark.usefixtures("double_precision")
def test_with_one_draw_nested_is_exactly_the_bound_of_jensen(gain):
    nested, jensen, taylor = (
        repeated(gain.term(MonteCarlo(1), estimator), 100)
        for estimator in (Nested(), Jensen(), Taylor())
    )
    np.testing.assert_allclose(nested, jensen, rtol=SAME)
    np.testing.assert_allclose(nested, taylor, rtol=1e-6)


@pytest.mark.usefixtures("double_precision")
def test_with_one_draw_nested_of_an_exponential_utility_is_the_linearized_term():
    nested = repeated(HIT.term(MonteCarlo(1)), 100)
    linearized = repeated(ScaledLoss(Squared(), SCALE).term(MonteCarlo(1)), 100)
    np.testing.assert_allclose(nested, linearized, rtol=SAME)


@pytest.mark.parametrize("gain", [HIT, BUMP], ids=["hit", "bump"])
def test_with_an_exact_expectation_there_is_no_bias_to_correct(gain):
    np.testing.assert_array_equal(exact(gain, Taylor()), exact(gain, Nested()))


@pytest.mark.some(2)
@pytest.mark.parametrize("name", quickly_chosen(DISTRIBUTIONS))
def test_the_bound_of_jensen_lies_below_the_exact_term(name):
    outcome = DISTRIBUTIONS[name](np.random.default_rng(2))
    expectation: Expectation = Quadrature()
    if name in DISCRETE:
        expectation = Enumeration() if name in LABELS else Enumeration(points=1024)

    def terms(estimator: Nested | Jensen) -> jax.Array:
        each = (utility.term(expectation, estimator) for utility in UTILITIES.values())
        return jnp.stack([term(None, outcome, jnp.ones(4)) for term in each])

    assert np.all(quickly(lambda: terms(Jensen()) < terms(Nested())))


# The linearized term -----------------------------------------------------------------------


def test_the_linearized_term_is_unbiased():
    gain = ScaledLoss(Tilted(0.2), SCALE)
    mean, error = mean_and_error(repeated(gain.term(MonteCarlo(3))))
    assert np.all(np.abs(mean - exact(gain)) < Z * error)


@pytest.mark.some(1)
@pytest.mark.parametrize("expectation", [Quadrature(), MonteCarlo(3)], ids=str)
def test_the_linearized_term_is_affine_in_the_loss(expectation):
    loss = Tilted(0.2)
    moved = lambda outcome, decision: 5 * loss(outcome, decision) + 2  # noqa: E731
    term, moved_term = quickly(
        lambda key: [
            ScaledLoss(of, SCALE).term(expectation)(key, OUTCOME, DECISION) for of in (loss, moved)
        ],
        jax.random.key(3),
    )
    np.testing.assert_allclose(moved_term, 5 * term - 2 / SCALE, rtol=1e-5)


def test_the_linearized_term_is_minus_the_expected_loss_in_units_of_its_scale():
    single = exact(ScaledLoss(Tilted(0.2), 1.0))
    np.testing.assert_allclose(exact(ScaledLoss(Tilted(0.2), 4.0)), single / 4, rtol=1e-6)


def test_a_large_scale_takes_the_linearized_and_the_exponential_term_to_the_same_limit():
    linearized = 1e4 * exact(ScaledLoss(Tilted(0.2), 1e4))
    np.testing.assert_allclose(1e4 * exact(ExpUtility(Tilted(0.2), 1e4)), linearized, rtol=2e-3)


# Scaling and shifting a utility ------------------------------------------------------------


def with_gradient(gain: Utility) -> tuple[jax.Array, list[jax.Array]]:
    term = gain.term(Quadrature())

    def total(loc, scale, decision):
        values = term(None, dist.Normal(loc, scale), decision)
        return values.sum(), values

    of = jax.value_and_grad(total, argnums=(0, 1, 2), has_aux=True)
    (_, values), gradient = quickly(of, OUTCOME.loc, OUTCOME.scale, DECISION)
    return values, list(gradient)


@cache
def bump_with_gradient() -> tuple[jax.Array, list[jax.Array]]:
    return with_gradient(BUMP)


def test_scaling_a_utility_shifts_the_term_and_leaves_its_gradients():
    plain, gradients = bump_with_gradient()
    scaled, scaled_gradients = with_gradient(Utility(lambda y, h: 7 * BUMP.fn(y, h)))
    np.testing.assert_allclose(scaled, plain + np.log(7), rtol=1e-5)
    np.testing.assert_allclose(scaled_gradients, gradients, rtol=1e-4, atol=1e-5)


def test_adding_a_constant_to_a_utility_shrinks_every_gradient():
    plain, gradients = bump_with_gradient()
    with pytest.warns(StakesWarning, match="weakens"):
        lifted = Utility(lambda y, h: 0.5 + BUMP.fn(y, h), infimum=0.5)
    _, lifted_gradients = with_gradient(lifted)
    shrunk = np.exp(plain) / (np.exp(plain) + 0.5)
    np.testing.assert_allclose(lifted_gradients, shrunk * np.array(gradients), rtol=1e-3, atol=1e-5)


# Gradients through draws -------------------------------------------------------------------


def mean_gradient(
    risk: Callable[..., jax.Array], parameters: tuple[float, ...], replicates: int = REPLICATES
) -> tuple[np.ndarray, np.ndarray]:
    keys = jax.random.split(jax.random.key(4), replicates)
    gradient = jax.grad(risk, argnums=tuple(range(1, len(parameters) + 1)))
    found = quickly(jax.vmap(lambda key: jnp.stack(gradient(key, *parameters))), keys)
    return mean_and_error(np.asarray(found, float))


@pytest.mark.parametrize(
    ("outcome", "parameters", "loss"),
    [
        (dist.Normal, (1.0, 2.0), Tilted(0.2)),
        (dist.Normal, (1.0, 2.0), Squared()),
        (dist.Laplace, (1.0, 2.0), Squared()),
        (dist.Gamma, (3.0, 2.0), Squared()),
        (dist.LogNormal, (0.0, 0.3), Squared()),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_the_gradient_through_draws_is_right_on_average(outcome, parameters, loss):
    gain = ScaledLoss(loss, SCALE)

    def term(expectation: Expectation) -> Callable[..., jax.Array]:
        return lambda key, a, b, h: gain.term(expectation)(key, outcome(a, b), h)

    at = (*parameters, 1.5)
    mean, error = mean_gradient(term(MonteCarlo(2)), at)
    exactly = quickly(jax.grad(term(ClosedForm()), argnums=(1, 2, 3)), None, *at)
    assert np.all(np.abs(mean - np.array(exactly)) < Z * error + 1e-6)


# What cannot be estimated ------------------------------------------------------------------


def test_an_estimator_of_a_linearized_loss_is_refused():
    with pytest.raises(InputError, match=r"`estimator=Taylor\(\)`: a linearized loss has no log"):
        ScaledLoss(Squared(), 1.0).term(ClosedForm(), Taylor())


def test_an_unknown_estimator_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"must be `Nested\(\)`, `Jensen\(\)` or `Taylor\(\)`"):
        Options(estimator="naive")


def test_the_bound_of_jensen_for_a_users_utility_has_no_closed_form():
    with pytest.raises(NoClosedForm, match="has no closed form for its expectation"):
        BUMP.term(ClosedForm(), Jensen())(None, OUTCOME, DECISION)
