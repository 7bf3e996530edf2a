"""Indices beyond an array."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro_port import approximate, level_guide, problem

import stakes
from stakes.bridge import Predictors


def weekly(weekday: Any, y: Any = None, batch: int | None = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("day of week", 7):
        effect = numpyro.sample("effect", dist.Normal(level, 1))
    with numpyro.plate("day", len(weekday), subsample_size=batch) as members:
        seen = None if y is None else y[members]
        numpyro.sample("y", dist.Normal(effect[weekday[members]], 1), obs=seen)


def weekly_by_hand(**data: Any) -> None:
    level_guide()
    with numpyro.plate("day of week", 7):
        numpyro.sample("effect", dist.Normal(0, 0.1))


WEEK = np.arange(1, 8)


BEYOND = (
    r"`data\['weekday'\]`.*0 to 6 \(the plate 'day of week' has 7 members\), but the data "
    r"have 7, in row 6\."
)


@pytest.mark.parametrize("batch", [None, 2], ids=["whole", "in minibatches"])
def test_an_index_beyond_its_plate_is_refused_in_a_fit(batch: int | None) -> None:
    """JAX would take Sunday's effect for an eighth day's."""
    with pytest.raises(stakes.InputError, match=BEYOND):
        approximate(weekly, {"weekday": WEEK, "y": np.zeros(7), "batch": batch}, weekly_by_hand)


def test_an_index_beyond_its_plate_is_refused_in_other_data() -> None:
    good = {"weekday": WEEK - 1, "y": np.zeros(7)}
    predictors = Predictors(problem(weekly), approximate(weekly, good, weekly_by_hand))
    # JAX counts negative ones from the end.
    negative = r"'weekday'.*may be 0 to 6.*the data have {}"
    for weekday, message in (
        (WEEK, BEYOND),
        (WEEK - 7, negative.format(-6)),
        (WEEK - 9, negative.format(-8)),
    ):
        with pytest.raises(stakes.InputError, match=message):
            predictors.on({"weekday": jnp.asarray(weekday)})


@pytest.mark.parametrize("short", ["weekday", "y"])
def test_an_array_with_fewer_rows_than_its_plate_has_members_is_refused(short: str) -> None:
    """JAX would take the last row for all that are missing."""
    data = {"weekday": WEEK - 1.0, "y": np.zeros(7), "batch": 2}
    data[short] = data[short][:6]

    def model(weekday: Any, y: Any = None, batch: int | None = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("day", 7, subsample_size=batch) as members:
            seen = None if y is None else y[members]
            numpyro.sample("y", dist.Normal(level + weekday[members], 1), obs=seen)

    refused = rf"`data\['{short}'\]` has 6 rows, too few for the 7 members of the plate 'day'"
    with pytest.raises(stakes.InputError, match=refused):
        approximate(model, data, level_guide)
    whole = {"weekday": WEEK - 1.0, "y": np.zeros(7), "batch": 2}
    predictors = Predictors(problem(model), approximate(model, whole, level_guide))
    with pytest.raises(stakes.InputError, match=refused):
        predictors.on(problem(model).check_data(data, needs_outcome=True))


def test_an_index_computed_from_an_argument_is_laid_to_its_charge() -> None:
    def model(hour: Any, x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        table = level * jnp.arange(12.0)
        with numpyro.plate("row", len(hour)):
            numpyro.sample("y", dist.Normal(table[hour // 2] + x, 1), obs=y)

    data = {"hour": np.array([13, 23]), "x": np.array([100, 200]), "y": np.zeros(2)}
    approximate(model, data, level_guide)
    with pytest.raises(stakes.InputError, match=r"'hour'.*index 12, where 0 to 11 is allowed"):
        approximate(model, {**data, "hour": np.array([13, 24])}, level_guide)


def looked_up(look_up: Callable[[Any, Any], Any]) -> Callable[..., None]:
    def model(at: Any, y: Any = None) -> None:
        table = numpyro.sample("level", dist.Normal(0, 1)) * jnp.arange(3.0)
        with numpyro.plate("row", len(at)):
            numpyro.sample("y", dist.Normal(look_up(table, at), 1), obs=y)

    return model


@pytest.mark.parametrize(
    "look_up",
    [
        lambda table, at: jnp.take(table, at, mode="clip"),
        lambda table, at: table.at[at].get(mode="clip"),
        lambda table, at: table.at[at].get(mode="fill", fill_value=0.5),
        lambda table, at: jnp.take(table, at, fill_value=0.5),
        lambda table, at: jnp.take(table, at, mode="wrap"),
        lambda table, at: jax.vmap(lambda one: jnp.take(table, one, mode="clip"))(at),
        lambda table, at: jax.lax.map(lambda one: jnp.take(table, one, mode="clip"), at),
    ],
)
def test_an_index_beyond_its_array_is_allowed_where_the_model_says_what_it_means(
    look_up: Any,
) -> None:
    approximate(looked_up(look_up), {"at": np.array([0, 9]), "y": np.zeros(2)}, level_guide)


@pytest.mark.parametrize(
    "look_up",
    [
        lambda table, at: jnp.take(table, at),  # nan
        lambda table, at: jax.vmap(lambda one: table[one])(at),  # the last one, as table[at]
        lambda table, at: jax.lax.map(lambda one: table[one], at),
        lambda table, at: jnp.take(table, at, mode="clip") + table[at],
    ],
)
def test_an_index_beyond_its_array_is_refused_where_the_model_does_not(look_up: Any) -> None:
    with pytest.raises(stakes.InputError, match=r"'at'.*may be 0 to 2.*the data have 9, in row 1"):
        approximate(looked_up(look_up), {"at": np.array([0, 9]), "y": np.zeros(2)}, level_guide)


def test_two_arguments_with_the_same_index_out_of_range_do_not_hide_each_other() -> None:
    def model(home: Any, away: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        strength = level * jnp.arange(4.0)
        with numpyro.plate("match", len(home)):
            numpyro.sample("y", dist.Normal(strength[home] - strength[away], 1), obs=y)

    data = {"home": np.array([0, 4]), "away": np.array([4, 1]), "y": np.zeros(2)}
    with pytest.raises(stakes.InputError, match=r"'home'.*0 to 3, but the data have 4, in row 1"):
        approximate(model, data, level_guide)


def test_arguments_that_only_together_lead_out_of_range_are_both_named() -> None:
    def model(row: Any, column: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("cell", len(row)):
            mean = (level * jnp.arange(6.0))[3 * row + column]
            numpyro.sample("y", dist.Normal(mean, 1), obs=y)

    data = {"row": np.array([0, 1]), "column": np.array([2, 3]), "y": np.zeros(2)}
    with pytest.raises(stakes.InputError, match=r"'row'.* and .*'column'.* together.*index 6"):
        approximate(model, data, level_guide)
