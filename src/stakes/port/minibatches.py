"""Minibatches: the members of subsampled plates that a step sees, and the places of their rows.

A parameter or a decision with one row for each member of a plate is gathered for a step, updated,
and scattered back, so that the cost of a step does not grow with the number of rows.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, Protocol, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch, Float, Key, Params, PyTree
from stakes.port.approximation import Approximation, Instances, Subsample
from stakes.port.division import Division
from stakes.varying import Need


@final
class Batches:
    """Which members of each subsampled plate each step sees: by epoch, without replacement.

    They are a pure function of the key and the step, so a fit can be resumed at any step.

    Args:
        key: of the order.
        subsamples: the plates, with their sizes and those of their batches.
        start: the first member, where the plates are shares of larger ones.
        share: the number of the share; each has an order of its own.

    Examples:
        >>> import jax
        >>> from stakes.port import Subsample
        >>> batches = Batches(jax.random.key(0), (Subsample("row", 4, 2),)).take(0, 2)
        >>> sorted(batches["row"].ravel().tolist())
        [0, 1, 2, 3]
    """

    def __init__(
        self,
        key: Key,
        subsamples: tuple[Subsample, ...],
        *,
        start: int = 0,
        share: int | None = None,
    ) -> None:
        self._seed = [int(word) for word in np.asarray(jax.random.key_data(key)).ravel()]
        self._subsamples, self._start = subsamples, start
        self._of_share = () if share is None else (share,)
        self._orders: dict[tuple[str, int], np.ndarray] = {}

    def take(self, start: int, count: int) -> dict[str, np.ndarray]:
        """Plate -> (step, member) for `count` steps from `start`."""
        return {
            part.plate: np.stack([self._batch(i, part, t) for t in range(start, start + count)])
            for i, part in enumerate(self._subsamples)
        }

    def _batch(self, index: int, part: Subsample, step: int) -> np.ndarray:
        """The members of one plate in one step."""
        per_epoch = -(-part.size // part.batch_size)
        epoch, position = divmod(step, per_epoch)
        order = self._order(index, part, epoch)
        return order[position * part.batch_size : (position + 1) * part.batch_size]

    def _order(self, index: int, part: Subsample, epoch: int) -> np.ndarray:
        """The members of one plate in the order of one epoch."""
        if (part.plate, epoch) not in self._orders:
            self._orders = {k: v for k, v in self._orders.items() if k[0] != part.plate}
            rng = np.random.Generator(
                np.random.Philox(seed=[*self._seed, index, epoch, *self._of_share])
            )
            order = (self._start + rng.permutation(part.size)).astype(np.int32)
            # The last batch is filled up with members it does not hold yet.
            self._orders[part.plate, epoch] = np.concatenate(
                [order, order[: -part.size % part.batch_size]]
            )
        return self._orders[part.plate, epoch]


def sweep(subsamples: tuple[Subsample, ...]) -> Iterator[dict[str, np.ndarray]]:
    """Batches that cover every member of every subsampled plate; the last ones wrap around."""
    parts = [
        [
            np.arange(i, i + part.batch_size) % part.size
            for i in range(0, part.size, part.batch_size)
        ]
        for part in subsamples
    ]
    for members in product(*parts):
        yield {part.plate: m for part, m in zip(subsamples, members, strict=True)}


def count_in(instances: Instances, batch: Batch) -> int:
    """How many of these instances the members of a batch have."""
    sizes = zip(instances.dims, instances.shape, strict=True)
    return math.prod(len(batch[dim]) if dim in batch else size for dim, size in sizes)


@final
class RowIndex:
    """Where a batch's members sit in an array with one axis per subsampled plate.

    An opaque leaf to JAX's tree functions, so that a tree of arrays and a tree of their rows
    can be mapped together.
    """

    def __init__(
        self, axes: Mapping[str, int], batch: Batch, division: Division | None = None
    ) -> None:
        self._members = {axis: batch[plate] for plate, axis in axes.items() if plate in batch}
        self._division = division

    @classmethod
    def of(
        cls,
        instances: Instances,
        batch: Batch,
        *,
        leading: int = 0,
        division: Division | None = None,
    ) -> "RowIndex":
        """In an array with the axes of these instances, after `leading` other axes."""
        dims = instances.dims
        axes = {p: leading + dims.index(p) for p in batch if p in dims}
        return cls(axes, batch, division)

    def __bool__(self) -> bool:
        """Whether the array has rows at all."""
        return bool(self._members)

    def gather(self, whole: Array) -> Array:
        """The rows of the members; the whole, if it has no rows."""
        if self._division is not None and self._members:
            [(axis, members)] = self._members.items()
            return self._division.gather(whole, axis, members)
        return whole[self._index(whole.shape)] if self._members else whole

    def scatter(self, whole: Array, part: Array) -> Array:
        """The whole with other values in these rows."""
        if self._division is not None and self._members:
            [(axis, members)] = self._members.items()
            return self._division.scatter(whole, axis, members, part)
        return whole.at[self._index(whole.shape)].set(part) if self._members else part

    def fill(self, whole: np.ndarray, part: np.ndarray) -> None:
        """Like `scatter`, but in place, for an array on the host."""
        whole[self._index(whole.shape) if self._members else ...] = part

    def _index(self, shape: tuple[int, ...]) -> Any:
        """The index of the rows, along all axes that have some."""
        if len(self._members) == 1:
            [(axis, members)] = self._members.items()
            return (slice(None),) * axis + (members,)
        return jnp.ix_(*(self._members.get(axis, jnp.arange(n)) for axis, n in enumerate(shape)))


class HasColumns(Protocol):
    """A model on some cases, with what their loss asks for."""

    @property
    def instances(self) -> Instances: ...

    def columns(self, needs: tuple[Need, ...]) -> dict[Need, Array]: ...


def gather(tree: PyTree, rows: PyTree) -> PyTree:
    """The rows of each array of a tree."""
    return jax.tree.map(lambda whole, at: at.gather(whole), tree, rows)


def scatter(tree: PyTree, parts: PyTree, rows: PyTree) -> PyTree:
    """A tree with other values in the rows of its arrays."""
    return jax.tree.map(lambda whole, part, at: at.scatter(whole, part), tree, parts, rows)


def rows_of_params(approximation: Approximation, params: Params, batch: Batch) -> dict[str, PyTree]:
    """The rows of each parameter, which may itself be a tree, such as the weights of a flow."""
    plates, division = approximation.plates_of, approximation.division
    rows = {name: RowIndex(plates(name), batch, division) for name in params}
    return {name: jax.tree.map(lambda _, at=rows[name]: at, params[name]) for name in params}


def rows_of_decisions(approximation: Approximation, batch: Batch, *, leading: int = 0) -> RowIndex:
    """The rows of decisions, which have `leading` axes before those of the instances."""
    division = approximation.division
    return RowIndex.of(approximation.instances, batch, leading=leading, division=division)


def params_in(approximation: Approximation, params: Params, batch: Batch) -> Params:
    """The parameters with just the rows of the members in the batch."""
    rows: Params = gather(params, rows_of_params(approximation, params, batch))
    return rows


def columns_in(
    source: HasColumns, needs: tuple[Need, ...], batch: Batch
) -> dict[Need, Float[Array, "*instance"]]:
    """What the loss or the limits of decisions ask for, of the members in the batch."""
    if not needs:
        return {}
    at = RowIndex.of(source.instances, batch)
    return {need: at.gather(whole) for need, whole in source.columns(needs).items()}


def over_batches(
    question: Callable[[Batch], Array],
    instances: Instances,
    subsamples: tuple[Subsample, ...],
    *,
    leading: tuple[int, ...] = (),
    asked: np.ndarray | None = None,
) -> np.ndarray:
    """The answers for all instances, computed batch by batch.

    Batches without an instance that is asked about are left out, and have zeros.
    """
    whole: np.ndarray | None = None
    wanted = None if asked is None else jnp.asarray(asked)
    for batch in sweep(subsamples):
        if wanted is not None and not RowIndex.of(instances, batch).gather(wanted).any():
            continue
        values = np.asarray(question(batch))
        if whole is None:
            # Outcomes that are vectors have further axes.
            further = values.shape[len(leading) + len(instances.shape) :]
            whole = np.zeros(leading + instances.shape + further, values.dtype)
        RowIndex.of(instances, batch, leading=len(leading)).fill(whole, values)
    assert whole is not None
    return whole
