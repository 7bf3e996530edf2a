"""Rows of a checkpoint in shares: a file for each process, and in the checkpoint which they are.

A checkpoint that names shares is written once all of them are on disk, and those that it names are
never changed: a file has the number of steps in its name, and after so many steps always the same
rows. So a checkpoint is complete, or it is the one before.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from stakes.errors import StorageError
from stakes.host import files
from stakes.host.trees import load_arrays, save_arrays

SEALS, AXIS = "shares", "axis of "
"""In the checkpoint: the checksums of the shares, and for each array in them the axis of rows."""


def path_of(checkpoint: Path, title: str, steps: int, index: int, count: int) -> Path:
    """Of the share of one process, after so many steps of a fit."""
    return checkpoint.with_name(
        f"{checkpoint.stem}.{title}-{steps}.{index}-of-{count}{checkpoint.suffix}"
    )


def save(path: Path, arrays: Mapping[str, np.ndarray], axes: Mapping[str, int]) -> str:
    """Write those arrays that have rows, and return the file's checksum."""
    return save_arrays(path, {name: arrays[name] for name in axes})


def named(
    arrays: Mapping[str, np.ndarray], axes: Mapping[str, int], seals: Sequence[str]
) -> dict[str, np.ndarray]:
    """What the checkpoint has of a fit: arrays without rows, and where the others are."""
    rest = {name: array for name, array in arrays.items() if name not in axes}
    along = {f"{AXIS}{name}": np.asarray(axis) for name, axis in axes.items()}
    return {**rest, **along, SEALS: np.asarray(seals)}


def joined(
    checkpoint: Path, title: str, arrays: Mapping[str, np.ndarray]
) -> Mapping[str, np.ndarray]:
    """All arrays of a fit, with the rows of all shares, where the checkpoint names any."""
    if SEALS not in arrays:
        return arrays
    axes = {n.removeprefix(AXIS): int(a) for n, a in arrays.items() if n.startswith(AXIS)}
    rest = {n: a for n, a in arrays.items() if n != SEALS and not n.startswith(AXIS)}
    paths = _paths(checkpoint, title, arrays)
    parts = [load_arrays(p, str(s)) for p, s in zip(paths, arrays[SEALS], strict=True)]
    for path, part in zip(paths, parts, strict=True):
        if part.keys() != axes.keys():
            raise StorageError(f"{path} does not hold the arrays that {checkpoint.name} says.")
    return rest | {n: np.concatenate([part[n] for part in parts], axis=axes[n]) for n in axes}


def remove_others(checkpoint: Path, histories: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """Remove the shares that the checkpoint does not name, as it has them on disk now."""
    kept = {p for title, arrays in histories.items() for p in _paths(checkpoint, title, arrays)}
    for path in checkpoint.parent.glob(f"{checkpoint.stem}.*-of-*{checkpoint.suffix}"):
        if path not in kept:
            with files.explained("remove", path):
                path.unlink(missing_ok=True)


def _paths(checkpoint: Path, title: str, arrays: Mapping[str, np.ndarray]) -> list[Path]:
    if SEALS not in arrays:
        return []
    steps, count = len(arrays["elbo"]), len(arrays[SEALS])
    return [path_of(checkpoint, title, steps, index, count) for index in range(count)]
