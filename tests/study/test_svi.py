"""The calibrated bound as an objective for NumPyro's own SVI."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro.infer import SVI

import stakes
from stakes.bridge import approximate
from stakes.decisions import objective_of
from stakes.fitting import bound

KEY = jax.random.key(3)
Y = np.array([1.0, 2.0, 4.0, 3.0])


def normal(y: Any = None) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("row", 4):
        numpyro.sample("y", dist.Normal(mu, sigma), obs=y)


def counts(x: Any, y: Any = None) -> None:
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("row", 4):
        level = numpyro.sample("level", dist.Normal(0, 1))
        numpyro.sample("y", dist.Poisson(jnp.exp(level + slope * x)), obs=y)


def coins(y: Any = None) -> None:
    p = numpyro.sample("p", dist.Beta(2, 2))
    with numpyro.plate("row", 4):
        numpyro.sample("y", dist.Bernoulli(p), obs=y)


def by_hand(y: Any = None) -> None:
    numpyro.sample(
        "p",
        dist.Beta(
            numpyro.param("a", 2.0, constraint=dist.constraints.positive),
            numpyro.param("b", 3.0, constraint=dist.constraints.positive),
        ),
    )


UTILITY = stakes.ExpUtility(stakes.Squared(), scale=1.0, regret=False)
PROBLEMS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "normal, tilted": (
        normal,
        {"loss": stakes.Tilted(0.2)},
        {"y": Y},
        {"transform": stakes.Linearized(), "scale": 0.7, "expectation": stakes.ClosedForm()},
    ),
    "counts, exponential": (
        counts,
        {"loss": stakes.LinEx(0.3)},
        {"x": Y / 4, "y": Y},
        {
            "transform": stakes.Exponential(regret=False),
            "scale": 2.0,
            "expectation": stakes.Enumeration(64),
        },
    ),
    "coins, utility": (
        coins,
        {"utility": UTILITY, "guide": by_hand},
        {"y": np.array([1, 0, 1, 1])},
        {"expectation": stakes.Enumeration()},
    ),
}


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize(
    "name",
    ["normal, tilted", *(pytest.param(n, marks=pytest.mark.slow) for n in list(PROBLEMS)[1:])],
)
def test_bound_and_gradient_are_those_of_a_calibrated_fit(name: str) -> None:
    model, cost, data, options = PROBLEMS[name]
    problem = stakes.Problem(model, outcome="y", **cost)
    data = {argument: jnp.asarray(values) for argument, values in data.items()}
    approximation = approximate(problem, data, KEY)
    params, decisions = approximation.start, jnp.linspace(0.2, 0.9, 4)
    gain = problem.gain(options.get("transform"), options.get("scale"))
    term = objective_of(gain, options["expectation"], None).term

    def ours(params: Any, decisions: Any) -> Any:
        found = bound(approximation, term, 7, KEY, {}, params, decisions, independent=True)
        return -found[0]

    objective = stakes.CalibratedELBO(problem, draws=7, **options)
    # The parameters exist once the guide has run.
    svi = SVI(model, objective.guide, optax.adam(0.01), objective)
    state = svi.init(KEY, **data)
    assert svi.get_params(state).keys() == {*params, "decisions"}
    transforms = approximation.structure.transforms

    def theirs(params: Any, decisions: Any) -> Any:
        known = {name: transforms[name](value) for name, value in params.items()}
        given = {**known, "decisions": decisions}
        return objective.loss(KEY, given, model, objective.guide, **data)

    expected, slopes = jax.jit(jax.value_and_grad(ours, (0, 1)))(params, decisions)
    found, found_slopes = jax.jit(jax.value_and_grad(theirs, (0, 1)))(params, decisions)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found_slopes, slopes)
    assert sum(float(jnp.abs(leaf).sum()) for leaf in jax.tree.leaves(slopes)) > 0


@pytest.mark.slow
def test_svi_finds_decisions_with_it() -> None:
    problem = stakes.Problem(normal, outcome="y", loss=stakes.Tilted(0.2))
    objective = stakes.CalibratedELBO(problem, scale=0.5)
    svi = SVI(normal, objective.guide, optax.adam(0.05), objective)
    found = svi.run(KEY, 400, y=jnp.asarray(Y), progress_bar=False)
    assert found.losses[-50:].mean() < found.losses[:50].mean()
    # Below the middle: too much costs four times as much as too little.
    assert (found.params["decisions"] < np.median(Y)).all()


def test_a_guide_without_decisions_is_refused() -> None:
    problem = stakes.Problem(coins, outcome="y", loss=stakes.Squared())
    objective = stakes.CalibratedELBO(problem, scale=0.5)
    svi = SVI(coins, by_hand, optax.adam(0.05), objective)
    state = svi.init(KEY, y=jnp.array([1, 0, 1, 1]))
    with pytest.raises(stakes.InputError, match=r"`SVI\(model, objective\.guide"):
        svi.update(state, y=jnp.array([1, 0, 1, 1]))


def test_minibatches_and_unobserved_outcomes_are_refused() -> None:
    def parts(y: Any = None) -> None:
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        with numpyro.plate("row", 4, subsample_size=2) as rows:
            numpyro.sample("y", dist.Normal(mu, 1), obs=None if y is None else y[rows])

    problem = stakes.Problem(parts, outcome="y", loss=stakes.Squared())
    objective = stakes.CalibratedELBO(problem, scale=0.5)
    svi = SVI(parts, objective.guide, optax.adam(0.05), objective)
    with pytest.raises(stakes.InputError, match="minibatches"):
        svi.init(KEY, y=jnp.asarray(Y))
    with pytest.raises(stakes.InputError, match="needs the observed outcomes"):
        svi.init(KEY)
