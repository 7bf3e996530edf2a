"""Which instances belong together, as said or as told from the plates."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro import handlers

import stakes
from stakes.bridge import Predictor, Predictors, approximate, groups_of
from stakes.demos import newsvendor
from stakes.study import Clustered, Crossed, Independent, dependence_of

RNG = np.random.default_rng(0)
ROWS, STORES, REGIONS, PEOPLE = 120, 40, 12, 15
STORE = RNG.integers(STORES, size=ROWS)
PERSON = RNG.integers(PEOPLE, size=ROWS)
SALES = {
    "store": STORE,
    "region": RNG.integers(REGIONS, size=STORES),
    "person": PERSON,
    "weekday": RNG.integers(7, size=ROWS),
    "y": RNG.poisson(1.0, size=ROWS),
}


def sales(store: Any, region: Any, person: Any, weekday: Any, y: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("region", REGIONS):
        regional = numpyro.sample("regional", dist.Normal(level, 1))
    with numpyro.plate("outlet", STORES):
        own = numpyro.sample("own", dist.Normal(regional[region], 1))
    with numpyro.plate("people", PEOPLE):
        skill = numpyro.sample("skill", dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)))
    with numpyro.plate("day", 7):
        daily = numpyro.sample("daily", dist.Normal(0, 1))
    with numpyro.plate("feature", 10):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("sale", len(store)):
        rate = jnp.exp(own[store] + skill[person, 0] + daily[weekday] + jnp.ones(10) @ slope)
        numpyro.sample("y", dist.Poisson(rate), obs=y)


def matrix(shape: tuple[int, int], y: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("user", shape[0], dim=-2), numpyro.plate("item", shape[1], dim=-1):
        numpyro.sample("y", dist.Normal(level, 1), obs=y)


def on(model: Any, data: dict[str, Any], outcome: str = "y") -> Predictor:
    """With the prior for a guide, which is quick to set up."""

    def prior(**given: Any) -> None:
        handlers.block(model, hide=[outcome])(**given)

    problem = stakes.Problem(model, outcome=outcome, loss=stakes.Squared(), guide=prior)
    given = problem.check_data(data, needs_outcome=True)
    return Predictors(problem, approximate(problem, given, jax.random.key(0))).on()


def on_matrix(users: int, items: int) -> Predictor:
    return on(matrix, {"shape": (users, items), "y": np.zeros((users, items))})


@pytest.fixture(scope="module")
def shop() -> Predictor:
    return on(sales, SALES)


def test_the_model_shows_whose_latents_an_outcome_depends_on(shop: Predictor) -> None:
    """Directly, through other latents and in vectors; not where it depends on several."""
    found = groups_of(shop)
    assert set(found) == {"region", "outlet", "people", "day"}
    np.testing.assert_array_equal(found["outlet"], STORE)
    np.testing.assert_array_equal(found["region"], SALES["region"][STORE])
    np.testing.assert_array_equal(found["people"], PERSON)


def test_the_members_of_minibatches_are_told_as_well() -> None:
    data = newsvendor.fit_data()
    predictor = on(newsvendor.model, data, outcome="sold")
    np.testing.assert_array_equal(groups_of(predictor)["day_of_week"], data["weekday"])
    assert dependence_of(None, predictor) == Independent()  # seven days are all there are


def test_crossed_plates_are_taken_together_and_nested_ones_as_the_outer_one(
    shop: Predictor,
) -> None:
    found = dependence_of(None, shop)
    assert found.words == "clustered by region and by people"
    both = dependence_of(None, on_matrix(20, 12))
    assert isinstance(both, Crossed)
    assert both.words == "clustered by item and by user"
    item, user = both.groups
    np.testing.assert_array_equal(user.reshape(20, 12), np.indices((20, 12))[0])
    np.testing.assert_array_equal(item.reshape(20, 12), np.indices((20, 12))[1])
    assert dependence_of(None, on_matrix(20, 3)).words == "clustered by user"


def test_one_can_say_what_belongs_together(shop: Predictor) -> None:
    letters = np.array(list("abcdefghij"))[np.arange(ROWS) % 10]
    for by, words in {
        "outlet": "clustered by outlet",
        "store": "clustered by store",
        "sale": "clustered by sale",
        ("store", "people"): "clustered by store and by people",
    }.items():
        assert dependence_of(by, shop).words == words
    for by, words in (
        (letters, "clustered by the groups given"),
        (letters.tolist(), "clustered by the groups given"),
        (pd.Series(letters, name="letter"), "clustered by letter"),
        (("store", letters), "clustered by store and by the groups given"),
        (stakes.Ordered(), "rows in order of time"),
        (stakes.Independent(), "independent cases"),
        (Clustered(letters, "letter"), "clustered by letter"),
    ):
        assert dependence_of(by, shop).words == words
    found = dependence_of("store", shop)
    assert isinstance(found, Clustered)
    np.testing.assert_array_equal(found.groups, pd.factorize(STORE)[0])


def test_groups_along_one_plate_of_a_matrix_hold_for_all_its_instances() -> None:
    town = np.array(["north", "south"] * 10)
    found = dependence_of((town, "item"), on_matrix(20, 12))
    assert isinstance(found, Crossed)
    np.testing.assert_array_equal(found.groups[0].reshape(20, 12)[:, 5], np.arange(20) % 2)


def test_only_instances_that_count_are_kept(shop: Predictor) -> None:
    counted = PERSON < 8
    found = dependence_of("people", shop, counted)
    assert isinstance(found, Clustered)
    assert found.size == counted.sum()
    assert len(np.unique(found.groups)) == 8


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("shop", r"`by='shop'` names no plate .* there are 'sale', .*'store', 'person'"),
        ("y", r"`by='y'` names no plate"),
        ("feature", r"does not show to which member of the plate 'feature'"),
        (("store", "shop"), r"`by='shop'`"),
        (np.arange(7), r"labels of shape \(7,\) for cases of shape \(120,\)"),
        ([None] * ROWS, r"`by=` must be a label for each case.*none missing"),
        (Clustered(np.arange(7)), r"has 7 labels for 120 cases"),
        (stakes.Ordered, r"`by=` must be the name of a plate"),
        (3, r"`by=` must be the name of a plate"),
    ],
)
def test_what_cannot_be_meant_is_refused(shop: Predictor, by: Any, message: str) -> None:
    with pytest.raises(stakes.InputError, match=message):
        dependence_of(by, shop)


def test_what_is_ambiguous_in_a_matrix_is_refused() -> None:
    square = on_matrix(12, 12)
    with pytest.raises(stakes.InputError, match=r"may belong to either of 'user', 'item'"):
        dependence_of(np.arange(12), square)
    with pytest.raises(stakes.InputError, match=r"`by=Ordered\(\)` needs outcomes along one axis"):
        dependence_of(stakes.Ordered(), square)
