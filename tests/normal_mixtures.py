"""Mixtures of normals, stacked over draws of θ, and what is decided about them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from quick import QUICKLY

from stakes.decisions import DecisionTask, best_decision, numerical_decision
from stakes.expectation import choose
from stakes.losses import AnyLoss
from stakes.spaces import Vector
from stakes.utilities import ScaledLoss

KEY = jax.random.key(0)
DRAWS = 64
SPREAD = 2.0
LIKE = jnp.zeros(3)
LOCS = np.array([[0.3, 4.2, -2.0], [1.4, 7.9, -1.0]])
SCALES = np.array([[0.8], [2.0]]) * np.ones(3)

decide = jax.jit(
    numerical_decision, static_argnames=("task", "expectation"), compiler_options=QUICKLY
)


def normals(centre=(0.0, 5.0, -100.0), between: float = 1.0, within: float = SPREAD):
    """Draws of θ along a leading axis: Normal outcomes about centres that differ a little."""
    theta = jnp.linspace(-between, between, DRAWS)[:, None]
    return jax.vmap(dist.Normal)(jnp.array(centre) + theta, jnp.full((DRAWS, 3), within))


def best_parts(loss: Any, space: Vector) -> np.ndarray:
    """The best decision in several parts, for two draws of θ with the `LOCS` and `SCALES`."""
    outcomes = jax.vmap(dist.Normal)(jnp.asarray(LOCS), jnp.asarray(SCALES))
    one = jax.tree.map(lambda leaf: leaf[0], outcomes)
    parts = space.unpack(jnp.zeros((len(space), 3)))
    expectation = choose(one, ScaledLoss(loss, 1.0), parts).size_for([outcomes])
    decide = jax.jit(best_decision, static_argnums=(0, 1))
    task = DecisionTask(AnyLoss(loss), space)
    return np.asarray(decide(task, expectation, KEY, outcomes, LIKE), float)
