"""Whether processes that work together still do, by what they say and the system says of them."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, final

STEP, SAVED = "chunk", "saved"
"""Beats of work that goes on, in pieces of about the same length, and of what is saved of it."""
SILENCE = 20.0
"""Seconds without a beat after which work that had gone on is taken to be stuck, at the least."""
LONGEST = 20.0
"""It is, too, after so many times the longest pause between two beats before."""
LONGER = 3.0
"""Processes do the same work side by side. One that waits for another is taken to wait in vain
after so many times as long as its own work took, or after the silence above where that is more;
after so many times the silence, where another is at work."""
IDLE = 0.02
"""Of the time that another waits: one that takes less of a processor waits for something itself."""
BUSY, BUSIER = 10.0, 1.5
"""Seconds of processors' time after which one that keeps another waiting is taken to be in an
endless loop, or so many times those that the other's own work had taken, where that is more: all of
the same work again, and half of it. Where processors are slow or shared, they come later."""
STOPPED = 10.0
"""Seconds after which a process that the system says is stopped is taken to be stuck."""
GRACE = 10.0
"""Seconds for the first process to end once another has ended for good reason."""


@final
class Beat:
    """Tells a supervisor that work goes on, by a line in a file for each sign of it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def __call__(self, what: str) -> None:
        self._file.write(what.splitlines()[0] + "\n")
        self._file.flush()


@final
class Waiting:
    """Tells a supervisor while a process waits for the others, and how long it had worked."""

    def __init__(self, beats: Path, index: int) -> None:
        self._path, self._times, self._busy = waits_of(beats, index), 0, 0.0

    def __call__(self, worked: float | None) -> None:
        """The seconds that it worked, or None when it goes on."""
        self._times += 1
        busy = time.process_time()
        if worked is None:
            self._busy = busy
        said = "" if worked is None else f"{self._times} {worked} {busy - self._busy}\n"
        self._path.write_text(said)


def waits_of(beats: Path, index: int) -> Path:
    return beats.with_name(f"waits {index}")


class Group(NamedTuple):
    """Processes that were started together; the first one speaks."""

    members: list[subprocess.Popen[bytes]]
    beats: Path
    silent: list[Path]
    """What each of the others has said."""

    def kill(self) -> None:
        for member in self.members:
            if member.poll() is None:
                member.kill()
        for member in self.members:
            member.wait()


class _Wait(NamedTuple):
    """What a process has said of its waiting, since when, and how busy all had been by then."""

    said: str
    since: float
    busy: list[float]


class ProcessStatus(NamedTuple):
    """What the system says of a process; nothing elsewhere than on Linux."""

    is_stopped: bool
    busy: float
    """Seconds of processors' time that all of its threads have taken."""


def status_of(pid: int) -> ProcessStatus:
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ProcessStatus(is_stopped=False, busy=0.0)
    ticks = int(after_name[11]) + int(after_name[12])  # the 14th and 15th fields of all
    return ProcessStatus(after_name[0] in ("T", "t"), ticks / os.sysconf("SC_CLK_TCK"))


@final
class Watch:
    """What is known of a group from looking at it again and again."""

    def __init__(self, group: Group, patience: float) -> None:
        self._group, self._size, self._since = group, 0, time.monotonic()
        self._patience, self._waits = patience, dict[int, _Wait]()
        self._longest, self._stopped, self._ended = 0.0, dict[int, float](), dict[int, float]()
        self._busy, self._busiest = [0.0] * len(group.members), 0.0
        self._went_on = False
        self.got_on = False
        """Whether it has taken steps and saved them: what it saved, the next group begins with."""

    def trouble(self, final_codes: Sequence[int]) -> int | str | None:
        """How the first process ended, or why all have to begin again; None while they work."""
        for index, member in enumerate(self._group.members):
            code = member.poll()
            if code is None or (index and code == 0):
                continue
            if code in final_codes:
                if not index:
                    return code
                # The first process will end likewise, and say why.
                if time.monotonic() - self._ended.setdefault(index, time.monotonic()) < GRACE:
                    continue
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return f"process {index} ended ({how})"
        return self._stuck()

    def _stuck(self) -> str | None:
        now, content = time.monotonic(), self._group.beats.read_text()
        known = [status_of(member.pid) for member in self._group.members]
        busy = [each.busy for each in known]
        used = max(b - before for b, before in zip(busy, self._busy, strict=True))
        if len(content) != self._size:
            if self._went_on or self._goes_on(content):
                self._longest = max(self._longest, now - self._since)
                self._busiest = max(self._busiest, used)
            self.got_on = _has_saved_steps(content.splitlines())
            self._size, self._since, self._busy = len(content), now, busy
            self._went_on = self._goes_on(content)
        elif self._goes_on(content):
            silence = now - self._since
            if silence > max(SILENCE, LONGEST * self._longest):
                return f"no step was taken for {silence:.0f} seconds"
            if used > max(SILENCE, LONGER * self._busiest):
                return f"no step was taken for {used:.0f} seconds of a processor's time"
        for index, process in enumerate(known):
            if not process.is_stopped:
                self._stopped.pop(index, None)
            elif now - self._stopped.setdefault(index, now) > STOPPED:
                return f"process {index} was stopped"
            if (why := self._waits_in_vain(index, now, busy)) is not None:
                return why
        return None

    def _waits_in_vain(self, index: int, now: float, busy: list[float]) -> str | None:
        """Why it seems to, where that takes longer than the others can be expected to take."""
        said = waits_of(self._group.beats, index).read_text()
        wait = self._waits.get(index)
        if wait is None or said != wait.said:
            wait = self._waits[index] = _Wait(said, now, busy)
        if not said.endswith("\n"):  # it goes on, or is about to say that it waits
            return None
        waited, (worked, own) = now - wait.since, map(float, said.split()[1:])
        # Itself, too: it may have been told to go on, and not have come to say so.
        used, other = max(
            (b - before, i) for i, (b, before) in enumerate(zip(busy, wait.busy, strict=True))
        )
        if used > max(BUSY * self._patience, BUSIER * own):
            return f"process {other} seems to be in an endless loop"
        least = SILENCE * self._patience
        # One that gets little of a processor, but some, is slow rather than stuck.
        longest = (
            max(least, LONGER * worked) if used < IDLE * waited else LONGER * max(least, worked)
        )
        return (
            f"process {index} waited {waited:.0f} seconds for another" if waited > longest else None
        )

    def _goes_on(self, content: str) -> bool:
        """The first piece has to be compiled, and after the last one other work begins."""
        lines = content.splitlines()
        pieces = list(takewhile(lambda line: line in (STEP, SAVED), reversed(lines)))
        return pieces[:1] == [STEP] and pieces.count(STEP) > 1


def _has_saved_steps(lines: list[str]) -> bool:
    return STEP in lines and SAVED in lines[lines.index(STEP) :]
