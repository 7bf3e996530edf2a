"""What XLA is told about the loops it writes."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint

from stakes._types import Array


def once(x: Array) -> Array:
    """The same, computed once and laid out in the order of its axes.

    On CPU, XLA recomputes an expression in every loop that uses it, which takes five times as long
    where that is a product with five covariates; and it carries a transposition through all that
    follows, where every loop then jumps about in memory.
    """
    if jax.default_backend() != "cpu" or not jnp.issubdtype(jnp.result_type(x), jnp.floating):
        return x
    constrained: Any = with_layout_constraint
    told: Array = constrained(jnp.asarray(x), Layout(tuple(range(jnp.ndim(x)))))
    return told
