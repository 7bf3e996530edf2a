"""NumPyro behind the port: ELBO and gradients, minibatches, masks, dims and predictions."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro import handlers
from numpyro.distributions import biject_to, constraints
from numpyro.infer import Trace_ELBO, autoguide
from quick import quickly
from scipy import stats

import stakes
from stakes import bridge, predicting
from stakes._types import Batch, Params
from stakes.bridge import NumPyroApproximation, Predictors
from stakes.bridge.sites import log_prob_of
from stakes.expectation import ClosedForm
from stakes.port import Draw, Instances, Subsample, params_in
from stakes.predicting import FittedPosterior

KEY = jax.random.key(0)
FAILURE_RATE = 1e-6
"""How often a test that draws may fail by chance, over all that it compares."""


def problem(model: Callable[..., None], guide: Any = None, loss: Any = None) -> stakes.Problem:
    return stakes.Problem(model, outcome="y", loss=loss or stakes.Squared(), guide=guide)


def approximate(
    model: Callable[..., None], data: dict[str, Any], guide: Any = None
) -> NumPyroApproximation:
    chosen = problem(model, guide)
    checked = chosen.check_data(data, needs_outcome=True)
    return bridge.approximate(chosen, checked, KEY)


def draw(approximation: NumPyroApproximation, params: Params, batch: Batch | None = None) -> Draw:
    """One draw, from all parameters: those of the batch's members are gathered first."""
    here = params_in(approximation, params, batch or {})
    return quickly(lambda here: approximation.draw(here, KEY, batch or {}), here)


def level_guide(**data: Any) -> None:
    """For models whose one latent is a `level`; an autoguide takes seconds to set up."""
    scale = numpyro.param("scale", 0.1, constraint=constraints.positive)
    numpyro.sample("level", dist.Normal(numpyro.param("loc", 0.0), scale))


def assert_same_mean(one: Any, other: Any) -> None:
    """Two samples (draw, component) of equal means, each tested at its share of the rate."""
    one, other = (np.reshape(sample, (len(sample), -1)).astype(float) for sample in (one, other))
    error = np.sqrt(one.var(axis=0) / len(one) + other.var(axis=0) / len(other))
    error += 1e-5 * np.abs(one.mean(axis=0)) + 1e-6  # rounding, where nothing varies
    z = (one.mean(axis=0) - other.mean(axis=0)) / error
    assert np.abs(z).max() < stats.norm.isf(FAILURE_RATE / 2 / z.size)


# ELBO --------------------------------------------------------------------------------------

X = np.linspace(-1, 1, 5)[:, None] ** np.array([0, 1])
GROUP = np.array([0, 1, 2, 0, 1])
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


# Minibatches -------------------------------------------------------------------------------

FAR_APART = 1000.0 * np.arange(6)


def local(x: Any, y: Any = None, batch: int = 2) -> None:
    """One latent a row, rows in minibatches; `x` sets rows far apart."""
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    with numpyro.plate("row", len(x), subsample_size=batch) as members:
        level = numpyro.sample("level", dist.Normal(mean, 5))
        seen = None if y is None else y[members]
        numpyro.sample("y", dist.Normal(level + x[members], 1), obs=seen)


def local_by_hand(x: Any, y: Any = None, batch: int = 2) -> None:
    numpyro.sample("mean", dist.Normal(numpyro.param("m", 0.0), 0.1))
    with numpyro.plate("row", len(x), subsample_size=batch):
        loc = numpyro.param("level_loc", jnp.zeros(len(x)), event_dim=0)
        numpyro.sample("level", dist.Normal(loc, 0.1))


LOCAL_DATA = {"x": FAR_APART, "y": FAR_APART + np.arange(6), "batch": 2}
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
    window = stakes.Enumeration().widened(outcomes)
    outcome = draw(approximation, fitted.params, {"row": jnp.array([2, 3])}).outcome
    losses = quickly(
        lambda rate: window.expected(None, dist.Poisson(rate), stakes.Tilted(0.2), rate),
        outcome.rate,
    )
    assert np.isfinite(losses).all()


# Masks and event dims ----------------------------------------------------------------------

OBSERVED = np.array([[True, False, True], [False, True, True]])


def _masked(x: Any, y: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 1))
    plates = numpyro.plate("row", 2, dim=-2), numpyro.plate("column", 3, dim=-1)
    with plates[0], plates[1], handlers.mask(mask=jnp.asarray(OBSERVED)):
        numpyro.sample("y", dist.Normal(level + x, 1), obs=y)


def _masked_distribution(x: Any, y: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("row", 2, dim=-2), numpyro.plate("column", 3, dim=-1):
        numpyro.sample("y", dist.Normal(level + x, 1).mask(OBSERVED), obs=y)


def _masked_events(x: Any, y: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("row", 2):
        numpyro.sample("y", dist.Normal(level + x, 1).mask(OBSERVED).to_event(1), obs=y)


@pytest.mark.parametrize("model", [_masked, _masked_distribution, _masked_events])
def test_a_mask_takes_entries_out_of_likelihood_and_utility_alike(
    model: Callable[..., None],
) -> None:
    x = np.arange(6.0).reshape(2, 3)
    draws = []
    for hidden in (0.0, 1e6):
        data = {"x": x, "y": np.where(OBSERVED, x, hidden)}
        approximation = approximate(model, data, level_guide)
        draws.append(draw(approximation, approximation.init(KEY)))
    np.testing.assert_allclose(draws[0].log_ratio, draws[1].log_ratio)
    np.testing.assert_array_equal(draws[0].weight, OBSERVED.astype(float))


def test_a_mask_of_rows_covers_all_of_their_events() -> None:
    def model(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("row", 3), handlers.mask(mask=jnp.array([True, False, True])):
            numpyro.sample("y", dist.Normal(level + x, 1).to_event(1), obs=y)

    data = {"x": np.zeros((3, 3)), "y": np.zeros((3, 3))}
    approximation = approximate(model, data, level_guide)
    weight = draw(approximation, approximation.init(KEY)).weight
    np.testing.assert_array_equal(weight, np.repeat([[1.0], [0.0], [1.0]], 3, axis=1))


def test_a_scale_of_rows_covers_all_of_their_events() -> None:
    def model(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("row", 3), handlers.scale(scale=jnp.array([1.0, 2.0, 3.0])):
            numpyro.sample("y", dist.Normal(level + x, 1).to_event(1), obs=y)

    data = {"x": np.zeros((3, 3)), "y": np.zeros((3, 3))}
    approximation = approximate(model, data, level_guide)
    weight = draw(approximation, approximation.init(KEY)).weight
    np.testing.assert_array_equal(weight, np.repeat([[1.0], [2.0], [3.0]], 3, axis=1))


@pytest.mark.parametrize("gate", [None, 0.25], ids=["counts", "more zeros"])
def test_the_density_of_overdispersed_counts_has_their_masks_and_scales(gate: float | None) -> None:
    """It is not NumPyro's, which takes longer."""
    mask, scale = np.array([[1, 1], [0, 1], [1, 1]], bool), np.array([[1.0], [2.0], [3.0]])
    mean, spread = np.array([2.0, 50.0]), 1.5

    def model(y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        counts: Any = dist.NegativeBinomial2(mean + 0 * level, spread)
        if gate is not None:
            counts = dist.ZeroInflatedDistribution(counts, gate=gate)
        with numpyro.plate("row", 3), handlers.scale(scale=jnp.asarray(scale[:, 0])):
            numpyro.sample("y", counts.expand([3, 2]).mask(mask).to_event(1), obs=y)

    def found(y: np.ndarray) -> float:
        approximation = approximate(model, {"y": y}, level_guide)
        return float(draw(approximation, approximation.init(KEY)).log_ratio)

    def expected(y: np.ndarray) -> float:
        masses = stats.nbinom(spread, spread / (spread + mean)).pmf(y)
        if gate is not None:
            masses = gate * (y == 0) + (1 - gate) * masses
        return float((scale * np.where(mask, np.log(masses), 0.0)).sum())

    y, other = np.array([[0.0, 3], [40, 0], [7, 900]]), np.array([[1.0, 0], [0, 60], [0, 2]])
    assert found(y) - found(other) == pytest.approx(expected(y) - expected(other), rel=1e-5)


def log_prob_and_slope(counts: Callable[[Any], Any], value: Any) -> tuple[float, float]:
    """Of a site with this distribution of a mean; at a mean of two."""

    def at(mean: Any) -> Any:
        site = {"fn": counts(mean), "value": value, "scale": None, "intermediates": []}
        return log_prob_of(site)

    value_and_slope = jax.value_and_grad(at)(2.0)
    return float(value_and_slope[0]), float(value_and_slope[1])


def test_what_a_mask_hides_among_overdispersed_counts_may_be_anything() -> None:
    mask = np.array([True, False, True])

    def masked(mean: Any) -> Any:
        return dist.NegativeBinomial2(mean, 1.5).mask(mask)

    alike = [log_prob_and_slope(masked, jnp.array([1.0, hidden, 3.0])) for hidden in (np.nan, 5.0)]
    assert alike[0] == alike[1]
    assert np.isfinite(alike[0]).all()


@pytest.mark.parametrize("value", [-1.0, 2.5])
def test_no_count_has_no_chance(value: float) -> None:
    found, _ = log_prob_and_slope(lambda mean: dist.NegativeBinomial2(mean, 1.5), jnp.array(value))
    assert found == -np.inf


def test_overdispersed_counts_with_next_to_no_overdispersion_are_poisson() -> None:
    """NumPyro's formula is off by thirty."""
    counts = jnp.array([0.0, 3.0, 40.0])
    near = log_prob_and_slope(lambda mean: dist.NegativeBinomial2(mean, 1e10), counts)
    limit = log_prob_and_slope(dist.Poisson, counts)
    np.testing.assert_allclose(near, limit, rtol=1e-4)


def test_zeros_that_are_nearly_sure_leave_a_finite_density() -> None:
    def inflated(logits: Any) -> Any:
        counts = dist.NegativeBinomial2(2.0, 1.5)
        return dist.ZeroInflatedDistribution(counts, gate_logits=10 * logits)

    found, slope = log_prob_and_slope(inflated, jnp.array([0.0, 0.0, 5.0]))
    assert found == pytest.approx(-20 + stats.nbinom(1.5, 1.5 / 3.5).logpmf(5), rel=1e-4)
    assert slope == pytest.approx(-10, rel=1e-4)


def test_outcomes_under_to_event_have_a_decision_each() -> None:
    def model(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(level + x, 1).to_event(1), obs=y)

    x = np.arange(6.0).reshape(2, 3)
    approximation = approximate(model, {"x": x, "y": x}, level_guide)
    assert approximation.instances == Instances((2, 3), ("row", "y_dim_1"))
    drawn = draw(approximation, approximation.init(KEY))
    assert drawn.weight.shape == (2, 3)
    np.testing.assert_allclose(jnp.diff(drawn.outcome.mean, axis=-1), 1.0, rtol=1e-5)


# Instances ---------------------------------------------------------------------------------


def test_dims_and_shape_come_from_the_plates() -> None:
    """Whatever the order in which the plates were opened."""

    def model(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("column", 3, dim=-1), numpyro.plate("row", 2, dim=-2):
            numpyro.sample("y", dist.Normal(level, x), obs=y)

    data = {"x": 1.0, "y": np.zeros((2, 3))}
    assert approximate(model, data, level_guide).instances == Instances((2, 3), ("row", "column"))


def test_axes_without_a_plate_are_named_after_the_outcome() -> None:
    def model(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("column", 3):
            numpyro.sample("y", dist.Normal(level + x, 1), obs=y)

    data = {"x": np.zeros((2, 3)), "y": np.zeros((2, 3))}
    assert approximate(model, data, level_guide).instances == Instances(
        (2, 3), ("y_dim_0", "column")
    )


def test_a_single_outcome_has_no_dims() -> None:
    def model(y: Any = None) -> None:
        numpyro.sample("y", dist.Normal(numpyro.sample("level", dist.Normal(0, 1)), 1), obs=y)

    assert approximate(model, {"y": 1.5}, level_guide).instances == Instances((), ())


# Prediction --------------------------------------------------------------------------------

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


# What a model does with its data -----------------------------------------------------------


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
    r"`data\['weekday'\]`.*0 to 6 \(the plate 'day of week' has 7 members\), but there is 7 in "
    r"1 rows: 6\."
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
    negative = r"'weekday'.*may be 0 to 6.*there is {}"
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
    with pytest.raises(stakes.InputError, match=r"'at'.*may be 0 to 2.*there is 9 in 1 rows: 1"):
        approximate(looked_up(look_up), {"at": np.array([0, 9]), "y": np.zeros(2)}, level_guide)


def test_two_arguments_with_the_same_index_out_of_range_do_not_hide_each_other() -> None:
    def model(home: Any, away: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        strength = level * jnp.arange(4.0)
        with numpyro.plate("match", len(home)):
            numpyro.sample("y", dist.Normal(strength[home] - strength[away], 1), obs=y)

    data = {"home": np.array([0, 4]), "away": np.array([4, 1]), "y": np.zeros(2)}
    with pytest.raises(stakes.InputError, match=r"'home'.*0 to 3, but there is 4 in 1 rows: 1"):
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


def _observed(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("row", 3):
        numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)


def _renamed(x, obs=None):
    _observed(x, obs)


def _placed(x, /, y=None):
    _observed(x, y)


X_AND_Y = {"x": jnp.arange(3.0), "y": jnp.array([1.0, 2.0, 4.0])}
SAME_MODELS = {
    "another name": (_renamed, {"outcome": "y", "observed": "obs"}, {"y": "obs"}, ""),
    "arguments by place": (_placed, {"outcome": "y"}, {}, ""),
    "scoped": (
        handlers.scope(_observed, prefix="a"),
        {"outcome": "a/y", "observed": "y"},
        {},
        "a/",
    ),
    "conditioned": (
        handlers.condition(_observed, data={"y": X_AND_Y["y"]}),
        {"outcome": "y"},
        {"y": None},
        "",
    ),
}


@pytest.mark.parametrize("name", SAME_MODELS)
def test_observations_come_under_any_name(name):
    model, said, renamed, prefix = SAME_MODELS[name]
    plain = stakes.Problem(_observed, outcome="y", loss=stakes.Squared())
    problem = stakes.Problem(model, loss=stakes.Squared(), **said)
    names = {n: renamed.get(n, n) for n in X_AND_Y}
    data = {names[n]: values for n, values in X_AND_Y.items() if names[n] is not None}
    found = bridge.approximate(problem, problem.check_data(data, needs_outcome=True), KEY)
    expected = bridge.approximate(plain, plain.check_data(X_AND_Y, needs_outcome=True), KEY)
    params = {f"{prefix}{n}": value for n, value in expected.start.items()}
    here, there = (
        each.draw({n: jnp.full_like(v, 0.3) for n, v in values.items()}, KEY, {})
        for each, values in ((found, params), (expected, expected.start))
    )
    assert found.instances.shape == (3,)
    np.testing.assert_allclose(
        here.outcome.log_prob(X_AND_Y["y"]).shape, there.outcome.log_prob(X_AND_Y["y"]).shape
    )
    if not prefix:  # its sites draw other random numbers
        np.testing.assert_allclose(here.log_ratio, there.log_ratio, rtol=1e-6)


def test_an_argument_for_observations_that_is_not_there_is_refused():
    with pytest.raises(stakes.InputError, match=r"`Problem\(observed='seen'\)`.*'x', 'obs'"):
        stakes.Problem(_renamed, outcome="y", observed="seen", loss=stakes.Squared())
    unsaid = stakes.Problem(_renamed, outcome="y", loss=stakes.Squared())
    with pytest.raises(stakes.InputError, match=r"`Problem\(outcome='y'\)`.*`observed=`"):
        stakes.calibrate(KEY, unsaid, {"x": np.ones(3), "obs": np.ones(3)})
    problem = stakes.Problem(_renamed, outcome="y", observed="obs", loss=stakes.Squared())
    with pytest.raises(stakes.InputError, match="`data` has no 'obs'"):
        problem.check_data({"x": np.ones(3)}, needs_outcome=True)


def test_the_outcome_of_a_formula_may_be_left_out():
    frame = pd.DataFrame({"x": [1.0, 2, 3], "sold": [2.0, 1, 4]})
    model = stakes.formula("sold ~ x", frame)
    assert stakes.Problem(model, loss=stakes.Squared()).outcome == "sold"
    with pytest.raises(stakes.InputError, match=r"`Problem\(outcome=...\)` is required"):
        stakes.Problem(_renamed, loss=stakes.Squared())
