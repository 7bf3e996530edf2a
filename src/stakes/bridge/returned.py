"""What a function that JAX traces may return: arrays, and anything that is known already.

`jax.jit` turns every number that it returns into an array, and drops the identity of objects. Here
arrays pass through JAX as leaves, and all else beside it, as static data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import jax

from stakes._types import Array, PyTree
from stakes.checks import is_traced

# Stands for an array among what is known.
ARRAY = object()


@final
@dataclass(frozen=True, eq=False)
class Rest:
    """All of a value but its arrays; compared by identity."""

    tree: Any
    leaves: tuple[Any, ...]


@final
@partial(jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["rest"])
@dataclass(frozen=True, eq=False)
class Returned:
    """A value whose arrays, where JAX traces them, are leaves; all else stays as it is.

    So a number of trials that is known stays known, and a support is still the one that NumPyro
    knows by its identity.
    """

    rest: Rest
    arrays: Sequence[Array]

    @classmethod
    def of(cls, value: PyTree) -> "Returned":
        """Take a value apart: arrays that JAX traces, and the rest."""
        leaves, tree = jax.tree.flatten(value, is_leaf=_is_known)
        arrays = [leaf for leaf in leaves if is_traced(leaf)]
        return cls(Rest(tree, tuple(ARRAY if is_traced(leaf) else leaf for leaf in leaves)), arrays)

    @property
    def value(self) -> PyTree:
        """The value, with its arrays in place again."""
        arrays = iter(self.arrays)
        leaves = [next(arrays) if leaf is ARRAY else leaf for leaf in self.rest.leaves]
        return jax.tree.unflatten(self.rest.tree, leaves)


def _is_known(value: object) -> bool:
    return not any(map(is_traced, jax.tree.leaves(value)))
