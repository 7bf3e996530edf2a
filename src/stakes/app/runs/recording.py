"""What happens to a run, in its log and manifest, and how signals end it."""

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, final

from stakes.app.runs.folder import STATE
from stakes.app.runs.journal import FileJournal
from stakes.app.runs.manifest import Manifest
from stakes.app.runs.opening import Run, now
from stakes.errors import Interrupted, NumericalError
from stakes.host.interrupts import Interruption, Signalled


@final
class Record:
    """Records in log and manifest what happens to a run."""

    def __init__(self, run: Run, log: IO[str]) -> None:
        self._run, self._log, self._started = run, log, time.monotonic()
        self.choosing = run.manifest.timings.get("choice", 0.0)

    def note(self, text: str) -> None:
        print(now(), text, file=self._log, flush=True)

    def end(self, status: str, timings: Mapping[str, float], **fields: object) -> Manifest:
        before = self._run.manifest.timings.get("total", 0.0)
        total = before + time.monotonic() - self._started
        return self._run.folder.update(status=status, timings={**timings, "total": total}, **fields)

    @contextmanager
    def of_ending(self, *journals: FileJournal) -> Iterator[None]:
        """If the run does not finish, record why, whatever the reason."""
        begun = "resumed" if (self._run.folder / STATE).exists() else "begun"
        self.note(f"{begun}: {self._run.manifest.title}")
        self._run.folder.update(status="running", reason=None)
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
