"""Random numbers of a part of an array: those that the part would have in the whole."""

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl, threefry2x32_p

from stakes._types import Array, Key

UINTS = {8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32, 64: jnp.uint64}


def key_of_part(key: Key, part: Array | int, count: int, axis: int) -> Key:
    """A key with which an array is drawn as one of `count` equal parts along an axis.

    JAX draws each number of an array by its place (`jax_threefry_partitionable`), so that a
    process can draw its rows without those of others. Where what is drawn has no such axis, as
    inside the rejection sampler of a gamma, each part still has draws of its own.

    Args:
        axis: counted from the last, so that it is negative.
    """
    config: Any = jax.config
    words = jax.random.key_data(key)
    if words.shape[-1:] != (2,) or not config.jax_threefry_partitionable:
        return jax.random.fold_in(key, part)
    known = jnp.concatenate([words, jnp.asarray(part, jnp.uint32)[None]])
    own: Key = jax.random.wrap_key_data(known, impl=_of_parts(count, axis))
    return own


@cache
def _of_parts(count: int, axis: int) -> Any:
    """Threefry whose keys know the number of a part beside their two words."""

    bind: Callable[..., tuple[Array, Array]] = threefry2x32_p.bind

    def plain(key: Array) -> Key:
        first: Key = jax.random.wrap_key_data(key[:2], impl="threefry2x32")
        return first

    def random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
        if len(shape) < -axis or prod(shape) * count >= 2**32:
            own = jax.random.fold_in(plain(key), key[2])
            return jax.random.bits(own, shape, UINTS[bit_width])
        at = len(shape) + axis
        place, stride = jnp.zeros(shape, jnp.uint32), 1
        for i in reversed(range(len(shape))):
            along = jax.lax.broadcasted_iota(jnp.uint32, shape, i)
            if i == at:
                along = along + key[2] * jnp.uint32(shape[i])
            place = place + along * jnp.uint32(stride)
            stride *= shape[i] * (count if i == at else 1)
        high, low = bind(key[0], key[1], jnp.zeros_like(place), place)
        if bit_width == 64:
            long: Array = (high.astype(jnp.uint64) << jnp.uint64(32)) | low.astype(jnp.uint64)
            return long
        return (high ^ low).astype(UINTS[bit_width])

    def beside(words: Array, key: Array) -> Array:
        part = jnp.broadcast_to(key[2], (*words.shape[:-1], 1))
        return jnp.concatenate([words, part], axis=-1)

    return define_prng_impl(
        key_shape=(3,),
        seed=lambda seed: jnp.zeros(3, jnp.uint32).at[1].set(seed.astype(jnp.uint32)),
        split=lambda key, shape: beside(
            jax.random.key_data(jax.random.split(plain(key), shape)), key
        ),
        random_bits=random_bits,
        fold_in=lambda key, data: beside(
            jax.random.key_data(jax.random.fold_in(plain(key), data)), key
        ),
        name=f"threefry2x32_part_of_{count}_along_{-axis}",
        tag=f"part{count}{axis}",
    )
