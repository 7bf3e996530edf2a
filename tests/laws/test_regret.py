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

from stakes import ClosedForm, Exponential, Linearized, Quadrature
from stakes.deciding import objective_of
from stakes.expectation import choose
from stakes.protocols import Gain, Objective

GAINS: dict[str, Gain] = {
    **{name: Linearized()(loss, 1.3) for name, loss in LOSSES.items()},
    **UTILITIES,
}
ROWS = 2
KEY = jax.random.key(1)
IN_SUITE = ("Normal", "Gamma", "Poisson", "Categorical")


def objectives(family: str) -> tuple[dist.Distribution, dict[str, Objective]]:
    """Two outcomes, and what each gain maximises for them."""
    spec = DISTRIBUTIONS[family]
    outcome = spec(np.random.default_rng(5), ROWS)
    stacked = jax.tree.map(lambda leaf: leaf[None], outcome)
    return outcome, {
        name: objective_of(gain, choose(outcome, gain, jnp.zeros(ROWS)).sized([stacked]))
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

    found = jax.jit(lambda: {name: values(each) for name, each in asked.items()})()
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

    ours, papers = jax.jit(lambda: (slopes(objective.term), slopes(objective.worth)))()
    np.testing.assert_allclose(ours, papers, atol=2e-3 if name == "bump" else 1e-6)


@pytest.mark.usefixtures("double_precision")
def test_nothing_is_gained_by_noise_that_looks_smaller():
    """At the best decision the slope in the noise is zero; the paper's form rewards less noise."""
    gain, expectation = Linearized()(LOSSES["tilted low"], 1.0), ClosedForm()
    objective = objective_of(gain, expectation)
    best = lambda scale: jax.lax.stop_gradient(dist.Normal(0.0, scale).icdf(0.2))  # noqa: E731
    at_best = lambda term: jax.grad(lambda s: term(None, dist.Normal(0.0, s), best(s)))(1.5)  # noqa: E731
    assert abs(at_best(objective.term)) < 1e-12
    assert at_best(objective.worth) < -0.1


def test_the_paper_s_form_is_one_value_away():
    for transform in (Linearized, Exponential):
        gain = transform(regret=False)(LOSSES["squared"], 2.0)
        objective = objective_of(gain, Quadrature())
        assert objective.term is objective.worth
