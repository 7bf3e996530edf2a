"""Decisions within limits, in whole numbers and among actions: none in the space is better."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from small_models import CALLS, DATA, PRICE, SOLD, YES, X, coins, pricing, regression

import stakes
from stakes import (
    EM,
    InputError,
    Integers,
    Interval,
    Newsvendor,
    OneOf,
    Problem,
    Squared,
    calibrate,
)
from stakes.study import read_data

KEY = jax.random.key(0)


@pytest.mark.parametrize("method", [None, pytest.param(EM(), marks=pytest.mark.slow)])
def test_every_decision_ends_between_limits_that_differ_by_row(method):
    data = DATA | {"most": np.linspace(0.5, 1.5, 24)}
    problem = Problem(regression, outcome="y", loss=Newsvendor(3, 1), decision=Interval(-1, "most"))
    result = calibrate(KEY, problem, data, method=method, steps=400, progress=False)
    for decisions in (result.decisions, result.vi_decisions):
        assert (decisions.values >= -1).all()
        assert (decisions.values <= data["most"] + 1e-6).all()
    inner = np.asarray(result.calibrated.variables["decisions"])
    assert ((inner >= -1) & (inner <= data["most"] + 1e-6)).all()
    other = result.decide({"x": np.array([3.0, 0.0]), "most": np.array([2.5, 9.0])}, new="row")
    assert float(other[0]) == pytest.approx(2.5)


def test_actions_are_chosen_by_em_and_come_back_as_labels():
    problem = Problem(coins, outcome="y", loss=CALLS)
    result = calibrate(KEY, problem, YES, steps=600, progress=False)
    assert result.plan.method == EM()
    assert set(result.decisions.values) == {"call", "skip"}
    # Calling pays where 4 p > 5 (1 - p) - 0 and 20 p - ... : the odds at which both cost the same.
    chance = result.predictive(draws=4000)["y"].mean(("chain", "draw")).values
    cost = {"call": 5 * (1 - chance) + chance, "skip": 20 * chance}
    sure = np.abs(cost["call"] - cost["skip"]) > 0.7
    best = np.where(cost["call"] < cost["skip"], "call", "skip")
    assert (result.decisions.values == best)[sure].all()
    assert sure.sum() > 15


@pytest.mark.slow
def test_choosing_among_ways_stays_in_the_space():
    problem = Problem(coins, outcome="y", loss=CALLS)
    today = np.where(X > 0, "call", "skip")
    ways = [stakes.Plain(), stakes.Calibrated(), stakes.Same(), stakes.Given(today)]
    choice = stakes.choose(KEY, problem, YES, ways, folds=2, steps=300, progress=False)
    assert set(choice.decisions.values) <= {"call", "skip"}
    always = choice.decide(YES, known="row", way="one decision for all").values
    assert len(set(always)) == 1
    costs = CALLS(YES["y"], np.where(X > 0, 0, 1))
    assert choice.table.loc["today's decisions", "risk"] == pytest.approx(float(costs.mean()))
    with pytest.raises(InputError, match="actions"):
        stakes.choose(KEY, problem, YES, [stakes.Corrected()], folds=2, steps=10)


@pytest.mark.slow
def test_a_finite_choice_of_prices_is_tried_one_by_one_and_unseen_ones_are_said():
    problem = pricing(OneOf([1.4, 2.1, 5.0]))
    with pytest.warns(stakes.StakesWarning, match=r"beyond those in the data: 2\.1"):
        result = calibrate(KEY, problem, SOLD, steps=60, draws=4, progress=False)
    assert set(result.decisions.values) == {2.1}
    high = SOLD | {"price": PRICE + 3}
    with pytest.warns(stakes.StakesWarning, match="outside those in the data"):
        calibrate(KEY, pricing(), high, steps=30, draws=2, progress=False)


def utility(outcome, decision, *, price):
    return price * jnp.exp(-jnp.square(outcome - decision))


def test_labels_survive_single_precision():
    packs = OneOf([59.9, 49.9])
    assert packs.to_labels(np.array([49.9, 59.9], np.float32)).tolist() == [49.9, 59.9]
    assert OneOf([False, True]).actions == (0.0, 1.0)
    assert OneOf(["1", 1, (2, 3)]).to_labels(np.arange(3)).tolist() == ["1", 1, (2, 3)]


def test_a_case_without_room_is_held_at_its_limit():
    space = Interval(0, "most").at({"most": jnp.array([0.0, 2.0])})
    free = space.to_line(jnp.array([0.0, 1.0]))
    assert np.isfinite(free).all()
    np.testing.assert_allclose(space.from_line(free), [0.0, 1.0], atol=1e-6)
    whole = Integers(0, "most").at({"most": jnp.array([30.5])})
    assert float(whole.inside(jnp.array([99.0]))[0]) == 30


def test_words_of_what_is_decided_about_stand_for_the_actions():
    def trial(treat, well=None):
        effect = numpyro.sample("effect", dist.Normal(0, 1))
        with numpyro.plate("patient", len(treat)):
            numpyro.sample("well", dist.Normal(effect * treat, 1), obs=well)

    space = OneOf(["placebo", "drug"])
    problem = Problem(trial, outcome="well", loss=Squared(), decision={"treat": space})
    frame = pd.DataFrame({"treat": ["placebo", "drug", "placebo"], "well": [0.0, 1.0, 0.1]})
    assert read_data(problem, frame, needs_outcome=True).data["treat"].tolist() == [0, 1, 0]
