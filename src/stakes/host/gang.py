"""A gang of Dask tasks: processes that work together on several workers, all of them or none.

Each task is pinned to a worker and starts a process there. When one of the workers or processes is
lost or stuck, the others cannot go on: all are ended, and the client starts a new gang on the
workers that are left, which goes on from what the old one had saved.
"""

import os
import pickle
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

from stakes import errors
from stakes.errors import InputError, Interrupted, ProcessLostError, StakesError
from stakes.host.compiling import setting
from stakes.host.workers import OF_NUMBERS

if TYPE_CHECKING:
    from distributed import Client

Made = TypeVar("Made")

# What a process tells of a chunk of its work that is over: how its lines begin, and what they say.
MARK, STEP, SAVED, MET = "stakes gang: ", "step", "saved", "met"
# What the client tells a process: to go on, which it ends without, or to save its work and end.
GO_ON, END = b"go on\n", b"end\n"
# Seconds after which a process ends that does not hear of its client.
LEASE = 60.0
# Seconds after which a worker that sends no heartbeat, or a process that the others wait for, is
# taken to be stuck, at the least.
SILENCE = 20.0
# Processes do the same work side by side. One that is behind is taken to be stuck after so many
# times as long as the first one took for the same work.
LONGER = 3.0
# So often in a row a gang is started without having saved anything.
MOST_IN_VAIN = 5
# Seconds for lost workers to come back, for a worker to answer, and between two looks at the gang.
PATIENCE, ANSWER, POLL = 20.0, 15.0, 0.2

# Processes of gangs that this worker has started.
_members: dict[str, "subprocess.Popen[bytes]"] = {}


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
    before, in_vain = len(_heard_of(client)), 0
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


def _heard_of(client: Any) -> dict[str, float]:
    """How many seconds ago each worker was heard of, by the clock of the scheduler."""
    # What `scheduler_info` returns may be that of another call, without workers.
    workers = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    seen = {address: each["last_seen"] for address, each in workers.items()}
    return {address: max(seen.values()) - last for address, last in seen.items()}


def _picked(client: Any, before: int, fits: Callable[[int], bool]) -> list[str]:
    """As many workers as can share the work, once those that were lost are back or seem gone."""
    began = time.monotonic()
    while True:
        workers = _heard_of(client)
        stuck = [address for address, silence in workers.items() if silence > SILENCE]
        alive = sorted(set(workers) - set(stuck))
        if len(alive) >= before or time.monotonic() - began > PATIENCE:
            break
        if stuck:  # where a nanny watches over a worker, it starts another in its place
            _within(PATIENCE, partial(client.restart_workers, stuck, timeout=PATIENCE))
        time.sleep(POLL)
    if not alive:
        raise InputError("`on=`: the Dask cluster has no workers. Start some, and try again.")
    return alive[: max(count for count in range(1, len(alive) + 1) if fits(count))]


def _within(seconds: float, ask: Callable[[], Any]) -> Any:
    """The answer of a cluster, of which some may never answer; None without one."""
    answers = list[Any]()

    def run() -> None:
        with suppress(Exception):  # a worker was lost meanwhile, or has no nanny
            answers.append(ask())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else None


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
        # When each process began with each piece of its work, and what that was.
        self._began = [[(time.monotonic(), "")] for _ in workers]
        self._asked: Interrupted | None = None
        self._said: deque[str] = deque()
        self._futures: list[Any] = []
        client.subscribe_topic(self._name, self._hear)
        answer = self._run(workers[:1], _free_address)
        if not answer:
            return
        settings = {name: setting(name) for name in OF_NUMBERS}
        for index, worker in enumerate(workers):
            place, sent = Place(answer[workers[0]], index, len(workers)), dumps((settings, work))
            pinned: Any = {"workers": [worker], "allow_other_workers": False, "pure": False}
            task = client.submit(_member, self._name, place, sent, priority=100, **pinned)
            self._futures.append(task)

    def _hear(self, event: tuple[float, Any]) -> None:
        process, what = event[1]
        self._began[process].append((time.monotonic(), what))
        self.has_saved |= what == SAVED
        if process == 0 and what not in (STEP, SAVED, MET):
            self._said.append(what)  # in a thread of the client, which knows no listeners

    def watched(self, ended: Callable[[], Interrupted | None]) -> str | None:
        """Return why all have to begin again; None once the first process is done."""
        told = time.monotonic()
        while (trouble := self._trouble()) is None and self._futures[0].status != "finished":
            if self._asked is None and (asked := ended()) is not None:
                self._asked = asked
                self._run(self._workers[:1], _pass_on, self._name, END)
            if time.monotonic() - told > LEASE / 6:
                told = time.monotonic()
                self._run(self._workers, _pass_on, self._name, GO_ON)
            while self._said:
                self._tell(self._said.popleft())
            time.sleep(POLL)
        return trouble

    def made(self, index: int) -> Any:
        """What a process that is done has made; what it raised is raised here."""
        kind, pickled = self._futures[index].result()
        value = pickle.loads(pickled)
        if kind == Interrupted.__name__:
            raise self._asked or KeyboardInterrupt
        if kind != "done":
            raise vars(errors)[kind](value)
        return value

    def _trouble(self) -> str | None:
        if not self._futures:
            return "the worker of process 0 does not answer"
        silent = _heard_of(self._client)
        for index, (future, worker) in enumerate(zip(self._futures, self._workers, strict=True)):
            if future.status == "finished":
                self.made(index)
            elif future.status == "error":
                error = future.exception()
                how = f"({type(error).__name__})"
                return str(error) if isinstance(error, Lost) else f"process {index} ended {how}"
            elif future.status != "pending" or worker not in silent:
                return f"the worker of process {index} was lost"
            elif silent[worker] > SILENCE:
                return f"the worker of process {index} was silent for {SILENCE:.0f} seconds"
        return self._behind()

    def _behind(self) -> str | None:
        """Why a process seems to be stuck: the others are ahead of it."""
        now, leader = time.monotonic(), [at for at, _ in max(self._began, key=len)]
        for index, began in enumerate(self._began):
            if len(began) < len(leader):
                took, waited = leader[len(began)] - leader[len(began) - 1], now - leader[len(began)]
                if waited > max(SILENCE, LONGER * took):
                    return f"process {index} kept the others waiting for {waited:.0f} seconds"
        return None

    def end(self) -> None:
        """End all processes that are left, also where a worker does not answer."""
        self._client.unsubscribe_topic(self._name)
        self._run(self._workers, _pass_on, self._name, None)
        self._client.cancel([f for f in self._futures if f.status != "finished"], force=True)

    def _run(self, workers: list[str], function: Callable[..., Any], *given: Any) -> Any:
        """What workers answer that were heard of, by their address."""
        silent = _heard_of(self._client)
        alive = [each for each in workers if silent.get(each, SILENCE) < SILENCE]
        ask = self._client.run
        return _within(ANSWER, lambda: ask(function, *given, workers=alive, on_error="ignore"))


# On a worker.


def _free_address(dask_worker: Any) -> str:
    """An address of this worker at which the first process may listen."""
    host = dask_worker.address.rpartition("//")[2].rpartition(":")[0]
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        listening.bind((host.strip("[]"), 0))
        return f"{host}:{listening.getsockname()[1]}"


def _member(gang: str, place: Place, payload: bytes) -> tuple[str, bytes]:
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
                    worker.log_event(gang, (place.process, what))
            code = child.wait()
        except BrokenPipeError:
            code = child.wait()
        finally:
            child.kill()
            _members.pop(gang, None)
        if not outcome.exists():
            raise Lost(f"process {place.process} ended (exit code {code})")
        kind, _, value = outcome.read_bytes().partition(b"\n")
        if kind.decode() == Lost.__name__:
            raise Lost(f"process {place.process} ended ({pickle.loads(value)})")
        return kind.decode(), value


def _pass_on(gang: str, line: bytes | None) -> None:
    """Tell the process what the client says; None to end it."""
    child = _members.get(gang)
    if child is not None and line is None:
        child.kill()
    elif child is not None and child.stdin is not None:
        child.stdin.write(line or b"")
        child.stdin.flush()


# In a process of a gang.

_asked_to_end = threading.Event()


def asked_to_end() -> bool:
    """Whether the work is to be saved and ended; the first process is asked."""
    return _asked_to_end.is_set()


def tell_client(what: str) -> None:
    """Tell the client what this process begins with."""
    print(MARK + what.splitlines()[0], flush=True)


def _listen() -> None:
    """Do what the client says, and end where it says no more or the worker has ended."""
    said: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        for line in sys.stdin.buffer:
            said.put(line)
        said.put(b"")

    threading.Thread(target=read, daemon=True).start()
    line = GO_ON
    while line:
        if line == END:
            _asked_to_end.set()
        try:
            line = said.get(timeout=LEASE)
        except queue.Empty:
            break
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
        made = work(Place(address, int(index), int(count)))
        found = "done", made if index == "0" else None  # the others have made the same
    except StakesError as error:
        found = type(error).__name__, str(error)
    except Exception as error:  # such as that another process was lost
        traceback.print_exc()
        found = Lost.__name__, f"{type(error).__name__}: {error}".splitlines()[0][:300]
    part = Path(outcome).with_suffix(".part")
    part.write_bytes(found[0].encode() + b"\n" + pickle.dumps(found[1]))
    part.rename(outcome)
    os._exit(0)  # without waiting for the others, which may be lost


if __name__ == "__main__":
    from stakes.host import gang  # the same module as others know, with its one event

    gang.main(*sys.argv[1:])
