"""Rows divided among processes: who has which, and where a step finds those of its minibatch.

Each process takes its part of the minibatch from its own rows, so that no row travels.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from stakes._types import Array, PyTree
from stakes.port.approximation import Subsample
from stakes.processes import AXIS, Processes, spread_along


@final
@dataclass(frozen=True)
class Division:
    """The members of a subsampled plate in shares, one for each process.

    Attributes:
        part: the plate.
        processes: that have the shares.
        stands_for: how many rows those of each process are a sample of; by default, they are all.
    """

    part: Subsample
    processes: Processes
    stands_for: tuple[int, ...] | None = None

    @property
    def starts(self) -> np.ndarray:
        """The first member of each share, and where the last one ends."""
        count = self.processes.count
        starts: np.ndarray = np.arange(count + 1) * self.part.size // count
        return starts

    @property
    def most(self) -> int:
        """The members of the largest share: in each process, arrays have so many rows."""
        return int(np.diff(self.starts).max())

    @property
    def own(self) -> Subsample:
        """The share of this process as a plate of its own; members count from zero."""
        start, end = self.starts[self.processes.index :][:2]
        each = self.part.batch_size // self.processes.count
        return Subsample(self.part.plate, int(end - start), each)

    @property
    def weights(self) -> np.ndarray | None:
        """What each row of a minibatch counts for; None where all count alike.

        Minibatches have as many rows of a small share as of a large one. So each of its rows comes
        more often, and counts for less when it does.
        """
        sizes = np.diff(self.starts) if self.stands_for is None else np.array(self.stands_for)
        if (sizes == sizes[0]).all():
            return None
        each = self.part.batch_size // self.processes.count
        weights: np.ndarray = np.repeat(sizes / sizes.mean(), each)
        return weights

    def cut(self, whole: ArrayLike, axis: int) -> np.ndarray:
        """The rows of this process; the smaller shares are filled up."""
        start, end = self.starts[self.processes.index :][:2]
        own = np.asarray(whole)[(slice(None),) * axis + (slice(start, end),)]
        spare = [(0, self.most - (end - start) if i == axis else 0) for i in range(own.ndim)]
        return np.pad(own, spare, mode="edge")

    def joined(self, shares: np.ndarray, axis: int) -> np.ndarray:
        """All rows, from those of each process along a first axis."""
        sizes = np.diff(self.starts)
        parts = [np.moveaxis(s, axis, 0)[:n] for s, n in zip(shares, sizes, strict=True)]
        return np.moveaxis(np.concatenate(parts), 0, axis)

    def everywhere(self, tree: PyTree) -> PyTree:
        """The arrays as a whole in every process."""
        constrain: Any = jax.lax.with_sharding_constraint
        return constrain(tree, self.processes.sharding())

    def gather(self, whole: Array, axis: int, members: Array) -> Array:
        """Some rows of an array, of which each process has its own."""

        def own(rows: Array, members: Array) -> Array:
            return rows[(slice(None),) * axis + (self._places(members),)]

        found: Array = self._in_each(own, axis, 1)(whole, members)
        return found

    def scatter(self, whole: Array, axis: int, members: Array, part: Array) -> Array:
        """The array with other values in these rows."""

        def own(rows: Array, members: Array, part: Array) -> Array:
            return rows.at[(slice(None),) * axis + (self._places(members),)].set(part)

        changed: Array = self._in_each(own, axis, 2)(whole, members, part)
        return changed

    def _places(self, members: Array) -> Array:
        return members - jnp.asarray(self.starts, jnp.int32)[jax.lax.axis_index(AXIS)]

    def _in_each(self, work: Any, axis: int, others: int) -> Any:
        rows = spread_along(axis)
        given = (rows, spread_along(0), rows)[: 1 + others]
        mapped: Any = partial(jax.shard_map, mesh=self.processes.mesh, check_vma=False)
        return mapped(work, in_specs=given, out_specs=rows)
