"""Observations under any name."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro import handlers
from numpyro_port import KEY

import stakes
from stakes import bridge


def _observed(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("row", 3):
        numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)


def _renamed(x, obs=None):
    _observed(x, obs)


def _placed(x, /, y=None):
    _observed(x, y)


X_AND_Y = {"x": jnp.arange(3.0), "y": jnp.array([1.0, 2.0, 4.0])}


SAME_MODELS = {
    "another name": (_renamed, {"outcome": "y", "observed": "obs"}, {"y": "obs"}, ""),
    "arguments by place": (_placed, {"outcome": "y"}, {}, ""),
    "scoped": (
        handlers.scope(_observed, prefix="a"),
        {"outcome": "a/y", "observed": "y"},
        {},
        "a/",
    ),
    "conditioned": (
        handlers.condition(_observed, data={"y": X_AND_Y["y"]}),
        {"outcome": "y"},
        {"y": None},
        "",
    ),
}


@pytest.mark.parametrize("name", SAME_MODELS)
def test_observations_come_under_any_name(name):
    model, said, renamed, prefix = SAME_MODELS[name]
    plain = stakes.Problem(_observed, outcome="y", loss=stakes.Squared())
    problem = stakes.Problem(model, loss=stakes.Squared(), **said)
    names = {n: renamed.get(n, n) for n in X_AND_Y}
    data = {names[n]: values for n, values in X_AND_Y.items() if names[n] is not None}
    found = bridge.approximate(problem, problem.check_data(data, needs_outcome=True), KEY)
    expected = bridge.approximate(plain, plain.check_data(X_AND_Y, needs_outcome=True), KEY)
    params = {f"{prefix}{n}": value for n, value in expected.start.items()}
    here, there = (
        each.draw({n: jnp.full_like(v, 0.3) for n, v in values.items()}, KEY, {})
        for each, values in ((found, params), (expected, expected.start))
    )
    assert found.instances.shape == (3,)
    np.testing.assert_allclose(
        here.outcome.log_prob(X_AND_Y["y"]).shape, there.outcome.log_prob(X_AND_Y["y"]).shape
    )
    if not prefix:  # its sites draw other random numbers
        np.testing.assert_allclose(here.log_ratio, there.log_ratio, rtol=1e-6)


def test_an_argument_for_observations_that_is_not_there_is_refused():
    with pytest.raises(stakes.InputError, match=r"`Problem\(observed='seen'\)`.*'x', 'obs'"):
        stakes.Problem(_renamed, outcome="y", observed="seen", loss=stakes.Squared())
    unsaid = stakes.Problem(_renamed, outcome="y", loss=stakes.Squared())
    with pytest.raises(stakes.InputError, match=r"`Problem\(outcome='y'\)`.*`observed=`"):
        stakes.calibrate(KEY, unsaid, {"x": np.ones(3), "obs": np.ones(3)})
    problem = stakes.Problem(_renamed, outcome="y", observed="obs", loss=stakes.Squared())
    with pytest.raises(stakes.InputError, match="`data` has no 'obs'"):
        problem.check_data({"x": np.ones(3)}, needs_outcome=True)


def test_the_outcome_of_a_formula_may_be_left_out():
    frame = pd.DataFrame({"x": [1.0, 2, 3], "sold": [2.0, 1, 4]})
    model = stakes.formula("sold ~ x", frame)
    assert stakes.Problem(model, loss=stakes.Squared()).outcome == "sold"
    with pytest.raises(stakes.InputError, match=r"`Problem\(outcome=...\)` is required"):
        stakes.Problem(_renamed, loss=stakes.Squared())
