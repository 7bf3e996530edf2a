"""The record of a run: its log, its manifest, and what interrupts it.

Whatever ends a run, log and manifest say what it was, so that a user who finds the folder later
knows how to go on.
"""

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, final

from stakes.app.runs.folder import STATE, RunFolder
from stakes.app.runs.manifest import Manifest, now
from stakes.errors import Interrupted
from stakes.host.interrupts import Interruption, Signalled


@final
class Record:
    """Records in log and manifest what happens to a run.

    Args:
        folder: of the run.
        manifest: as it is when the run begins or is resumed.
        log: to write to.

    Attributes:
        choosing: the seconds that the choice took, also in an earlier process.
    """

    def __init__(self, folder: RunFolder, manifest: Manifest, log: IO[str]) -> None:
        self._folder, self._manifest, self._log = folder, manifest, log
        self._started = time.monotonic()
        self.choosing = manifest.timings.get("choice", 0.0)

    def note(self, text: str) -> None:
        """Write a line into the log, with the time."""
        print(now(), text, file=self._log, flush=True)

    def end(self, status: str, timings: Mapping[str, float], **fields: object) -> Manifest:
        """Write into the manifest how the run has ended.

        Args:
            status: such as "done".
            timings: fit or "choice" -> seconds.
            fields: others of the manifest.
        """
        before = self._manifest.timings.get("total", 0.0)
        total = before + time.monotonic() - self._started
        return self._folder.update(status=status, timings={**timings, "total": total}, **fields)

    @contextmanager
    def of_ending(self) -> Iterator[None]:
        """Record why the run does not finish, if it does not, whatever the reason."""
        begun = "resumed" if (self._folder / STATE).exists() else "begun"
        self.note(f"{begun}: {self._manifest.title}")
        self._folder.update(status="running", reason=None)
        try:
            yield
        except (Interrupted, KeyboardInterrupt) as error:
            self._give_reason("interrupted", error)
            raise
        except BaseException as error:
            self._give_reason("failed", error)
            raise

    def _give_reason(self, status: str, error: BaseException) -> None:
        """Record a reason, unless nothing can be written, which may be the very reason."""
        reason = str(error) or type(error).__name__
        with suppress(OSError):  # such as a full disk, which may be the very reason
            self.note(f"{status}: {reason}")
            self.end(status, {}, reason=reason)


@contextmanager
def ended_by(heard: Interruption, path: Path) -> Iterator[None]:
    """End the block at once when a signal comes; the fits are saved by then."""
    try:
        with heard.at_once():
            yield
    except Signalled as error:
        raise _interrupted(error.signum, path) from None


def interruption(heard: Interruption, path: Path) -> Interrupted | None:
    """The exception for a signal that was heard; None where none was."""
    return None if heard.signum is None else _interrupted(heard.signum, path)


def _interrupted(signum: int, path: Path) -> Interrupted:
    """The exception for a signal, with the command that resumes the run."""
    return Interrupted(
        f"Ended by {signal.Signals(signum).name}; what had been done is saved. Resume it: "
        f"`stakes resume {path}`.",
        signum,
    )
