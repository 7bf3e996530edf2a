"""What a posterior predicts and decides, over all instances, in bounded memory."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import rows
from stakes.approximation import Instances, Subsample
from stakes.decisions import bayes_decision, numerical_decision
from stakes.expectation import Enumeration, Expectation
from stakes.numpyro_adapter import NumPyroApproximation, Predictor
from stakes.numpyro_sites import Prediction
from stakes.problem import Problem
from stakes.typing import Array, Batch, Distribution, Key, Params, SolvedLoss

MOST_ELEMENTS = 2**25
"""Instances times draws held at once; 128 MB an array in single precision."""


def draws_for(instances: int) -> int:
    """How many draws of θ to evaluate with: many for a few instances, some for many."""
    return int(np.clip(MOST_ELEMENTS // (16 * max(instances, 1)), 256, 8192))


@final
@partial(jax.tree_util.register_dataclass, data_fields=["approximation", "params"], meta_fields=[])
@dataclass(frozen=True)
class Fitted:
    """The posterior that a fit found: draws come from the guide."""

    approximation: NumPyroApproximation
    params: Params

    def latents(
        self, key: Key, batch: Batch, draws: int, known: frozenset[str], part: Array | int = 0
    ) -> Any:
        """Latents of the members in the batch, draws along a leading axis.

        Global ones are the same for every `part`, local ones are drawn anew for each.
        """
        here = {
            part.plate: batch[part.plate]
            if part.plate in known and part.plate in batch
            else jnp.arange(part.batch_size)
            for part in self.approximation.subsamples
        }
        params = rows.params_in(self.approximation, self.params, here)
        keys = jax.random.split(key, draws)
        return jax.vmap(lambda k: self.approximation.latents(params, k, here, part))(keys)


@final
@partial(jax.tree_util.register_dataclass, data_fields=["samples"], meta_fields=[])
@dataclass(frozen=True)
class Sampled:
    """A posterior given as draws, such as those of NUTS."""

    samples: dict[str, Array]

    def latents(
        self, key: Key, batch: Batch, draws: int, known: frozenset[str], part: Array | int = 0
    ) -> Any:
        """Thinned to the number of draws asked for."""
        have = next(iter(self.samples.values())).shape[0]
        chosen = np.linspace(0, have - 1, min(draws, have)).round().astype(int)
        return {name: values[chosen] for name, values in self.samples.items()}


Posterior: TypeAlias = Fitted | Sampled


def decide(
    problem: Problem,
    posterior: Posterior,
    predictor: Predictor,
    expectation: Expectation,
    key: Key,
    draws: int | None = None,
) -> np.ndarray:
    """The best decision for each instance, for the original loss or utility."""
    points = (expectation.points or 1) if isinstance(expectation, Enumeration) else 1
    draws = draws or draws_for(_batch_instances(predictor) * points)

    def best(batch: Batch) -> Array:
        return _decide_batch(posterior, predictor, key, batch, problem, expectation, draws)

    return _over_batches(best, predictor)


@partial(jax.jit, static_argnames=("problem", "expectation", "draws"))
def _decide_batch(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    problem: Problem,
    expectation: Expectation,
    draws: int,
) -> Array:
    theta_key, y_key = jax.random.split(key)
    outcomes, weight = _outcomes(posterior, predictor, theta_key, batch, draws)
    if isinstance(problem.loss, SolvedLoss):
        return bayes_decision(problem.loss, expectation, y_key, outcomes, weight)
    gain = problem.loss if problem.loss is not None else problem.utility
    assert gain is not None
    return numerical_decision(gain, expectation, y_key, outcomes, weight)


def outcomes(
    posterior: Posterior, predictor: Predictor, key: Key, draws: int
) -> tuple[Distribution, Array]:
    """p(y|θ) for the first batch of instances, draws of θ along a leading axis; and weights."""
    batch = next(_full_batches(predictor.subsamples))
    return _outcomes_batch(posterior, predictor, key, batch, draws)


def _outcomes(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    draws: int,
    part: Array | int = 0,
) -> tuple[Distribution, Array]:
    latent_key, model_key = jax.random.split(key)
    latents = posterior.latents(latent_key, batch, draws, _known(predictor), part)
    model_key = jax.random.fold_in(model_key, part)
    keys = jax.random.split(model_key, jax.tree.leaves(latents)[0].shape[0])

    def one(latents: dict[str, Array], key: Key) -> Prediction:
        return predictor.predict(latents, key, batch)

    outcome, weight = jax.vmap(one)(latents, keys)
    return outcome, weight[0]


_outcomes_batch = jax.jit(_outcomes, static_argnums=4)


def weights(posterior: Posterior, predictor: Predictor) -> np.ndarray:
    """How much each instance counts: its mask times the minibatch scale. The same for any θ."""
    return _over_batches(lambda batch: _weigh_batch(posterior, predictor, batch), predictor)


@jax.jit
def _weigh_batch(posterior: Posterior, predictor: Predictor, batch: Batch) -> Array:
    return _outcomes(posterior, predictor, jax.random.key(0), batch, 1)[1]


def observed(posterior: Posterior, predictor: Predictor) -> np.ndarray | None:
    """The outcomes observed, for all instances; None where there are none. The same for any θ."""
    batch = next(_full_batches(predictor.subsamples))
    if jax.eval_shape(_observed_batch, posterior, predictor, batch) is None:
        return None
    return _over_batches(lambda batch: _observed_batch(posterior, predictor, batch), predictor)


@jax.jit
def _observed_batch(posterior: Posterior, predictor: Predictor, batch: Batch) -> Any:
    key = jax.random.key(0)
    latents = posterior.latents(key, batch, 1, _known(predictor))
    value = predictor.observed(jax.tree.map(lambda one: one[0], latents), key, batch)
    return None if value is None else jnp.asarray(value, jnp.result_type(float))


class Observations(NamedTuple):
    """Outcomes to judge decisions by, and which of them count."""

    outcomes: np.ndarray
    counted: np.ndarray

    def costs(self, problem: Problem, decisions: np.ndarray) -> np.ndarray:
        """ℓ(y_i, h_i), or minus the utility, of each instance that counts."""
        found = problem.cost(jnp.asarray(self.outcomes), jnp.asarray(decisions))
        return np.asarray(found, np.float64)[self.counted]


def observations(posterior: Posterior, predictor: Predictor) -> Observations | None:
    """The observed outcomes that the mask lets count; None where there are none."""
    outcomes = observed(posterior, predictor)
    if outcomes is None:
        return None
    return Observations(outcomes, weights(posterior, predictor) > 0)


def predictive_costs(
    problem: Problem,
    posterior: Posterior,
    predictor: Predictor,
    decisions: np.ndarray,
    key: Key,
    draws: int = 100,
) -> np.ndarray:
    """Costs of outcomes drawn from the predictive distribution, as the paper's notebooks use."""
    counted = weights(posterior, predictor) > 0
    found = predict(posterior, predictor, key, draws)
    costs = np.asarray(problem.cost(jnp.asarray(found), jnp.asarray(decisions)))
    return costs[:, counted].ravel()


def predict(posterior: Posterior, predictor: Predictor, key: Key, draws: int) -> np.ndarray:
    """One outcome for each draw of θ, draws along a leading axis."""

    parts = itertools.count()

    def some(batch: Batch) -> Array:
        return _predict_batch(posterior, predictor, key, batch, draws, next(parts))

    return _over_batches(some, predictor, leading=(draws,))


@partial(jax.jit, static_argnames=("draws",))
def _predict_batch(
    posterior: Posterior, predictor: Predictor, key: Key, batch: Batch, draws: int, part: Array
) -> Array:
    theta_key, y_key = jax.random.split(key)
    outcomes, weight = _outcomes(posterior, predictor, theta_key, batch, draws, part)
    keys = jax.random.split(jax.random.fold_in(y_key, part), draws)

    def one(key: Key, outcome: Distribution) -> Array:
        return outcome.expand(weight.shape).sample(key)

    return jnp.asarray(jax.vmap(one)(keys, outcomes), weight.dtype)


def latent_draws(posterior: Fitted, key: Key, draws: int) -> dict[str, np.ndarray]:
    """Draws of every latent, draws along a leading axis, local ones for all members."""
    structure = posterior.approximation.structure
    everywhere = frozenset(part.plate for part in structure.subsamples)
    whole = {
        name: np.zeros((draws, *latent.shape), np.dtype(jnp.result_type(float)))
        for name, latent in structure.latents.items()
    }
    for part, batch in enumerate(_full_batches(structure.subsamples)):
        found = _latents_batch(posterior, key, batch, draws, everywhere, part)
        for name, latent in structure.latents.items():
            _put(whole[name], found[name], latent, structure.subsamples, batch, 1)
    return whole


@partial(jax.jit, static_argnames=("draws", "known"))
def _latents_batch(
    posterior: Fitted, key: Key, batch: Batch, draws: int, known: frozenset[str], part: Array
) -> Any:
    return posterior.latents(key, batch, draws, known, part)


def widened(
    expectation: Expectation, posterior: Posterior, predictor: Predictor, key: Key
) -> Expectation:
    """An enumeration gets its window from what the posterior predicts for all instances."""
    if isinstance(expectation, Enumeration):
        for batch in _full_batches(predictor.subsamples):
            outcomes, _ = _outcomes_batch(posterior, predictor, key, batch, 64)
            expectation = expectation.widened(outcomes)
    return expectation


def _full_batches(subsamples: tuple[Subsample, ...]) -> Iterator[dict[str, np.ndarray]]:
    """Batches that cover every member of every subsampled plate; the last ones wrap around."""
    parts = [
        [
            np.arange(i, i + part.batch_size) % part.size
            for i in range(0, part.size, part.batch_size)
        ]
        for part in subsamples
    ]
    for members in product(*parts):
        yield {part.plate: m for part, m in zip(subsamples, members, strict=True)}


def _over_batches(
    question: Callable[[Batch], Array], predictor: Predictor, leading: tuple[int, ...] = ()
) -> np.ndarray:
    whole: np.ndarray | None = None
    for batch in _full_batches(predictor.subsamples):
        values = np.asarray(question(batch))
        if whole is None:
            whole = np.zeros(leading + predictor.instances.shape, values.dtype)
        _put(whole, values, predictor.instances, predictor.subsamples, batch, len(leading))
    assert whole is not None
    return whole


def _put(
    whole: np.ndarray,
    values: Any,
    instances: Instances,
    subsamples: tuple[Subsample, ...],
    batch: Batch,
    leading: int,
) -> None:
    index: list[Any] = [np.arange(size) for size in whole.shape]
    for part in subsamples:
        if part.plate in instances.dims:
            index[leading + instances.dims.index(part.plate)] = np.asarray(batch[part.plate])
    whole[np.ix_(*index)] = np.asarray(values)


def _batch_instances(predictor: Predictor) -> int:
    size = int(np.prod(predictor.instances.shape))
    for part in predictor.subsamples:
        if part.plate in predictor.instances.dims:
            size = size * part.batch_size // part.size
    return max(size, 1)


def _known(predictor: Predictor) -> frozenset[str]:
    return frozenset(dim for latent in predictor.structure.latents.values() for dim in latent.dims)
