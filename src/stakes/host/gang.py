"""A gang of Dask tasks: processes that work together on several workers, all of them or none.

Each task is pinned to a worker and starts a process there. When one of the workers or processes is
lost or stuck, the others cannot go on: all are ended, and the client starts a new gang on the
workers that are left, which goes on from what the old one had saved.
"""

import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

from stakes import errors
from stakes.errors import InputError, Interrupted, ProcessLostError, StakesError
from stakes.host.compiling import setting
from stakes.host.workers import OF_NUMBERS

if TYPE_CHECKING:
    from distributed import Client

Made = TypeVar("Made")

MARK = "stakes gang: "
"""How lines of a process begin that tell its client of the work."""
STEP, SAVED, MET = "step", "saved", "met"
"""What is told of a piece of work that is about to begin, or is kept."""
SILENCE = 20.0
"""Seconds after which a worker that sends no heartbeat, or a process that the others wait for, is
taken to be stuck, at the least."""
LONGER = 3.0
"""Processes do the same work side by side. One that is behind is taken to be stuck after so many
times as long as the first one took for the same work."""
MOST_IN_VAIN = 3
"""So often in a row a gang is started again without having saved anything."""
PATIENCE, POLL = 15.0, 0.2
"""Seconds for lost workers to come back, and between two looks at the gang."""

_members: dict[str, "subprocess.Popen[bytes]"] = {}
"""Processes of gangs that this worker has started."""


class Place(NamedTuple):
    """Where a process stands in its gang.

    Attributes:
        address: HOST:PORT, where the first process listens.
        process: the number of this process.
        of: how many there are.
    """

    address: str
    process: int
    of: int


class Lost(Exception):  # noqa: N818 (it is not told to users)
    """A process ended before its work did."""


def work_together(
    client: "Client",
    work: Callable[[Place], Made],
    fits: Callable[[int], bool],
    *,
    say: Callable[[str], None],
    tell: Callable[[str], None] = lambda what: None,
    ended: Callable[[], Interrupted | None] = lambda: None,
) -> Made:
    """Return what the work returns in the first of the processes that do it together.

    Args:
        client: of the cluster; its workers get one process each.
        work: called in each process.
        fits: whether so many processes can share the work.
        say: told of each new start.
        tell: told what the first process begins with.
        ended: what to raise where a signal has asked to end, once all is saved.
    """
    before, in_vain = len(_workers(client)), 0
    while True:
        gang = _Gang(client, _picked(client, before, fits), work, tell)
        try:
            trouble = gang.watched(ended)
        finally:
            gang.end()
        if trouble is None:
            made: Made = gang.made(0)
            return made
        in_vain = 0 if gang.has_saved else in_vain + 1
        if in_vain == MOST_IN_VAIN:
            raise ProcessLostError(
                f"The processes were started {MOST_IN_VAIN} times in a row, and each time lost "
                f"before any step was taken and saved. At last, {trouble}."
            )
        say(f"{trouble}; all processes start again from the last checkpoint.")


def _workers(client: Any) -> dict[str, float]:
    """When each worker was last seen, by address."""
    about = client.scheduler_info(n_workers=-1)["workers"]
    return {address: each["last_seen"] for address, each in about.items()}


def _picked(client: Any, before: int, fits: Callable[[int], bool]) -> list[str]:
    """As many workers as can share the work, once those that were lost are back or seem gone."""
    began = time.monotonic()
    while True:
        alive = sorted(a for a, seen in _workers(client).items() if time.time() - seen < SILENCE)
        if len(alive) >= before or time.monotonic() - began > PATIENCE:
            break
        time.sleep(POLL)
    if not alive:
        raise InputError("`on=`: the Dask cluster has no workers. Start some, and try again.")
    return alive[: max(count for count in range(1, len(alive) + 1) if fits(count))]


@dataclass(eq=False)
class _Progress:
    """What is known of one process: when it began with each piece of its work."""

    times: list[float] = field(default_factory=lambda: [time.monotonic()])
    what: str = ""


@final
class _Gang:
    """The tasks of one start."""

    def __init__(
        self,
        client: Any,
        workers: list[str],
        work: Callable[[Place], Any],
        tell: Callable[[str], None],
    ) -> None:
        from distributed.protocol.pickle import dumps

        self._client, self._workers, self._tell = client, workers, tell
        self._name, self.has_saved = f"stakes-{uuid.uuid4().hex}", False
        self._known = [_Progress() for _ in workers]
        self._ended: Callable[[], Interrupted | None] = lambda: None
        client.subscribe_topic(self._name, self._hear)
        pinned: Any = {"allow_other_workers": False, "pure": False, "retries": 0}
        first = client.submit(_free_address, workers=workers[:1], **pinned)
        address = first.result(timeout=60)
        settings = {name: setting(name) for name in OF_NUMBERS}
        self._futures = [
            client.submit(
                _member,
                self._name,
                Place(address, index, len(workers)),
                dumps((settings, work)),
                workers=[worker],
                priority=100,
                **pinned,
            )
            for index, worker in enumerate(workers)
        ]

    def _hear(self, event: tuple[float, Any]) -> None:
        told = event[1]
        known = self._known[told["process"]]
        known.times.append(time.monotonic())
        known.what = told["what"]
        self.has_saved |= known.what == SAVED
        if told["process"] == 0 and known.what not in (STEP, SAVED, MET):
            self._tell(known.what)

    def watched(self, ended: Callable[[], Interrupted | None]) -> str | None:
        """Return why all have to begin again; None once the first process is done."""
        asked = False
        while self._futures[0].status != "finished":
            if not asked and ended() is not None:
                self._ended, asked = ended, True
                self._run(_ask_to_end, self._workers[:1])
            trouble = self._trouble()
            if trouble is not None:
                return trouble
            time.sleep(POLL)
        return None

    def made(self, index: int) -> Any:
        """What a process that is done has made; what it raised is raised here."""
        kind, value = self._futures[index].result()
        if kind == Interrupted.__name__:
            raise self._ended() or KeyboardInterrupt
        if kind != "done":
            raise vars(errors)[kind](value)
        return value

    def _trouble(self) -> str | None:
        for index, future in enumerate(self._futures):
            if future.status == "error":
                error = future.exception()
                if isinstance(error, Lost):
                    return str(error)
                return f"process {index} ended ({type(error).__name__})"
            if future.status == "finished":
                self.made(index)
            if future.status in ("lost", "cancelled"):
                return f"the worker of process {index} was lost"
        seen = _workers(self._client)
        for index, worker in enumerate(self._workers):
            if worker not in seen:
                return f"the worker of process {index} was lost"
            if time.time() - seen[worker] > SILENCE:
                return f"the worker of process {index} was not heard of for {SILENCE:.0f} seconds"
        return self._behind()

    def _behind(self) -> str | None:
        """Why a process seems to be stuck: the others are ahead of it, or none takes a step."""
        now, leader = time.monotonic(), max(self._known, key=lambda known: len(known.times))
        for index, known in enumerate(self._known):
            done = len(known.times)
            if done < len(leader.times):
                waited = now - leader.times[done]
                took = leader.times[done] - leader.times[done - 1]
                if waited > max(SILENCE, LONGER * took):
                    return f"process {index} kept the others waiting for {waited:.0f} seconds"
        silence = now - max(known.times[-1] for known in self._known)
        if all(known.what in (STEP, SAVED) for known in self._known) and len(leader.times) > 4:
            pauses = [b - a for a, b in zip(leader.times, leader.times[1:], strict=False)]
            if silence > max(SILENCE, LONGER * max(pauses)):
                return f"no step was taken for {silence:.0f} seconds"
        return None

    def end(self) -> None:
        """End all processes that are left, also where a worker does not answer."""
        self._client.unsubscribe_topic(self._name)
        self._run(_end, self._workers)
        self._client.cancel([f for f in self._futures if f.status != "finished"], force=True)

    def _run(self, function: Callable[[str], None], workers: list[str]) -> None:
        seen = _workers(self._client)
        alive = [each for each in workers if time.time() - seen.get(each, 0.0) < SILENCE]

        def run() -> None:
            with suppress(Exception):  # one that was lost meanwhile
                self._client.run(function, self._name, workers=alive, on_error="ignore")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(5)


# On a worker.


def _free_address() -> str:
    """An address of this worker at which the first process may listen."""
    from distributed import get_worker

    host = get_worker().address.rpartition("//")[2].rpartition(":")[0]
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        listening.bind((host.strip("[]"), 0))
        return f"{host}:{listening.getsockname()[1]}"


def _member(gang: str, place: Place, payload: bytes) -> tuple[str, Any]:
    """Do the work in a process of its own, and pass on what it tells."""
    from distributed import get_worker

    worker = get_worker()
    with tempfile.TemporaryDirectory(prefix="stakes-") as folder:
        outcome = Path(folder) / "outcome"
        paths = os.pathsep.join([worker.local_directory, *filter(None, sys.path)])
        child = subprocess.Popen(
            [sys.executable, "-m", "stakes.host.gang", str(outcome), *map(str, place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths, "TMPDIR": folder},
            start_new_session=True,  # a Ctrl-C reaches it by way of the client alone
        )
        _members[gang] = child
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(f"{len(payload)}\n".encode() + payload)
            child.stdin.flush()
            for line in child.stdout:
                text = line.decode(errors="replace").strip()
                if text.startswith(MARK):
                    what = text.removeprefix(MARK)
                    worker.log_event(gang, {"process": place.process, "what": what})
            code = child.wait()
        except BrokenPipeError:
            code = child.wait()
        finally:
            child.kill()
            _members.pop(gang, None)
        if not outcome.exists():
            raise Lost(f"process {place.process} ended (exit code {code})")
        found: tuple[str, Any] = pickle.loads(outcome.read_bytes())
        if found[0] == Lost.__name__:
            raise Lost(f"process {place.process} ended ({found[1]})")
        return found


def _ask_to_end(gang: str) -> None:
    child = _members.get(gang)
    if child is not None and child.stdin is not None:
        child.stdin.write(b"end\n")
        child.stdin.flush()


def _end(gang: str) -> None:
    child = _members.get(gang)
    if child is not None:
        child.kill()


# In a process of a gang.

_asked_to_end = threading.Event()


def asked_to_end() -> bool:
    """Whether the work is to be saved and ended; the first process is asked."""
    return _asked_to_end.is_set()


def tell_client(what: str) -> None:
    """Tell the client what this process begins with, a piece of work after the other."""
    print(MARK + what.splitlines()[0], flush=True)


def _listen() -> None:
    """End with the worker, whose end closes the pipe."""
    for _ in sys.stdin.buffer:
        _asked_to_end.set()
    os._exit(1)


def main(outcome: str, address: str, index: str, count: str) -> None:
    """Do the work that the worker passes on."""
    import jax

    size = int(sys.stdin.buffer.readline())
    settings, work = pickle.loads(sys.stdin.buffer.read(size))
    threading.Thread(target=_listen, daemon=True).start()
    change: Callable[[str, Any], None] = jax.config.update
    for name, value in settings.items():
        change(name, value)
    found: tuple[str, Any]
    try:
        found = "done", work(Place(address, int(index), int(count)))
    except StakesError as error:
        found = type(error).__name__, str(error)
    except Exception as error:  # such as that another process was lost
        traceback.print_exc()
        found = Lost.__name__, f"{type(error).__name__}: {error}".splitlines()[0][:300]
    made = Path(outcome).with_suffix(".part")
    made.write_bytes(pickle.dumps(found))
    made.rename(outcome)
    os._exit(0)  # without waiting for the others, which may be lost


if __name__ == "__main__":
    from stakes.host import gang  # the same module as others know, with its one event

    gang.main(*sys.argv[1:])
