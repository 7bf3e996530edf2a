"""Decisions found numerically, against decisions that are known."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from normal_mixtures import DRAWS, LIKE, SPREAD, decide, normals
from quick import quickly

from stakes import (
    ClosedForm,
    Enumeration,
    ExpUtility,
    LinEx,
    Squared,
    Tilted,
)
from stakes.decisions import (
    DecisionTask,
    term_decision,
)
from stakes.expectation import Mixture
from stakes.utilities import ScaledLoss

KEY = jax.random.key(0)


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
