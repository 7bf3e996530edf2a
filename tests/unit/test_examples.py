"""The examples on shipped data run from end to end, and their parts fit together."""

import jax
import numpy as np
import pytest
from numpyro import handlers

from stakes import InputError
from stakes.examples import (
    bank,
    newsvendor,
    portions,
    pricing,
    promises,
    radon,
    remediation,
    retail,
)
from stakes.examples.judging import saved, table

EXAMPLES = {"newsvendor": newsvendor, "radon": radon, "retail": retail}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.slow) for name in EXAMPLES]
)
def solved(request):
    example = EXAMPLES[request.param]
    return example, example.solve(jax.random.key(0), steps=100)


def test_decisions_are_finite_and_labelled(solved):
    example, result = solved
    labels = example.labels()
    for decisions in (result.decisions, result.vi_decisions):
        assert np.isfinite(decisions.values).all()
        for dim in decisions.dims:
            assert list(decisions[dim].values) == labels[dim]


def test_held_out_data_compare_without_a_warning(solved):
    example, result = solved
    comparison = result.compare(example.held_out(), known=example.KNOWN)
    assert comparison.held_out
    assert np.isfinite(comparison.costs["LCVI"]).all()


def test_newsvendor_is_split_by_time_and_standardised_on_the_days_of_the_fit():
    fitted, later = newsvendor.data(), newsvendor.held_out()
    assert (len(fitted["sold"]), len(later["sold"])) == (600, 160)
    np.testing.assert_allclose(fitted["features"].mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(fitted["features"].std(axis=0), 1)
    trend = newsvendor.labels()["feature"].index("trend")
    assert later["features"][:, trend].min() > fitted["features"][:, trend].max()


def test_newsvendor_learns_how_much_demand_varies():
    sites = handlers.trace(handlers.seed(newsvendor.model, 0)).get_trace(**newsvendor.data())
    latents = [name for name, site in sites.items() if site["type"] == "sample"]
    assert "concentration" in latents
    assert newsvendor.held_out().keys() == newsvendor.data().keys()


def test_newsvendor_takes_its_quantile_from_the_cost_ratio():
    assert newsvendor.problem(underage=9.0, overage=1.0).loss.level == 0.9


def test_newsvendor_names_the_dishes_there_are():
    with pytest.raises(InputError, match=r"must be one of 'calamari'.*got 'pizza'"):
        newsvendor.data("pizza")


def test_radon_puts_every_home_in_one_part_with_the_uranium_of_all_counties():
    fitted, others = radon.data(), radon.held_out()
    assert len(fitted["county"]) + len(others["county"]) == 919
    assert len(others["county"]) == 184
    np.testing.assert_array_equal(fitted["uranium"], others["uranium"])
    assert len(fitted["uranium"]) == 85


def test_radon_makes_underestimates_the_dear_ones():
    loss = radon.problem().loss
    assert loss(3.0, 1.0) > 2 * loss(1.0, 3.0)


def test_retail_holds_out_the_entries_that_the_fit_does_not_see():
    fitted, others = retail.data(), retail.held_out()
    assert (fitted["observed"] ^ others["observed"]).all()
    assert fitted["observed"].mean() == pytest.approx(0.5, abs=0.01)
    np.testing.assert_array_equal(fitted["observed"], retail.data()["observed"])
    assert (retail.data(seed=1)["observed"] != fitted["observed"]).any()


def test_net_benefit_is_that_of_the_textbook():
    bought = np.array([1, 0, 0, 1, 0])
    chance = np.array([0.9, 0.6, 0.1, 0.2, 0.4])
    for threshold in (0.15, 0.35, 0.5, 0.7):
        weight = threshold / (1 - threshold)
        found = sum(
            b - weight * (1 - b) for b, c in zip(bought, chance, strict=True) if c >= threshold
        )
        assert bank.net_benefit(bought, chance, threshold) == pytest.approx(found / 5, abs=1e-10)


def test_bank_does_not_know_how_long_the_call_will_last():
    assert not [name for name in bank.labels()["feature"] if "duration" in name]
    fitted, judged = bank.data(), bank.held_out()
    assert (len(fitted["bought"]), len(judged["bought"])) == (3000, 1000)
    np.testing.assert_allclose(fitted["features"].mean(axis=0), 0, atol=1e-9)


@pytest.mark.slow
def test_calls_cost_no_more_than_with_a_threshold_that_scikit_learn_tunes():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import TunedThresholdClassifierCV

    fitted, judged = bank.data(), bank.held_out()

    def costs(bought, called, earned):
        return np.where(called == 1, bank.CALL, bought * earned)

    with sklearn.config_context(enable_metadata_routing=True):
        saved = lambda *given, **more: -costs(*given, **more).sum()  # noqa: E731
        score = make_scorer(saved).set_score_request(earned=True)
        tuned = TunedThresholdClassifierCV(LogisticRegression(max_iter=2000), scoring=score)
        tuned.fit(fitted["features"], fitted["bought"], earned=fitted["earned"])
        theirs = tuned.predict(judged["features"])
    result = bank.solve(jax.random.key(0), progress=False)
    ours = result.decide(judged, new="customer", known=bank.KNOWN).values == "call"
    risks = [costs(judged["bought"], called, judged["earned"]).mean() for called in (ours, theirs)]
    assert risks[0] <= risks[1]


def test_what_is_saved_comes_with_the_interval_of_its_mean():
    rng = np.random.default_rng(0)
    costs, others = rng.normal(1, 1, 400), rng.normal(2, 1, 400)
    mean, low, high = saved(costs, others)
    less = others - costs
    assert mean == pytest.approx(less.mean())
    assert high - low == pytest.approx(2 * 1.96 * less.std(ddof=1) / 20)
    assert "saved" in table(costs, {"others": others}, "a day")


def test_remediation_costs_what_its_table_says():
    actions = np.array(["leave", "test again", "remediate", "leave"])
    levels = np.log(np.array([3.0, 4.0, 20.0, 10.0]))
    np.testing.assert_array_equal(remediation.costs(actions, levels), [0, 2450, 2000, 12000])
    loss, codes = remediation.problem().loss, np.array([0, 1, 2, 0])
    np.testing.assert_array_equal(loss(levels, codes), remediation.costs(actions, levels))


def test_the_kitchen_has_less_room_on_mondays():
    days = portions.data()
    monday = days["weekday"] == 0
    assert set(days["room"][monday]) == {portions.ON_MONDAYS}
    assert set(days["room"][~monday]) == {portions.ROOM}
    short = portions.costs(np.array([10.0, 12.0]), np.array([12, 10]))
    np.testing.assert_array_equal(short, [6, 2])


def test_the_best_prices_earn_the_most():
    region, best = np.arange(3), pricing.best_prices()
    earned = lambda price: (price - pricing.COST) * pricing.sales(region, price)  # noqa: E731
    for other in (0.99, 1.01):
        assert (earned(best) > earned(other * best)).all()
    assert set(pricing.data()) == {"region", "price", "sold"}


def test_promises_are_judged_by_effects_that_were_not_measured():
    assert (promises.data()["measured"] != promises.effects()).all()
    assert promises.costs(promises.effects()).max() == 0
    assert promises.problem().about_latent


@pytest.mark.slow
@pytest.mark.parametrize("example", [remediation, portions, pricing, promises, bank])
def test_an_example_says_the_same_each_time(example):
    solve = getattr(example, "solve_both", example.solve)
    first, second = (example.said(solve(jax.random.key(0), progress=False)) for _ in range(2))
    assert first == second
    assert "converged" in first
