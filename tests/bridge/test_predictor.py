"""Predictions for cases of the fit and for others."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro_port import (
    KEY,
    LOCAL_DATA,
    approximate,
    draw,
    level_guide,
    local,
    local_by_hand,
    problem,
)

import stakes
from stakes import predicting
from stakes.bridge import Predictors
from stakes.expectation import ClosedForm
from stakes.port import Instances
from stakes.predicting import FittedPosterior

SIGMA = np.array([1.0, 2.0, 3.0])


def schools(sigma: Any, y: Any = None) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(5))
    with numpyro.plate("school", len(sigma)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def schools_by_hand(sigma: Any, y: Any = None) -> None:
    """As if fitted: schools at 100, 200 and 300, from a population at -50 that hardly varies."""
    numpyro.sample("mu", dist.Normal(numpyro.param("mu_loc", -50.0), 0.1))
    numpyro.sample("tau", dist.LogNormal(jnp.log(0.1), 0.1))
    with numpyro.plate("school", len(sigma)):
        loc = numpyro.param("theta_loc", jnp.array([100.0, 200.0, 300.0]), event_dim=0)
        numpyro.sample("theta", dist.Normal(loc, 0.1))


@pytest.fixture(scope="module")
def schooled() -> FittedPosterior:
    approximation = approximate(schools, {"sigma": SIGMA, "y": np.zeros(3)}, schools_by_hand)
    return FittedPosterior(approximation, approximation.init(KEY))


def decide(fitted: FittedPosterior, data: dict[str, Any], **options: Any) -> np.ndarray:
    asked = problem(schools)
    checked = asked.check_data(data, needs_outcome=False)
    predictor = Predictors(asked, fitted.approximation).on(checked, **options)
    return predicting.decide(asked.task, fitted, predictor, ClosedForm(), KEY, draws=500)


def test_a_plate_of_another_size_holds_new_members_drawn_from_the_model(
    schooled: FittedPosterior,
) -> None:
    np.testing.assert_allclose(decide(schooled, {"sigma": np.ones(5)}), [-50.0] * 5, atol=1)
    np.testing.assert_allclose(decide(schooled, {"sigma": np.ones(1)}), [-50.0], atol=1)


def test_a_plate_of_the_same_size_holds_the_members_of_the_fit(schooled: FittedPosterior) -> None:
    np.testing.assert_allclose(decide(schooled, {"sigma": np.ones(3)}), [100, 200, 300], atol=1)


def test_new_members_can_be_said_to_be_new(schooled: FittedPosterior) -> None:
    found = decide(schooled, {"sigma": np.ones(3)}, new=("school",))
    np.testing.assert_allclose(found, [-50.0] * 3, atol=1)


def test_new_members_of_a_plate_that_is_not_there_are_an_error(schooled: FittedPosterior) -> None:
    with pytest.raises(stakes.InputError, match=r"`new=` names 'skool'.*plates are 'school'"):
        decide(schooled, {"sigma": np.ones(3)}, new=("skool",))


def test_members_known_by_their_number_keep_their_posterior_and_others_are_new(
    schooled: FittedPosterior,
) -> None:
    rows = {"school": np.array([2, -1, 0, 1, -1])}
    found = decide(schooled, {"sigma": np.ones(5)}, rows=rows)
    np.testing.assert_allclose(found, [300, -50, 100, 200, -50], atol=1)


def test_members_known_by_their_number_may_be_fewer(schooled: FittedPosterior) -> None:
    found = decide(schooled, {"sigma": np.ones(2)}, rows={"school": np.array([2, 0])})
    np.testing.assert_allclose(found, [300, 100], atol=1)


def test_new_members_are_drawn_given_what_is_known_of_the_others() -> None:
    """Each row's second level follows its first, known or new."""

    def model(x: Any, y: Any = None) -> None:
        with numpyro.plate("row", len(x)):
            first = numpyro.sample("first", dist.Normal(7, 0.01))
            second = numpyro.sample("second", dist.Normal(2 * first, 0.01))
            numpyro.sample("y", dist.Normal(second + x, 0.1), obs=y)

    def guide(x: Any, y: Any = None) -> None:
        with numpyro.plate("row", len(x)):
            numpyro.sample("first", dist.Normal(100, 0.01))
            numpyro.sample("second", dist.Normal(jnp.arange(1000, 1000 + len(x)), 0.01))

    approximation = approximate(model, {"x": np.zeros(3), "y": np.zeros(3)}, guide)
    fitted, asked = FittedPosterior(approximation, {}), problem(model)
    predictor = Predictors(asked, approximation).on(
        {"x": jnp.zeros(3)}, rows={"row": np.array([1, -1, 2])}
    )
    found = predicting.decide(asked.task, fitted, predictor, ClosedForm(), KEY, draws=100)
    np.testing.assert_allclose(found, [1001, 14, 1002], atol=0.1)


@pytest.mark.parametrize("batch", [2, 1], ids=["in minibatches of the same size", "fewer"])
def test_members_of_minibatches_are_known_by_their_number(batch: int) -> None:
    approximation = approximate(local, LOCAL_DATA, local_by_hand)
    params = {"m": jnp.array(-50.0), "level_loc": 100 * jnp.arange(6.0)}
    fitted, asked = FittedPosterior(approximation, params), problem(local)
    numbers = np.array([5, -1, 3])[: 3 if batch == 2 else 1]
    predictor = Predictors(asked, approximation).on(
        {"x": jnp.zeros(len(numbers)), "batch": batch}, rows={"row": numbers}
    )
    draws = predicting.predict(fitted, predictor, KEY, 400).mean(axis=0)
    np.testing.assert_allclose(draws, [500, -50, 300][: len(numbers)], atol=2)


def shops_by_day(x: Any, batch: int | None = None, y: Any = None) -> None:
    """Days in minibatches, and shops."""
    rows, columns = x.shape
    shops = numpyro.plate("shop", columns, dim=-1)
    with shops:
        place = numpyro.sample("place", dist.Normal(-50, 0.01))
    with numpyro.plate("day", rows, subsample_size=batch, dim=-2) as members:
        season = numpyro.sample("season", dist.Normal(-7000, 0.01))
        seen = None if y is None else y[members]
        with shops:
            numpyro.sample("y", dist.Normal(season + place + x[members], 0.1), obs=seen)


def shops_by_day_by_hand(x: Any, batch: int | None = None, y: Any = None) -> None:
    rows, columns = x.shape
    with numpyro.plate("shop", columns, dim=-1):
        numpyro.sample("place", dist.Normal(numpyro.param("place_loc", jnp.zeros(columns)), 0.01))
    with numpyro.plate("day", rows, subsample_size=batch, dim=-2):
        loc = numpyro.param("season_loc", jnp.zeros((rows, 1)), event_dim=0)
        numpyro.sample("season", dist.Normal(loc, 0.01))


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("days", "rows"),
    [
        ([4, -1, 2], {"shop": [2, -1, 0, 1], "day": [4, -1, 2]}),
        (None, {"shop": [2, -1, 0, 1]}),
        ([4, -1, 2], {"day": [4, -1, 2]}),
    ],
    ids=["shops and days", "shops", "days"],
)
def test_of_two_plates_each_gets_the_parameters_of_its_own_members(
    days: list[int] | None, rows: dict[str, list[int]]
) -> None:
    """One comes in minibatches, and either may be told by labels."""
    data = {"x": np.zeros((5, 3)), "batch": 2, "y": np.zeros((5, 3))}
    approximation = approximate(shops_by_day, data, shops_by_day_by_hand)
    season, place = 1000 * jnp.arange(1.0, 6.0), jnp.array([100.0, 200.0, 300.0])
    params = {"place_loc": place, "season_loc": season[:, None]}
    fitted, asked = FittedPosterior(approximation, params), problem(shops_by_day)

    def of(values: Any, numbers: list[int], new: float) -> np.ndarray:
        return np.array([values[n] if n >= 0 else new for n in numbers])

    seasons = of(season, days or list(range(5)), -7000)
    places = of(place, rows.get("shop", [0, 1, 2]), -50)
    # What is added says which row of the data a decision is about.
    x = np.arange(len(seasons))[:, None] + 0.1 * np.arange(len(places))
    numbers = {plate: np.array(each) for plate, each in rows.items()}
    predictor = Predictors(asked, approximation).on({"x": jnp.asarray(x), "batch": 2}, rows=numbers)
    found = predicting.decide(asked.task, fitted, predictor, ClosedForm(), KEY, draws=100)
    np.testing.assert_allclose(found, seasons[:, None] + places + x, atol=0.02)


def test_minibatches_of_another_size_are_refused_in_words() -> None:
    approximation = approximate(local, LOCAL_DATA, local_by_hand)
    with pytest.raises(
        stakes.InputError, match="'row' came in minibatches of 2 in the fit, and comes whole here"
    ):
        Predictors(problem(local), approximation).on({"x": jnp.zeros(6), "batch": None})


def test_labelled_columns_without_a_plate_are_put_into_the_order_of_the_fit() -> None:
    def model(x: Any, y: Any = None) -> None:
        slope = numpyro.sample("slope", dist.Normal(0, 1).expand([3]).to_event(1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(x @ slope, 1), obs=y)

    def guide(x: Any, y: Any = None) -> None:
        numpyro.sample("slope", dist.Normal(jnp.array([1.0, 10.0, 100.0]), 0.001).to_event(1))

    approximation = approximate(model, {"x": np.eye(3), "y": np.zeros(3)}, guide)
    predictor = Predictors(problem(model), approximation).on(
        {"x": jnp.eye(3)}, rows={"slope_dim_0": np.array([2, 0, 1])}
    )
    fitted = FittedPosterior(approximation, {})
    found = predicting.decide(problem(model).task, fitted, predictor, ClosedForm(), KEY, draws=50)
    np.testing.assert_allclose(found, [100, 1, 10], rtol=0.01)


def test_members_taken_for_those_of_the_fit_can_be_asked_for(schooled: FittedPosterior) -> None:
    def taken(size: int, **options: Any) -> tuple[str, ...]:
        predictors = Predictors(problem(schools), schooled.approximation)
        return predictors.on({"sigma": jnp.ones(size)}, **options).trace.known_instances

    assert taken(3) == ("school",)
    assert taken(4) == ()
    assert taken(3, new=("school",)) == ()


def test_a_latent_without_a_plate_cannot_change_its_shape() -> None:
    """One row's latent would be broadcast to all three."""

    def model(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1).expand([len(x)]).to_event(1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(level + x, 1), obs=y)

    def guide(x: Any, y: Any = None) -> None:
        numpyro.sample("level", dist.Normal(jnp.zeros(len(x)), 1).to_event(1))

    approximation = approximate(model, {"x": np.zeros(1), "y": np.zeros(1)}, guide)
    with pytest.raises(stakes.InputError, match=r"'level'.*\(1,\).*\(3,\)"):
        Predictors(problem(model), approximation).on({"x": jnp.zeros(3)})


def test_parameters_of_the_model_itself_are_used_in_prediction() -> None:
    """A `numpyro.param` in the model is learned along with the guide's."""

    def model(x: Any, y: Any = None) -> None:
        shift = numpyro.param("shift", 0.0)
        level = numpyro.sample("level", dist.Normal(0, 0.1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(level + shift + x, 1), obs=y)

    approximation = approximate(model, {"x": np.zeros(3), "y": np.zeros(3)}, level_guide)
    params = {**approximation.init(KEY), "shift": jnp.array(70.0)}
    np.testing.assert_allclose(draw(approximation, params).outcome.loc, 70.0, atol=3)
    predictor = Predictors(problem(model), approximation).on()
    fitted = FittedPosterior(approximation, params)
    found = predicting.decide(problem(model).task, fitted, predictor, ClosedForm(), KEY, draws=100)
    np.testing.assert_allclose(found, 70.0, atol=3)


def test_other_data_share_a_trace_only_where_shapes_and_constants_are_the_same() -> None:
    def scaled(x: Any, y: Any = None, factor: Any = 1, names: Any = ()) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(level * factor, 1), obs=y)

    fitted = approximate(scaled, {"x": np.zeros(3), "y": np.zeros(3)}, level_guide)

    predictors = Predictors(problem(scaled), fitted)

    def cases(**others: Any) -> Any:
        return predictors.on({"x": jnp.zeros(5), **others}).trace

    assert cases(factor=2) is cases(factor=2)
    assert cases(factor=2).constants["factor"] == 2
    assert cases(factor=1) is not cases(factor=True)
    assert cases(factor=3).constants["factor"] == 3
    assert cases(names=["a"]) is not cases(names=["a"])  # a list has no hash


def test_deterministic_sites_follow_the_draws_of_the_latents() -> None:
    """In minibatches, too; there, one that belongs to no plate but varies is nobody's."""

    def model(x: Any, y: Any = None) -> None:
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.deterministic("double", 2 * mean)
        with numpyro.plate("row", len(x), subsample_size=2) as members:
            level = numpyro.sample("level", dist.Normal(mean, 1))
            both = jnp.stack([level, x[members], level], axis=-1)
            numpyro.deterministic("both", both)
            seen = None if y is None else y[members]
            numpyro.sample("y", dist.Normal(level, 1), obs=seen)
        numpyro.deterministic("stray", level)

    def guide(x: Any, y: Any = None) -> None:
        numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("row", len(x), subsample_size=2):
            numpyro.sample("level", dist.Normal(0, 1))

    x = np.arange(5.0)
    approximation = approximate(model, {"x": x, "y": x}, guide)
    fitted = FittedPosterior(approximation, {})
    predictor = Predictors(problem(model), approximation).on()
    latents = predicting.latent_draws(fitted, KEY, 20)
    found = predicting.derived_draws(fitted, predictor, KEY, 20)
    assert set(found) == {"double", "both"}
    assert approximation.trace.derived["both"] == Instances((5, 3), ("row", "both_dim_1"))
    np.testing.assert_allclose(found["double"], 2 * latents["mean"], rtol=1e-6)
    np.testing.assert_allclose(found["both"][..., 0], latents["level"], rtol=1e-6)
    np.testing.assert_allclose(found["both"][..., 1], np.tile(x, (20, 1)))
