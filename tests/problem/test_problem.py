"""Problems with their parts: what is decided, and what the outcome depends on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_models import ELASTICITY, SCHOOLS, SOLD, UNIT_COST, pricing, schools

from stakes import (
    InputError,
    Problem,
    Tilted,
    calibrate,
)

KEY = jax.random.key(0)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.slow
@pytest.mark.parametrize("per", [None, "all"])
def test_the_price_is_that_of_a_known_elasticity(per):
    result = calibrate(KEY, pricing(per=per), SOLD, steps=60, draws=4, progress=False)
    best = UNIT_COST * ELASTICITY / (ELASTICITY - 1)
    np.testing.assert_allclose(result.decisions.values, best, rtol=1e-3)
    other = result.decide({"price": np.ones(2)}, new="week")
    np.testing.assert_allclose(other.values, best, rtol=1e-3)
    curve = result.expected([1.5, best, 4.0])["mean"].values[:, 0]
    assert curve.argmax() == 1
    with pytest.raises(InputError, match="change the outcome"):
        result.compare()


@pytest.mark.slow
@pytest.mark.parametrize("site", ["own", pytest.param("twice", marks=pytest.mark.slow)])
def test_a_decision_about_a_parameter_is_a_quantile_of_its_posterior(site):
    problem = Problem(schools, outcome=site, loss=Tilted(0.8))
    result = calibrate(KEY, problem, SCHOOLS, steps=1500, progress=False)
    drawn = result.posterior(result.vi, draws=4000)[site].values[0]
    expected = np.quantile(drawn, 0.8, axis=0)
    # Two sets of some thousand draws: four standard errors of a quantile are a tenth of a spread.
    np.testing.assert_allclose(result.vi_decisions.values, expected, atol=0.1 * drawn.std())
    with pytest.raises(InputError, match="cannot be judged by data"):
        result.compare()
    own = Problem(schools, outcome=site, loss=lambda y, h: jnp.abs(y - h) ** 1.5)
    found = calibrate(KEY, own, SCHOOLS, steps=200, progress=False)
    assert found.decisions.shape == result.decisions.shape


def utility(outcome, decision, *, price):
    return price * jnp.exp(-jnp.square(outcome - decision))
