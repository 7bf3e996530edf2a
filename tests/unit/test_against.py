"""The comparison with other tools: what could be wrong in it without being seen."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from benchmarks.against import costs, keeping, ours, page, scoring
from benchmarks.against.contest import Table
from benchmarks.against.keeping import Decided
from benchmarks.against.problems import matrices, radon, yaz
from benchmarks.against.rivals import SameForAll
from benchmarks.against.running import by_rival, costs_of, result
from benchmarks.against.tuning import cross_validated, tuned
from stakes import datasets

COSTS = (
    costs.Newsvendor(0.1),
    costs.Newsvendor(0.75, total=10.0),
    costs.Exponential(-1.0),
    costs.Square(),
    costs.Square(5.0),
)


def test_the_best_single_number_costs_what_was_published_for_yaz():
    contest = yaz.calendar()
    paid = costs_of(contest, by_rival(SameForAll(), contest))
    assert round(paid.mean(), 2) == yaz.PUBLISHED["SAA"]


@pytest.mark.parametrize("contest", [yaz.calendar, yaz.lagged])
def test_yaz_is_fitted_to_553_days_and_judged_by_the_185_after_them(contest):
    made, days = contest(), datasets.newsvendor()
    assert [table.name for table in made.tables] == list(datasets.DISHES)
    for table in made.tables:
        sold = days[table.name].to_numpy()[27:]
        np.testing.assert_array_equal(table.y, sold[:553])
        np.testing.assert_array_equal(table.new_y, sold[553:])
    np.testing.assert_array_equal(made.model.new_data["sold"].T, made.outcomes)
    assert made.model.data["sold"].shape == (548, 7)  # five days without any sale tell nothing


def test_calendar_features_do_not_see_outcomes():
    days = datasets.newsvendor()
    other = days.assign(**{dish: 0 for dish in datasets.DISHES})
    np.testing.assert_array_equal(yaz.calendar_features(days), yaz.calendar_features(other))


@pytest.mark.parametrize("day", [0, 1, 7, 30, 300, 764])
def test_lags_see_neither_their_day_nor_later_ones(day):
    days = datasets.newsvendor()
    later = days.copy()
    dishes = list(datasets.DISHES)
    later.iloc[day:, [days.columns.get_loc(dish) for dish in dishes]] += 1000
    for dish in ("shrimp", "steak"):
        then, now = yaz.lag_features(days, dish), yaz.lag_features(later, dish)
        np.testing.assert_array_equal(then[: day + 1], now[: day + 1])
        assert day == 764 or (then[day + 1] != now[day + 1]).any()


def test_a_model_of_yaz_is_standardised_by_the_days_of_the_fit_alone(monkeypatch):
    before = yaz.lagged().model.data["covariates"]
    days = datasets.newsvendor()
    days.iloc[yaz.NEW, days.columns.get_loc("temperature")] += 30
    monkeypatch.setattr(datasets, "newsvendor", lambda: days)
    np.testing.assert_array_equal(before, yaz.lagged().model.data["covariates"])


def test_radon_is_judged_by_homes_and_counties_that_were_not_fitted():
    whole = np.sort(datasets.radon()["log_radon"].to_numpy())
    for contest in (radon.homes(), radon.counties()):
        (table,) = contest.tables
        np.testing.assert_array_equal(np.sort(np.concatenate([table.y, table.new_y])), whole)
        np.testing.assert_array_equal(contest.model.data["log_radon"], table.y)
        np.testing.assert_array_equal(contest.model.new_data["log_radon"], table.new_y)
    (table,) = radon.counties().tables
    assert not table.new_x[:, 2:].any()  # no county of theirs is a column


def test_features_of_an_entry_depend_on_no_entry_of_its_fold_nor_on_unseen_ones():
    rng = np.random.default_rng(0)
    y, seen = rng.exponential(size=(30, 12)), rng.random((30, 12)) < 0.5
    before = matrices.entry_features(y, seen)
    np.testing.assert_array_equal(matrices.entry_features(np.where(seen, y, 99.0), seen), before)
    fold = np.random.default_rng(0).integers(0, 5, y.shape)
    other = matrices.entry_features(np.where(fold == 2, y + 5, y), seen)
    np.testing.assert_array_equal(other[fold == 2], before[fold == 2])
    assert (other[fold != 2] != before[fold != 2]).any()


def test_costs_by_hand():
    short = np.array([7.0]), np.array([4.0])
    over = np.array([4.0]), np.array([7.0])
    newsvendor = costs.Newsvendor(0.9, total=10.0)
    assert [newsvendor(*short)[0], newsvendor(*over)[0]] == pytest.approx([9 * 3, 1 * 3])
    linex = costs.Exponential(-1.0)
    assert [linex(*short)[0], linex(*over)[0]] == pytest.approx([np.e**3 - 4, np.e**-3 + 2])
    assert [costs.Square(5.0)(*short)[0], costs.Square(5.0)(*over)[0]] == [45.0, 9.0]


@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: cost.name)
def test_stakes_gets_the_loss_that_all_are_judged_by(cost):
    rng = np.random.default_rng(1)
    outcome, decision = rng.normal(size=(2, 50))
    theirs = np.asarray(cost.loss()(jnp.asarray(outcome), jnp.asarray(decision)))
    ours = cost(outcome, decision)
    np.testing.assert_allclose(theirs * getattr(cost, "total", 1.0), ours, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: cost.name)
def test_the_best_decision_for_a_sample_beats_a_grid(cost):
    sample = np.random.default_rng(2).normal(size=(3, 40))
    best = costs.best_for_samples(sample, cost)
    for row, decision in zip(sample, best, strict=True):
        grid = [cost(row, at).mean() for at in np.linspace(-3, 3, 601)]
        assert cost(row, decision).mean() <= min(grid) + 1e-12


class Remembering:
    """Decides a constant that its setting and variant give; keeps which rows it was shown."""

    name = "remembering"
    settings = ({"add": 0.0}, {"add": 10.0})
    variants = ({"times": 1.0}, {"times": 2.0})

    def __init__(self):
        self.shown = []

    def applies(self, cost):
        return cost.quantile is not None

    def decide(self, setting, x, y, new_x, costs):
        self.shown.append((set(x[:, 0]), set(new_x[:, 0])))
        values = [setting["add"] * variant["times"] for variant in self.variants]
        return np.broadcast_to(np.array(values)[:, None, None], (2, len(costs), len(new_x)))


def test_a_rival_is_tuned_by_the_cost_on_rows_it_did_not_see():
    rows = np.arange(23.0)
    table = Table("t", rows[:, None], 18.0 + rows % 3, rows[:5, None], rows[:5])
    rival, cost = Remembering(), costs.Newsvendor(0.5)
    risks = cross_validated(rival, table, [cost])[..., 0]
    assert all(not seen & out for seen, out in rival.shown)
    by_hand = [[np.abs(table.y - h).mean() / 2 for h in pair] for pair in ((0, 0), (10, 20))]
    np.testing.assert_allclose(risks, by_hand)
    decided, settings = tuned(rival, table, [cost])
    assert settings == [{"add": 10.0, "times": 2.0}]
    np.testing.assert_array_equal(decided, np.full((1, 5), 20.0))


def test_the_interval_is_near_that_of_a_paired_t_test_where_rows_are_independent():
    one, other = 10 + np.random.default_rng(3).normal(size=(2, 1, 60))
    found = scoring.difference(one, other, np.arange(60), in_order=False)
    expected = stats.ttest_rel(one[0], other[0]).confidence_interval()
    assert found.mean == pytest.approx(one.mean() - other.mean())
    assert found[1:] == pytest.approx((expected.low, expected.high), rel=0.1)


def test_rows_of_one_cluster_count_once():
    one, other = 10 + np.random.default_rng(4).normal(size=(2, 1, 60))
    once = scoring.difference(one, other, np.arange(60), in_order=False)
    thrice = scoring.difference(
        np.repeat(one, 3, axis=1), np.repeat(other, 3, axis=1), np.arange(180) // 3, in_order=False
    )
    assert thrice == pytest.approx(once)


def test_a_result_has_the_risk_of_every_tool_and_its_distance_from_the_best(tmp_path, monkeypatch):
    monkeypatch.setattr(keeping, "DECISIONS", tmp_path)
    contest = yaz.calendar()
    saa = by_rival(SameForAll(), contest)
    known = np.broadcast_to(contest.outcomes, saa.decisions.shape) + 1.0
    Decided(known, np.ones(5), {}).keep(contest.name, "one too many")
    made = Decided.kept(contest.name, "one too many")
    found = result(contest, {"SAA": saa, "one too many": made})
    row = found["by cost"]["tilted 0.9"]
    assert row["one too many"]["risk"] == pytest.approx(1.0)
    assert row["one too many"]["more"] == 0
    assert row["SAA"]["more"] == pytest.approx(row["SAA"]["risk"] - 1.0)
    assert row["SAA"]["low"] < row["SAA"]["more"] < row["SAA"]["high"]


def test_the_standing_of_a_tool_counts_the_pairs_on_which_all_were_run():
    def row(risk, more, low):
        return {"risk": risk, "more": more, "low": low, "seconds": 2.0}

    both = {ours.CHOSEN: row(1.1, 0.1, -0.1), "other": row(1.0, 0.0, 0.0)}
    ahead = {ours.CHOSEN: row(2.0, 0.0, 0.0), "other": row(3.0, 1.0, 0.5)}
    alone = {"other": row(1.0, 0.0, 0.0)}
    way = {f"stakes, {name}": row(0.5, -0.5, -0.6) for name in ("plain VI", "one decision for all")}
    results = {"one": {"by cost": {"a": both | way, "b": ahead}}, "two": {"by cost": {"c": alone}}}
    *_, first, second = page.standing(results).splitlines()
    assert first == "| stakes, as chosen | 2 | 1 | 0 | 5.0 % | 10 % | 4 |"
    assert second == "| other | 2 | 1 | 1 | 25.0 % | 50 % | 4 |"
