"""Rows divided among processes: who has which, and how what they find becomes one step.

Each process takes its part of the minibatch, from its own rows, and finds the bound of a step that
had only that part. What all together would find is the mean of these: in each of them, what belongs
to no row counts in full, and rows as many times more as there are processes.
"""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from stakes._types import Array, Batch, PyTree
from stakes.port.approximation import Approximation, Subsample
from stakes.processes import mean_of_all, own_index


@final
@dataclass(frozen=True)
class Division:
    """The members of a subsampled plate in shares that differ by one member at most."""

    part: Subsample
    count: int

    @property
    def plate(self) -> str:
        return self.part.plate

    @property
    def starts(self) -> np.ndarray:
        """The first member of each share, and where the last one ends."""
        return np.arange(self.count + 1) * self.part.size // self.count

    @property
    def most(self) -> int:
        """The members of the largest share: in each process, arrays have so many rows."""
        return -(-self.part.size // self.count)

    @property
    def is_even(self) -> bool:
        return self.part.size % self.count == 0

    def share(self, index: int) -> Subsample:
        """The share of one process as a plate of its own; members count from zero."""
        start, end = self.starts[index : index + 2]
        return Subsample(self.plate, int(end - start), self.part.batch_size // self.count)

    def start(self) -> Array:
        """The first member of the share of the process that asks, inside a program."""
        return jnp.asarray(self.starts[:-1], jnp.int32)[own_index()]

    def has(self, members: Array | np.ndarray) -> Array:
        """Which of these members are in the share of the process that asks."""
        start, end = self.start(), jnp.asarray(self.starts[1:], jnp.int32)[own_index()]
        return (jnp.asarray(members) >= start) & (jnp.asarray(members) < end)

    @property
    def weights(self) -> np.ndarray:
        """What a row of each share stands for, beside one of a share of mean size.

        Minibatches have as many rows of a small share as of a large one. So each of its rows comes
        more often, and counts for less when it does.
        """
        return np.diff(self.starts) * (self.count / self.part.size)

    def weight(self) -> Array | float:
        """That of the rows of the process that asks, inside a program."""
        return 1.0 if self.is_even else jnp.asarray(self.weights)[own_index()]

    def cut(self, whole: ArrayLike, axis: int, index: int) -> np.ndarray:
        """The rows of one process; the smaller shares are filled up."""
        start, end = self.starts[index : index + 2]
        own = np.asarray(whole)[(slice(None),) * axis + (slice(start, end),)]
        spare = [(0, self.most - (end - start) if i == axis else 0) for i in range(own.ndim)]
        return np.pad(own, spare, mode="edge")

    def joined(self, shares: np.ndarray, axis: int) -> np.ndarray:
        """All rows, from those of each process along a first axis."""
        sizes = np.diff(self.starts)
        parts = [np.moveaxis(s, axis, 0)[:n] for s, n in zip(shares, sizes, strict=True)]
        return np.moveaxis(np.concatenate(parts), 0, axis)

    def mean(self, values: PyTree) -> PyTree:
        """Over all processes, by one message of each: those of a step are small, and many wait."""
        leaves, tree = jax.tree.flatten(values)
        if not leaves:
            return values
        sizes = np.cumsum([leaf.size for leaf in leaves])[:-1]
        message = jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])
        parts = jnp.split(mean_of_all(message), sizes)
        both = zip(parts, leaves, strict=True)
        found = [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in both]
        return jax.tree.unflatten(tree, found)


def placed(approximation: Approximation, batch: Batch) -> Batch:
    """Where the rows of the batch's members are in the variables of a fit."""
    division = approximation.division
    if division is None:
        return batch
    return {p: m - division.start() if p == division.plate else m for p, m in batch.items()}
