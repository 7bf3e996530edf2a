"""The record of a run on disk: its log, how it ends, and where its fits stand.

A journal has both fits in one file, which is replaced as a whole.

While several processes make a fit, each writes the rows that it has, and the file says which files
of theirs belong to it. At the end of the fits, all is in the one file.
"""

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, final

import jax
import numpy as np

from stakes.app.runs import shares
from stakes.app.runs.folder import STATE, RunFolder
from stakes.app.runs.manifest import Manifest, now
from stakes.errors import Interrupted, NumericalError, StorageError
from stakes.fitting import NOWHERE, History, Share, load_history
from stakes.host.interrupts import Interruption, Signalled
from stakes.host.trees import load_arrays, save_arrays, save_tree
from stakes.host.watching import SAVED, STEP

Histories = dict[str, dict[str, np.ndarray]]
"""Title of a fit -> the arrays of its history."""

AVERAGE = ("older", "newer", "age", "restart")
"""Fields of the average, which earlier runs named without saying whose they are."""
DECIDED = "decisions"
"""VI's decisions, kept beside the histories of the fits."""


@final
class FileJournal:
    """Saves every `interval` seconds, whenever another fit begins, and when interrupted.

    Args:
        path: of the file; the fits it holds already are resumed.
        interval: seconds between two checkpoints; zero for one after every chunk.
        interruption: called after each chunk; what it returns is raised once the history is saved.
        beat: told of each chunk that is about to begin, and of each record.
        in_shares: whether each of several processes has a journal at this path, and writes its rows
            beside it.
    """

    def __init__(
        self,
        path: Path,
        interval: float,
        *,
        interruption: Callable[[], Interrupted | None] = lambda: None,
        beat: Callable[[str], None] = lambda what: None,
        in_shares: bool = False,
    ) -> None:
        self._path, self._interval, self._interruption = path, interval, interruption
        self._beat, self._in_shares = beat, in_shares
        self._histories: Histories = read_histories(path) if path.exists() else {}
        self._last: tuple[str, History] | None = None
        self._saved = time.monotonic()

    def history(self, title: str, start: History) -> History:
        self.save()  # the fit before this one, at its end
        if title not in self._histories:
            return start
        arrays = shares.joined(self._path, title, self._histories[title])
        return load_history(arrays, start, f"{self._path} ({title})")

    def keeper(self, title: str) -> "_Keeper | None":
        return _Keeper(self, title) if self._in_shares else None

    def write_rows(self, title: str, share: Share) -> str:
        """Write the rows of one process; returns the checksum."""
        steps, arrays = len(share.history.elbo), save_tree(share.history)
        path = shares.path_of(self._path, title, steps, share.process, share.of)
        return shares.save(path, arrays, _axes(share))

    def write_rest(self, title: str, share: Share, seals: Sequence[str]) -> None:
        """Write the file, to which the rows belong that all processes have written by now."""
        self._histories[title] = shares.named(save_tree(share.history), _axes(share), seals)
        self._write()
        self._beat(SAVED)
        interruption = self._interruption()
        if interruption is not None:
            raise interruption

    def due(self) -> bool:
        """Whether the history after the next chunk would be saved, as far as is known before it."""
        self._beat(STEP)
        return self._interruption() is not None or self._is_time()

    def watch(self, title: str, history: History) -> None:
        self._beat(SAVED)
        self._last = title, history
        interruption = self._interruption()
        if interruption is not None:
            self.save()
            raise interruption
        if self._is_time():
            self.save()

    def _is_time(self) -> bool:
        return time.monotonic() - self._saved >= self._interval

    def decisions(self, shape: tuple[int, ...]) -> np.ndarray | None:
        if DECIDED not in self._histories:
            return None
        kept = self._histories[DECIDED].get("VI")
        if kept is None or kept.shape != shape or kept.dtype.kind != "f":
            raise StorageError(
                f"{self._path} has no decisions of shape {shape}. It belongs to another model."
            )
        return kept

    def keep_decisions(self, decisions: np.ndarray) -> None:
        self._histories[DECIDED] = {"VI": np.asarray(decisions)}

    def save(self) -> None:
        """Write where the fits stand, unless that is on disk already."""
        if self._last is None:
            return
        title, history = self._last
        self._histories[title] = save_tree(history)
        self._write()
        self._last = None

    def finish(self) -> None:
        """Save, with the rows of all processes in the one file."""
        self.save()
        if any(shares.SEALS in arrays for arrays in self._histories.values()):
            for title, arrays in self._histories.items():
                self._histories[title] = dict(shares.joined(self._path, title, arrays))
            self._write()

    def _write(self) -> None:
        flat = {
            f"{title}/{name}": array
            for title, arrays in self._histories.items()
            for name, array in arrays.items()
        }
        save_arrays(self._path, flat)
        shares.remove_others(self._path, self._histories)
        self._saved = time.monotonic()


@final
@dataclass(frozen=True)
class _Keeper:
    """Of one fit, in shares."""

    journal: FileJournal
    title: str

    def rows(self, share: Share) -> str:
        return self.journal.write_rows(self.title, share)

    def rest(self, share: Share, seals: Sequence[str]) -> None:
        self.journal.write_rest(self.title, share, seals)


def read_histories(path: Path) -> Histories:
    histories: Histories = {}
    for name, array in load_arrays(path).items():
        title, _, field = name.partition("/")
        field = f"average.{field}" if field.startswith(AVERAGE) else field
        histories.setdefault(title, {})[field] = array
    return histories


def _axes(share: Share) -> dict[str, int]:
    """The axis of rows in those arrays that have rows, by the names that these have in a file."""
    average, axes = share.history.average, share.axes
    older, newer = (
        None if variables is None else axes.variables
        for variables in (average.older, average.newer)
    )
    without: History = jax.tree.map(lambda leaf: NOWHERE, share.history)
    of_average = without.average._replace(older=older, newer=newer)
    named = save_tree(without._replace(state=axes, average=of_average))
    return {name: int(axis) for name, axis in named.items() if axis != NOWHERE}


@final
class Record:
    """Records in log and manifest what happens to a run."""

    def __init__(self, folder: RunFolder, manifest: Manifest, log: IO[str]) -> None:
        self._folder, self._manifest, self._log = folder, manifest, log
        self._started = time.monotonic()
        self.choosing = manifest.timings.get("choice", 0.0)

    def note(self, text: str) -> None:
        print(now(), text, file=self._log, flush=True)

    def end(self, status: str, timings: Mapping[str, float], **fields: object) -> Manifest:
        before = self._manifest.timings.get("total", 0.0)
        total = before + time.monotonic() - self._started
        return self._folder.update(status=status, timings={**timings, "total": total}, **fields)

    @contextmanager
    def of_ending(self, *journals: FileJournal) -> Iterator[None]:
        """If the run does not finish, record why, whatever the reason."""
        begun = "resumed" if (self._folder / STATE).exists() else "begun"
        self.note(f"{begun}: {self._manifest.title}")
        self._folder.update(status="running", reason=None)
        try:
            yield
        except (Interrupted, KeyboardInterrupt) as error:
            self._give_reason("interrupted", error)
            raise
        except NumericalError as error:
            for journal in journals:
                journal.save()
            self._give_reason("failed", error)
            raise
        except BaseException as error:
            self._give_reason("failed", error)
            raise

    def _give_reason(self, status: str, error: BaseException) -> None:
        reason = str(error) or type(error).__name__
        with suppress(OSError):  # such as a full disk, which may be the very reason
            self.note(f"{status}: {reason}")
            self.end(status, {}, reason=reason)


@contextmanager
def ended_by(heard: Interruption, path: Path) -> Iterator[None]:
    """What comes after the fits, which are saved by then."""
    try:
        with heard.at_once():
            yield
    except Signalled as error:
        raise _interrupted(error.signum, path) from None


def interruption(heard: Interruption, path: Path) -> Interrupted | None:
    return None if heard.signum is None else _interrupted(heard.signum, path)


def _interrupted(signum: int, path: Path) -> Interrupted:
    return Interrupted(
        f"Ended by {signal.Signals(signum).name}; what had been done is saved. Resume it: "
        f"`stakes resume {path}`.",
        signum,
    )
