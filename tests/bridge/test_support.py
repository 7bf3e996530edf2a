"""Outcomes that a model's distribution cannot have are refused before any fit, with their rows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints
from numpyro.distributions.transforms import AffineTransform

import stakes
from stakes.study import Options, prepare

THREE = jnp.ones(3) / 3
OUTCOMES = {
    "a negative count": (
        lambda r: dist.Poisson(r),
        [1, -1, 2],
        "from 0; the data have -1, in row 1",
    ),
    "half a count": (lambda r: dist.Poisson(r), [1.0, 2.5, 2.0], "the data have 2.5"),
    "a third side": (
        lambda r: dist.Bernoulli(r / (1 + r)),
        [0, 1, 2],
        "and 1; the data have 2",
    ),
    "more than were tried": (lambda r: dist.Binomial(3, r / (1 + r)), [0, 1, 4], "the data have 4"),
    "a class too many": (lambda r: dist.Categorical(THREE * r / r), [0, 3, 1], "the data have 3"),
    "no time at all": (lambda r: dist.Gamma(2, r), [0.0, 1.0, 4.0], "above 0; the data have 0"),
    "more than all": (lambda r: dist.Beta(2, r), [0.5, 1.2, 0.1], "from 0 to 1; the data have 1.2"),
}


def problem(make: Any) -> stakes.Problem:
    def model(y: Any = None) -> None:
        rate = numpyro.sample("rate", dist.Gamma(2, 2))
        with numpyro.plate("row", 3):
            numpyro.sample("y", make(rate), obs=y)

    def guide(y: Any = None) -> None:
        numpyro.sample("rate", dist.LogNormal(numpyro.param("where", 0.0), 0.1))

    return stakes.Problem(model, outcome="y", loss=stakes.Absolute(), guide=guide)


@pytest.mark.parametrize("name", OUTCOMES)
def test_an_impossible_outcome_is_refused_with_its_row(name: str) -> None:
    make, outcomes, message = OUTCOMES[name]
    with pytest.raises(stakes.InputError, match=message):
        prepare(jax.random.key(0), problem(make), {"y": np.array(outcomes)}, Options())


def test_outcomes_that_do_not_count_may_be_anything() -> None:
    made = problem(lambda rate: dist.Poisson(rate).mask(jnp.array([True, False, True])))
    prepare(jax.random.key(0), made, {"y": np.array([1, -1, 2])}, Options())


def test_limits_that_a_latent_sets_are_left_to_the_fit() -> None:
    made = problem(lambda rate: dist.Uniform(0.0, 10 * rate))
    prepare(jax.random.key(0), made, {"y": np.array([1.0, 7.0, 2.0])}, Options())


def test_limits_that_the_model_computes_are_known_from_one_run() -> None:
    """Of outcomes that are NumPy's, too."""
    below = AffineTransform(0.0, -1.0, domain=constraints.positive)
    made = problem(lambda rate: dist.TransformedDistribution(dist.Exponential(rate), below))
    prepare(jax.random.key(0), made, {"y": np.array([-1.0, -0.5, -2.0])}, Options())


def test_an_outcome_without_a_plate_is_looked_at() -> None:
    def model(y: Any = None) -> None:
        rate = numpyro.sample("rate", dist.Gamma(2, 2))
        numpyro.sample("y", dist.Poisson(rate), obs=y)

    made = stakes.Problem(model, outcome="y", loss=stakes.Absolute())
    prepare(jax.random.key(0), made, {"y": np.array(2)}, Options())
    with pytest.raises(stakes.InputError, match="the data have -1"):
        prepare(jax.random.key(0), made, {"y": np.array(-1)}, Options())
