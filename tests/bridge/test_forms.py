"""The form in which a model takes its data."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro_port import GROUP, KEY, approximate, draw, level_guide, problem

import stakes
from stakes.bridge import Predictors


def grouped(group: Any, y: Any = None, batch: int | None = None) -> None:
    """As people write it: the number of groups is what the data say."""
    level = numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("group", len(np.unique(group))):
        own = numpyro.sample("own", dist.Normal(level, 1))
    with numpyro.plate("row", len(group), subsample_size=batch) as members:
        seen = None if y is None else y[members]
        numpyro.sample("y", dist.Normal(own[group[members]], 1), obs=seen)


def grouped_by_hand(group: Any, y: Any = None, batch: int | None = None) -> None:
    level_guide()
    with numpyro.plate("group", int(group.max()) + 1):
        numpyro.sample("own", dist.Normal(jnp.array([10.0, 20.0, 30.0]), 0.01))


@pytest.mark.parametrize("batch", [None, 2], ids=["whole", "in minibatches"])
def test_a_model_may_count_the_groups_in_its_data(batch: int | None) -> None:
    data = {"group": GROUP, "y": np.zeros(5), "batch": batch}
    approximation = approximate(grouped, data, grouped_by_hand)
    assert approximation.trace.plates == {"group": 3, "row": 5}
    members = {} if batch is None else {"row": jnp.array([4, 2])}
    outcome = draw(approximation, approximation.init(KEY), members).outcome
    expected = 10.0 * (1 + (GROUP if batch is None else GROUP[[4, 2]]))
    np.testing.assert_allclose(outcome.loc, expected, atol=0.1)


def test_other_data_that_a_model_looks_at_are_traced_anew() -> None:
    predictors = Predictors(
        problem(grouped), approximate(grouped, {"group": GROUP, "y": np.zeros(5)}, grouped_by_hand)
    )

    def cases(*group: int) -> Any:
        return predictors.on({"group": jnp.array(group)}).trace

    assert cases(0, 1, 2, 1) is cases(0, 1, 2, 1)
    assert cases(0, 1, 1, 1).plates["group"] == 2


def test_tuples_stay_tuples_where_a_model_needs_that() -> None:
    def model(sizes: Any, x: Any, y: Any = None) -> None:
        shape = sizes + (1,)  # noqa: RUF005 (an array would add)
        level = numpyro.sample("level", dist.Normal(0, 1).expand(shape).to_event(3))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(level.sum() + x, 1), obs=y)

    def guide(sizes: Any, x: Any, y: Any = None) -> None:
        numpyro.sample("level", dist.Normal(jnp.zeros((2, 3, 1)), 1).to_event(3))

    data = {"sizes": (2, np.int64(3)), "x": (1, 2, 3), "y": (0, 1, 0)}
    approximation = approximate(model, data, guide)
    assert approximation.data["sizes"] == (2, 3)
    assert approximation.latents["level"].shape == (2, 3, 1)
    assert set(approximation.arrays) == {"x", "y"}


def test_a_model_that_looks_at_what_cannot_be_known_is_told_the_argument_and_the_line() -> None:
    def model(x: Any, z: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1 if x.mean() > 0 else 2))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(level + z, 1), obs=y)

    data = {"x": np.zeros(3), "z": np.zeros(3), "y": np.zeros(3)}
    with pytest.raises(stakes.InputError, match=r"`data\['x'\]`, in `.*x.mean\(\) > 0.*jnp.where"):
        approximate(model, data, level_guide)
