"""Files that are replaced as a whole, and errors of the operating system in words.

A file is written beside its place, brought to disk and renamed: whoever reads it sees the old
content or the new one, and a power cut leaves one of the two. Pipes, devices and `-` are streams:
they are written to as they are.
"""

import errno
import hashlib
import os
import shutil
import stat
import sys
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
    except (StorageError, BrokenPipeError):  # whoever read from the pipe has seen enough
        raise
    except OSError as error:
        reason = REASONS.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"Cannot {doing} {path}: {reason}.") from error


STANDARD_INPUT = (Path("-"), Path("/dev/stdin"), Path("/dev/fd/0"), Path("/proc/self/fd/0"))
STANDARD_OUTPUT = (Path("-"), Path("/dev/stdout"), Path("/dev/fd/1"), Path("/proc/self/fd/1"))


def is_stream(path: Path) -> bool:
    """Whether what is written there flows on, and nothing is kept that could be replaced."""
    if path in STANDARD_OUTPUT:
        return True
    found = _existing(path)
    return found is not None and not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))


@contextmanager
def reading(path: Path) -> Iterator[Path]:
    """Give the path of a file that can be read more than once.

    Of a stream, and of `-` for standard input, a copy is made, which is removed at the end.
    """
    if path not in STANDARD_INPUT and not is_stream(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="stakes-") as folder, explained("read", path):
        name = "standard input" if path in STANDARD_INPUT else path.name
        copy = Path(folder) / f"{name}.csv"
        with copy.open("wb") as file:
            if path in STANDARD_INPUT:
                shutil.copyfileobj(sys.stdin.buffer, file)
            else:
                with path.open("rb") as stream:
                    shutil.copyfileobj(stream, file)
        yield copy


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write to: replaced as a whole, unless it is a stream.

    The path `-` stands for standard output.
    """
    with explained("write", path):
        if path in STANDARD_OUTPUT:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        elif is_stream(path):
            with path.open("wb") as file:
                yield file
        else:
            with replacing(path) as file:
                yield file


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` once it is complete and on disk.

    Permissions are kept, and so is a link: what it points to is replaced. If anything fails on the
    way, `path` stays as it was.
    """
    with explained("write", path):
        target, before = Path(os.path.realpath(path)), _existing(path)
        if before is not None and stat.S_ISDIR(before.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        descriptor, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=".tmp", dir=target.parent
        )
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            permissions = 0o666 & ~umask() if before is None else stat.S_IMODE(before.st_mode)
            os.chmod(temporary, permissions)
            os.replace(temporary, target)
            sync_folder(target.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _existing(path: Path) -> os.stat_result | None:
    """What is there, or where a link points to; None if nothing is."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def write(path: Path, content: bytes) -> None:
    """Replace a file, or make one, with this content."""
    with replacing(path) as file:
        file.write(content)


def read(path: Path) -> bytes:
    """Return the content of a file."""
    with explained("read", path):
        return path.read_bytes()


def sync_folder(folder: Path) -> None:
    """Bring a folder's list of files to disk.

    A rename survives a power cut only once the folder is on disk, too.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with explained("read", path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def umask() -> int:
    """Return the permissions that new files are made without.

    A temporary file is private; the file it becomes is not. There is no way to read the mask but to
    set it.
    """
    mask = os.umask(0)
    os.umask(mask)
    return mask
