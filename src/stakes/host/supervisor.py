"""Processes that work together here, watched: when one dies or is stuck, all begin again.

Processes that share a computation cannot go on without one of them. So recovery is one thing
whatever happened: end what is left, and start all again from what they have saved.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import IO, NamedTuple, final

from stakes.errors import ProcessLostError
from stakes.host.interrupts import ENDING, deferred

STEP, SAVED = "chunk", "saved"
"""Beats of work that goes on, in pieces of about the same length, and of what is saved of it."""
SILENCE = 20.0
"""Seconds without a beat after which work that had gone on is taken to be stuck, at the least."""
LONGEST = 20.0
"""It is, too, after so many times the longest pause between two beats before."""
LONGER = 3.0
"""Processes do the same work side by side. One that waits for another is taken to wait in vain
after so many times as long as its own work took, or after the silence above where that is more."""
STOPPED = 10.0
"""Seconds after which a process that the system says is stopped is taken to be stuck."""
GRACE = 10.0
"""Seconds for the first process to end once another has ended for good reason."""
MOST_IN_VAIN = 5
"""So often in a row all are started again without having got anywhere."""
MOST_ASKED = 2
"""Signals that ask to end: the first process saves its work at one, and ends at once at another."""
POLL = 0.2


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
        self._path, self._times = _waits(beats, index), 0

    def __call__(self, worked: float | None) -> None:
        """The seconds that it worked, or None when it goes on."""
        self._times += 1
        self._path.write_text("" if worked is None else f"{self._times} {worked}\n")


def _waits(beats: Path, index: int) -> Path:
    return beats.with_name(f"waits {index}")


def end_with_supervisor(beats: Path) -> None:
    """Where the system can, end this process when the one that watches it ends, or has ended.

    The file of beats begins with the number of that process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if str(os.getppid()) != beats.read_text().partition("\n")[0]:
            os.kill(os.getpid(), signal.SIGKILL)


class _Group(NamedTuple):
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


def supervise(
    command: Callable[[int, str, Path], Sequence[str]],
    count: int,
    *,
    final_codes: Sequence[int],
    say: Callable[[str], None],
) -> int:
    """Start processes here, start all again where one is lost, and return how the first ended.

    Signals that ask to end go to the first process, which saves its work; with the third, all are
    killed.

    Args:
        command: from the number of a process, the address at which they meet and the file of its
            `Beat` to what is to be run.
        count: of processes.
        final_codes: exit codes that no second try would change.
        say: told of each new start.
    """
    in_vain = 0
    with (
        tempfile.TemporaryDirectory(prefix="stakes-") as folder,
        deferred(*ENDING, patient=True) as heard,
    ):
        forwarded = 0
        while True:
            group = _started(command, count, Path(folder))
            # Where processes differ in speed by more than is thought, each start waits longer.
            watch = _Watch(group, SILENCE * LONGER**in_vain)
            try:
                while (trouble := watch.trouble(final_codes)) is None:
                    if heard.times > forwarded and heard.signum is not None:
                        forwarded = heard.times
                        if forwarded > MOST_ASKED:
                            return 128 + heard.signum
                        group.members[0].send_signal(heard.signum)
                    time.sleep(POLL)
            finally:
                group.kill()
            if isinstance(trouble, int):
                return trouble
            if heard.signum is not None:
                return 128 + heard.signum
            in_vain = 0 if watch.got_on else in_vain + 1
            if in_vain == MOST_IN_VAIN:
                raise ProcessLostError(
                    f"The processes were started {MOST_IN_VAIN} times in a row, and each time lost "
                    f"before any step was taken and saved. At last, {trouble}.{_last_words(group)}"
                )
            say(f"{trouble}; all processes start again from the last checkpoint.")


@final
class _Watch:
    """What is known of a group from looking at it again and again."""

    def __init__(self, group: _Group, patience: float) -> None:
        self._group, self._size, self._since = group, 0, time.monotonic()
        self._patience, self._waits = patience, dict[int, tuple[str, float]]()
        self._longest, self._stopped, self._ended = 0.0, dict[int, float](), dict[int, float]()
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
        if len(content) != self._size:
            if self._goes_on(content):
                self._longest = max(self._longest, now - self._since)
            self.got_on = _has_saved_steps(content.splitlines())
            self._size, self._since = len(content), now
        limit = max(SILENCE, LONGEST * self._longest)
        if self._goes_on(content) and now - self._since > limit:
            return f"no step was taken for {limit:.0f} seconds"
        for index, member in enumerate(self._group.members):
            if not _is_stopped(member.pid):
                self._stopped.pop(index, None)
            elif now - self._stopped.setdefault(index, now) > STOPPED:
                return f"process {index} was stopped"
            if (seconds := self._waits_in_vain(index, now)) is not None:
                return f"process {index} waited {seconds:.0f} seconds for another"
        return None

    def _waits_in_vain(self, index: int, now: float) -> float | None:
        """For how long, where that is longer than the others can be expected to take."""
        said = _waits(self._group.beats, index).read_text()
        if said != self._waits.get(index, ("", now))[0]:
            self._waits[index] = said, now
        if not said.endswith("\n"):  # it goes on, or is about to say that it waits
            return None
        waited, worked = now - self._waits[index][1], float(said.split()[1])
        return waited if waited > max(self._patience, LONGER * worked) else None

    def _goes_on(self, content: str) -> bool:
        """The first piece has to be compiled, and after the last one other work begins."""
        lines = content.splitlines()
        pieces = list(takewhile(lambda line: line in (STEP, SAVED), reversed(lines)))
        return pieces[:1] == [STEP] and pieces.count(STEP) > 1


def _has_saved_steps(lines: list[str]) -> bool:
    return STEP in lines and SAVED in lines[lines.index(STEP) :]


def _started(
    command: Callable[[int, str, Path], Sequence[str]], count: int, folder: Path
) -> _Group:
    beats, address = folder / "beats", f"127.0.0.1:{_free_port()}"
    beats.write_text(f"{os.getpid()}\n")
    for index in range(count):
        _waits(beats, index).write_text("")
    silent = [folder / f"process {index}" for index in range(1, count)]
    members: list[subprocess.Popen[bytes]] = []
    group = _Group(members, beats, silent)
    with contextlib.ExitStack() as files:
        for index in range(count):
            said: IO[bytes] | None = None
            if index:
                said = files.enter_context(silent[index - 1].open("wb"))
            # In sessions of their own, a Ctrl-C reaches them by way of this process alone.
            try:
                member = subprocess.Popen(
                    command(index, address, beats),
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                )
            except OSError:
                group.kill()
                raise
            members.append(member)
            _give_cores(member.pid, index, count)
    return group


def _give_cores(pid: int, index: int, count: int) -> None:
    """Cores of its own for each process, where there are enough: they all work at once."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) >= count:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(pid, cores[index::count])


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _is_stopped(pid: int) -> bool:
    """By the words of the system; not known elsewhere than on Linux."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return False
    return after_name.split()[0] in ("T", "t")


def _last_words(group: _Group) -> str:
    for path in group.silent:
        lines = path.read_text(errors="replace").strip().splitlines()
        if lines:
            return f" {path.name} said: {lines[-1][:300]}"
    return ""
