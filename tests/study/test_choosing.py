"""Ways to a decision, their folds, and the choice among them."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
import vocabulary
from numpyro.infer.autoguide import AutoDelta
from scipy import stats

import stakes
import stakes.plot
from stakes.predicting import FittedPosterior
from stakes.study import (
    FittedMap,
    Identity,
    MapInputs,
    Screen,
    Study,
    Work,
    chosen_among,
    enter,
    screen,
)
from stakes.study.strategies.by_posterior import reweigh

KEY = jax.random.key(0)
GROUPS, EACH, SPREAD = 6, 8, 2.0
ROWS = GROUPS * EACH
Q = 0.2


def grouped(group: Any, n: int, y: Any = None) -> None:
    """Means of groups with a known prior and known noise: every posterior is known exactly."""
    with numpyro.plate("group", n):
        mean = numpyro.sample("mean", dist.Normal(0, SPREAD))
    with numpyro.plate("row", len(group)):
        numpyro.sample("y", dist.Normal(mean[group], 1), obs=y)


def simulated(shift: float = 0.0) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    group = np.tile(np.arange(GROUPS), EACH)
    means = SPREAD * rng.normal(size=GROUPS)
    return {"group": group, "n": GROUPS, "y": means[group] + shift + rng.normal(size=ROWS)}


def exact(data: dict[str, Any], seen: np.ndarray, q: float = Q) -> np.ndarray:
    """The decision for each row by the posterior given the outcomes seen."""
    counts = np.bincount(data["group"][seen], minlength=GROUPS)
    totals = np.bincount(data["group"][seen], data["y"][seen], minlength=GROUPS)
    precision = counts + 1 / SPREAD**2
    mean, deviation = totals / precision, np.sqrt(1 / precision + 1)
    return np.asarray(stats.norm.ppf(q, mean, deviation)[data["group"]])


PROBLEM = stakes.Problem(grouped, outcome="y", loss=stakes.Tilted(Q))


@dataclass(frozen=True)
class Watching:
    """A calibration map that changes nothing and keeps what it was shown."""

    rows: list[np.ndarray]
    covariates: tuple[str, ...] = ("group",)

    title: ClassVar[str] = "watching"
    description: ClassVar[str] = "decisions as they are"
    __hash__ = object.__hash__

    def fit(self, key: Any, inputs: MapInputs, outcomes: np.ndarray, criterion: Any) -> FittedMap:
        assert inputs.covariates is not None
        assert len(inputs.decisions) == len(inputs.covariates) == len(outcomes)
        self.rows.append(outcomes)
        return Identity()

    def restore(self, arrays: Any) -> FittedMap:
        return Identity()


WATCHING = Watching([])
FOLDS = np.tile([0, 1, 2, 3], ROWS // 4)


@pytest.fixture(scope="module")
def choice() -> stakes.Choice:
    ways = [
        stakes.Plain(),
        stakes.Calibrated(strength=2),
        stakes.Corrected(stakes.Plain(), WATCHING),
        stakes.Same(),
        stakes.Given(np.zeros(ROWS)),
        stakes.Reweighted(stakes.Plain()),
        stakes.LinearResponse(),
    ]
    # Tolerances below are mostly for the draws of θ that decide; they were set with these fits.
    options = stakes.Options(steps=3_000, independent=True)
    return stakes.choose(KEY, PROBLEM, simulated(), ways, FOLDS, options=options, progress=False)


@pytest.fixture(scope="module")
def by_group() -> stakes.Choice:
    ways = [stakes.Plain(), stakes.Corrected(stakes.Plain()), stakes.Same()]
    return stakes.choose(
        KEY, PROBLEM, simulated(shift=12.0), ways, 3, "group", steps=3_000, progress=False
    )


def test_each_fold_decides_by_the_posterior_of_what_it_saw(choice: stakes.Choice) -> None:
    data, plain = simulated(), choice.scores[0]
    decided = np.zeros(ROWS)
    for fold in range(4):
        decided[fold == FOLDS] = exact(data, fold != FOLDS)[fold == FOLDS]
    costs = np.asarray(stakes.Tilted(Q)(data["y"], decided))
    # 512 draws of a mean with a standard deviation of a third decide: costs have a standard error
    # of 0.012, of which one of 48 exceeds four once in 300 times.
    np.testing.assert_allclose(plain.costs, costs, atol=0.05)


def test_another_loss_takes_over_the_plain_fits(
    choice: stakes.Choice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stakes.study.fits.run_apart", pytest.fail)
    data, ways = simulated(), [stakes.Plain()]
    problem = stakes.Problem(grouped, outcome="y", loss=stakes.Tilted(0.9))
    work = Work(progress=False, before=choice.study)
    study = Study(KEY, problem, data, choice.study.options, folds=FOLDS, work=work)
    enter(study, ways)
    costs, decided = chosen_among(study, ways).scores[0].costs, np.zeros(ROWS)
    for fold in range(4):
        decided[fold == FOLDS] = exact(data, fold != FOLDS, q=0.9)[fold == FOLDS]
    expected = np.asarray(stakes.Tilted(0.9)(data["y"], decided))
    np.testing.assert_allclose(costs, expected, atol=0.06)  # decisions by 0.2 cost 0.5 more


def test_many_fits_take_fewer_draws_unless_a_number_is_given(choice: stakes.Choice) -> None:
    fits = choice.study.fits()
    asked = fits.plan.settings.draws
    few, many = (fits._with_fewer_draws(fits.plan, count).settings.draws for count in (2, 100))
    assert few == asked
    assert many == max(4, 2**15 // (100 * ROWS)) < asked
    study = Study(KEY, PROBLEM, simulated(), stakes.Options(draws=7), work=Work(progress=False))
    assert study.fits()._with_fewer_draws(study.plan, 100).settings.draws == 7


def test_draws_of_a_good_fit_can_be_reweighted(choice: stakes.Choice) -> None:
    plain, again = choice.scores[0], choice.scores[5]
    # Four times the standard errors of both: 0.012 and, with fewer draws left by weights, 0.02.
    np.testing.assert_allclose(again.costs, plain.costs, atol=0.1)
    assert choice.table.loc[again.name, "k_hat"] < 0.7


def test_weights_belong_to_their_draws(choice: stakes.Choice) -> None:
    """Draws of a fit that is off and too wide, once weighted, are those of the exact posterior."""
    posterior = choice.fitted("plain VI").posterior
    assert isinstance(posterior, FittedPosterior)
    off = {name: value + 0.2 for name, value in posterior.params.items()}
    data, seen = simulated(), np.ones(ROWS, bool)
    found, _ = reweigh(FittedPosterior(posterior.approximation, off), seen, KEY, 20_000)
    precision = EACH + 1 / SPREAD**2
    totals = np.bincount(data["group"], data["y"], minlength=GROUPS)
    drawn = np.asarray(found.samples["mean"])
    np.testing.assert_allclose(drawn.mean(axis=0), totals / precision, atol=0.06)
    np.testing.assert_allclose(drawn.std(axis=0), precision**-0.5, rtol=0.1)


def test_weights_with_a_heavy_tail_are_refused() -> None:
    """VI that has hardly begun is no proposal for anything."""
    ways = [stakes.Plain(), stakes.Reweighted(stakes.Plain())]
    options = stakes.Options(steps=1, independent=True)  # the programs of `choice`
    choice = stakes.choose(KEY, PROBLEM, simulated(), ways, FOLDS, options=options, progress=False)
    assert choice.table.loc["plain VI, reweighted", "k_hat"] > 0.7
    assert "cannot be relied on" in choice.table.loc["plain VI, reweighted", "refused"]
    assert choice.chosen == "plain VI"


def test_the_decisions_are_those_of_a_fit_to_everything(choice: stakes.Choice) -> None:
    want = exact(simulated(), np.ones(ROWS, bool))
    np.testing.assert_allclose(choice.decisions.values, want, atol=0.05)


def test_a_picture_shows_what_the_chosen_way_decides(choice: stakes.Choice) -> None:
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    ax = stakes.plot.decisions(choice)
    drawn = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    assert set(drawn) == {choice.chosen, "observed"}
    np.testing.assert_array_equal(drawn[choice.chosen], choice.decisions.values)
    np.testing.assert_allclose(drawn["observed"], simulated()["y"], rtol=1e-6)
    low, high = np.array(ax.collections[0].get_segments())[:, :, 1].T
    held = np.mean((low <= drawn["observed"]) & (drawn["observed"] <= high))
    assert 0.8 < held <= 1.0
    plt.close(ax.figure)


def test_members_whose_rows_are_all_left_out_are_new(by_group: stakes.Choice) -> None:
    """Then nothing is known of a group but its prior."""
    want = stats.norm.ppf(Q, 0, np.sqrt(SPREAD**2 + 1))
    costs = np.asarray(stakes.Tilted(Q)(simulated(shift=12.0)["y"], want))
    np.testing.assert_allclose(by_group.scores[0].costs, costs, atol=0.08)


def test_groups_stay_together_and_intervals_allow_for_them(by_group: stakes.Choice) -> None:
    splits, group = by_group.study.splits, simulated()["group"]
    for judged in splits.judged:
        assert not np.intersect1d(group[judged], group[~judged]).size
    assert "keep 6 groups together" in splits.title


def test_a_correction_is_chosen_where_the_model_is_reliably_wrong(by_group: stakes.Choice) -> None:
    """Groups far above where their prior puts them, of which folds leave out two at a time."""
    risks = by_group.table["risk"]
    assert risks["plain VI, corrected by shift"] < 0.8 * risks["plain VI"]


def test_a_map_never_sees_the_outcomes_its_decisions_are_judged_by(choice: stakes.Choice) -> None:
    data = simulated()["y"].astype(np.float32)
    *folds, everything = WATCHING.rows
    assert len(folds) == 4
    for fold, seen in enumerate(folds):
        assert set(seen.tolist()) == set(data[fold != FOLDS].tolist())
    assert len(everything) == ROWS


def test_two_ways_are_told_apart_from_both_sides_or_from_none(choice: stakes.Choice) -> None:
    """Also where one of them costs many times as much as the other."""
    scores = choice.scores
    for one in scores:
        for other in scores:
            there = choice.comparison.against(other.name, one.name)
            back = choice.comparison.against(one.name, other.name)
            assert (there.low > 0) == (back.high < 0), (one.name, other.name)
            assert there.low <= (one.risk - other.risk) / one.risk + 1e-12, (one.name, other.name)
            assert there.high >= (one.risk - other.risk) / one.risk - 1e-12, (one.name, other.name)


def test_the_table_has_a_row_for_each_way_judged_alike(choice: stakes.Choice) -> None:
    table = choice.table
    assert list(table.index) == [score.name for score in choice.scores]
    assert {"risk", "better_by", "low", "high", "seconds"} <= set(table.columns)
    plain, same = choice.scores[0], choice.scores[3]
    assert table.loc["one decision for all", "risk"] == pytest.approx(same.costs.mean())
    expected = 1 - same.costs.mean() / plain.costs.mean()
    assert table.loc["one decision for all", "better_by"] == pytest.approx(expected)
    assert table.loc["plain VI", "better_than_today"] > 0
    today = 1 - plain.costs.mean() / choice.scores[4].costs.mean()
    assert table.loc["plain VI", "better_than_today"] == pytest.approx(today)
    # Outcomes come from the model: 48 of them, each in its range with the chance that it promises.
    assert 0.25 < table.loc["plain VI", "coverage_50"] < 0.75
    assert 0.75 < table.loc["plain VI", "coverage_90"] <= 1


def test_the_simplest_way_is_chosen_where_none_is_reliably_better(choice: stakes.Choice) -> None:
    assert choice.chosen == "plain VI"
    assert choice.verdict.startswith("Decide by plain VI: no other strategy is reliably better.")
    assert "Today's decisions would cost" in choice.verdict
    same = choice.table.loc["one decision for all"]
    more = f"One decision for all would cost {-100 * same['better_by']:.1f} % more than plain VI"
    assert more in choice.verdict
    assert f"interval {-100 * same['high']:.1f} to {-100 * same['low']:.1f} %" in choice.verdict
    printed = str(choice)
    assert "> plain VI" in printed
    assert choice.verdict in printed
    assert vocabulary.unknown(choice.verdict) == set()
    page = choice._repr_html_()
    assert page.startswith("<table>")
    assert page.count("<tr>") == 1 + len(choice.scores)
    assert "<strong>plain VI</strong>" in page


def test_other_data_are_decided_by_the_way_chosen_or_named(choice: stakes.Choice) -> None:
    other = {"group": np.array([2, 0]), "n": GROUPS}
    known = {"new": "row", "known": "group"}
    decided = choice.decide(other, **known)
    want = exact(simulated(), np.ones(ROWS, bool))
    np.testing.assert_allclose(decided.values, want[[2, 0]], atol=0.05)
    same = choice.decide(other, way="one decision for all", **known).values
    assert same[0] == same[1]
    for score in choice.scores[:3]:
        assert choice.decide(other, way=score.name, **known).shape == (2,)
    with pytest.raises(stakes.InputError, match="data of the fit alone"):
        choice.decide(other, way="today's decisions", **known)
    with pytest.raises(stakes.InputError, match="`way=` must be one of"):
        choice.decide(other, way="NUTS", **known)


def test_the_same_for_all_is_the_best_single_decision(choice: stakes.Choice) -> None:
    outcomes = simulated()["y"]
    costs = [stakes.Tilted(Q)(outcomes, place).mean() for place in np.linspace(-6, 6, 2401)]
    [same, *_] = choice.decide({"group": [0], "n": GROUPS}, way="one decision for all").values
    assert stakes.Tilted(Q)(outcomes, same).mean() <= min(costs) + 1e-6


def test_a_baseline_is_chosen_where_every_model_is_reliably_worse() -> None:
    ways = [stakes.Plain(), stakes.Given("y")]  # today's decisions cannot be beaten

    data = simulated()
    forward, options = stakes.Forward(blocks=4), stakes.Options(steps=500, independent=True)
    choice = stakes.choose(KEY, PROBLEM, data, ways, forward, options=options, progress=False)
    assert "in 4 blocks forward in time" in repr(choice)
    assert choice.chosen == "today's decisions"
    np.testing.assert_array_equal(choice.decisions.values, data["y"].astype(np.float32))
    assert "nan" not in choice.verdict


def test_a_way_whose_numbers_fail_is_left_out_and_told() -> None:
    """Nine losses in ten are zero, and so is the scale of calibration."""

    def coin(x: Any, y: Any = None) -> None:
        chance = numpyro.sample("chance", dist.Beta(1, 19))
        with numpyro.plate("toss", len(x)):
            numpyro.sample("y", dist.Bernoulli(chance), obs=y)

    data = {"x": np.zeros(60), "y": (np.arange(60) % 20 == 0).astype(float)}
    problem = stakes.Problem(
        coin, outcome="y", loss=stakes.CostTable({"call": [6, 6], "no": [0, 9]})
    )
    ways = [stakes.Plain(), stakes.Calibrated(), stakes.Same()]
    with pytest.warns(stakes.StakesWarning, match=r"leaves out calibrated: .*quantile"):
        choice = stakes.choose(KEY, problem, data, ways, folds=2, steps=400, progress=False)
    assert [score.name for score in choice.scores] == ["plain VI", "one decision for all"]
    assert "Calibrated is left out: `Linearized(quantile=0.9)`" in str(choice)
    with pytest.raises(stakes.NumericalError, match="no strategy can decide"):
        stakes.choose(KEY, problem, data, ways[1:], folds=2, steps=400, progress=False)


def refusals() -> list[tuple[dict[str, Any], str]]:
    rows = np.arange(ROWS)
    return [
        ({"folds": 49}, "leave a fold without rows"),
        ({"folds": 1}, "`folds=` must be a whole number of at least 2"),
        ({"folds": np.zeros(3, int)}, "whole numbers of shape"),
        ({"folds": np.where(rows < 9, 2, 0)}, "fold 1 has no outcome that counts"),
        ({"folds": np.zeros(ROWS, int)}, "leaves nothing to fit to"),
        ({"folds": np.full(ROWS, -1)}, "fold 0 has no outcome that counts"),
        ({"folds": rows % 2, "by": rows // 5}, "splits the groups"),
        ({"folds": stakes.Forward(), "by": "group"}, "splits the groups"),
        ({"folds": stakes.Forward(blocks=40)}, "leave a fold without rows"),
        ({"folds": stakes.Forward(together=rows // 30)}, "leave a fold without rows"),
        ({"folds": stakes.Forward(together=rows[:7])}, r"of shape \(48,\)"),
        ({"by": np.zeros(7)}, r"labels of shape \(7,\) for cases of shape \(48,\)"),
        ({"by": "n"}, r"has shape \(\), and outcomes have shape \(48,\)"),
        ({"by": "shop"}, "names no plate"),
        ({"by": "group", "folds": 7}, "there are 6 groups"),
        ({"ways": []}, "`ways=` must be a list of strategies"),
        ({"ways": [stakes.Same()]}, "only baselines"),
        ({"ways": [stakes.Plain(), stakes.Plain()]}, "more than once"),
        ({"ways": [stakes.Plain(), stakes.Tilted(0.5)]}, "`ways=`: each must be"),
        ({"ways": [stakes.Plain(), stakes.Given(np.zeros(5))]}, "one for each outcome"),
        ({"ways": [stakes.Plain(), stakes.Given("orders")]}, "names no data argument"),
        ({"ways": [stakes.Corrected(stakes.Same())]}, "a strategy that predicts outcomes"),
        ({"ways": [stakes.Corrected(stakes.Plain(), Watching([], ("n",)))]}, "covariate 'n'"),
    ]


@pytest.mark.parametrize(("call", "message"), refusals(), ids=lambda each: str(each)[:40])
def test_what_does_not_fit_is_refused_before_any_fit(
    call: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stakes.study.fits.run_apart", pytest.fail)
    with pytest.raises(stakes.InputError, match=message):
        stakes.choose(KEY, PROBLEM, simulated(), progress=False, **call)


def test_what_is_done_today_is_refused_in_another_order_than_the_rows() -> None:
    def model(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(level + x, 1), obs=y)

    problem = stakes.Problem(model, outcome="y", loss=stakes.Absolute())
    table = pd.DataFrame({"x": np.arange(8.0), "y": np.zeros(8)})
    for rows in (table, table.set_index(pd.Index(list("abcdefgh")))):
        call = partial(stakes.choose, KEY, problem, rows, folds=2, steps=2, progress=False)
        for wrong in (rows["x"][::-1], rows["x"].rename(lambda label: f"{label}!")):
            with pytest.raises(stakes.InputError, match="in another order"):
                call([stakes.Plain(), stakes.Given(wrong)])
    given = stakes.Given(rows["x"])
    choice = call([stakes.Plain(), given])
    assert {each.name: each.risk for each in choice.scores}[given.name] == pytest.approx(3.5)
    stakes.Given(rows["x"].reset_index(drop=True)).check(choice.study)  # numbers say nothing


def learned(group: Any, n: int, y: Any = None) -> None:
    """Means of groups without a distribution: nothing is known of a group without outcomes."""
    level = numpyro.sample("level", dist.Normal(0, 1))
    mean = numpyro.param("mean", jnp.zeros(n))
    with numpyro.plate("row", len(group)):
        numpyro.sample("y", dist.Normal(level + mean[group], 1), obs=y)


def test_folds_that_leave_a_parameter_untold_are_refused_before_any_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stakes.study.fits.run_apart", pytest.fail)
    problem, data = stakes.Problem(learned, outcome="y", loss=stakes.Tilted(Q)), simulated()
    with pytest.raises(stakes.InputError, match="parameter 'mean' without any outcome"):
        stakes.choose(KEY, problem, data, by=data["group"], folds=3, progress=False)


def test_a_utility_has_no_strength(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stakes.study.fits.run_apart", pytest.fail)
    utility = stakes.Utility(lambda outcome, decision: jnp.exp(-jnp.square(outcome - decision)))
    problem = stakes.Problem(grouped, outcome="y", utility=utility)
    with pytest.raises(stakes.InputError, match="no scale M"):
        stakes.choose(KEY, problem, simulated(), [stakes.Calibrated(strength=2)], progress=False)


def test_calibration_is_not_tried_where_it_cannot_matter() -> None:
    """Independent means of groups are what the guide assumes, so that plain VI is exact."""
    choice = stakes.choose(KEY, PROBLEM, simulated(), folds=2, steps=3_000, progress=False)
    assert [score.name for score in choice.scores] == [
        "plain VI",
        "plain VI, corrected by shift",
        "one decision for all",
    ]
    assert "would save 0.0" in choice.not_tried
    assert choice.not_tried in str(choice)
    assert choice.summary.not_tried == choice.not_tried


@pytest.mark.parametrize("case", ["new members", "a utility", "a point mass"])
def test_nothing_is_known_where_weighted_draws_say_nothing(case: str) -> None:
    """New groups are drawn from what is known of groups, and a point mass has no draws."""
    bump = stakes.Utility(lambda outcome, decision: jnp.exp(-jnp.square(outcome - decision)))
    problem = {
        "new members": PROBLEM,
        "a utility": stakes.Problem(grouped, outcome="y", utility=bump),
        "a point mass": stakes.Problem(
            grouped, outcome="y", loss=stakes.Tilted(Q), guide=AutoDelta
        ),
    }[case]
    by = "group" if case == "new members" else None
    work, options = Work(progress=False), stakes.Options(steps=100)
    study = Study(KEY, problem, simulated(), options, folds=2, by=by, work=work)
    assert np.isnan(screen(study).gain)


def test_a_screen_that_knows_nothing_rules_nothing_out() -> None:
    assert not Screen(float("nan")).rules_out
    assert not Screen(0.01).rules_out
    assert Screen(-0.0001).rules_out


@pytest.mark.slow
def test_nuts_decides_by_the_exact_posterior_of_each_fold() -> None:
    data = simulated()
    ways = [stakes.NUTS(draws=4000)]
    choice = stakes.choose(KEY, PROBLEM, data, ways, FOLDS, progress=False)
    decided = np.zeros(ROWS)
    for fold in range(4):
        decided[fold == FOLDS] = exact(data, fold != FOLDS)[fold == FOLDS]
    costs = np.asarray(stakes.Tilted(Q)(data["y"], decided))
    np.testing.assert_allclose(choice.scores[0].costs, costs, atol=0.05)
    assert choice.table.loc["NUTS", "r_hat"] < 1.02


@pytest.mark.slow
def test_a_choice_on_a_cluster_is_the_same_although_a_worker_dies() -> None:
    """Bit for bit: what is one batch there is one here."""
    from tests.cluster import dying, two_workers

    ways = [
        stakes.Plain(),
        stakes.Calibrated(),
        stakes.Calibrated(strength=4),
        stakes.NUTS(draws=1200, warmup=60),
    ]
    given = {"folds": 2, "steps": 200, "progress": False}
    here = stakes.choose(KEY, PROBLEM, simulated(), ways, **given)
    with two_workers() as client:
        lost = dying(client)
        there = stakes.choose(KEY, PROBLEM, simulated(), ways, on=client, **given)
        assert lost not in client.scheduler_info()["workers"]
    drop = ["seconds"]
    pd.testing.assert_frame_equal(
        there.table.drop(columns=drop), here.table.drop(columns=drop), check_exact=True
    )
    np.testing.assert_array_equal(there.decisions.values, here.decisions.values)
    for before, after in zip(here.scores, there.scores, strict=True):
        np.testing.assert_array_equal(after.costs, before.costs)
