"""What processes that share the rows of a stream tell each other; each of them has to ask."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Params
from stakes.errors import InputError, NumericalError, StorageError
from stakes.fitting import NOWHERE
from stakes.processes import Processes

T = TypeVar("T")


def agreed(on: Processes | None, work: Callable[[], T], said: str) -> T:
    """What it returns; where it fails in one process, all end: they would wait for it forever."""
    if on is None:
        return work()
    failure, made = None, []
    try:
        made.append(work())
    except (InputError, StorageError, NumericalError) as error:
        failure = error
    faults = on.gather(failure is not None)
    if failure is not None:
        raise failure
    if faults.any():
        raise InputError(f"`Stream(...)`: process {int(np.flatnonzero(faults)[0])} {said}.")
    return made[0]


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


def joined_rows(params: Params, axes: Any, on: Processes) -> Params:
    """Parameters with the rows of all processes."""

    def one(leaf: Array, axis: int) -> Array:
        if axis == NOWHERE:
            return leaf
        return jnp.concatenate([jnp.asarray(own) for own in on.gather(leaf)], axis=axis)

    found: Params = jax.tree.map(one, params, axes)
    return found
