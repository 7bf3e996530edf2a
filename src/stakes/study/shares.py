"""Rows of a checkpoint in shares: a file for each process, and in the checkpoint which they are.

A checkpoint that names shares is written once all of them are on disk, and those that it names are
never changed: a file has the number of steps in its name, and after so many steps always the same
rows. So a checkpoint is complete, or it is the one before.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

from stakes._types import PyTree
from stakes.errors import StorageError
from stakes.host import files
from stakes.host.trees import load_arrays, save_arrays, save_tree
from stakes.processes import NOWHERE, Processes, axis_of, own_part

# In the checkpoint: the checksums of the shares, and for each array in them the axis of rows.
SEALS, AXIS = "shares", "axis of "
# Of a checksum; None where a process could not write its share.
DIGITS = 64

Arrays = Mapping[str, np.ndarray]


def kept(checkpoint: Path, title: str, tree: PyTree, on: Processes) -> dict[str, np.ndarray]:
    """Write the rows that this process has, and return what the checkpoint has of a fit.

    Every process has to call it, and goes on once the rows of all are on disk.
    """
    arrays = save_tree(jax.tree.map(own_part, tree))
    axes = {n: int(a) for n, a in save_tree(jax.tree.map(axis_of, tree)).items() if a != NOWHERE}
    path, failure, seal = _path(checkpoint, title, arrays, on.index, on.count), None, ""
    try:
        seal = save_arrays(path, {name: arrays[name] for name in axes})
    except StorageError as error:  # not before the others know, who would wait for this process
        failure = error
    told = on.gather(np.frombuffer(seal.ljust(DIGITS).encode(), np.uint8))
    seals = [bytes(each).decode().rstrip() for each in told]
    if failure is not None:
        raise failure
    if not all(seals):
        raise StorageError(f"Process {seals.index('')} could not save its share of the rows.")
    rest = {name: array for name, array in arrays.items() if name not in axes}
    along = {f"{AXIS}{name}": np.asarray(axis) for name, axis in axes.items()}
    return {**rest, **along, SEALS: np.asarray(seals)}


def joined(checkpoint: Path, title: str, arrays: Arrays, like: Arrays) -> Arrays:
    """Return all arrays of a fit, with the rows of all shares, where the checkpoint names any.

    Args:
        like: arrays by the same names, with as many rows as there are.
    """
    if SEALS not in arrays:
        return arrays
    axes = {n.removeprefix(AXIS): int(a) for n, a in arrays.items() if n.startswith(AXIS)}
    rest = {n: a for n, a in arrays.items() if n != SEALS and not n.startswith(AXIS)}
    paths = _paths(checkpoint, title, arrays)
    parts = [load_arrays(p, str(s)) for p, s in zip(paths, arrays[SEALS], strict=True)]
    for path, part in zip(paths, parts, strict=True):
        if part.keys() != axes.keys() or not axes.keys() <= like.keys():
            raise StorageError(f"{path} does not hold the arrays that {checkpoint.name} says.")
    return rest | {n: _all_rows([p[n] for p in parts], axes[n], like[n]) for n in axes}


def _all_rows(parts: Sequence[np.ndarray], axis: int, like: np.ndarray) -> np.ndarray:
    """The rows of all shares, which are filled up to the same length."""
    starts = np.arange(len(parts) + 1) * like.shape[axis] // len(parts)
    own = [np.take(part, range(n), axis) for part, n in zip(parts, np.diff(starts), strict=True)]
    return np.concatenate(own, axis)


def remove_others(checkpoint: Path, histories: Mapping[str, Arrays]) -> None:
    """Remove the shares that the checkpoint does not name, as it has them on disk now."""
    named = {p for title, arrays in histories.items() for p in _paths(checkpoint, title, arrays)}
    for path in checkpoint.parent.glob(f"{checkpoint.stem}.*-of-*{checkpoint.suffix}"):
        if path not in named:
            with files.explained("remove", path):
                path.unlink(missing_ok=True)


def _path(checkpoint: Path, title: str, arrays: Arrays, index: int, count: int) -> Path:
    """Of the share of one process, after so many steps of a fit."""
    steps = len(arrays["elbo"])
    name = f"{checkpoint.stem}.{title}-{steps}.{index}-of-{count}{checkpoint.suffix}"
    return checkpoint.with_name(name)


def _paths(checkpoint: Path, title: str, arrays: Arrays) -> list[Path]:
    if SEALS not in arrays:
        return []
    count = len(arrays[SEALS])
    return [_path(checkpoint, title, arrays, index, count) for index in range(count)]
