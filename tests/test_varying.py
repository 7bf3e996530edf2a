"""Costs and limits that differ from case to case."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from small_models import DATA, YES, coins, regression

import stakes
from stakes import (
    CostTable,
    InputError,
    Interval,
    Newsvendor,
    OneOf,
    Problem,
    Squared,
    Tilted,
    calibrate,
)
from stakes.varying import PerCase, columns_for

KEY = jax.random.key(0)


def test_the_cost_of_one_row_is_not_spread_over_all():
    for need, data in (("price", {"price": np.array([3.0])}), (PerCase(np.array([3.0])), {})):
        with pytest.raises(stakes.InputError, match=r"shape \(1,\).*in the shape \(4,\)"):
            columns_for((need,), data, (4,))
        assert columns_for((need,), data, (1,))[need].shape == (1,)
    same = columns_for(("price",), {"price": np.array(3.0)}, (4,))["price"]
    np.testing.assert_array_equal(same, 3.0)


def test_costs_by_place_are_refused_for_rows_in_another_order():
    table = pd.DataFrame(DATA, index=[f"row {i}" for i in range(24)])
    problem = Problem(regression, outcome="y", loss=Tilted(np.linspace(0.05, 0.95, 24)))
    result = calibrate(KEY, problem, table, steps=20, progress=False)
    rows = table.drop(columns="y")
    np.testing.assert_array_equal(result.decide(rows), result.decisions)
    result.decide(rows + 1.0)  # the labels say that they are the same
    for other in (rows[::-1], rows[::-1].reset_index(drop=True), {"x": DATA["x"] + 1.0}):
        with pytest.raises(stakes.InputError, match="other cases"):
            result.decide(other)
    result.decide({"x": DATA["x"] + 1.0}, known="row")


@pytest.mark.slow
def test_costs_may_differ_by_case_and_by_covariate():
    data = YES | {"amount": np.linspace(1, 40, 24)}
    table = CostTable({"call": [5, 5], "skip": [0, "amount"]})

    def own(outcome, decision, *, amount):
        return jnp.where(decision == 0, 5.0, outcome * amount)

    found = [
        calibrate(KEY, problem, data, steps=400, progress=False).decisions.values
        for problem in (
            Problem(coins, outcome="y", loss=table),
            Problem(coins, outcome="y", loss=own, decision=OneOf(["call", "skip"])),
        )
    ]
    np.testing.assert_array_equal(*found)
    assert len(set(found[0])) == 2


@pytest.mark.slow
def test_a_level_for_each_case_gives_each_its_quantile():
    levels = np.linspace(0.05, 0.95, 24)
    problem = Problem(regression, outcome="y", loss=Tilted(levels))
    result = calibrate(KEY, problem, DATA, steps=400, progress=False)
    alone = [
        calibrate(
            KEY, Problem(regression, outcome="y", loss=Tilted(q)), DATA, steps=400, progress=False
        ).vi_decisions.values[row]
        for row, q in ((0, levels[0]), (23, levels[23]))
    ]
    np.testing.assert_allclose(result.vi_decisions.values[[0, 23]], alone, rtol=1e-4)
    with pytest.raises(InputError, match="name of a data argument"):
        result.decide({"x": np.zeros(3)}, new="row")


def test_limits_and_costs_by_row_go_with_minibatches():
    def model(x, y=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("row", len(x), subsample_size=8) as rows:
            seen = None if y is None else y[rows]
            numpyro.sample("y", dist.Normal(slope * x[rows], 1.0), obs=seen)

    loss, space = Newsvendor("price", 1), Interval(-1, "most")
    problem = Problem(model, outcome="y", loss=loss, decision=space)
    data = DATA | {"most": np.linspace(0.5, 1.5, 24), "price": np.linspace(1, 5, 24)}
    result = calibrate(KEY, problem, data, steps=30, draws=2, progress=False)
    assert (result.decisions.values <= data["most"] + 1e-6).all()


def test_limits_and_costs_from_data_are_checked():
    crossed = Problem(regression, outcome="y", loss=Squared(), decision=Interval("low", "high"))
    data = DATA | {"low": np.ones(24), "high": np.zeros(24)}
    with pytest.raises(InputError, match="below the upper"):
        calibrate(KEY, crossed, data)
    tilted = Problem(regression, outcome="y", loss=Tilted("level"))
    with pytest.raises(InputError, match="between 0 and 1"):
        calibrate(KEY, tilted, DATA | {"level": np.full(24, 1.5)})
