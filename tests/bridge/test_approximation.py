"""NumPyro behind the port: ELBO and gradients, minibatches."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.distributions import biject_to, constraints
from numpyro.infer import Trace_ELBO, autoguide
from numpyro_port import (
    FAR_APART,
    GROUP,
    KEY,
    LOCAL_DATA,
    approximate,
    assert_same_mean,
    draw,
    level_guide,
    local,
    local_by_hand,
    problem,
)
from quick import quickly

import stakes
from stakes import predicting
from stakes._types import Params
from stakes.bridge import NumPyroApproximation, Predictors
from stakes.expectation import ClosedForm
from stakes.port import Instances, Subsample, params_in
from stakes.predicting import FittedPosterior

X = np.linspace(-1, 1, 5)[:, None] ** np.array([0, 1])


DATA = {"x": X, "group": GROUP, "y": np.array([0.5, -1.0, 2.0, 1.5, 0.0])}


def rich(x: Any, group: Any, y: Any = None) -> None:
    """A vector latent, a positive one, a plate of latents, a factor and a scaled likelihood."""
    slope = numpyro.sample("slope", dist.Normal(0, 1).expand([2]).to_event(1))
    sd = numpyro.sample("sd", dist.HalfNormal(1.0))
    with numpyro.plate("group", 3):
        offset = numpyro.sample("offset", dist.Normal(0, sd))
    numpyro.factor("penalty", -0.3 * jnp.square(slope).sum() * sd)
    with handlers.scale(scale=0.5), numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(x @ slope + offset[group], sd), obs=y)


def by_hand(x: Any, group: Any, y: Any = None) -> None:
    """Structured: the spread's location follows the slope; it has no normal density."""
    loc = numpyro.param("loc", jnp.array([0.2, -0.1]))
    scale = numpyro.param("scale", jnp.array([0.3, 0.6]), constraint=constraints.positive)
    follow = numpyro.param("follow", 0.3)
    slope = numpyro.sample("slope", dist.Normal(loc, scale).to_event(1))
    numpyro.sample("sd", dist.LogNormal(follow * slope[0], 0.4))
    with numpyro.plate("group", 3):
        numpyro.sample("offset", dist.Normal(numpyro.param("offset_loc", jnp.ones(3)), 0.5))


GUIDES = {
    "AutoNormal": autoguide.AutoNormal(rich),
    "AutoDiagonalNormal": autoguide.AutoDiagonalNormal(rich),
    "AutoMultivariateNormal": autoguide.AutoMultivariateNormal(rich),
    "AutoLowRankMultivariateNormal": autoguide.AutoLowRankMultivariateNormal(rich),
    "AutoIAFNormal": autoguide.AutoIAFNormal(rich),
    "by hand": by_hand,
}


QUICK_GUIDES = {"AutoNormal", "AutoDiagonalNormal", "by hand"}


def somewhere(approximation: NumPyroApproximation) -> Params:
    """Off the guide's start, where nothing is special."""
    rng = np.random.default_rng(1)
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf + 0.2 * rng.normal(size=leaf.shape), leaf.dtype),
        jax.device_get(approximation.init(KEY)),
    )


def numpyro_elbo(
    model: Callable[..., None], guide: Callable[..., None], data: dict[str, Any]
) -> Callable[[Params, Any], Any]:
    """One draw of NumPyro's own ELBO as a function of unconstrained parameters."""
    arrays = {name: jnp.asarray(value) for name, value in data.items()}
    sites = handlers.trace(handlers.seed(guide, KEY)).get_trace(**arrays)
    transforms = {
        name: biject_to(site["kwargs"].get("constraint", constraints.real))
        for name, site in sites.items()
        if site["type"] == "param"
    }

    def elbo(params: Params, key: Any) -> Any:
        constrained = {name: transforms[name](value) for name, value in params.items()}
        return -Trace_ELBO().loss(key, constrained, model, guide, **arrays)

    return elbo


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "guide",
    [
        pytest.param(guide, id=name, marks=() if name in QUICK_GUIDES else pytest.mark.slow)
        for name, guide in GUIDES.items()
    ],
)
def test_the_log_ratio_averages_to_the_elbo_of_numpyro(guide: Callable[..., None]) -> None:
    """And its gradient to that of NumPyro's, for the guides whose log q is rewritten."""
    approximation = approximate(rich, DATA, guide)
    params, theirs = somewhere(approximation), numpyro_elbo(rich, guide, DATA)

    def ours(params: Params, key: Any) -> Any:
        return approximation.draw(params, key, {}).log_ratio

    rewritten = guide in (GUIDES["AutoNormal"], GUIDES["by hand"])
    ask = jax.value_and_grad if rewritten else lambda elbo: elbo

    def both(ours_key: Any, theirs_key: Any) -> Any:
        return ask(ours)(params, ours_key), ask(theirs)(params, theirs_key)

    keys = jax.random.split(jax.random.key(2), (2, 20_000))
    flat = [
        np.concatenate([leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(tree)], axis=1)
        for tree in quickly(jax.vmap(both), *keys)
    ]
    assert_same_mean(*flat)


def test_a_guide_site_that_is_masked_out_adds_nothing_to_log_q() -> None:
    def model(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(level + x, 1), obs=y)

    def guide(x: Any, y: Any = None) -> None:
        scale = numpyro.param("scale", 0.5, constraint=constraints.positive)
        with handlers.mask(mask=False):
            numpyro.sample("level", dist.Normal(0.0, scale))

    data = {"x": np.zeros(3), "y": np.zeros(3)}
    approximation = approximate(model, data, guide)
    params, theirs = approximation.init(KEY), numpyro_elbo(model, guide, data)

    def both(key: Any) -> Any:
        return approximation.draw(params, key, {}).log_ratio, theirs(params, key)

    assert_same_mean(*quickly(jax.vmap(both), jax.random.split(KEY, 2000)))


def test_log_q_of_a_vector_latent_is_as_free_of_noise_as_that_of_a_scalar() -> None:
    """A Gaussian's log q counts by its expectation: with data and prior out of the way, nothing
    else is left to vary."""

    def flat(width: int, y: Any = None) -> None:
        with handlers.scale(scale=1e-12):
            scalar = numpyro.sample("scalar", dist.Normal(0, 1))
            vector = numpyro.sample("vector", dist.Normal(0, 1).expand([width]).to_event(1))
            numpyro.sample("y", dist.Normal(scalar + vector[0], 1), obs=y)

    def guide(width: int, y: Any = None) -> None:
        numpyro.sample("scalar", dist.Normal(numpyro.param("loc", 0.0), 0.5))
        numpyro.sample("vector", dist.Normal(jnp.zeros(width), 0.5).to_event(1))

    approximation = approximate(flat, {"width": 3, "y": 0.0}, guide)
    params = approximation.init(KEY)
    every = jax.vmap(lambda key: approximation.draw(params, key, {}).log_ratio)
    assert quickly(every, jax.random.split(KEY, 100)).std() < 1e-3


LOCAL_GUIDES = {"AutoNormal": None, "by hand": local_by_hand}


BATCH = {"row": jnp.array([4, 1])}


@pytest.fixture(params=LOCAL_GUIDES.values(), ids=LOCAL_GUIDES, scope="module")
def minibatched(request: pytest.FixtureRequest) -> NumPyroApproximation:
    return approximate(local, LOCAL_DATA, request.param)


def row_parameter(approximation: NumPyroApproximation) -> str:
    """Where each row's latent lies; AutoNormal and the guide by hand name it differently."""
    [name] = [n for n in approximation.init(KEY) if n in ("level_auto_loc", "level_loc")]
    return name


def test_the_minibatch_is_what_the_model_says(minibatched: NumPyroApproximation) -> None:
    assert minibatched.subsamples == (Subsample("row", 6, 2),)
    assert minibatched.instances == Instances((6,), ("row",))
    assert minibatched.plates_of(row_parameter(minibatched)) == {"row": 0}


def test_rows_of_data_and_latents_are_those_of_the_batch(
    minibatched: NumPyroApproximation,
) -> None:
    """The outcome's mean is latent plus covariate, and each row has its own of both."""
    params = minibatched.init(KEY)
    params[row_parameter(minibatched)] = jnp.asarray(-3 * FAR_APART, jnp.float32)
    drawn = draw(minibatched, params, BATCH)
    np.testing.assert_allclose(drawn.outcome.loc, -2 * FAR_APART[[4, 1]], atol=2)
    np.testing.assert_allclose(drawn.weight, 3.0)


def test_outcomes_observed_are_those_of_the_batch(minibatched: NumPyroApproximation) -> None:
    """Latents near zero explain the outcomes, if these are the rows' own: off by a row is a
    thousand standard deviations."""
    params = minibatched.init(KEY)
    params[row_parameter(minibatched)] = jnp.arange(6.0)
    assert float(draw(minibatched, params, BATCH).log_ratio) > -100


def test_only_rows_in_the_batch_get_a_gradient(minibatched: NumPyroApproximation) -> None:
    params = minibatched.init(KEY)

    def elbo(params: Params) -> Any:
        here = params_in(minibatched, params, BATCH)
        return minibatched.draw(here, KEY, BATCH).log_ratio

    slope = quickly(jax.grad(elbo), params)
    moved = {name: np.flatnonzero(value).tolist() for name, value in slope.items()}
    assert moved[row_parameter(minibatched)] == [1, 4]
    for name, where in moved.items():
        assert where == [1, 4] if minibatched.plates_of(name) else where == [0]


def test_minibatch_elbos_average_to_the_full_one() -> None:
    """Over every batch there is, each weighed alike."""
    part = approximate(local, LOCAL_DATA, local_by_hand)
    full = approximate(local, {**LOCAL_DATA, "batch": 6}, local_by_hand)
    assert full.subsamples == ()
    params = {**full.init(KEY), "level_loc": jnp.arange(6.0)}
    every = jnp.array(list(itertools.combinations(range(6), 2)))

    @jax.jit
    @jax.vmap
    def over_batches(key: Any) -> Any:
        def one(members: Any) -> Any:
            here = params_in(part, params, {"row": members})
            return part.draw(here, key, {"row": members}).log_ratio

        return jax.vmap(one)(every).mean()

    keys = jax.random.split(KEY, 4000)
    whole = jax.vmap(lambda key: full.draw(params, key, {}).log_ratio)
    others = jax.random.split(jax.random.key(1), 4000)
    assert_same_mean(quickly(over_batches, keys), quickly(whole, others))


def in_the_middle(x: Any, y: Any = None) -> None:
    """Three plates, of which the middle one comes in minibatches."""
    with numpyro.plate("b", 5, subsample_size=2, dim=-2) as members:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("a", 4, dim=-3), numpyro.plate("c", 3, dim=-1):
            seen = None if y is None else y[:, members]
            numpyro.sample("y", dist.Normal(level + x[:, members], 1), obs=seen)


def in_the_middle_by_hand(**data: Any) -> None:
    with numpyro.plate("b", 5, subsample_size=2, dim=-2):
        loc = numpyro.param("loc", jnp.zeros((5, 1)), event_dim=0)
        numpyro.sample("level", dist.Normal(loc, 0.1))


def test_a_plate_in_the_middle_is_subsampled_along_its_own_axis() -> None:
    x = 100.0 * np.arange(60).reshape(4, 5, 3)
    approximation = approximate(in_the_middle, {"x": x, "y": x}, in_the_middle_by_hand)
    assert approximation.instances == Instances((4, 5, 3), ("a", "b", "c"))
    params = {"loc": 1e5 * jnp.arange(5.0).reshape(5, 1)}
    drawn = draw(approximation, params, {"b": jnp.array([3, 0])})
    expected = (x + 1e5 * np.arange(5).reshape(5, 1))[:, [3, 0]]
    np.testing.assert_allclose(drawn.outcome.loc, expected, atol=2)
    np.testing.assert_allclose(drawn.weight, np.full((4, 2, 3), 2.5))


def crossed(y: Any = None) -> None:
    """Rows and columns both come in minibatches, and each has a latent."""
    row = numpyro.plate("row", 5, subsample_size=2, dim=-2)
    column = numpyro.plate("column", 7, subsample_size=3, dim=-1)
    with row as here:
        height = numpyro.sample("height", dist.Normal(0, 1))
    with column as there:
        width = numpyro.sample("width", dist.Normal(0, 1))
    with row, column:
        seen = None if y is None else y[here][:, there]
        numpyro.sample("y", dist.Normal(height + width, 1), obs=seen)


def crossed_by_hand(**data: Any) -> None:
    with numpyro.plate("row", 5, subsample_size=2, dim=-2):
        loc = numpyro.param("height_loc", 10 * jnp.arange(5.0)[:, None], event_dim=0)
        numpyro.sample("height", dist.Normal(loc, 0.01))
    with numpyro.plate("column", 7, subsample_size=3, dim=-1):
        loc = numpyro.param("width_loc", 1000 * jnp.arange(7.0), event_dim=0)
        numpyro.sample("width", dist.Normal(loc, 0.01))


def test_two_plates_in_minibatches_are_covered_pair_by_pair() -> None:
    y = np.arange(35.0).reshape(5, 7)
    approximation = approximate(crossed, {"y": y}, crossed_by_hand)
    fitted = FittedPosterior(approximation, approximation.init(KEY))
    asked = problem(crossed)
    predictor = Predictors(asked, approximation).on()
    np.testing.assert_array_equal(predicting.observed(fitted, predictor), y)
    decisions = predicting.decide(asked.task, fitted, predictor, ClosedForm(), KEY, draws=20)
    expected = 10 * np.arange(5)[:, None] + 1000 * np.arange(7)
    np.testing.assert_allclose(decisions, expected, atol=0.1)


def test_posterior_draws_of_different_rows_are_independent_across_minibatches() -> None:
    """Rows are drawn batch by batch; a key used for every batch would repeat its noise."""
    approximation = approximate(local, LOCAL_DATA, local_by_hand)
    fitted = FittedPosterior(approximation, approximation.init(KEY))
    draws = predicting.latent_draws(fitted, KEY, 400)["level"]
    correlation = np.corrcoef(draws.T) - np.eye(6)
    assert np.abs(correlation).max() < 0.3


def test_predicted_outcomes_of_different_rows_are_independent_across_minibatches() -> None:
    """But for what they share through the global latent, which is almost certain here."""
    approximation = approximate(local, LOCAL_DATA, local_by_hand)
    fitted = FittedPosterior(approximation, approximation.init(KEY))
    predictor = Predictors(problem(local), approximation).on()
    draws = predicting.predict(fitted, predictor, KEY, 400)
    correlation = np.corrcoef(draws.T) - np.eye(6)
    assert np.abs(correlation).max() < 0.3


def test_what_an_auxiliary_of_the_guide_ties_together_stays_together() -> None:
    """Here it makes the global latent and those of the rows all but equal."""

    def tied(x: Any, y: Any = None, batch: int = 2) -> None:
        common = numpyro.sample("common", dist.Normal(0, 1), infer={"is_auxiliary": True})
        numpyro.sample("mean", dist.Normal(common, 0.01))
        with numpyro.plate("row", len(x), subsample_size=batch):
            numpyro.sample("level", dist.Normal(common, 0.01))

    fitted = FittedPosterior(approximate(local, LOCAL_DATA, tied), {})
    draws = predicting.latent_draws(fitted, KEY, 400)
    assert np.abs(draws["level"] - draws["mean"][:, None]).max() < 0.1


def test_the_window_of_an_enumeration_is_wide_enough_for_the_rows_of_every_batch() -> None:
    """Here the first batch holds small counts alone."""

    def counts(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 0.1))
        with numpyro.plate("row", len(x), subsample_size=2) as members:
            seen = None if y is None else y[members]
            numpyro.sample("y", dist.Poisson(jnp.exp(x[members] + level)), obs=seen)

    rates = np.array([2.0, 3.0, 2.0, 900.0])
    data = {"x": np.log(rates), "y": rates.astype(int)}
    approximation = approximate(counts, data, level_guide)
    fitted = FittedPosterior(approximation, approximation.init(KEY))
    predictor = Predictors(problem(counts), approximation).on()
    outcomes = predicting.outcomes_by_batch(fitted, predictor, KEY)
    window = stakes.Enumeration().widen_for(outcomes)
    outcome = draw(approximation, fitted.params, {"row": jnp.array([2, 3])}).outcome
    losses = quickly(
        lambda rate: window.expected(None, dist.Poisson(rate), stakes.Tilted(0.2), rate),
        outcome.rate,
    )
    assert np.isfinite(losses).all()


def test_two_fits_may_share_one_autoguide() -> None:
    """It keeps what it found out about the data it saw first, here how many rows there are."""

    def model(x: Any, y: Any = None) -> None:
        with numpyro.plate("row", len(x)):
            level = numpyro.sample("level", dist.Normal(0, 1))
            numpyro.sample("y", dist.Normal(level + x, 1), obs=y)

    guide = autoguide.AutoNormal(model)
    first, second = (
        approximate(model, {"x": np.zeros(size), "y": np.zeros(size)}, guide) for size in (3, 5)
    )
    for approximation, size in ((first, 3), (second, 5)):
        drawn = approximation.draw_latents(approximation.start, KEY, {})
        assert drawn["level"].shape == (size,)
