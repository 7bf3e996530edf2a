"""Draws of the latents as the model has them before it has seen any outcome."""

import jax
import numpy as np

from stakes._types import Array, Key
from stakes.bridge.approximation import NumPyroApproximation


def prior_draws(approximation: NumPyroApproximation, key: Key, draws: int) -> dict[str, np.ndarray]:
    """Latent -> draws along a leading axis; latents of members in minibatches are left out."""
    trace, latents = approximation.trace, approximation.latents

    def one(key: Key, arrays: dict[str, Array]) -> dict[str, Array]:
        sites = trace.run(arrays, {}, key, {})
        return {name: sites[name]["value"] for name in latents}

    found = jax.jit(jax.vmap(one, (0, None)))(jax.random.split(key, draws), approximation.arrays)
    return {
        name: np.asarray(values)
        for name, values in found.items()
        if values.shape[1:] == tuple(latents[name].shape)
    }
