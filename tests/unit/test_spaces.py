"""Decisions within limits, in whole numbers and among actions: none in the space is better."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import stats

import stakes
from stakes import (
    EM,
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
from stakes.decisions import objective_of
from stakes.spaces import Shared
from stakes.study import given
from stakes.utilities import ScaledLoss
from stakes.varying import GroupOf, PerCase, columns_for

KEY = jax.random.key(0)


def regression(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    noise = numpyro.sample("noise", dist.LogNormal(0, 0.5))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(slope * x, noise), obs=y)


def coins(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=slope * x), obs=y)


X = np.linspace(-2, 2, 24)
DATA = {"x": X, "y": 1.5 * X + 0.3 * np.sin(37 * X)}
YES = {"x": X, "y": (X + 0.8 * np.sin(23 * X) > 0).astype(int)}
CALLS = CostTable({"call": [5, 1], "skip": [0, 20]})


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
    assert result.method == EM()
    assert set(result.decisions.values) == {"call", "skip"}
    # Calling pays where 4 p > 5 (1 - p) - 0 and 20 p - ... : the odds at which both cost the same.
    chance = result.predictive(draws=4000)["y"].mean(("chain", "draw")).values
    cost = {"call": 5 * (1 - chance) + chance, "skip": 20 * chance}
    sure = np.abs(cost["call"] - cost["skip"]) > 0.7
    best = np.where(cost["call"] < cost["skip"], "call", "skip")
    assert (result.decisions.values == best)[sure].all()
    assert sure.sum() > 15


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


@pytest.mark.slow
def test_choosing_among_ways_stays_in_the_space():
    problem = Problem(coins, outcome="y", loss=CALLS)
    today = np.where(X > 0, "call", "skip")
    ways = [stakes.Plain(), stakes.Calibrated(), stakes.Same(), stakes.Given(today)]
    choice = stakes.choose(KEY, problem, YES, ways, folds=2, steps=300, progress=False)
    assert set(choice.decisions.values) <= {"call", "skip"}
    always = choice.decide(YES, known="row", way="the same for all").values
    assert len(set(always)) == 1
    costs = CALLS(YES["y"], np.where(X > 0, 0, 1))
    assert choice.table.loc["what is done today", "risk"] == pytest.approx(float(costs.mean()))
    with pytest.raises(InputError, match="actions"):
        stakes.choose(KEY, problem, YES, [stakes.Corrected()], folds=2, steps=10)


def test_a_table_of_costs_comes_as_mapping_array_or_frame():
    rows = [[5.0, 1.0], [0.0, 20.0]]
    frame = CostTable(pd.DataFrame(rows, index=["call", "skip"]))
    assert frame.actions == CALLS.actions
    for table in (CALLS, frame, CostTable(np.array(rows))):
        costs = table(np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]))
        np.testing.assert_array_equal(costs, [5, 1, 0, 20])
    assert np.isnan(float(CALLS(2, 0)))  # there is no such class
    assert np.isnan(float(CALLS(0, 3)))  # nor such an action


@pytest.mark.slow
def test_classes_of_a_number_are_told_by_bins():
    table = CostTable({"leave": [0, 10, 90], "mend": [30, 30, 30]}, bins=[1.0, 3.0])
    np.testing.assert_array_equal(table(np.array([0.5, 1.0, 2.9, 3.0]), 0), [0, 10, 10, 90])
    outcome = dist.Normal(jnp.array([0.0, 2.5, 6.0]), 1.0)
    found = stakes.ClosedForm().expected(None, outcome, table, jnp.zeros(3))
    middle = stats.norm(np.array([0.0, 2.5, 6.0]))
    expected = 10 * (middle.cdf(3) - middle.cdf(1)) + 90 * middle.sf(3)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    counts = dist.Poisson(jnp.array([1.0, 3.0]))
    found = stakes.ClosedForm().expected(None, counts, table, jnp.zeros(2))
    twin = stats.poisson(np.array([1.0, 3.0]))
    np.testing.assert_allclose(found, 10 * (twin.cdf(2) - twin.cdf(0)) + 90 * twin.sf(2), rtol=1e-5)


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


ELASTICITY, UNIT_COST = 2.5, 1.2
PRICE = np.linspace(1.5, 4.0, 24)


def demand(price, sold=None):
    level = numpyro.sample("level", dist.Normal(3, 1))
    with numpyro.plate("week", len(price)):
        rate = jnp.exp(level - ELASTICITY * jnp.log(price))
        numpyro.sample("sold", dist.Poisson(rate), obs=sold)


SOLD = {"price": PRICE, "sold": np.round(40 * PRICE**-ELASTICITY).astype(int)}


def profit(sold, price):
    return (price - UNIT_COST) * sold + 1e-4


def pricing(space=Interval(1.3, 6.0), **others):  # noqa: B008
    utility = Utility(profit, regret=False)
    return Problem(demand, outcome="sold", utility=utility, decision={"price": space}, **others)


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
def test_a_finite_choice_of_prices_is_tried_one_by_one_and_unseen_ones_are_said():
    problem = pricing(OneOf([1.4, 2.1, 5.0]))
    with pytest.warns(stakes.StakesWarning, match=r"beyond those in the data: 2\.1"):
        result = calibrate(KEY, problem, SOLD, steps=60, draws=4, progress=False)
    assert set(result.decisions.values) == {2.1}
    high = SOLD | {"price": PRICE + 3}
    with pytest.warns(stakes.StakesWarning, match="outside those in the data"):
        calibrate(KEY, pricing(), high, steps=30, draws=2, progress=False)


def schools(effect, error):
    mean, spread = numpyro.sample("mean", dist.Normal(0, 5)), 4.0
    with numpyro.plate("school", len(effect)):
        own = numpyro.sample("own", dist.Normal(mean, spread))
        numpyro.sample("seen", dist.Normal(own, error), obs=effect)
    numpyro.deterministic("twice", 2 * mean)


SCHOOLS = {"effect": np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), "error": np.full(8, 10.0)}


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

    monkeypatch.setattr("stakes.study.pipeline.run", run)
    with pytest.raises(InputError):
        BAD[name]()


def test_labels_survive_single_precision():
    packs = OneOf([59.9, 49.9])
    assert packs.labelled(np.array([49.9, 59.9], np.float32)).tolist() == [49.9, 59.9]
    assert OneOf([False, True]).actions == (0.0, 1.0)
    assert OneOf(["1", 1, (2, 3)]).labelled(np.arange(3)).tolist() == ["1", 1, (2, 3)]


def test_large_numbers_of_groups_are_told_apart():
    groups = np.array([20240001, 20240002, 20240003, 20240004])
    found = columns_for((GroupOf("shop"),), {"shop": groups}, (4,))[GroupOf("shop")]
    assert np.asarray(found).tolist() == [0, 1, 2, 3]


def test_a_case_without_room_is_held_at_its_limit():
    space = Interval(0, "most").at({"most": jnp.array([0.0, 2.0])})
    free = space.to_line(jnp.array([0.0, 1.0]))
    assert np.isfinite(free).all()
    np.testing.assert_allclose(space.from_line(free), [0.0, 1.0], atol=1e-6)
    whole = Integers(0, "most").at({"most": jnp.array([30.5])})
    assert float(whole.inside(jnp.array([99.0]))[0]) == 30


@pytest.mark.slow
def test_masked_cases_do_not_move_the_best_shared_decision():
    gain = ScaledLoss(Squared(), 1.0)
    groups = Shared(jnp.zeros(3, int))
    term = objective_of(gain, stakes.ClosedForm(), None, Real(), groups).term
    outcome = dist.Normal(jnp.array([0.0, 1.0, 100.0]), 1.0)
    weight = jnp.array([1.0, 1.0, 0.0])
    each = term.weighing(weight)(KEY, outcome, jnp.full(3, 0.5))
    assert float(jnp.sum(jnp.where(weight > 0, each, 0.0))) == pytest.approx(0, abs=1e-3)


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


def test_words_of_what_is_decided_about_stand_for_the_actions():
    def trial(treat, well=None):
        effect = numpyro.sample("effect", dist.Normal(0, 1))
        with numpyro.plate("patient", len(treat)):
            numpyro.sample("well", dist.Normal(effect * treat, 1), obs=well)

    space = OneOf(["placebo", "drug"])
    problem = Problem(trial, outcome="well", loss=Squared(), decision={"treat": space})
    frame = pd.DataFrame({"treat": ["placebo", "drug", "placebo"], "well": [0.0, 1.0, 0.1]})
    assert given(problem, frame, needs_outcome=True).data["treat"].tolist() == [0, 1, 0]


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
