"""Problems that cannot be decided about are refused, each by a message that says why."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_models import (
    CALLS,
    DATA,
    SCHOOLS,
    SOLD,
    YES,
    coins,
    demand,
    pricing,
    profit,
    regression,
    schools,
)

import stakes
from stakes import (
    CostTable,
    Expectile,
    Huber,
    InputError,
    Integers,
    Interval,
    Joint,
    Newsvendor,
    OneOf,
    Problem,
    Real,
    Squared,
    Tilted,
    Utility,
    ZeroOne,
    calibrate,
)

KEY = jax.random.key(0)


def utility(outcome, decision, *, price):
    return price * jnp.exp(-jnp.square(outcome - decision))


BAD = {
    "limits cross": lambda: Interval(3, 1),
    "limits are equal": lambda: Interval(2, 2),
    "limits cross in one case": lambda: Interval(np.array([0.0, 5.0]), 3),
    "a limit is nan": lambda: Interval(float("nan"), 3),
    "a limit is text with no data": lambda: calibrate(
        KEY, Problem(regression, outcome="y", loss=Squared(), decision=Interval(0, "no")), DATA
    ),
    "a limit of another length": lambda: calibrate(
        KEY, Problem(regression, outcome="y", loss=Squared(), decision=Interval([0.0, 1.0])), DATA
    ),
    "half a unit": lambda: Integers(0.5, 3),
    "groups that are the same number in single precision": lambda: calibrate(
        KEY,
        Problem(regression, outcome="y", loss=Squared(), per="shop"),
        DATA | {"shop": 2e8 + np.arange(24) % 3},
    ),
    "no actions": lambda: OneOf([]),
    "an action twice": lambda: OneOf(["a", "a"]),
    "actions that are the same number in single precision": lambda: CostTable(
        {100_000_001: [0, 1], 100_000_002: [1, 0]}
    ),
    "an infinite action": lambda: OneOf([0, float("inf")]),
    "an action beyond all numbers": lambda: OneOf([0, 10**400]),
    "actions as text": lambda: OneOf("call"),
    "no space": lambda: Problem(regression, outcome="y", loss=Squared(), decision=3),
    "a space's class": lambda: Problem(regression, outcome="y", loss=Squared(), decision=Real),
    "other actions than the table's": lambda: Problem(
        coins, outcome="y", loss=CALLS, decision=OneOf(["a", "b"])
    ),
    "joint with actions": lambda: calibrate(
        KEY, Problem(coins, outcome="y", loss=CALLS), YES, method=Joint()
    ),
    "joint with whole numbers": lambda: calibrate(
        KEY,
        Problem(regression, outcome="y", loss=Squared(), decision=Integers()),
        DATA,
        method=Joint(),
    ),
    "more classes than the outcome": lambda: calibrate(
        KEY, Problem(coins, outcome="y", loss=CostTable({"a": [1, 2, 3], "b": [3, 2, 1]})), YES
    ),
    "classes of a number": lambda: calibrate(
        KEY, Problem(regression, outcome="y", loss=CALLS), DATA
    ),
    "rows of different lengths": lambda: CostTable({"a": [1, 2], "b": [1, 2, 3]}),
    "one class": lambda: CostTable({"a": [1], "b": [2]}),
    "no table": lambda: CostTable(3),
    "a table of text": lambda: CostTable("costs.csv"),
    "an empty table": lambda: CostTable({}),
    "a negative cost": lambda: CostTable({"a": [-1, 2], "b": [0, 0]}),
    "a cost that is nan": lambda: CostTable({"a": [np.nan, 2], "b": [0, 0]}),
    "falling bins": lambda: CostTable({"a": [1, 2, 3], "b": [3, 2, 1]}, bins=[3, 1]),
    "too few bins": lambda: CostTable({"a": [1, 2, 3], "b": [3, 2, 1]}, bins=[3]),
    "a cost the data lacks": lambda: calibrate(
        KEY, Problem(coins, outcome="y", loss=CostTable({"a": [1, "fee"], "b": [0, 2]})), YES
    ),
    "a covariate the data lacks": lambda: calibrate(
        KEY, Problem(regression, outcome="y", utility=Utility(utility)), DATA
    ),
    "a covariate of another length": lambda: calibrate(
        KEY,
        Problem(regression, outcome="y", utility=Utility(utility)),
        DATA | {"price": np.ones(5)},
    ),
    "a shared decision with limits of its own": lambda: Problem(
        regression, outcome="y", loss=Squared(), decision=Interval(0, "most"), per="all"
    ),
    "shared by a number": lambda: Problem(regression, outcome="y", loss=Squared(), per=3),
    "shared by nothing known": lambda: calibrate(
        KEY, Problem(regression, outcome="y", loss=Squared(), per="shop"), DATA
    ),
    "groups of another length": lambda: calibrate(
        KEY,
        Problem(regression, outcome="y", loss=Squared(), per="shop"),
        DATA | {"shop": np.zeros(5, int)},
    ),
    "an argument that the model lacks": lambda: Problem(
        demand, outcome="sold", utility=Utility(profit), decision={"fee": Interval(0, 1)}
    ),
    "a price without limits": lambda: pricing(Real()),
    "a price with one limit": lambda: pricing(Interval(low=0)),
    "a price as a name": lambda: Problem(
        demand, outcome="sold", utility=Utility(profit), decision="price"
    ),
    "two arguments to decide about": lambda: Problem(
        demand,
        outcome="sold",
        utility=Utility(profit),
        decision={"price": Interval(0, 1), "sold": Interval(0, 1)},
    ),
    "deciding about the outcome itself": lambda: Problem(
        demand, outcome="sold", utility=Utility(profit), decision={"sold": Interval(0, 1)}
    ),
    "no prices that were set": lambda: calibrate(KEY, pricing(), {"sold": SOLD["sold"]}),
    "one price for all weeks": lambda: calibrate(KEY, pricing(), SOLD | {"price": np.ones(1)}),
    "choosing by outcomes at other prices": lambda: stakes.choose(KEY, pricing(), SOLD),
    "an observed site without an argument": lambda: calibrate(
        KEY, Problem(schools, outcome="seen", loss=Squared()), SCHOOLS
    ),
    "a site that there is not": lambda: calibrate(
        KEY, Problem(schools, outcome="none", loss=Squared()), SCHOOLS
    ),
    "choosing by outcomes that are never observed": lambda: stakes.choose(
        KEY, Problem(schools, outcome="own", loss=Squared()), SCHOOLS
    ),
    "no cost of falling short": lambda: Newsvendor(0, 1),
    "no cost at all": lambda: Newsvendor(None, 1),
    "a level of one": lambda: Expectile(1.0),
    "a level of one in one case": lambda: Tilted(np.array([0.2, 1.0])),
    "no width": lambda: Huber(0),
    "a negative width": lambda: ZeroOne(-1),
    "an action today that there is not": lambda: stakes.choose(
        KEY,
        Problem(coins, outcome="y", loss=CALLS),
        YES,
        [stakes.Plain(), stakes.Given(np.full(24, "wait"))],
        folds=2,
        steps=10,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_problem_is_refused_before_any_fit(name, monkeypatch):
    def run(*args, **options):
        raise AssertionError("a fit was started")

    monkeypatch.setattr("stakes.fitting.VI.init", run)
    with pytest.raises(InputError):
        BAD[name]()


STEPS = {
    "a class of a number": lambda: calibrate(
        KEY, Problem(regression, outcome="y", loss=ZeroOne()), DATA
    ),
    "steps of a latent": lambda: calibrate(
        KEY, Problem(schools, outcome="own", loss=ZeroOne(1.0)), SCHOOLS
    ),
    "limits of a price by name": lambda: pricing(Interval(1, "cap")),
}


@pytest.mark.parametrize("name", STEPS)
def test_what_has_no_best_decision_or_no_slope_is_refused(name):
    with pytest.raises(InputError):
        STEPS[name]()
