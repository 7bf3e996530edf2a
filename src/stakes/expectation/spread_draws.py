"""Draws of the outcome that are more even than chance: for vectors, which nothing else serves."""

from functools import lru_cache, singledispatch

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import ndtri

from stakes._types import Array, Distribution, Float, Key

LONGEST = 64
"""Longer vectors than this are drawn as usual: there are too few draws to spread them evenly."""


@singledispatch
def draws_of(outcome: Distribution, key: Key | None, count: int) -> Array:
    """Reparameterised draws, along a leading axis."""
    return outcome.rsample(key, (count,))


@draws_of.register
def _(outcome: dist.MultivariateNormal, key: Key, count: int) -> Array:
    if outcome.event_shape[0] > LONGEST:
        return outcome.rsample(key, (count,))
    even = normal_points(key, count, outcome.shape())
    return outcome.loc + jnp.squeeze(outcome.scale_tril @ even[..., None], axis=-1)


@draws_of.register
def _(outcome: dist.Independent, key: Key, count: int) -> Array:
    base, shape = outcome.base_dist, outcome.shape()
    plain = isinstance(base, dist.Normal) and outcome.event_dim == 1 and shape[-1] <= LONGEST
    if not plain:
        return outcome.rsample(key, (count,))
    return base.loc + base.scale * normal_points(key, count, shape)


def normal_points(key: Key, count: int, shape: tuple[int, ...]) -> Float[Array, "draw *shape"]:
    """Standard normals, even in all numbers along the last axis together.

    Sobol' points, moved by a random shift for each vector, so that averages are unbiased.
    """
    points = jnp.asarray(_sobol(count, shape[-1]), jnp.result_type(float))
    points = points.reshape(count, *(1 for _ in shape[:-1]), shape[-1])
    moved = (points + jax.random.uniform(key, shape)) % 1.0
    edge = float(np.finfo(moved.dtype).eps)
    return ndtri(jnp.clip(moved, edge, 1 - edge))


@lru_cache(maxsize=32)
def _sobol(count: int, numbers: int) -> np.ndarray:
    from scipy.stats import qmc  # takes as long to import as JAX

    doublings = max(count - 1, 1).bit_length()
    found: np.ndarray = qmc.Sobol(numbers, scramble=False).random_base2(doublings)[:count]
    return found
