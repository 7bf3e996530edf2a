"""Trees of arrays as plain named arrays, and back, and the files in which these are kept.

A file is a plain NumPy archive, uncompressed, that carries its own checksum. The archive's comment,
its last bytes, holds the SHA-256 of everything before it: one rename replaces content and checksum
together, and no bit of the file can change unnoticed.
"""

import hashlib
import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from stakes.errors import StorageError, some
from stakes.host import files

T = TypeVar("T")
# The comment of an archive: these words, and the digits of its checksum.
SEAL = b"stakes sha256 "
DIGITS = 64


def save_tree(tree: object) -> dict[str, np.ndarray]:
    """The leaves of a tree by their path in it, such as `state.variables['params']['mu_loc']`."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path).removeprefix("."): np.asarray(leaf) for path, leaf in leaves}


def load_tree(arrays: Mapping[str, np.ndarray], like: T, where: str) -> T:
    """A tree of the structure of `like`, with the leaves that `save_tree` gave.

    They have the names, types and shapes of those of `like`, and are of the same kind: arrays of
    JAX or of NumPy, or numbers and words of Python. An axis of length 0 may have any length.

    Args:
        where: what holds the arrays, for the message if they do not fit.
    """
    expected = save_tree(like)
    now = {name: _described(array, arrays.get(name)) for name, array in expected.items()}
    saved = {name: _described(array) for name, array in arrays.items()}
    if saved != now:
        raise StorageError(
            f"{where} does not fit the model and guide as they are now. It alone has "
            f"{_only_in(saved, now)}; they alone have {_only_in(now, saved)}. It belongs to "
            f"another model, guide, method, optimiser, precision or version of stakes: put that "
            f"back as it was, or run again."
        )
    leaves, structure = jax.tree.flatten(like)
    kept = [_as(leaf, arrays[name]) for leaf, name in zip(leaves, expected, strict=True)]
    loaded: T = jax.tree.unflatten(structure, kept)
    return loaded


def _as(leaf: object, array: np.ndarray) -> Any:
    """An array as the kind of leaf that was saved."""
    if isinstance(leaf, jax.Array):
        return jnp.array(array)
    return array if isinstance(leaf, np.ndarray) else array.item()


def _described(array: np.ndarray, saved: np.ndarray | None = None) -> str:
    """Type and shape; an axis of length 0 is as long as in what was saved."""
    shape = array.shape
    if saved is not None and saved.ndim == array.ndim:
        shape = tuple(size or length for size, length in zip(shape, saved.shape, strict=True))
    return "text" if array.dtype.kind == "U" else f"{array.dtype}{list(shape)}"


def _only_in(mine: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """What only one of the two has, or has in another shape or type."""
    names = [name for name in mine if theirs.get(name) != mine[name]]
    # The optimiser's state repeats the names of the parameters.
    variables = [name for name in names if "optimizer" not in name] or names
    return some(f"{_last_key(name)} {mine[name]}" for name in variables)


def _last_key(name: str) -> str:
    """`level_auto_loc` of `state.variables['params']['level_auto_loc']`."""
    keys: list[str] = re.findall(r"\['(.*?)'\]", name)
    return keys[-1] if keys else name


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    """Write the file, and return its checksum."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            # A fixed date, which is ZipInfo's own: the same arrays make the same file.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
        archive.comment = SEAL + b"0" * DIGITS
    content = memoryview(buffer.getvalue())[:-DIGITS]
    digest = hashlib.sha256(content).hexdigest()
    files.write(path, content.tobytes() + digest.encode())
    return digest


def load_arrays(path: Path, expected: str | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of a file.

    Args:
        path: of the file.
        expected: the checksum that it has to have; None for the one that it carries itself.
    """
    content = files.read(path)
    body, digest = content[:-DIGITS], content[-DIGITS:]
    found = hashlib.sha256(body).hexdigest().encode()
    if not body.endswith(SEAL) or not found == digest == (expected or found.decode()).encode():
        raise StorageError(
            f"{path} is damaged: its content does not match its checksum. Restore it from a copy, "
            f"or run again."
        )
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, zipfile.BadZipFile, KeyError) as error:
        raise StorageError(f"{path} does not hold arrays that can be read: {error}.") from error
