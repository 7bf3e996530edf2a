"""Where a fit of several processes stands, kept in shares: each process keeps its rows."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from stakes.errors import StorageError
from stakes.fitting.history import History
from stakes.fitting.step import State
from stakes.processes import Processes

NOWHERE = -1
"""The axis of rows in an array that has none."""
SEAL = 64
"""The most letters by which processes tell each other that a share is kept."""


class Share(NamedTuple):
    """What one of several processes has of where a fit stands."""

    process: int
    of: int
    """How many processes there are."""
    history: History
    """With the rows of this process, and all that belongs to no row."""
    axes: State
    """For each array of the state, the axis of its rows; `NOWHERE` where it has none."""


class Keeper(Protocol):
    """Keeps a record of a fit that is complete or absent, whichever process is lost on the way."""

    def rows(self, share: Share) -> str:
        """Keep the rows of a share, as every process does; returns a seal of letters, not empty."""
        ...

    def rest(self, share: Share, seals: Sequence[str]) -> None:
        """Keep what belongs to no row, and with it which rows belong to it: one process does so.

        Args:
            share: that of this process.
            seals: of the rows of every process, in order, which are all kept by now.
        """
        ...


def keep(processes: Processes, share: Share, keeper: Keeper) -> None:
    """Every process keeps its rows; the first one the rest, once the rows of all are kept."""
    failure, seal = None, ""
    try:
        seal = keeper.rows(share)
    except StorageError as error:  # not before the others know, who would wait for this process
        failure = error
    letters = np.frombuffer(seal.ljust(SEAL).encode(), np.uint8)
    seals = [bytes(each).decode().rstrip() for each in processes.gather(letters)]
    if failure is not None:
        raise failure
    if not all(seals):
        raise StorageError(f"Process {seals.index('')} could not save its share of the rows.")
    try:
        if processes.speaks:
            keeper.rest(share, seals)
    except StorageError as error:
        failure = error
    if processes.any(failure is not None):
        raise failure or StorageError("The first process could not save what belongs to no row.")
