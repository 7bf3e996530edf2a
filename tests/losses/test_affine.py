"""What is linear in the outcome needs its mean alone; anything else is not taken for it."""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

from stakes import ClosedForm, Utility
from stakes.errors import NoClosedForm
from stakes.expectation import Single, choose
from stakes.losses import AnyLoss
from stakes.utilities import ScaledLoss

OUTCOME = dist.NegativeBinomial2(jnp.array([3.0, 40.0]), 2.0)
PRICE = jnp.array([2.0, 5.0])


@pytest.mark.parametrize(
    "loss",
    [
        lambda sold, price: 900 - (price - 1.2) * sold,
        lambda sold, price: jnp.where(price > 3, 2 * sold, sold / 4) + price**2,
        lambda sold, price: (price - sold) * jnp.exp(price) + 0.0 * (price > 2),
    ],
)
def test_a_linear_loss_is_that_of_the_mean(loss):
    found = AnyLoss(loss).expected(Single(OUTCOME), PRICE)
    assert jnp.allclose(found, loss(OUTCOME.mean, PRICE))
    assert choose(OUTCOME, ScaledLoss(loss, 1.0), PRICE) == ClosedForm()


@pytest.mark.parametrize(
    "loss",
    [
        lambda sold, price: price * jnp.minimum(sold, 60),
        lambda sold, price: jnp.floor(sold),
        lambda sold, price: (sold > price) * 3.0,
        lambda sold, price: jnp.where(sold > price, sold, 0.0),
        lambda sold, price: price / (1 + sold),
        lambda sold, price: sold * sold,
        lambda sold, price: jnp.sign(sold) * price,
        lambda sold, price: jax.lax.stop_gradient(jnp.round(sold)),
        lambda sold, price: price,
    ],
)
def test_no_other_loss_is_taken_for_one(loss):
    with pytest.raises(NoClosedForm):
        AnyLoss(loss).expected(Single(OUTCOME), PRICE)


def test_profit_as_a_utility_needs_the_mean_alone():
    profit = Utility(lambda sold, price: (price - 1.2) * sold + 1)
    found = profit.log_expected(Single(OUTCOME), PRICE)
    assert jnp.allclose(found, jnp.log((PRICE - 1.2) * OUTCOME.mean + 1))
    assert choose(OUTCOME, profit, PRICE) == ClosedForm()
