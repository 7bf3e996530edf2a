"""Rows of a stream: what a fit has for each of them on disk, and what processes tell each other.

A chunk of steps takes the rows of its minibatches into memory, and puts them back when it ends.
Processes that share the rows have to ask together.
"""

from collections.abc import Callable
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Params, PyTree
from stakes.fitting import State
from stakes.processes import NOWHERE, Processes, own_part
from stakes.tables import OnDisk, Scratch, release_pages

# Rows that are in memory while one array on disk is copied to another.
COPIED = 2**18


@final
class KeptRows:
    """Arrays on disk for all rows, in place of those that a state has for a few of them.

    Args:
        folder: where the arrays are.
        name: of the fit.
        axes: for each array of a state, the axis of its rows.
        start: where the fit begins, with some rows; all others begin as these do.
        rows: how many there are.
        places: of the rows of a chunk, by its first step.
        before: a fit whose parameters this one begins with.
    """

    def __init__(
        self,
        folder: Scratch,
        name: str,
        axes: State,
        start: State,
        rows: int,
        places: Callable[[int], np.ndarray],
        before: "KeptRows | None" = None,
    ) -> None:
        assert set(start.variables) == {"params"}
        self._axes, self._find = jax.tree.leaves(axes), places
        self._last: tuple[int, np.ndarray] | None = None
        self._arrays: dict[int, OnDisk] = {}
        begun = {} if before is None else before._arrays
        of_params = len(jax.tree.leaves(start.variables["params"]))
        for i, (leaf, axis) in enumerate(zip(jax.tree.leaves(start), self._axes, strict=True)):
            if axis == NOWHERE:
                continue
            first = np.moveaxis(np.asarray(leaf), axis, 0)
            made = folder.array(f"{name} {i}", first.dtype, (rows, *first.shape[1:]))
            # Parameters come first in a state, and the optimiser's memory of them after.
            _fill(made, begun[i] if i < of_params and i in begun else first)
            self._arrays[i] = made

    def bring(self, state: State, start: int) -> State:
        """Return the state with the rows of the chunk that begins with this step."""
        places = self._places(start)
        brought: State = self._replaced(state, lambda i: self._read(i, places))
        return brought

    def put(self, state: State, start: int) -> None:
        """Put the rows of a state back on disk."""
        places, leaves = self._places(start), jax.tree.leaves(state)
        for i, array in self._arrays.items():
            rows = np.moveaxis(np.asarray(own_part(leaves[i])), self._axes[i], 0)
            # A row that comes twice has been stepped with where it comes first: that is set last.
            array[places[::-1]] = rows[::-1]
            release_pages(array)

    def others(self, variables: PyTree) -> list[Array]:
        """Return the arrays of a state that have no rows."""
        leaves = jax.tree.leaves(variables)
        return [leaf for i, leaf in enumerate(leaves) if i not in self._arrays]

    def _places(self, start: int) -> np.ndarray:
        """Return the places of the rows of a chunk; asked for twice in a row."""
        if self._last is None or self._last[0] != start:
            self._last = (start, self._find(start))
        return self._last[1]

    def params(self, params: Params, places: np.ndarray) -> Params:
        """Return parameters with the rows at these places."""
        found: Params = self._replaced(params, lambda i: self._read(i, places))
        return found

    def _read(self, i: int, places: np.ndarray) -> Array:
        """Return the rows of an array at some places."""
        rows = self._arrays[i][places]
        release_pages(self._arrays[i])
        return jnp.array(np.moveaxis(np.asarray(rows), 0, self._axes[i]))

    def _replaced(self, tree: PyTree, read: Callable[[int], Array]) -> Any:
        """Return a tree, its rows replaced by those that `read` returns."""
        leaves, shape = jax.tree.flatten(tree)
        both = [read(i) if i in self._arrays else leaf for i, leaf in enumerate(leaves)]
        return jax.tree.unflatten(shape, both)


def _fill(made: OnDisk, given: np.ndarray) -> None:
    """With given rows, over and over; zeros are there already."""
    if len(given) < len(made) and not given.any():
        return
    for start in range(0, len(made), COPIED):
        part = made[start : start + COPIED]
        part[:] = given[np.arange(start, start + len(part)) % len(given)]
        release_pages(made)
        if isinstance(given, np.memmap):
            release_pages(given)


def of_all(own: np.ndarray, on: Processes | None) -> np.ndarray:
    """The records of every process, one after the other."""
    if on is None:
        return own
    counts = on.gather(np.int32(len(own)))
    filled = np.zeros(counts.max(), own.dtype)
    filled[: len(own)] = own
    told = on.gather(filled.view(np.uint8))
    parts = [each.view(own.dtype)[:count] for each, count in zip(told, counts, strict=True)]
    return np.concatenate(parts)


def joined_rows(params: Params, axes: PyTree, on: Processes) -> Params:
    """Parameters with the rows of all processes."""

    def one(leaf: Array, axis: int) -> Array:
        if axis == NOWHERE:
            return leaf
        return jnp.concatenate([jnp.asarray(own) for own in on.gather(leaf)], axis=axis)

    found: Params = jax.tree.map(one, params, axes)
    return found
