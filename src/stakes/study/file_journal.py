"""A journal on disk: where both fits stand, in one file that is replaced as a whole.

A fit that goes on from its journal ends with the same numbers, to the last digit, as one that was
never interrupted. While several processes make a fit, each writes the rows that it has, and the
file says which files of theirs belong to it. Whoever reads it back has all rows, and writes one
file again.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import final

import numpy as np

from stakes.errors import Interrupted, StorageError
from stakes.fitting import History, load_history
from stakes.host.trees import load_arrays, save_arrays, save_tree
from stakes.processes import Processes
from stakes.study import shares

# Title of a fit -> the arrays of its history.
Histories = dict[str, dict[str, np.ndarray]]

# Fields of the average, which earlier runs named without saying whose they are.
AVERAGE = ("older", "newer", "age", "restart")
# VI's decisions, kept beside the histories of the fits.
DECIDED = "decisions"


@final
class FileJournal:
    """Saves every `interval` seconds, whenever another fit begins, and when interrupted.

    Args:
        path: of the file; the fits it holds already are resumed.
        interval: seconds between two checkpoints; zero for one after every chunk.
        interruption: called after each chunk; what it returns is raised once the history is saved.
        processes: that make the fits together; each has a journal at this path.
        tell: told after each chunk whether it was saved.
    """

    def __init__(
        self,
        path: Path,
        interval: float,
        *,
        interruption: Callable[[], Interrupted | None] = lambda: None,
        processes: Processes | None = None,
        tell: Callable[[bool], None] = lambda saved: None,
    ) -> None:
        self._path, self._interval, self._interruption = path, interval, interruption
        self._processes, self._tell = processes, tell
        self._histories: Histories = read_histories(path) if path.exists() else {}
        self._last: tuple[str, History] | None = None
        self._saved, self._was_in_shares = time.monotonic(), False

    def history(self, title: str, start: History) -> History:
        """Return where this fit was left, with the rows of all processes."""
        self.save()  # the fit before this one, at its end
        if title not in self._histories:
            return start
        arrays = self._histories[title]
        if shares.SEALS in arrays:
            arrays = dict(shares.joined(self._path, title, arrays, self._like(start)))
            if self._processes is None:
                self._histories[title], self._was_in_shares = arrays, True
        return load_history(arrays, start, f"{self._path} ({title})")

    def _like(self, start: History) -> dict[str, np.ndarray]:
        """Return arrays of the shapes that the history of this fit has."""
        variables = start.state.variables
        average = start.average._replace(older=variables, newer=variables)
        return save_tree(start._replace(average=average))

    def knows(self, title: str) -> bool:
        """Return whether there is a record of this fit."""
        return title in self._histories

    def watch(self, title: str, history: History) -> None:
        """Note where the fit stands; save it if it is time, and raise an interruption."""
        if self._last is not None and self._last[0] != title:
            self.save()
        self._last, interruption = (title, history), self._interruption()
        due = interruption is not None or time.monotonic() - self._saved >= self._interval
        stop = interruption is not None
        if self._processes is not None:  # what the first process says, all do
            due, stop = map(bool, self._processes.from_first(np.array([due, stop])))
        if due:
            self.save()
        self._tell(due)
        if stop:
            raise interruption or Interrupted("The first process was interrupted.", 0)

    def decisions(self, shape: tuple[int, ...]) -> np.ndarray | None:
        """Return VI's decisions; None where there is no record, and refused in another shape."""
        if DECIDED not in self._histories:
            return None
        kept = self._histories[DECIDED].get("VI")
        if kept is None or kept.shape != shape or kept.dtype.kind != "f":
            raise StorageError(
                f"{self._path} has no decisions of shape {shape}. It belongs to another model."
            )
        return kept

    def keep_decisions(self, decisions: np.ndarray) -> None:
        """Record VI's decisions, to be saved with the next history."""
        self._histories[DECIDED] = {"VI": np.asarray(decisions)}

    def save(self) -> None:
        """Write where the fits stand, unless that is on disk already."""
        if self._last is not None:
            title, history = self._last
            if self._processes is None:
                self._histories[title] = save_tree(history)
            else:
                self._histories[title] = shares.kept(self._path, title, history, self._processes)
            self._write()
            self._last = None

    def finish(self) -> None:
        """Save, with the rows of all processes in the one file."""
        self.save()
        if self._was_in_shares:
            self._write()

    def _write(self) -> None:
        """Write all that is known, if this process speaks for all."""
        self._saved = time.monotonic()
        if self._processes is not None and not self._processes.speaks:
            return
        flat = {
            f"{title}/{name}": array
            for title, arrays in self._histories.items()
            for name, array in arrays.items()
        }
        save_arrays(self._path, flat)
        shares.remove_others(self._path, self._histories)


def read_histories(path: Path) -> Histories:
    """Return the arrays of the fits that a file holds."""
    histories: Histories = {}
    for name, array in load_arrays(path).items():
        title, _, field = name.partition("/")
        field = f"average.{field}" if field.startswith(AVERAGE) else field
        histories.setdefault(title, {})[field] = array
    return histories
