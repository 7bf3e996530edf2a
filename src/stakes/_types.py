"""The few types that every layer shares.

Axes of arrays are named in signatures, by jaxtyping: `Float[Array, "draw *instance"]` has draws
along its first axis and an axis for each plate of the outcome after it. These names are for readers
and type checkers. While the program runs they stand for `jax.Array`, and jaxtyping is not imported:
that takes a while, and nothing looks at them.

An *instance* is a case as arrays have it: one element of the outcome.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import jax
from numpyro.distributions import Distribution as Distribution

if TYPE_CHECKING or "STAKES_CHECK_SHAPES" in os.environ:
    from jaxtyping import Bool as Bool
    from jaxtyping import Float as Float
    from jaxtyping import PyTree as PyTree
else:  # nothing else looks at them while it runs, and importing them takes a while

    class Float:
        def __class_getitem__(cls, axes: Any) -> Any:
            return jax.Array

    Bool, PyTree = Float, Any

Array: TypeAlias = jax.Array
Key: TypeAlias = jax.Array
Number: TypeAlias = float | Array
"""One number, which may be traced."""
PerInstance: TypeAlias = Float[Array, "*instance"]
"""A number for each instance, along an axis for each plate of the outcome."""
Model: TypeAlias = Callable[..., Any]
"""A NumPyro model or guide."""
Params: TypeAlias = dict[str, Any]
"""Unconstrained variational parameters by name: arrays, or trees of them."""
Batch: TypeAlias = Mapping[str, Any]
"""Plate name -> the members in this minibatch; plates that are not subsampled are left out."""
Data: TypeAlias = Mapping[str, Any]
"""Model argument -> value; the argument named like the outcome carries the observations."""


class TableLike(Protocol):
    """A table with named columns, of pandas, Polars, PyArrow or the like."""

    @property
    def columns(self) -> Any:
        """The columns or their names."""
