"""One decision for several cases: the best for all who share it."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from small_models import DATA, regression

import stakes
from stakes import (
    EM,
    Joint,
    Newsvendor,
    Problem,
    Real,
    Squared,
    calibrate,
)
from stakes.decisions import objective_of
from stakes.spaces import Shared
from stakes.utilities import ScaledLoss
from stakes.varying import GroupOf, columns_for

KEY = jax.random.key(0)


SHOP = np.arange(24) % 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("per", "method"),
    [
        ("shop", Joint()),
        pytest.param("shop", EM(), marks=pytest.mark.slow),
        pytest.param("all", None, marks=pytest.mark.slow),
    ],
)
def test_a_shared_decision_is_the_best_for_all_who_share_it(per, method):
    problem = Problem(regression, outcome="y", loss=Newsvendor(3, 1), per=per)
    data = DATA if per == "all" else DATA | {"shop": SHOP}
    result = calibrate(KEY, problem, data, method=method, steps=300, draws=4, progress=False)
    drawn = result.predictive(fit=result.vi, draws=4000)["y"].values[0]
    places = np.linspace(-3, 5, 321)
    for rows in [shop == SHOP for shop in range(3)] if per == "shop" else [SHOP >= 0]:
        found = result.vi_decisions.values[rows]
        assert np.ptp(found) == 0
        cost = [np.asarray(problem.loss(drawn[:, rows], h)).mean() for h in [found[0], *places]]
        assert cost[0] <= min(cost[1:]) * 1.003  # 4,000 draws
        assert np.ptp(np.asarray(result.calibrated.variables["decisions"])[rows]) < 1e-5


def test_large_numbers_of_groups_are_told_apart():
    groups = np.array([20240001, 20240002, 20240003, 20240004])
    found = columns_for((GroupOf("shop"),), {"shop": groups}, (4,))[GroupOf("shop")]
    assert np.asarray(found).tolist() == [0, 1, 2, 3]


@pytest.mark.slow
def test_masked_cases_do_not_move_the_best_shared_decision():
    gain = ScaledLoss(Squared(), 1.0)
    groups = Shared(jnp.zeros(3, int))
    term = objective_of(gain, stakes.ClosedForm(), None, Real(), groups).term
    outcome = dist.Normal(jnp.array([0.0, 1.0, 100.0]), 1.0)
    weight = jnp.array([1.0, 1.0, 0.0])
    decision = jnp.full(3, 0.5)
    draws = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], outcome)
    each = term.among(KEY, draws, weight, decision)(KEY, outcome, decision)
    assert float(jnp.sum(jnp.where(weight > 0, each, 0.0))) == pytest.approx(0, abs=1e-3)
