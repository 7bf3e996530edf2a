"""A record of the two fits of a calibration, from which they can be resumed."""

from typing import Protocol

import numpy as np

from stakes.fitting import History, Keeper


class Journal(Protocol):
    """A record of the two fits, "VI" and "calibrated", that outlives the process.

    Derive from this class to inherit the defaults.
    """

    def history(self, title: str, start: History) -> History:
        """Where this fit was left; `start` where there is no record of it."""
        ...

    def watch(self, title: str, history: History) -> None:
        """Record where the fit stands; called after every chunk of steps."""
        ...

    def due(self) -> bool:
        """Whether a record is due after the next chunk; asked where several processes fit."""
        return True

    def keeper(self, title: str) -> Keeper | None:
        """What keeps the rows of each process, where several processes write the record."""
        return None

    def decisions(self, shape: tuple[int, ...]) -> np.ndarray | None:
        """VI's decisions, of this shape; None where there is no record of them."""
        ...

    def keep_decisions(self, decisions: np.ndarray) -> None:
        """Record VI's decisions, once the plain fit has ended."""
        ...

    def finish(self) -> None:
        """Save everything that has been recorded."""
