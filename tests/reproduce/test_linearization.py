"""The loss 1 - u, which the paper linearizes."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from reproduce.linearization import OneMinusUtility
from stakes import ClosedForm, Linearized, Quadrature
from stakes import expectation as expectations


@pytest.mark.slow
def test_one_minus_the_utility_has_the_expectation_that_quadrature_finds() -> None:
    outcome = dist.Normal(jnp.array([-2.0, 0.0, 0.3, 9.0]), jnp.array([0.1, 1.0, 3.0, 1.0]))
    decision, loss = jnp.array([-2.0, 0.5, 1.0, 0.0]), OneMinusUtility()
    chosen = expectations.choose(outcome, Linearized()(loss, 1.0), decision)
    assert chosen == ClosedForm()
    exact, numerical = (
        np.asarray(way.expected(None, outcome, loss, decision))
        for way in (chosen, Quadrature(points=400))
    )
    assert exact == pytest.approx(numerical, rel=1e-4)
