"""Arrays in one .npz file that carries its own checksum.

The file is a plain NumPy archive, uncompressed. The archive's comment, its last bytes, holds the
SHA-256 of everything before it: one rename replaces content and checksum together, and no bit of
the file can change unnoticed.
"""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from stakes.errors import StorageError
from stakes.host import files

SEAL = b"stakes sha256 "
DIGITS = 64


def save(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
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


def load(path: Path, expected: str | None = None) -> dict[str, np.ndarray]:
    """The arrays of a file, which has the checksum that is expected of it."""
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
