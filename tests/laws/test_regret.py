"""Laws of regret, for every loss and utility and every outcome.

Regret is log ũ(θ, h) less its maximum over decisions: never positive, zero at the best decision,
with the same best decisions, and with the slopes of log ũ itself where the noise is known.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from catalogue import DISTRIBUTIONS, LOSSES, UTILITIES
from quick import quickly

from stakes import ClosedForm, Enumeration, Exponential, Jensen, Linearized, Quadrature, Tilted
from stakes.decisions import objective_of
from stakes.expectation import choose
from stakes.protocols import Gain, Objective

GAINS: dict[str, Gain] = {
    **{name: Linearized()(loss, 1.3) for name, loss in LOSSES.items()},
    **UTILITIES,
}
ROWS = 2
KEY = jax.random.key(1)
IN_SUITE = ("Normal",)


def objectives(family: str) -> tuple[dist.Distribution, dict[str, Objective]]:
    """Two outcomes, and what each gain maximises for them."""
    spec = DISTRIBUTIONS[family]
    outcome = spec(np.random.default_rng(5), ROWS)
    stacked = jax.tree.map(lambda leaf: leaf[None], outcome)
    return outcome, {
        name: objective_of(gain, choose(outcome, gain, jnp.zeros(ROWS)).size_for([stacked]))
        for name, gain in GAINS.items()
        if _finite(family, name)
    }


def _finite(family: str, name: str) -> bool:
    signs = {"linex over": 1, "linex under": -1}
    return name not in signs or signs[name] in DISTRIBUTIONS[family].linex_signs


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=() if name in IN_SUITE else pytest.mark.slow)
        for name in DISTRIBUTIONS
    ],
)
def test_regret_is_what_could_be_gained_if_theta_were_known(family):
    outcome, asked = objectives(family)
    draws = np.asarray(outcome.sample(jax.random.key(0), (2000,)), float)
    fine = jnp.asarray(np.concatenate([np.linspace(draws.min(0), draws.max(0), 401), draws[:100]]))
    few = jnp.quantile(draws, jnp.linspace(0, 1, 5), axis=0)

    def values(objective):
        worth, term = (partial(each, KEY, outcome) for each in (objective.worth, objective.term))
        return (
            jax.lax.map(worth, fine).max(axis=0),
            jax.lax.map(worth, few),
            jax.lax.map(term, few),
        )

    found = quickly(lambda: {name: values(each) for name, each in asked.items()})
    for name, (most, worth, regret) in found.items():
        size = most - worth.min(axis=0)
        assert np.all(regret <= 1e-6 * size), name
        # The best of the grid is a little worse than the best of all; a search finds it roughly.
        near = (3e-2 if name in UTILITIES else 2e-3) * size.max()
        np.testing.assert_allclose(regret, worth - most, atol=near, err_msg=name)
        # What is subtracted does not depend on the decision, so the best ones stay the same.
        np.testing.assert_allclose(np.ptp(regret - worth, axis=0), 0, atol=near, err_msg=name)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("name", GAINS)
def test_where_the_noise_is_known_the_slopes_are_those_of_the_paper(name):
    gain, decision = GAINS[name], jnp.array([0.3, -0.2, 2.0])
    expectation = choose(dist.Normal(0.0, jnp.ones(3)), gain, decision)
    objective = objective_of(gain, expectation)

    def slopes(term):
        sum_of = lambda loc, h: term(jax.random.key(0), dist.Normal(loc, 1.0), h).sum()  # noqa: E731
        return jax.grad(sum_of, argnums=(0, 1))(jnp.array([0.0, 1.0, -0.5]), decision)

    ours, papers = quickly(lambda: (slopes(objective.term), slopes(objective.worth)))
    np.testing.assert_allclose(ours, papers, atol=2e-3 if name == "bump" else 1e-6)


@pytest.mark.usefixtures("double_precision")
def test_nothing_is_gained_by_noise_that_looks_smaller():
    """At the best decision the slope in the noise is zero; the paper's form rewards less noise."""
    gain, expectation = Linearized()(LOSSES["tilted low"], 1.0), ClosedForm()
    objective = objective_of(gain, expectation)
    best = lambda scale: jax.lax.stop_gradient(dist.Normal(0.0, scale).icdf(0.2))  # noqa: E731
    at_best = lambda term: jax.grad(lambda s: term(None, dist.Normal(0.0, s), best(s)))(1.5)  # noqa: E731
    ours, papers = quickly(lambda: (at_best(objective.term), at_best(objective.worth)))
    assert abs(ours) < 1e-12
    assert papers < -0.1


def test_the_paper_s_form_is_one_value_away():
    for transform in (Linearized, Exponential):
        gain = transform(regret=False)(LOSSES["squared"], 2.0)
        objective = objective_of(gain, Quadrature())
        assert objective.term is objective.worth


@pytest.mark.usefixtures("double_precision")
def test_jensens_bound_has_its_regret_where_it_is_largest_itself():
    """At its best decision, the quantile, the slope in the noise is nothing, as is the regret."""
    gain = Exponential()(Tilted(0.9), 0.5)
    objective = objective_of(gain, ClosedForm(), Jensen())
    best = float(dist.Normal(0.0, 1.0).icdf(0.9))
    term = lambda s: objective.term(KEY, dist.Normal(0.0, s), jnp.asarray(best))  # noqa: E731
    value, slope = quickly(jax.value_and_grad(term), 1.0)
    assert abs(value) < 1e-3
    assert abs(slope) < 1e-2


@pytest.mark.slow
@pytest.mark.usefixtures("double_precision")
def test_regret_of_counts_has_the_slope_of_a_dense_search():
    """The best decision is a count, where the utility bends."""
    gain = Exponential()(Tilted(0.8), 1.0)
    stacked = dist.Poisson(jnp.full((1, 1), 20.0))
    objective = objective_of(gain, Enumeration().size_for([stacked]))
    rates, decision = jnp.linspace(1.0, 20.0, 12), jnp.full(12, 5.0)

    def dense(rate):
        outcome = dist.Poisson(rate)
        worths = jnp.stack([objective.worth(KEY, outcome, jnp.full(12, k)) for k in range(40)])
        return (objective.worth(KEY, outcome, decision) - worths.max(axis=0)).sum()

    found = jax.jit(jax.grad(lambda r: objective.term(KEY, dist.Poisson(r), decision).sum()))(rates)
    np.testing.assert_allclose(found, jax.jit(jax.grad(dense))(rates), atol=1e-3)


def _square(outcome, decision):
    return jnp.where(decision > outcome, 1.0, 5.0) * jnp.square(outcome - decision)


def _pinball(outcome, decision):
    return jnp.where(decision > outcome, 1.0, 4.0) * jnp.abs(outcome - decision)


@pytest.mark.some(1)
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("loss", [_square, _pinball])
def test_the_regret_of_an_own_loss_is_that_of_a_dense_search(loss):
    """In a table of the outcome's values; what remains is less than a twentieth of the regret."""
    probs = jnp.linspace(0.02, 0.98, 7)
    logits = jnp.stack([0 * probs, 2 * probs, 3 * probs - 1], axis=-1)
    outcomes = {
        "two values": (dist.Bernoulli(probs), Enumeration()),
        "labels": (dist.Categorical(logits=logits), Enumeration()),
        "counts": (dist.Poisson(8 * probs), Enumeration(points=64)),
        "skewed": (dist.Gamma(1 + 5 * probs, 2.0), Quadrature(points=81)),
    }
    fine = jnp.broadcast_to(jnp.linspace(-1.0, 12.0, 521)[:, None], (521, 7))
    now = jnp.full(7, 0.4)

    def values(outcome, expectation):
        objective = objective_of(Linearized()(loss, 1.0), expectation)
        worth = partial(objective.worth, KEY, outcome)
        least = worth(now) - jax.lax.map(worth, fine).max(axis=0)
        return objective.term(KEY, outcome, now), least

    found = quickly(lambda: {name: values(*each) for name, each in outcomes.items()})
    for name, (regret, least) in found.items():
        assert np.all(regret <= 0), name
        np.testing.assert_allclose(regret, least, rtol=0.05, atol=2e-3, err_msg=name)


def test_a_loss_that_is_undefined_somewhere_has_a_regret_elsewhere():
    """Around the outcome the search meets decisions that are not positive."""
    gain = Linearized()(lambda outcome, decision: jnp.square(jnp.log(outcome / decision)), 1.0)
    objective = objective_of(gain, Quadrature())
    outcome = dist.Gamma(jnp.array([2.0, 9.0]), 1.0)
    regret = quickly(lambda h: objective.term(KEY, outcome, h), jnp.array([1.0, 9.0]))
    assert np.all(np.isfinite(regret))
    assert np.all(regret <= 1e-6)
