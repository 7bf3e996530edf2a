"""Draws of all latents, and what the model makes of each of them."""

from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch, Key
from stakes.bridge import Predictor
from stakes.host.programs import Program
from stakes.port import Instances, Rows, Subsample, sweep
from stakes.predicting.posteriors import FittedPosterior, Members


def latent_draws(posterior: FittedPosterior, key: Key, draws: int) -> dict[str, np.ndarray]:
    """Draws of every latent, draws along a leading axis, local ones for all members."""
    return _in_parts(
        lambda batch, part: _latents_batch(posterior, key, batch, draws, part),
        posterior.approximation.latents,
        posterior.approximation.subsamples,
        draws,
    )


@partial(Program, static=("draws",))
def _latents_batch(
    posterior: FittedPosterior, key: Key, batch: Batch, draws: int, part: Array | int
) -> dict[str, Array]:
    return posterior.latents(key, draws, Members(batch, part))


def derived_draws(
    posterior: FittedPosterior, predictor: Predictor, key: Key, draws: int
) -> dict[str, np.ndarray]:
    """The model's deterministic sites for the same draws of the latents."""
    return _in_parts(
        lambda batch, part: _derived_batch(posterior, predictor, key, batch, draws, part),
        predictor.trace.derived,
        predictor.trace.subsamples,
        draws,
    )


@partial(Program, static=("draws",))
def _derived_batch(
    posterior: FittedPosterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    draws: int,
    part: Array | int,
) -> dict[str, Array]:
    latents = posterior.latents(key, draws, Members(batch, part))
    return jax.vmap(lambda one: predictor.derived(one, key, batch))(latents)


def explained(
    posterior: FittedPosterior, predictor: Predictor, key: Key, draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """log p(y_i|θ) of what was observed, and outcomes drawn, for the draws of `latent_draws`.

    Draws along a leading axis.
    """
    instances = predictor.trace.instances
    found = _in_parts(
        lambda batch, part: _explained_batch(posterior, predictor, key, batch, draws, part),
        {"log_likelihood": instances, "outcome": instances},
        predictor.trace.subsamples,
        draws,
    )
    return found["log_likelihood"], found["outcome"]


@partial(Program, static=("draws",))
def _explained_batch(
    posterior: FittedPosterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    draws: int,
    part: Array | int,
) -> dict[str, Array]:
    latents = posterior.latents(key, draws, Members(batch, part))
    keys = jax.random.split(jax.random.fold_in(key, part), draws)

    def one(latents: dict[str, Array], key: Key) -> dict[str, Array]:
        outcome, weight = predictor.predict(latents, key, batch)
        log_p = outcome.log_prob(predictor.observed(latents, key, batch))
        drawn = outcome.expand(weight.shape).sample(key)
        return {
            "log_likelihood": jnp.broadcast_to(log_p, weight.shape),
            "outcome": jnp.asarray(drawn, weight.dtype),
        }

    return jax.vmap(one)(latents, keys)


def _in_parts(
    question: Callable[[Batch, int], dict[str, Array]],
    asked: Mapping[str, Instances],
    subsamples: tuple[Subsample, ...],
    draws: int,
) -> dict[str, np.ndarray]:
    """The answers to all that is asked for, draws along a leading axis, batch by batch.

    What differs from batch to batch, but has no plate that says whose it is, is left out.
    """
    whole: dict[str, np.ndarray] = {}
    stray: set[str] = set()
    for part, batch in enumerate(sweep(subsamples) if asked else ()):
        found = question(batch, part)
        for name, each in asked.items():
            values = np.asarray(found[name])
            if name not in whole:
                whole[name] = np.zeros((draws, *each.shape), values.dtype)
            elif not set(batch).intersection(each.dims):
                stray |= set() if np.array_equal(whole[name], values, equal_nan=True) else {name}
            Rows.of(each, batch, leading=1).fill(whole[name], values)
    return {name: values for name, values in whole.items() if name not in stray}
