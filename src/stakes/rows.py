"""The rows of an array that belong to the members in a minibatch."""

from collections.abc import Mapping
from typing import Any, final

import jax
import jax.numpy as jnp

from stakes.approximation import Approximation, Instances, Subsample
from stakes.typing import Array, Batch, Params


@final
class Rows:
    """Where a batch's members sit in an array with one axis per subsampled plate.

    An opaque leaf to JAX's tree functions, so that a tree of arrays and a tree of their rows
    map together.
    """

    def __init__(self, axes: Mapping[str, int], batch: Batch) -> None:
        self._members = {axis: batch[plate] for plate, axis in axes.items() if plate in batch}

    def gather(self, whole: Array) -> Array:
        return whole[self._index(whole)] if self._members else whole

    def scatter(self, whole: Array, part: Array) -> Array:
        return whole.at[self._index(whole)].set(part) if self._members else part

    def _index(self, whole: Array) -> Any:
        if len(self._members) == 1:
            [(axis, members)] = self._members.items()
            return (slice(None),) * axis + (members,)
        sizes = enumerate(whole.shape)
        return jnp.ix_(*(self._members.get(axis, jnp.arange(size)) for axis, size in sizes))


def gather(tree: Any, rows: Any) -> Any:
    return jax.tree.map(lambda whole, at: at.gather(whole), tree, rows)


def scatter(tree: Any, parts: Any, rows: Any) -> Any:
    return jax.tree.map(lambda whole, part, at: at.scatter(whole, part), tree, parts, rows)


def of_params(approximation: Approximation, params: Params, batch: Batch) -> dict[str, Any]:
    """A parameter may itself be a tree, such as the weights of a flow."""
    rows = {name: Rows(approximation.plates_of(name), batch) for name in params}
    return {name: jax.tree.map(lambda _, at=rows[name]: at, params[name]) for name in params}


def of_decisions(instances: Instances, subsamples: tuple[Subsample, ...], batch: Batch) -> Rows:
    plates = [part.plate for part in subsamples]
    axes = {plate: instances.dims.index(plate) for plate in plates if plate in instances.dims}
    return Rows(axes, batch)


def params_in(approximation: Approximation, params: Params, batch: Batch) -> Params:
    """The parameters with just the rows of the members in the batch."""
    return gather(params, of_params(approximation, params, batch))
