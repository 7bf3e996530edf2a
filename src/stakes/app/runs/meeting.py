"""Processes of one run: whether all of them see its folder, so that each can write there."""

import uuid
from pathlib import Path

import numpy as np

from stakes.app.runs.folder import RunFolder
from stakes.host import files
from stakes.processes import Processes

LONGEST = 4096
"""Bytes that are told to the others."""


def seen_by_all(on: Processes, folder: RunFolder | None) -> RunFolder | None:
    """The folder of the run where all processes see the same; None where some do not.

    Machines may share a disk or not. Every process has to ask, and the first one has to have the
    folder; others that have none look for it at the same path. A copy of it is another folder, so
    the first process leaves a sign in it, which the others look for.
    """
    sign = f".{uuid.uuid4().hex}"
    if not on.speaks or folder is None:
        return _agreed(on, folder, b"")
    try:
        files.write(folder / sign, b"")
        told = f"{sign} ".encode() + str(folder.path.resolve()).encode(errors="surrogateescape")
        return _agreed(on, folder, told if len(told) <= LONGEST else b"")
    finally:
        (folder / sign).unlink(missing_ok=True)


def _agreed(on: Processes, folder: RunFolder | None, told: bytes) -> RunFolder | None:
    all_told = on.gather(np.frombuffer(told.ljust(LONGEST, b"\0"), np.uint8))
    sign, _, path = bytes(all_told[0]).rstrip(b"\0").partition(b" ")
    own = folder or RunFolder(Path(path.decode(errors="surrogateescape")))
    sees = bool(path) and (own / sign.decode()).exists()
    return None if on.any(not sees) else own
