"""From a problem and data to decisions: labels, new cases, comparisons, draws and families."""

import itertools
import os
import pkgutil
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import arviz_base
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr
from arviz_stats.base import array_stats
from numpyro.distributions import constraints
from numpyro.infer import autoguide
from scipy import stats

import stakes
from examples import matrix_factorization
from stakes import predicting
from stakes.bridge import sampling
from stakes.decisions import DecisionTask, numerical_decision
from stakes.demos import eight_schools
from stakes.fitting import Fit, History, Stop, run
from stakes.losses import AnyLoss
from stakes.study import Cases, Clustered, Journal, members
from stakes.study.calibrating import _warn_of_unconverged
from stakes.study.fit_choices import usual_draws
from stakes.varying import columns_for

KEY = jax.random.key(0)
SIGMA = np.array(eight_schools.SIGMA)
EFFECT = np.array(eight_schools.EFFECT)
LABELS = list(eight_schools.SCHOOLS)


def calibrate(
    problem: stakes.Problem, data: dict[str, Any], steps: int = 300, **options: Any
) -> stakes.Calibration:
    return stakes.calibrate(KEY, problem, data, steps=steps, progress=False, **options)


@pytest.fixture(scope="module")
def schools() -> stakes.Calibration:
    return calibrate(eight_schools.problem(), eight_schools.data(), coords={"school": LABELS})


# Costs -------------------------------------------------------------------------------------


def observed_with_prices() -> predicting.Observations:
    """A table of 50 x 3 outcomes, some of which do not count, and a price of each."""
    rng = np.random.default_rng(0)
    prices = {"price": rng.uniform(1, 2, (50, 3))}
    cases: Any = SimpleNamespace(columns=lambda needs: columns_for(needs, prices, (50, 3)))
    outcomes, counted = rng.normal(size=(50, 3)), rng.random((50, 3)) < 0.7
    return predicting.Observations(np.where(counted, outcomes, 1e6), counted, cases)


@pytest.mark.parametrize("loss", [stakes.Newsvendor("price", 1.0), stakes.IntervalScore(0.5)])
def test_costs_of_many_outcomes_are_computed_part_by_part(
    loss: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, task = (
        observed_with_prices(),
        DecisionTask(AnyLoss(loss), getattr(loss, "space", stakes.Real())),
    )
    shape = (*task.space.axes, 50, 3)
    decisions = np.sort(np.random.default_rng(1).normal(size=shape), axis=0)
    whole = seen.costs(task, decisions)
    monkeypatch.setattr(predicting.instances, "MOST_AT_ONCE", 21)
    assert len(list(seen._parts(task, decisions))) == 8
    np.testing.assert_array_equal(seen.costs(task, decisions), whole)
    seen.check(task, decisions)
    broken = stakes.Utility(lambda outcome, decision: jnp.where(decision > 5, -1.0, 1.0))
    last = np.where(np.arange(50)[:, None] == 49, 9.0, np.zeros((50, 3)))
    seen.check(DecisionTask(broken), 0 * last)
    with pytest.raises(stakes.errors.InputError, match="zero or negative"):
        seen.check(DecisionTask(broken), last)


def test_of_many_outcomes_a_loss_is_tried_on_some_and_the_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, task = observed_with_prices(), DecisionTask(AnyLoss(stakes.Newsvendor("price", 1.0)))
    decisions = np.zeros((50, 3))
    costs = seen.task(task).costs(seen.outcomes, decisions)
    monkeypatch.setattr(predicting.instances, "MOST_TO_TRY", 20)
    here, tried = seen.to_try(task)
    assert tried.shape in {(20,), (21,), (22,)}
    counted = seen.outcomes[seen.counted]
    assert (tried.min(), tried.max()) == (counted.min(), counted.max())
    found = here.costs(tried, np.zeros(tried.shape))
    known = {float(cost) for cost in costs[seen.counted]}
    of_counted = np.isin(tried, counted) & (tried != np.median(counted))
    assert {float(cost) for cost in found[of_counted]} <= known


# Decisions and their labels ----------------------------------------------------------------


def test_decisions_lie_along_the_plate_with_its_labels(schools: stakes.Calibration) -> None:
    for decisions in (schools.decisions, schools.vi_decisions):
        assert isinstance(decisions, xr.DataArray)
        assert decisions.dims == ("school",)
        assert decisions.shape == (8,)
        assert decisions.coords["school"].values.tolist() == LABELS
        assert np.isfinite(decisions.values).all()
    assert float(schools.decisions.sel(school="C")) == float(schools.decisions[2])


def test_each_posterior_decides_once_and_only_when_it_is_asked(
    schools: stakes.Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    deciding, asked = Cases._decide, []

    def noted(cases: Any, posterior: Any) -> np.ndarray:
        asked.append(posterior.params)
        return deciding(cases, posterior)

    monkeypatch.setattr(Cases, "_decide", noted)
    fresh = replace(schools, home=None)
    np.testing.assert_array_equal(fresh.decisions, schools.decisions)
    assert [each is schools.calibrated.params for each in asked] == [True]
    assert list(fresh.on_fit.by_posterior) == ["VI", "LCVI"]
    np.testing.assert_array_equal(fresh.vi_decisions, schools.vi_decisions)
    assert [each is schools.vi.params for each in asked] == [False, True]


def test_decisions_are_the_lower_quantile_of_the_predictive(schools: stakes.Calibration) -> None:
    draws = schools.predictive(draws=4000)["effect"]
    below = (draws < schools.decisions).mean(("chain", "draw"))
    np.testing.assert_allclose(below, 0.2, atol=0.04)  # six standard errors


def test_the_scale_is_the_quantile_of_the_losses_of_vi(schools: stakes.Calibration) -> None:
    losses = stakes.Tilted(0.2)(EFFECT, schools.vi_decisions.values)
    assert isinstance(schools.scale, float)
    assert schools.scale == pytest.approx(np.quantile(losses, 0.9), rel=1e-4)


def test_the_scale_over_predicted_outcomes_is_that_of_losses_of_draws(
    schools: stakes.Calibration,
) -> None:
    """Fresh draws against those of the method: 4,000 each leave some 2 % of noise in a quantile."""
    drawn = schools.predictive(fit=schools.vi, draws=500)["effect"].values[0]
    losses = np.asarray(schools.problem.loss(drawn, schools.vi_decisions.values))
    found = schools.predictive_scale(0.7, draws=499)
    assert found == pytest.approx(np.quantile(losses, 0.7), rel=0.2)
    assert found < schools.predictive_scale(0.9, draws=499)


def test_the_result_can_say_how_it_came_about(schools: stakes.Calibration) -> None:
    for part in ("Tilted(q=0.2)", "Linearized, M = ", "ClosedForm()", "(8,)", "step limit"):
        assert part in repr(schools)
    assert "`stakes.choose` decides by the best strategy" in repr(schools)
    assert '<td style="text-align: left">LCVI</td>' in schools._repr_html_()


def test_the_calibrated_fit_starts_where_vi_ended(schools: stakes.Calibration) -> None:
    vi, calibrated = schools.vi.elbo, schools.calibrated.elbo
    climbed = vi[-50:].mean() - vi[0]
    assert calibrated[0] > vi[-50:].mean() - 0.2 * climbed


# Fits that end early -----------------------------------------------------------------------


class Interrupting(Journal):
    """A journal that presses Ctrl-C in the first chunk of a fit."""

    def __init__(self, title: str) -> None:
        self.title, self.watched, self.kept = title, [], False

    def history(self, title: str, start: History) -> History:
        return start

    def watch(self, title: str, history: History) -> None:
        self.watched.append(title)
        if title == self.title:
            os.kill(os.getpid(), signal.SIGINT)

    def decisions(self, shape: tuple[int, ...]) -> None:
        return None

    def keep_decisions(self, decisions: np.ndarray) -> None:
        self.kept = True


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """A shell may have started the tests with Ctrl-C ignored."""
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, outside)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_during_vi_ends_all_work_and_keeps_what_was_fitted() -> None:
    journal = Interrupting("VI")
    problem = slope_problem(loss=stakes.Squared())
    result = calibrate(problem, {"x": X, "y": Y}, steps=1000, draws=32, journal=journal)
    assert journal.watched == ["VI"]
    assert not journal.kept  # for VI to be resumed, and decide when it ends
    assert result.vi.reason is result.calibrated.reason is Stop.INTERRUPTED
    assert (result.vi.steps, result.calibrated.steps) == (100, 0)
    assert repr(result.calibrated) == "Fit(interrupted after 0 steps)"
    for name, value in result.vi.params.items():
        np.testing.assert_array_equal(result.calibrated.params[name], value)
    np.testing.assert_array_equal(result.decisions, result.vi_decisions)
    assert "Not reliable" in result.compare().verdict


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_between_the_fits_keeps_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = predicting.decide

    def pressed(*arguments: Any) -> np.ndarray:
        os.kill(os.getpid(), signal.SIGINT)
        return decide(*arguments)

    monkeypatch.setattr(predicting, "decide", pressed)
    problem = slope_problem(loss=stakes.Squared())
    result = calibrate(problem, {"x": X, "y": Y}, steps=100, draws=32)
    monkeypatch.undo()
    assert (result.vi.reason, result.vi.steps) == (Stop.STEP_LIMIT, 100)
    assert (result.calibrated.reason, result.calibrated.steps) == (Stop.INTERRUPTED, 0)
    np.testing.assert_array_equal(result.decisions, result.vi_decisions)


def ended(reason: Stop, taken: int, **options: Any) -> None:
    """As `calibrate` does when both fits have ended like this."""
    fit = Fit({"params": {}}, np.zeros(taken), np.zeros(taken), reason, 0, 0.0)
    _warn_of_unconverged(SimpleNamespace(fits={"VI": fit}), stakes.Options(**options))


def test_a_fit_that_does_not_converge_earns_a_warning_that_says_what_to_do() -> None:
    with pytest.warns(
        stakes.StakesWarning, match=r"VI reached the step limit after 30,000 steps.*`steps=`"
    ):
        ended(Stop.STEP_LIMIT, 30_000)
    with pytest.warns(stakes.StakesWarning, match=r"VI stopped: no finite gradient.*300 steps"):
        ended(Stop.NUMERICAL_FAILURE, 300, steps=1000)


def test_a_trial_of_a_few_steps_a_schedule_and_an_interrupt_earn_no_warning() -> None:
    ended(Stop.CONVERGED, 9000)
    ended(Stop.INTERRUPTED, 200)
    ended(Stop.STEP_LIMIT, 300, steps=300)
    ended(Stop.STEP_LIMIT, 30_000, all_steps=True)


# New cases ---------------------------------------------------------------------------------


def test_new_cases_may_be_of_another_number_and_have_labels_of_their_own(
    schools: stakes.Calibration,
) -> None:
    """And no outcomes; where they are given all the same, decisions are made without them."""
    new = {"sigma": [12.0, 1.0, 30.0]}
    plain = schools.decide(new, new="school")
    assert plain.dims == ("school",)
    assert plain.coords["school"].values.tolist() == [0, 1, 2]
    # The less is known of a school, the further below its mean lies the 20 % quantile.
    assert plain[1] > plain[0] > plain[2]
    observed = {**new, "effect": [100.0, -100.0, 0.0]}
    labelled = schools.decide(observed, coords={"school": ["I", "J", "K"]})
    assert labelled.coords["school"].values.tolist() == ["I", "J", "K"]
    np.testing.assert_array_equal(plain.values, labelled.values)


def test_deciding_again_about_the_cases_of_the_fit_repeats_its_decisions(
    schools: stakes.Calibration,
) -> None:
    again = schools.decide({"sigma": SIGMA})
    np.testing.assert_array_equal(again, schools.decisions)
    # Were the labels others, xarray's arithmetic would find nothing in common.
    assert (again - schools.decisions).size == 8


def test_a_plate_that_may_or_may_not_be_new_earns_a_warning(schools: stakes.Calibration) -> None:
    with pytest.warns(
        stakes.StakesWarning, match=r"'school'.*assumed to hold the same.*new=.*known="
    ):
        guessed = schools.decide({"sigma": SIGMA + 1})
    # Once it is said which, there is nothing to warn of; a warning would be an error here.
    known = schools.decide({"sigma": SIGMA + 1}, known=("school",))
    new = schools.decide({"sigma": SIGMA + 1}, new=("school",))
    np.testing.assert_array_equal(guessed, known)
    assert not np.allclose(guessed, new)


def test_members_of_the_fit_are_told_by_their_labels_and_others_are_new(
    schools: stakes.Calibration,
) -> None:
    """The eight schools and a ninth, in any order: what is said of one is said by its label."""
    names = ["I", *LABELS[::-1]]
    found = schools.decide({"sigma": [12.0, *SIGMA[::-1]]}, coords={"school": names})
    assert found.coords["school"].values.tolist() == names
    np.testing.assert_allclose(found.sel(school=LABELS), schools.decisions, rtol=1e-4)
    strangers = schools.decide({"sigma": [12.0, 1.0, 30.0]}, coords={"school": ["I", "J", "K"]})
    assert float(found.sel(school="I")) == pytest.approx(float(strangers[0]), abs=0.5)
    assert not np.allclose(schools.decide({"sigma": SIGMA}, new="school"), schools.decisions)


def test_labels_of_another_type_are_noticed() -> None:
    fitted: Any = SimpleNamespace(known_plates={"row"}, plates={"row": 2})
    assert members.compare_labels(fitted, {"row": [1, 2]}, {"row": ["1", "2"]}, (), ()).alike == (
        "row",
    )
    assert members.compare_labels(fitted, {"row": [1, 2]}, {"row": ["a", "b"]}, (), ()).alike == ()


def test_a_plate_that_grew_or_shrank_without_labels_earns_a_warning(
    schools: stakes.Calibration,
) -> None:
    for sigma in ([*SIGMA, 12.0], SIGMA[:3]):
        with pytest.warns(
            stakes.StakesWarning, match=r"'school'.*\d and 8.*treated as new.*new=.*coords="
        ):
            guessed = schools.decide({"sigma": sigma})
        np.testing.assert_array_equal(guessed, schools.decide({"sigma": sigma}, new=("school",)))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"known": "skool"}, r"`known=` names 'skool'; the model's plates are 'school'"),
        ({"new": "skool"}, r"`new=` names 'skool'; the model's plates are 'school'"),
        ({"known": ["school"]}, r"'school', which has 2 members here and had 8 in the fit.*coords"),
        ({"known": "school", "new": "school"}, r"'school' is in `new=` and in `known=`"),
        ({"new": 3}, r"`new=` must be a name or a sequence of names.*got 3"),
        (
            {"known": "school", "coords": {"school": ["A", "Z"]}},
            r"`known=` names 'school', but the fit has no 'Z'",
        ),
        ({"coords": {"school": ["A", "A"]}}, r"`coords\['school'\]` has 'A' more than once"),
        ({"coords": {"school": ["A"]}}, r"`coords\['school'\]` has 1 labels for 2 members"),
        ({"coords": {"skool": ["A"]}}, r"`coords` labels 'skool'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_said_about_members_is_checked(
    schools: stakes.Calibration, said: dict[str, Any], message: str
) -> None:
    with pytest.raises(stakes.InputError, match=message):
        schools.decide({"sigma": [1.0, 2.0]}, **said)


def test_columns_of_tables_go_by_their_names() -> None:
    table = pd.DataFrame({"a": X, "b": np.ones(6)})

    def model(x: Any, y: Any = None) -> None:
        slope = numpyro.sample("slope", dist.Normal(0, 1).expand([2]).to_event(1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(x @ slope, 1), obs=y)

    def guide(x: Any, y: Any = None) -> None:
        loc = numpyro.param("loc", jnp.array([1.0, 10.0]))
        numpyro.sample("slope", dist.Normal(loc, 0.1).to_event(1))

    problem = stakes.Problem(model, outcome="y", loss=stakes.Squared(), guide=guide)
    result = calibrate(problem, {"x": table, "y": Y}, steps=10)
    swapped = result.decide({"x": table[["b", "a"]]})
    np.testing.assert_array_equal(swapped, result.decisions)
    with pytest.raises(stakes.InputError, match=r"columns 'a', 'c'; in the fit it had 'a', 'b'"):
        result.decide({"x": table.rename(columns={"b": "c"})})


# Comparison --------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", ["decide", "compare", "observed", "predictive", "assess"])
def test_the_warning_points_at_the_line_that_asked(schools: stakes.Calibration, ask: str) -> None:
    with pytest.warns(stakes.StakesWarning, match="assumed to hold") as caught:
        getattr(schools, ask)({"sigma": SIGMA + 1, "effect": EFFECT})
    assert [each.filename for each in caught] == [__file__]


def test_a_comparison_holds_plain_floats(schools: stakes.Calibration) -> None:
    found = schools.compare()
    assert set(found.risk) == {"VI", "LCVI"}
    for number in (*found.risk.values(), found.reduction, *found.interval):
        assert type(number) is float
    expected = (found.risk["VI"] - found.risk["LCVI"]) / found.risk["VI"]
    assert found.reduction == pytest.approx(expected)
    assert found.interval[0] <= found.reduction <= found.interval[1]


def test_a_comparison_judges_decisions_by_the_loss_itself(schools: stakes.Calibration) -> None:
    found = schools.compare()
    for name, decisions in {"VI": schools.vi_decisions, "LCVI": schools.decisions}.items():
        losses = stakes.Tilted(0.2)(EFFECT, decisions.values)
        assert found.risk[name] == pytest.approx(float(losses.mean()), rel=1e-5)


def test_a_comparison_prints_its_table_in_a_notebook_too(
    schools: stakes.Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = str(schools.compare())
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert str(schools.compare()) == before


def test_a_comparison_prints_as_a_table_with_a_verdict(schools: stakes.Calibration) -> None:
    printed = str(schools.compare())
    table, _, remarks = printed.partition("\n\n")
    assert [line.split()[0] for line in table.splitlines()] == ["risk", "VI", "LCVI"]
    assert "8 cases over school; Tilted(q=0.2); Linearized, M = " in remarks
    assert "VI: reached the step limit after " in remarks
    assert "on the data of the fit" in remarks.splitlines()[-1]


@pytest.mark.parametrize(
    ("saved", "begins", "points"),
    [
        (0.1, "Calibration lowers", False),
        (0.0, "Calibration does not reliably", True),
        (-0.1, "Calibration raises", True),
    ],
)
def test_a_verdict_against_calibration_points_to_what_acts_on_it(
    schools: stakes.Calibration, saved: float, begins: str, points: bool
) -> None:
    rng = np.random.default_rng(0)
    plain, luck = rng.normal(3, 0.1, 400), rng.normal(0, 0.1, 400)
    costs = {"VI": plain, "LCVI": plain - saved + luck - luck.mean()}
    found = replace(schools.compare(), costs=costs, notes=(), dependence=stakes.Independent())
    assert found.verdict.startswith(begins)
    if saved:  # the interval of a rise, and of a fall, has positive ends
        assert re.search(r"interval \d+\.\d to \d+\.\d %\)", found.verdict)
    else:
        assert re.search(r"interval from \S+ % higher to \S+ % lower\)", found.verdict)
    assert ("`stakes.choose`" in found.verdict) == points
    assert ("Keep plain VI." in found.verdict) == points


def test_held_out_cases_are_compared_on_their_own_outcomes(schools: stakes.Calibration) -> None:
    held_out = {"sigma": [12.0, 9.0, 10.0], "effect": [5.0, -4.0, 1.0]}
    found = schools.compare(held_out, new="school")
    assert found.cases == 3
    assert "on held-out data" in str(found)
    losses = stakes.Tilted(0.2)(
        np.array(held_out["effect"]), schools.decide(held_out, new="school").values
    )
    assert found.risk["LCVI"] == pytest.approx(float(losses.mean()), rel=1e-5)


def test_a_comparison_with_nuts_says_how_well_its_chains_mix(squared: stakes.Calibration) -> None:
    """A conjugate posterior, for which 1,000 draws of four chains are good enough."""
    found = squared.compare(nuts=1000)
    assert set(found.risk) == {"VI", "LCVI", "NUTS"}
    diagnostics = squared.nuts(1000).diagnostics
    assert diagnostics == found.nuts
    assert (diagnostics.chains, diagnostics.draws, diagnostics.divergences) == (4, 250, 0)
    [slope] = diagnostics.mixing
    assert slope.r_hat < 1.02
    assert slope.effective > 200
    assert "NUTS: 4 chains of 250 draws; R-hat up to 1.0" in str(found)
    drawn = np.asarray(squared.nuts(1000).samples["slope"])
    precision = 1 + (X**2).sum()
    assert drawn.mean() == pytest.approx((X * Y).sum() / precision, abs=0.1 * precision**-0.5 * 4)
    assert drawn.std() == pytest.approx(precision**-0.5, rel=0.2)


def chains() -> dict[str, np.ndarray]:
    """Good ones, heavy-tailed ones, slow ones, one chain elsewhere, and one that is too wide."""
    rng = np.random.default_rng(0)
    slow = np.zeros((4, 250))
    for step in range(1, 250):
        slow[:, step] = 0.7 * slow[:, step - 1] + rng.normal(size=4)
    fourth = np.array([0.0, 0.0, 0.0, 1.0])[:, None]
    return {
        "good": rng.normal(size=(4, 250)),
        "heavy": rng.standard_cauchy((4, 250, 3)),
        "slow": slow,
        "elsewhere": rng.normal(size=(4, 250)) + 0.5 * fourth,
        "wide": rng.normal(size=(4, 250)) * (1 + 0.6 * fourth),
    }


def test_diagnostics_of_chains_are_those_of_arviz() -> None:
    drawn = chains()
    for one in sampling.diagnose(drawn, 0).mixing:
        values = drawn[one.latent].reshape(4, 250, -1)
        axes = {"chain_axis": 0, "draw_axis": 1}
        r_hat = array_stats.rhat(values, method="rank", **axes).max()
        effective = array_stats.ess(values, method="bulk", **axes).min()
        assert one.r_hat == pytest.approx(r_hat, rel=1e-6)
        assert one.effective == pytest.approx(effective, rel=1e-6)


def test_programs_compiled_for_draws_of_nuts_serve_other_draws() -> None:
    """Diagnostics go with the draws, but are nothing to a compiled program."""
    draws = {name: each.reshape(1000, -1) for name, each in chains().items()}
    posteriors = [
        predicting.SampledPosterior(draws, sampling.diagnose(chains(), divergences))
        for divergences in (0, 3)
    ]
    one, other = map(jax.tree.structure, posteriors)
    assert posteriors[0].diagnostics != posteriors[1].diagnostics
    assert hash(one) == hash(other)
    assert one == other


def test_a_posterior_of_few_draws_predicts_as_often_as_it_is_asked(
    schools: stakes.Calibration,
) -> None:
    few = predicting.SampledPosterior(schools.latent_draws(schools.vi, 7, part=0))
    found = predicting.predict(few, schools.plan.predictors.on(), KEY, 20)
    assert found.shape == (20, 8)
    assert len(np.unique(found[:, 0])) == 20


def test_diagnostics_name_the_latents_that_do_not_mix() -> None:
    drawn = chains()
    assert sampling.diagnose({"good": drawn["good"]}, 0).problems == ()
    apart, few, divergent = sampling.diagnose(drawn, 3).problems
    assert all(name in apart for name in ("elsewhere 1.0", "wide 1.0"))
    assert not any(name in apart for name in ("good", "heavy"))
    assert all(name in few for name in ("slow 1", "elsewhere"))
    assert divergent == "3 divergent steps"
    stuck = sampling.diagnose({"stuck": np.ones((4, 250))}, 0)
    assert "R-hat is above 1.01 (stuck nan)" in stuck.problems[0]


def test_a_verdict_warns_of_draws_of_nuts_that_are_no_good(schools: stakes.Calibration) -> None:
    """After what it says of the two fits, which is no matter of NUTS."""
    found = schools.compare()
    slow = sampling.diagnose({"tau": chains()["slow"]}, 0)
    verdict = replace(found, nuts=slow).verdict
    assert verdict.startswith(f"{found.verdict} NUTS is not a reliable reference here: ")
    assert "fewer than 400 effective draws (tau 1" in verdict
    good = sampling.diagnose({"tau": chains()["good"]}, 0)
    assert replace(found, nuts=good).verdict == found.verdict


def test_a_comparison_says_which_instances_it_takes_together(schools: stakes.Calibration) -> None:
    """Eight schools as they are, in order of time, and in pairs, of which there are too few."""
    plain = schools.compare()
    assert "95 % interval: independent cases; bootstrap, because costs are few" in str(plain)
    assert re.search(r"interval from \S+ % higher to \S+ % lower\)", plain.verdict)
    pairs = schools.compare(by=np.arange(8) // 2)
    assert pairs.risk == plain.risk
    assert pairs.interval == (-np.inf, np.inf)
    few = "no 95 % interval: clustered by the groups given; 4 are too few"
    assert few in pairs.verdict
    assert re.search(r"LCVI .* % +none\n", str(pairs))
    assert schools.compare(by="sigma").dependence.words == "clustered by sigma"
    with pytest.raises(stakes.InputError, match="`by='shop'` names no plate"):
        schools.compare(by="shop")
    other = Clustered(np.arange(3))
    with pytest.raises(stakes.InputError, match="is about 3 cases; there are 8"):
        replace(plain, dependence=other)


def test_a_comparison_needs_outcomes(schools: stakes.Calibration) -> None:
    with pytest.raises(stakes.InputError, match=r"needs the observed 'effect'.*decide"):
        schools.compare({"sigma": [12.0, 9.0]}, new="school")


# Draws -------------------------------------------------------------------------------------


def test_posterior_draws_have_the_dims_that_arviz_expects(schools: stakes.Calibration) -> None:
    posterior = schools.posterior(draws=50)
    assert posterior["mu"].dims == ("chain", "draw")
    assert posterior["theta"].dims == ("chain", "draw", "school")
    assert posterior["theta"].shape == (1, 50, 8)
    assert posterior["theta"].coords["school"].values.tolist() == LABELS
    assert (posterior["tau"] > 0).all()


def test_posterior_draws_come_from_the_fit_that_was_asked_for(schools: stakes.Calibration) -> None:
    vi, calibrated = schools.posterior(schools.vi), schools.posterior()
    assert not np.array_equal(vi["theta"], calibrated["theta"])
    expected = np.asarray(schools.vi.params["theta_auto_loc"])
    error = 6 * vi["theta"].std(("chain", "draw")) / np.sqrt(1000)
    assert (abs(vi["theta"].mean(("chain", "draw")) - expected) < error).all()


def test_draws_go_into_arviz_as_they_are(schools: stakes.Calibration) -> None:
    tree = xr.DataTree.from_dict(
        {
            "posterior": schools.posterior(draws=50),
            "posterior_predictive": schools.predictive(draws=50),
        }
    )
    converted = arviz_base.convert_to_datatree(tree)
    assert set(converted.children) == {"posterior", "posterior_predictive"}
    assert arviz_base.extract(converted)["theta"].sizes == {"school": 8, "sample": 50}
    predictive = converted["posterior_predictive"]["effect"]
    assert predictive.dims == ("chain", "draw", "school")
    assert predictive.coords["school"].values.tolist() == LABELS


def test_outcomes_of_new_cases_can_be_drawn(schools: stakes.Calibration) -> None:
    names = {"school": ["A", "I"]}
    drawn = schools.predictive({"sigma": [1.0, 2.0]}, draws=np.int64(50), coords=names)
    assert drawn["effect"].dims == ("chain", "draw", "school")
    assert drawn["effect"].shape == (1, 50, 2)
    assert drawn.coords["school"].values.tolist() == ["A", "I"]


def test_labels_of_the_fit_are_kept_for_the_rows_of_the_fit(squared: stakes.Calibration) -> None:
    """And not for others of the same number; these rows have no latents of their own."""
    labelled = replace(squared, plan=replace(squared.plan, coords={"row": list("abcdef")}))
    assert labelled.predictive({"x": X}, draws=2).coords["row"].values.tolist() == list("abcdef")
    assert labelled.decide({"x": X}).coords["row"].values.tolist() == list("abcdef")
    assert labelled.decide({"x": X + 1}).coords["row"].values.tolist() == list(range(6))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda result: result.posterior(100), r"`fit=` must be a fit of this model.*got 100"),
        (lambda result: result.posterior("vi"), r"`fit=` must be a fit.*result.vi.*got 'vi'"),
        (lambda result: result.predictive(fit="VI"), r"`fit=` must be a fit"),
        (lambda result: result.decide({"sigma": SIGMA}, fit="VI"), r"`fit=` must be a fit"),
        (
            lambda result: result.posterior(draws=0),
            r"draws=...\)` must be a whole number",
        ),
        (lambda result: result.predictive(draws=1.5), r"draws=...\)` must be a whole number.*1.5"),
        (lambda result: result.predictive_scale(draws=0), r"draws=...\)` must be a whole number"),
        (lambda result: result.compare(known="school"), r"without data they have no meaning"),
    ],
)
def test_what_is_asked_of_a_result_is_checked(
    schools: stakes.Calibration, ask: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(stakes.InputError, match=message):
        ask(schools)


def test_a_fit_of_other_data_is_refused(
    schools: stakes.Calibration, squared: stakes.Calibration
) -> None:
    with pytest.raises(stakes.InputError, match=r"`fit=` must be a fit of this model"):
        schools.posterior(squared.vi)


def test_deterministic_sites_come_with_the_posterior(squared: stakes.Calibration) -> None:
    found = replace(squared, plan=replace(squared.plan, coords={"row": list("abcdef")})).posterior(
        draws=5
    )
    assert found["level"].dims == ("chain", "draw", "row")
    assert found.coords["row"].values.tolist() == list("abcdef")
    expected = found["slope"].values[..., None] * X
    np.testing.assert_allclose(found["level"], expected, rtol=1e-5)


# Losses, utilities and outcomes of other kinds ---------------------------------------------

X = np.array([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0])
Y = np.array([-1.5, -2.0, 0.4, 0.0, 1.9, 3.3])


def slope_guide(**data: Any) -> None:
    """An autoguide would take seconds to set up."""
    scale = numpyro.param("scale", 0.3, constraint=constraints.positive)
    numpyro.sample("slope", dist.Normal(numpyro.param("loc", 0.0), scale))


def slope_model(outcome: Callable[[Any], dist.Distribution]) -> Callable[..., None]:
    def model(x: Any, y: Any = None) -> None:
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("row", len(x)):
            level = numpyro.deterministic("level", slope * x)
            numpyro.sample("y", outcome(level), obs=y)

    return model


NORMAL = slope_model(lambda level: dist.Normal(level, 1))


def slope_problem(model: Callable[..., None] = NORMAL, **cost: Any) -> stakes.Problem:
    return stakes.Problem(model, outcome="y", guide=slope_guide, **cost)


@pytest.fixture(scope="module")
def squared() -> stakes.Calibration:
    return calibrate(slope_problem(loss=stakes.Squared()), {"x": X, "y": Y}, draws=32)


@pytest.mark.slow
def test_a_loss_of_the_users_own_gives_what_the_same_loss_built_in_gives(
    squared: stakes.Calibration,
) -> None:
    """By quadrature and numerical decisions rather than in closed form."""

    def own(outcome: Any, decision: Any) -> Any:
        return (outcome - decision) ** 2

    rule = stakes.Quadrature(points=31)
    result = calibrate(slope_problem(loss=own), {"x": X, "y": Y}, draws=32, expectation=rule)
    assert result.scale == pytest.approx(squared.scale, rel=0.01)
    np.testing.assert_allclose(result.vi_decisions, squared.vi_decisions, atol=0.01)
    np.testing.assert_allclose(result.decisions, squared.decisions, atol=0.02)
    for name, value in squared.calibrated.params.items():
        np.testing.assert_allclose(result.calibrated.params[name], value, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "best"),
    [
        (lambda outcome, decision: (decision - 3 * outcome) ** 2, 30.0),
        (lambda outcome, decision: (decision - outcome + 50) ** 2, -40.0),
    ],
    ids=["three times the outcome", "fifty below the outcome"],
)
def test_the_best_decision_may_lie_beyond_all_outcomes(loss: Any, best: float) -> None:
    """Nothing says that a decision is a guess of the outcome, N(10, 1) here."""
    outcomes = jax.vmap(lambda mean: dist.Normal(mean, 1.0))(jnp.full((50, 1), 10.0))
    found = numerical_decision(
        DecisionTask(AnyLoss(loss)), stakes.Quadrature(), KEY, outcomes, jnp.ones(1)
    )
    np.testing.assert_allclose(found, best, atol=0.1)


def test_an_exponential_utility_may_underflow_at_an_outcome_far_from_its_decision() -> None:
    problem = slope_problem(utility=stakes.ExpUtility(stakes.Squared(), scale=1.0))
    problem.task.check_cost(np.array([20.0]), np.array([0.0]))
    infinite = slope_problem(utility=stakes.ExpUtility(lambda y, h: (y - h) / 0.0, scale=1.0))
    with pytest.raises(stakes.InputError, match=r"logarithm of .* is not finite"):
        infinite.task.check_cost(jnp.array([20.0]), jnp.array([0.0]))
    own = slope_problem(utility=stakes.Utility(lambda y, h: jnp.exp(-((y - h) ** 2))))
    with pytest.raises(stakes.InputError, match="ExpUtility"):
        own.task.check_cost(np.array([200.0]), np.array([0.0]))


def test_a_utility_that_underflows_far_out_has_a_slope_all_the_same() -> None:
    """E u of y ~ N(m, 1) is proportional to exp(-(m - h)²/6), so that d log E u/dh = (m - h)/3."""
    own = stakes.Utility(lambda outcome, decision: jnp.exp(-((outcome - decision) ** 2) / 4))

    def gained(decision: Any) -> Any:
        outcome = dist.Normal(0.5, 1.0)
        return stakes.Quadrature().log_expected(None, outcome, own, decision)

    assert float(jax.jit(jax.grad(gained))(jnp.array(0.0))) == pytest.approx(0.5 / 3, rel=1e-4)


@pytest.mark.slow
def test_a_utility_gives_what_its_loss_made_exponential_gives() -> None:
    """By quadrature and numerical decisions rather than in closed form."""
    own = stakes.Utility(lambda outcome, decision: jnp.exp(-((outcome - decision) ** 2) / 4))
    rule = stakes.Quadrature(points=31)
    utility = calibrate(slope_problem(utility=own), {"x": X, "y": Y}, draws=32, expectation=rule)
    result = calibrate(
        slope_problem(loss=stakes.Squared()),
        {"x": X, "y": Y},
        draws=32,
        transform=stakes.Exponential(scale=4.0),
    )
    assert result.scale == 4.0
    for name, value in result.calibrated.params.items():
        np.testing.assert_allclose(utility.calibrated.params[name], value, atol=0.02)
    # Outcomes are symmetric, so that most expected utility and least squares agree.
    np.testing.assert_allclose(utility.decisions, result.decisions, atol=0.02)
    judge_by_gain(utility)


def judge_by_gain(utility: stakes.Calibration) -> None:
    assert utility.scale is None
    found = utility.compare()
    gains = np.exp(-((Y - utility.decisions.values) ** 2) / 4)
    assert found.risk["LCVI"] == pytest.approx(-gains.mean(), rel=1e-4)
    assert found.reduction == pytest.approx(
        (found.risk["VI"] - found.risk["LCVI"]) / abs(found.risk["VI"])
    )
    assert "gain" in str(found).splitlines()[0]
    assert f"{gains.mean():.4f}" in str(found)


def test_a_utility_is_compared_by_its_gain() -> None:
    bell = stakes.ExpUtility(stakes.Squared(), scale=4.0)
    judge_by_gain(calibrate(slope_problem(utility=bell), {"x": X, "y": Y}, steps=100, draws=32))


def test_the_same_key_gives_the_same_result_to_the_bit(squared: stakes.Calibration) -> None:
    again = calibrate(slope_problem(loss=stakes.Squared()), {"x": X, "y": Y}, draws=32)
    assert again.decisions.values.tobytes() == squared.decisions.values.tobytes()
    for fit in ("vi", "calibrated"):
        one, other = getattr(squared, fit), getattr(again, fit)
        assert one.bound.tobytes() == other.bound.tobytes()
        for a, b in zip(*map(jax.tree.leaves, (one.variables, other.variables)), strict=True):
            np.testing.assert_array_equal(a, b)


def test_permuting_rows_permutes_decisions(squared: stakes.Calibration) -> None:
    order = np.array([3, 0, 5, 1, 4, 2])
    shuffled = calibrate(
        slope_problem(loss=stakes.Squared()), {"x": X[order], "y": Y[order]}, draws=32
    )
    assert shuffled.scale == pytest.approx(squared.scale, rel=1e-3)
    np.testing.assert_allclose(shuffled.decisions, squared.decisions[order], atol=1e-3)


COUNTS = {
    "Poisson": (
        lambda mean: dist.Poisson(mean),
        lambda mean: stats.poisson(mean),
    ),
    "NegativeBinomial": (
        lambda mean: dist.NegativeBinomial2(mean, 20.0),
        lambda mean: stats.nbinom(20.0, 20.0 / (20.0 + mean)),
    ),
}


@pytest.mark.parametrize(
    ("outcome", "twin"),
    [COUNTS["Poisson"], pytest.param(*COUNTS["NegativeBinomial"], marks=pytest.mark.slow)],
    ids=COUNTS,
)
def test_decisions_about_counts_are_counts(
    outcome: Callable[[Any], dist.Distribution], twin: Callable[[Any], Any]
) -> None:
    """The q-quantile: the least count that the outcome stays at or below with probability q."""
    model = slope_model(lambda level: outcome(5 * jnp.exp(level)))
    x = X / 4
    data = {"x": x, "y": np.array([2, 5, 4, 6, 9, 12])}
    result = calibrate(slope_problem(model, loss=stakes.Tilted(0.8)), data)
    assert result.calibrated.skipped == 0
    decisions = result.decisions.values
    np.testing.assert_array_equal(decisions, np.round(decisions))
    slope = result.posterior(draws=4000)["slope"].values.T
    predicted = twin(5 * np.exp(slope * x))
    assert (predicted.cdf(decisions).mean(axis=0) > 0.8 - 0.005).all()
    assert (predicted.cdf(decisions - 1).mean(axis=0) < 0.8 + 0.005).all()


# Random numbers ----------------------------------------------------------------------------


def test_no_random_key_serves_two_purposes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do the keys split from them, or folded: in JAX, `fold_in(key, i)` is `split(key)[i]`."""
    used: dict[str, set[bytes]] = {}

    def family(key: Any) -> set[bytes]:
        folded = [jax.random.fold_in(key, i) for i in range(2)]
        return {np.asarray(jax.random.key_data(one)).tobytes() for one in (key, *folded)}

    def recorded(purpose: str, called: Callable[..., Any]) -> Callable[..., Any]:
        def calls(*args: Any, **kwargs: Any) -> Any:
            for arg in args:
                if hasattr(arg, "dtype") and jax.dtypes.issubdtype(arg.dtype, jax.dtypes.prng_key):
                    used.setdefault(purpose, set()).update(family(arg))
            return called(*args, **kwargs)

        return calls

    for room, names in {
        "stakes.predicting": [
            "decide",
            "latent_draws",
            "outcomes_by_batch",
            "predict",
            "predictive_costs",
        ],
        "stakes.study.plan": ["approximate"],
    }.items():
        for name in names:
            whole = f"{room}.{name}"
            monkeypatch.setattr(whole, recorded(name, pkgutil.resolve_name(whole)))

    def fitted(title: str, *args: Any, **kwargs: Any) -> Any:
        return recorded(title, run)(title, *args, **kwargs)

    monkeypatch.setattr("stakes.study.fits.run", fitted)
    undrawn = recorded("nuts", lambda *args, **kwargs: ({}, None))
    monkeypatch.setattr("stakes.study.calibration.nuts", undrawn)
    result = calibrate(slope_problem(loss=stakes.Squared()), {"x": X, "y": Y}, steps=100, draws=32)
    assert result.decisions.size == len(X)
    assert result.on_fit.forecast(result.posteriors["LCVI"]).central.size == 4 * len(X)
    assert result.predictive_scale(draws=5) > 0
    assert result.posterior(draws=5).sizes["draw"] == 5
    before = set().union(*used.values())
    result.latent_draws(result.vi, 5, part=0)
    used["parts"] = used["latent_draws"] - before
    used["latent_draws"] &= before
    result.nuts(8)
    assert len(used) == 10
    for (one, keys), (other, others) in itertools.combinations(used.items(), 2):
        assert not keys & others, f"{one} and {other}"


@pytest.mark.slow
def test_latents_of_members_and_those_they_share_are_drawn_independently() -> None:
    """Also where the guide draws the shared ones last; a correlation of 3,000 independent draws
    beyond 0.1 is five standard deviations away."""

    def model(y: Any = None) -> None:
        with numpyro.plate("row", len(Y), subsample_size=3) as members:
            local = numpyro.sample("local", dist.Normal(0, 1))
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("row", len(Y), subsample_size=3):
            numpyro.sample(
                "y", dist.Normal(local + level, 1), obs=None if y is None else y[members]
            )

    problem = stakes.Problem(model, outcome="y", loss=stakes.Squared())
    drawn = calibrate(problem, {"y": Y}, steps=1, draws=1).posterior(draws=3000)
    for row in range(len(Y)):
        assert abs(np.corrcoef(drawn["local"][0, :, row], drawn["level"][0])[0, 1]) < 0.1


# Minibatches -------------------------------------------------------------------------------


def factorization(*, batch: int = 6) -> tuple[stakes.Problem, dict[str, Any]]:
    problem = stakes.Problem(matrix_factorization.model, outcome="y", loss=stakes.Tilted(0.2))
    data = matrix_factorization.simulate(rows=20, columns=5, factors=2)
    return problem, {**data, "factors": 2, "batch": batch, "sigma_prior": 1.0}


@pytest.mark.slow
@pytest.mark.parametrize("method", [stakes.Joint(), stakes.EM()], ids=["joint", "EM"])
def test_matrix_factorisation_runs_in_minibatches_with_a_mask(method: Any) -> None:
    problem, data = factorization()
    observed = np.asarray(data["observed"])
    result = calibrate(problem, data, steps=400, method=method)
    assert result.decisions.dims == ("row", "column")
    assert result.decisions.shape == (20, 5)
    assert np.isfinite(result.decisions.values).all()
    assert result.vi.skipped == result.calibrated.skipped == 0
    assert result.compare().cases == observed.sum()

    hidden = {**data, "observed": ~observed}
    held_out = result.compare(hidden, known=("row", "column"))
    assert held_out.cases == (~observed).sum()
    losses = np.asarray(stakes.Tilted(0.2)(data["y"], result.decisions.values))
    assert held_out.risk["LCVI"] == pytest.approx(losses[~observed].mean(), rel=1e-4)

    posterior = result.posterior(draws=20)
    assert posterior["z"].dims == ("chain", "draw", "row", "row_factor")
    assert posterior["z"].shape == (1, 20, 20, 2)
    assert result.predictive(draws=20)["y"].shape == (1, 20, 20, 5)


# Families ----------------------------------------------------------------------------------

AUTOGUIDES = [  # and the default, AutoNormal, in all tests on eight schools above
    autoguide.AutoDiagonalNormal,
    autoguide.AutoMultivariateNormal,
    autoguide.AutoLowRankMultivariateNormal,
    autoguide.AutoIAFNormal,
]


def line(x: Any, y: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(level + x, noise), obs=y)


IN_SUITE = {autoguide.AutoMultivariateNormal}


@pytest.mark.parametrize(
    "guide",
    [
        pytest.param(guide, marks=() if guide in IN_SUITE else pytest.mark.slow)
        for guide in AUTOGUIDES
    ],
)
def test_every_autoguide_runs_from_end_to_end(guide: type[autoguide.AutoGuide]) -> None:
    problem = stakes.Problem(line, outcome="y", loss=stakes.Tilted(0.2), guide=guide)
    result = calibrate(problem, {"x": X, "y": Y}, steps=20)
    assert np.isfinite(result.decisions.values).all()
    assert set(result.posterior(draws=3).data_vars) == {"level", "noise"}


@pytest.mark.parametrize(
    ("outcome", "rows", "draws"),
    [
        (dist.Normal(0.0, 1.0), 1000, 32),
        (dist.Normal(0.0, 1.0), 1001, 10),
        (dist.Bernoulli(0.5), 1000, 32),
        (dist.Poisson(3.0), 100, 32),
        (dist.NegativeBinomial2(3.0, 1.0), 101, 10),
    ],
)
def test_small_problems_take_more_draws_and_long_tables_of_counts_fewer(outcome, rows, draws):
    assert usual_draws(stakes.ClosedForm(), outcome, rows) == draws
    assert usual_draws(stakes.MonteCarlo(), outcome, rows) == 10
