"""Files that are replaced as a whole, and errors of the operating system in words."""

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from stakes.errors import StorageError

REASONS = {
    errno.ENOSPC: "the disk is full; make room",
    errno.EDQUOT: "the disk quota is used up; make room",
    errno.EFBIG: "the file would be larger than is allowed here",
    errno.EROFS: "the disk is read-only; choose another folder",
    errno.EACCES: "permission denied; choose another folder or change its permissions",
    errno.EPERM: "not permitted; choose another folder or change its permissions",
    errno.ENOENT: "it does not exist",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.EISDIR: "it is a folder, not a file",
    errno.EEXIST: "it exists already",
}


@contextmanager
def explained(doing: str, path: Path) -> Iterator[None]:
    """Raise an error of the operating system as a `StorageError`, in words."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = REASONS.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"Cannot {doing} {path}: {reason}.") from error


@contextmanager
def replacing(path: Path, mode: str = "wb") -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` once it is complete and on disk.

    If anything fails on the way, `path` stays as it was.
    """
    with explained("write", path):
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, mode) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~umask())
            os.replace(temporary, path)
            sync_folder(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)


def read(path: Path) -> bytes:
    with explained("read", path):
        return path.read_bytes()


def sync_folder(folder: Path) -> None:
    """A rename is only on disk once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    with explained("read", path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def umask() -> int:
    """A temporary file is private; the file it becomes is not."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
