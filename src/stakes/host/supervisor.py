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
from pathlib import Path
from typing import IO

from stakes.errors import ProcessLostError
from stakes.host.interrupts import ENDING, deferred
from stakes.host.watching import LONGER, Group, Watch, waits_of

MOST_IN_VAIN = 5
"""So often in a row all are started again without having got anywhere."""
MOST_ASKED = 2
"""Signals that ask to end: the first process saves its work at one, and ends at once at another."""
POLL = 0.2


def end_with_supervisor(beats: Path) -> None:
    """Where the system can, end this process when the one that watches it ends, or has ended.

    The file of beats begins with the number of that process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if str(os.getppid()) != beats.read_text().partition("\n")[0]:
            os.kill(os.getpid(), signal.SIGKILL)


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
            watch = Watch(group, LONGER**in_vain)
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


def _started(command: Callable[[int, str, Path], Sequence[str]], count: int, folder: Path) -> Group:
    beats, address = folder / "beats", f"127.0.0.1:{_free_port()}"
    beats.write_text(f"{os.getpid()}\n")
    for index in range(count):
        waits_of(beats, index).write_text("")
    silent = [folder / f"process {index}" for index in range(1, count)]
    members: list[subprocess.Popen[bytes]] = []
    group = Group(members, beats, silent)
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
    with contextlib.suppress(AttributeError, OSError):  # not every system can
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) >= count:
            os.sched_setaffinity(pid, cores[index::count])


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _last_words(group: Group) -> str:
    for path in group.silent:
        lines = path.read_text(errors="replace").strip().splitlines()
        if lines:
            return f" {path.name} said: {lines[-1][:300]}"
    return ""
