"""Standard normal noise for the draws of θ in one step: in pairs, and evenly spread.

Each draw by itself is what it would be alone, so every mean over draws is unbiased; together they
are less noisy than independent ones. Pairs ±ε take out what is linear in the noise: where the
posterior is nearly normal, that is most of the noise of a location's gradient. Distances from zero
are spread evenly over the distribution, for each variable in an order of its own, which takes out
most of what each variable adds by itself.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Float, Key, Params
from stakes.port import NormalPair


def noise_for(normals: tuple[NormalPair, ...], params: Params, key: Key, draws: int) -> Params:
    """Return noise for the locations of normals, by name, with a row for each draw.

    It is drawn by one call, since each call costs time.
    """
    shapes = {pair.loc: params[pair.loc].shape for pair in normals}
    if not shapes:
        return {}
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    parts = jnp.split(spread(key, draws, int(ends[-1])), ends[:-1], axis=1)
    named = zip(shapes.items(), parts, strict=True)
    return {name: part.reshape(draws, *shape) for (name, shape), part in named}


def spread(key: Key, draws: int, count: int) -> Float[Array, "draw count"]:
    """Return noise for so many variables.

    Half of the draws are taken from strata of |ε| with equal probability, in an order of its own
    for each variable, and the other half are their mirror images.
    """
    pairs = (draws + 1) // 2
    bits = jax.random.bits(key, (1 + pairs, count), np.uint32)
    # Strata in an order of its own for each variable: a start, and a step to go round by.
    steps = jnp.array([i for i in range(1, pairs + 1) if math.gcd(i, pairs) == 1], np.uint32)
    order = bits[0] % (len(steps) * pairs)
    number = jnp.arange(pairs, dtype=np.uint32)[:, None]
    stratum = (order + number * steps[order // pairs]) % pairs
    sign, within = 1.0 - 2.0 * (bits[1:] & 1), (bits[1:] >> 1) * 0.5**31
    share = (stratum + within) / pairs
    share = jnp.minimum(share, np.nextafter(1, 0, dtype=share.dtype))
    one = sign * np.sqrt(2) * jax.lax.erf_inv(share)
    return jnp.concatenate([one, -one])[:draws]
