"""The model traced once: how often it is called, and what the trace keeps of it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints

import stakes
from stakes import bridge
from stakes.bridge import NumPyroApproximation
from stakes.bridge.sites import Times
from stakes.port import Draw, params_in

KEY = jax.random.key(0)
SIGMA = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]
EFFECT = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]


def eight_schools(sigma, effect=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(sigma)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("effect", dist.Normal(theta, sigma), obs=effect)


@pytest.fixture
def calls() -> list[int]:
    return []


def test_the_model_is_called_a_few_times_for_all_programs(calls: list[int]) -> None:
    def model(sigma, effect=None):
        calls.append(1)
        eight_schools(sigma, effect)

    problem = stakes.Problem(model, outcome="effect", loss=stakes.Tilted(0.2))
    data = {"sigma": SIGMA, "effect": EFFECT}
    result = stakes.calibrate(KEY, problem, data, steps=200, progress=False)
    assert len(calls) <= 6
    result.compare()
    result.compare()
    assert len(calls) <= 6
    before = len(calls)
    result.decide({"sigma": [5.0, 20.0]}, new="school")
    assert len(calls) <= before + 3
    before = len(calls)
    result.decide({"sigma": [7.0, 8.0]}, new="school")
    assert len(calls) == before


def approximate(model: Callable[..., None], data: dict[str, Any]) -> NumPyroApproximation:
    problem = stakes.Problem(model, outcome="y", loss=stakes.Squared())
    return bridge.approximate(problem, problem.check_data(data, needs_outcome=True), KEY)


def draw(approximation: NumPyroApproximation, start: Any = None) -> Draw:
    params = approximation.start if start is None else start
    return approximation.draw(params_in(approximation, params, {}), KEY, {})


def test_what_is_known_of_a_distribution_stays_known() -> None:
    def model(y=None):
        p = numpyro.sample("p", dist.Beta(1, 1))
        with numpyro.plate("row", 3):
            numpyro.sample("y", dist.Binomial(7, p), obs=y)

    approximation = approximate(model, {"y": np.array([1, 2, 7])})

    def trials(key):
        outcome = approximation.draw(approximation.start, key, {}).outcome
        assert not isinstance(outcome.total_count, jax.core.Tracer)
        return outcome.total_count

    assert jnp.all(jax.jit(trials)(KEY) == 7)


def test_distributions_go_on_checking_their_values() -> None:
    def model(y=None):
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("row", 3):
            numpyro.sample("y", dist.Exponential(jnp.exp(level)).mask(True), obs=y)

    approximation = approximate(model, {"y": np.array([1.0, 2.0, 3.0])})
    arrays = {"y": jnp.array([1.0, -2.0, 3.0])}
    sites = approximation.trace.run(arrays, {"level": jnp.zeros(())}, KEY, {})
    log_prob = jax.jit(sites["y"]["fn"].base_dist.log_prob)(sites["y"]["value"])
    assert list(jnp.isinf(log_prob)) == [False, True, False]


def test_sites_come_in_the_order_of_the_model() -> None:
    def model(y=None):
        b = numpyro.sample("b", dist.Normal(0, 1))
        a = numpyro.sample("a", dist.Normal(b, 1))
        with numpyro.plate("row", 3):
            numpyro.sample("y", dist.Normal(a, 1), obs=y)

    approximation = approximate(model, {"y": np.zeros(3)})
    sites = approximation.trace.run(approximation.arrays, {}, KEY, {})
    assert list(sites) == ["b", "a", "y"]


class Shifted(dist.Normal):
    """A normal with an attribute of which JAX's tree functions know nothing."""

    def __init__(self, shift: float) -> None:
        self.shift = shift
        super().__init__(0.0, 1.0)

    def log_prob(self, value, intermediates=None):
        return super().log_prob(value - self.shift)


def test_a_distribution_that_jax_cannot_return_is_still_a_prior() -> None:
    def model(prior, y=None):
        level = numpyro.sample("level", prior())
        with numpyro.plate("row", 3):
            numpyro.sample("y", dist.Normal(level, 1), obs=y)

    data = {"y": np.array([1.0, 2.0, 3.0])}
    own, plain = (
        approximate(lambda y=None, prior=prior: model(prior, y), data)
        for prior in (lambda: Shifted(2.0), lambda: dist.Normal(2.0, 1.0))
    )
    assert not own.trace.is_reusable
    assert plain.trace.is_reusable
    both = [draw(one, plain.start).log_ratio for one in (own, plain)]
    np.testing.assert_allclose(*both, rtol=1e-6)


def test_a_trace_is_not_used_again_under_other_handlers(calls: list[int]) -> None:
    def model(y=None):
        calls.append(1)
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("row", 3):
            numpyro.sample("y", dist.Normal(level, 1), obs=y)

    approximation = approximate(model, {"y": np.array([1.0, 2.0, 3.0])})
    plain = draw(approximation)
    before = len(calls)
    assert draw(approximation).log_ratio == plain.log_ratio
    assert len(calls) == before
    with Times("row", jnp.full(3, 2.0)):
        np.testing.assert_allclose(draw(approximation).weight, 2 * plain.weight)
    assert draw(approximation).log_ratio == plain.log_ratio


def test_marks_and_stand_ins_suit_the_support_of_each_latent() -> None:
    def model(y=None):
        shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(3)))
        scale = numpyro.param("scale", 2.0, constraint=constraints.positive)
        with numpyro.plate("row", 3):
            numpyro.sample("y", dist.Normal(shares[0], scale), obs=y)

    trace = approximate(model, {"y": np.array([1.0, 2.0, 3.0])}).trace
    values = trace.stand_ins()
    np.testing.assert_allclose(values["shares"].sum(), 1.0, rtol=1e-6)
    assert values["scale"].shape == ()
