"""Work shared out: ahead in a thread, among all cores, or on the workers of a Dask cluster."""

import os
import tempfile
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, final

from stakes.errors import InputError
from stakes.host.compiling import SETTINGS, setting
from stakes.host.interrupts import unheard_by_processes
from stakes.host.packages import how_to_install
from stakes.host.progress import count_pieces

if TYPE_CHECKING:
    from distributed import Client
    from typing_extensions import TypeIs

Item = TypeVar("Item")
Made = TypeVar("Made")

ONE_AT_A_TIME = threading.Lock()
"""NumPyro keeps its handlers in one list for all threads of a process."""
OF_NUMBERS = tuple(name for name in SETTINGS if name != "jax_default_device")
"""Settings of JAX that numbers depend on."""


class Failed(NamedTuple):
    """A piece of work that ended in an error, which is told and stops no other."""

    error: str


def has_failed(outcome: object) -> "TypeIs[Failed]":
    """Whether a piece of work ended in an error."""
    return isinstance(outcome, Failed)


def run_each(
    work: Callable[..., Made],
    pieces: Sequence[tuple[object, ...]],
    *,
    title: str,
    on: "Client | None" = None,
    show: bool = True,
) -> list[Made | Failed]:
    """What `work` returns for each piece, in their order; `Failed` where it raised an error.

    Args:
        work: called with the parts of a piece as its arguments. On a cluster, it and the pieces
            travel to other processes.
        pieces: the arguments of each call.
        title: of the progress bar.
        on: a `dask.distributed.Client`; None to work here. A piece that is lost with its worker
            is done again on another.
        show: whether to show progress on a terminal.
    """
    if on is None:
        with count_pieces(title, len(pieces), show=show) as tell:
            found = []
            for piece in pieces:
                found.append(attempt(work, *piece))
                tell(has_failed(found[-1]))
        return found
    return _on_cluster(partial(attempt, work), pieces, on, _outcome, title=title, show=show)


def run_all(
    work: Callable[..., Made],
    pieces: Sequence[tuple[object, ...]],
    *,
    title: str,
    on: "Client",
    show: bool = True,
) -> list[Made]:
    """Like `run_each` on a cluster, where all pieces are needed: an error in one is raised here."""
    return _on_cluster(work, pieces, on, lambda future: future.result(), title=title, show=show)


def checked_client(on: object) -> "Client":
    """A client of a Dask cluster, or an error that says how to get one."""
    lacks = [name for name in ("submit", "cancel", "scheduler_info") if not hasattr(on, name)]
    if isinstance(on, type) or lacks:
        raise InputError(
            f"`on=` must be a `dask.distributed.Client`, such as `Client(processes=True)` or "
            f"`Client('HOST:PORT')`; got a value of type {type(on).__name__}. Without it, all work "
            f"is done in this process."
        )
    return on


def shared_folder() -> str | None:
    """The folder for temporary files that Dask is set to use; None for that of the system."""
    import dask

    folder: str | None = dask.config.get("temporary-directory")
    return folder


@contextmanager
def connected(
    address: str | None, count: int | None = None, sent: Iterable[ModuleType] = ()
) -> Iterator["Client | None"]:
    """A client of a cluster; None where there is to be none.

    Args:
        address: of its scheduler.
        count: of the workers of a cluster that is started here, for as long as the client is used.
        sent: modules that the workers do not have, and get a copy of.
    """
    if address is None and count is None:
        yield None
        return
    try:
        from distributed import Client
    except ModuleNotFoundError:
        asked = "--processes" if address is None else "--dask"
        raise InputError(f"`{asked}` needs Dask: {how_to_install('cluster')}.") from None
    try:
        client = _local_client(count) if address is None else Client(address, timeout=10)
    except (OSError, ValueError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"`--dask {address}`: no scheduler answers there ({said[0]}).") from None
    with client, tempfile.TemporaryDirectory() as folder:
        for module in sent:
            copy = Path(folder) / f"{module.__name__}.py"
            copy.write_bytes(Path(str(module.__file__)).read_bytes())
            client.upload_file(str(copy))
        yield client


def _local_client(count: int | None) -> "Client":
    """A client of a cluster on this machine, which nobody else can reach."""
    from distributed import Client

    made: Any = Client
    with unheard_by_processes():  # a Ctrl-C is for this process, which may need the workers
        client: Client = made(
            n_workers=count, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        )
    return client


def attempt(work: Callable[..., Made], *piece: object) -> Made | Failed:
    """What the work returns, or how it failed."""
    try:
        return work(*piece)
    except Exception as error:
        return Failed(f"{type(error).__name__}: {error}")


def _on_cluster(
    work: Callable[..., Any],
    pieces: Sequence[tuple[object, ...]],
    client: Any,
    result: Callable[[Any], Any],
    *,
    title: str,
    show: bool,
) -> list[Any]:
    from distributed import as_completed

    settings = {name: setting(name) for name in OF_NUMBERS}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        sent = _sent_once(client, pieces)
        # Without `pure`, equal pieces are not taken for one.
        futures = [client.submit(_alone, settings, work, *piece, pure=False) for piece in sent]
    try:
        with count_pieces(title, len(pieces), show=show) as tell:
            for future in as_completed(futures):
                tell(has_failed(result(future)))
        return [result(future) for future in futures]
    except BaseException:
        client.cancel(futures)
        raise


def _sent_once(client: Any, pieces: Sequence[tuple[object, ...]]) -> list[tuple[Any, ...]]:
    """The pieces, with what is the same in all of them sent to the cluster once.

    As the result of a task, which is done again if the worker that holds it is lost.
    """
    if len(pieces) < 2:
        return list(pieces)
    columns = [
        [client.submit(_same, column[0], pure=False)] * len(column)
        if all(each is column[0] for each in column) and not callable(column[0])
        else list(column)
        for column in zip(*pieces, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _same(value: Any) -> Any:
    return value


def _alone(settings: dict[str, Any], work: Callable[..., Any], *piece: Any) -> Any:
    """On a worker: the only piece at work in its process, and computed as it would be at home."""
    other = [name for name, value in settings.items() if setting(name) != value]
    if other:
        name = other[0]
        raise InputError(
            f"`on=`: the workers compute with {name} = {setting(name)}, this process with "
            f"{settings[name]}, so their numbers would differ. Start them with "
            f"{name.upper()}={settings[name]} in their environment."
        )
    with ONE_AT_A_TIME:
        return work(*piece)


def _outcome(future: Any) -> Any:
    """Of a piece that is done; its workers may all have been lost."""
    error = future.exception()
    return future.result() if error is None else Failed(f"{type(error).__name__}: {error}")


@final
class Ahead(Generic[Made]):
    """A function of (start, count) that is called for the next stretch while one is in use."""

    def __init__(self, make: Callable[[int, int], Made], pool: ThreadPoolExecutor) -> None:
        self._make, self._pool = make, pool
        self._next: tuple[tuple[int, int], Future[Made]] | None = None

    def __call__(self, start: int, count: int) -> Made:
        asked, ready = (start, count), self._next
        # In the one thread of the pool, so that no two stretches are ever made at the same time.
        made = ready[1] if ready and ready[0] == asked else self._pool.submit(self._make, *asked)
        follows = (start + count, count)
        self._next = (follows, self._pool.submit(self._make, *follows))
        return made.result()


@contextmanager
def ahead(make: Callable[[int, int], Made]) -> Iterator[Ahead[Made]]:
    with ThreadPoolExecutor(1) as pool:
        yield Ahead(make, pool)


def on_all_cores(
    work: Callable[[Item], Made], items: Iterable[Item], cores: int | None = None
) -> Iterator[Made]:
    """What `work` returns for each item, in their order, by one thread for each core.

    Only a few items are taken ahead of what has been asked for, so that memory stays bounded. The
    first is worked on alone: what it has to compile serves the others.
    """
    waiting: deque[Future[Made]] = deque()
    most, left = cores or usable_cores(), iter(items)
    for first in left:
        yield work(first)
        break
    with ThreadPoolExecutor(most) as pool:
        for item in left:
            waiting.append(pool.submit(work, item))
            if len(waiting) > most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def usable_cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system can say
        return os.cpu_count() or 1
