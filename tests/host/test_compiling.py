"""Telling XLA how to lay out an array changes no value and no slope."""

import jax
import jax.numpy as jnp
import numpy as np

from stakes.host.compiling import once

X, WEIGHTS = jnp.arange(12.0).reshape(3, 4), jnp.linspace(-1, 1, 4)


def test_values_and_slopes_stay_the_same():
    def total(around, x):
        return jax.vmap(lambda column: jnp.sum(around(column @ column) ** 2))(x.T) @ WEIGHTS

    plain, told = (
        jax.jit(jax.value_and_grad(lambda x, f=f: total(f, x))) for f in (lambda x: x, once)
    )
    for ours, theirs in zip(told(X), plain(X), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_it_is_computed_once():
    """Where several loops use it, one of its own computes it."""

    def twice(around, x):
        part = around(x * 3 + 1)
        return part.sum(axis=0), part.sum(axis=1), part.T

    text = jax.jit(lambda x: twice(once, x)).lower(jnp.ones((64, 64))).compile().as_text()
    plain = jax.jit(lambda x: twice(lambda x: x, x)).lower(jnp.ones((64, 64))).compile().as_text()
    assert text.count(" multiply(") == 1 < plain.count(" multiply(")


def test_keys_and_counts_pass_through():
    key, counts = jax.random.key(0), jnp.arange(3)
    assert once(key) is key
    assert once(counts) is counts
