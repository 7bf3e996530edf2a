"""Several processes that work on one fit: how they find, wait for and tell one another."""

import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias, TypeVar, final

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import ArrayLike

from stakes import checks
from stakes._types import Array
from stakes.errors import InputError

T = TypeVar("T")

AXIS = "process"
"""Of the mesh, with one device of each process."""
PATIENCE = 3600
"""Seconds that processes wait for one another outside of a fit, where one may compile longer."""
WAIT = 300
"""Seconds for all to come together at first: names of machines may not be known at once."""
FEW = 2**16
"""Numbers of all processes together, up to which each had better send all of its own to the others.
It takes half as many turns as adding them up on the way, and turns are what small ones wait for."""
ADDRESS = re.compile(r"(?P<host>[^\s:]+|\[[0-9A-Fa-f:]+\]):(?P<port>[0-9]{1,5})")
Collective: TypeAlias = Callable[[Array, str], Array]


@final
class Processes:
    """Processes that make one fit together, as `join` returns them."""

    def __init__(self, index: int, count: int) -> None:
        self.index, self.count = index, count
        first = {device.process_index: device for device in reversed(jax.devices())}
        self.mesh = Mesh(np.array([first[process] for process in sorted(first)]), (AXIS,))
        self.waiting: Callable[[float | None], None] = lambda worked: None
        """Told before each meeting how long this process has worked since the last, None after."""
        self._meetings, self._met = 0, time.monotonic()

    def __repr__(self) -> str:
        return f"Processes({self.index} of {self.count})"

    @property
    def speaks(self) -> bool:
        """Whether this is the process that shows progress and writes files."""
        return self.index == 0

    def same(self, tree: T) -> T:
        """Arrays that are the same in every process, as arguments of a program that all run."""
        everywhere: T = jax.tree.map(lambda leaf: self._global(leaf, None), tree)
        return everywhere

    def split(self, local: ArrayLike, axis: int) -> Array:
        """One array of which each process has its part along an axis."""
        return self._global(local, axis)

    def own(self, tree: T) -> T:
        """The parts that this process has."""
        here: T = jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)
        return here

    def gather(self, local: ArrayLike) -> np.ndarray:
        """What each process has, along a new first axis; the shapes have to be the same."""
        from jax.experimental import multihost_utils  # not needed by one process

        with self._meeting():
            own = np.asarray(local)[None]
            found: np.ndarray = multihost_utils.process_allgather(own, tiled=True)
            return np.asarray(found)

    def any(self, value: bool) -> bool:
        """Whether this is true in any process."""
        return bool(self.gather(np.array(value)).any())

    def meet(self) -> None:
        """Wait for the others, however long they compile."""
        with self._meeting():
            pass

    @contextmanager
    def _meeting(self) -> Iterator[None]:
        """Inside, all are there; one that is lost then keeps the others waiting forever."""
        self._meetings += 1
        self.waiting(time.monotonic() - self._met)
        _client().wait_at_barrier(f"stakes {self._meetings}", 1000 * PATIENCE)
        yield
        self.waiting(None)
        self._met = time.monotonic()

    def leave(self) -> None:
        """Leave the others, once all have called this; from then on, each works alone."""
        self.meet()
        part: Any = jax.distributed.shutdown
        part()

    def _global(self, local: ArrayLike, axis: int | None) -> Array:
        here = jax.device_put(local, self.mesh.local_devices[0])
        shape = tuple(n * self.count if i == axis else n for i, n in enumerate(here.shape))
        sharding = NamedSharding(self.mesh, spread_along(axis))
        return jax.make_array_from_single_device_arrays(shape, sharding, [here])


def join(coordinator: str, *, process: int, of: int) -> Processes:
    """Join the processes that are to make one fit together.

    There are `of` processes, numbered from zero, on one machine or several. Each of them calls this
    before doing anything else with JAX, then `calibrate` with the same arguments and with what this
    returns as `on=`.

    Each calls `leave()` on what this returns before it ends or does anything long on its own, since
    a process that ends waits for the others.

    Args:
        coordinator: "HOST:PORT", where process 0 listens; the other processes learn from it where
            to reach one another. Messages are not encrypted: use an address that only these
            processes can reach.
        process: the number of this process.
        of: how many there are.

    Examples:
        >>> import stakes
        >>> stakes.join("127.0.0.1:8476", process=4, of=4)
        Traceback (most recent call last):
        ...
        stakes.errors.InputError: `join(process=...)` must be a whole number from 0 to 3; got 4.
    """
    of = checks.whole("`join(of=...)`", of)
    process = checks.whole("`join(process=...)`", process, least=0, most=of - 1)
    host, port = _address(coordinator)
    if jax.distributed.is_initialized():
        raise InputError("`join(...)`: this process has joined others already.")
    if _has_begun():
        raise InputError(
            "`join(...)` has to come before all else that uses JAX, such as `jax.random.key(0)`: "
            "what this process works with is settled by then."
        )
    _listen_at(_own_address(host, port, patience=WAIT if process else 0))
    # JAX would take SIGTERM for itself, and no handler of the program would hear of it.
    configure: Any = jax.config.update
    configure("jax_enable_preemption_service", False)
    jax.distributed.initialize(
        f"{host}:{port}",
        of,
        process,
        local_device_ids=[0],
        # JAX would listen on all addresses of the machine.
        coordinator_bind_address=f"{host}:{port}",
        initialization_timeout=WAIT,
        heartbeat_timeout_seconds=30,
        # Whoever ends waits for the others; when that takes too long, JAX ends them all.
        shutdown_timeout_seconds=PATIENCE,
    )
    return Processes(process, of)


def _address(coordinator: str) -> tuple[str, int]:
    said = ADDRESS.fullmatch(checks.text("`join(coordinator)`", coordinator))
    if said is None or not 0 < int(said["port"]) < 2**16:
        rule = "HOST:PORT, such as '127.0.0.1:8476'"
        raise checks.refused("`join(coordinator)`", rule, coordinator)
    return said["host"], int(said["port"])


def _own_address(host: str, port: int, patience: float) -> str:
    """By which address of this machine the coordinator is reached; no packet is sent for it."""
    began = time.monotonic()
    while True:
        try:
            family, kind, protocol, _, there = socket.getaddrinfo(
                host.strip("[]"), port, type=socket.SOCK_DGRAM
            )[0]
            with socket.socket(family, kind, protocol) as way:
                way.connect(there)
                return str(way.getsockname()[0])
        except OSError as error:
            if time.monotonic() - began < patience:
                time.sleep(1)
                continue
            raise InputError(f"`join(coordinator)`: {host!r} cannot be reached: {error}.") from None


# Inside a program of all processes.


def own_index() -> Array:
    """The number of the process."""
    return jax.lax.axis_index(AXIS)


def mean_of_all(value: Array) -> Array:
    """Of one array of each, the same in all of them, bit for bit."""
    count = jax.lax.axis_size(AXIS)
    if count > 2 and count * value.size > FEW:
        collect: Collective = jax.lax.pmean
        return collect(value, AXIS)
    gather: Collective = jax.lax.all_gather
    return gather(value, AXIS).sum(0) / count


def sum_of_all(value: Array) -> Array:
    collect: Collective = jax.lax.psum
    return collect(value, AXIS)


def largest_of_all(value: Array) -> Array:
    collect: Collective = jax.lax.pmax
    return collect(value, AXIS)


def spread_along(axis: int | None) -> PartitionSpec:
    """How an array lies: the same in every process, or each with its part along an axis."""
    spec: Any = PartitionSpec
    made: PartitionSpec = spec() if axis is None else spec(*(None,) * axis, AXIS)
    return made


# JAX has no public names for what follows: where collectives listen, whether a backend is there,
# and a barrier that may take longer than a collective.


def _listen_at(address: str) -> None:
    """Let collectives listen at this address alone, not at that of the host's name."""
    from jax._src import distributed, xla_bridge
    from jaxlib import _jax

    def make() -> object:
        client = distributed.global_state.client
        with _aside():
            collectives = _jax.make_gloo_tcp_collectives(
                distributed_client=client, hostname=address
            )
        return xla_bridge.make_cpu_client(collectives)

    xla_bridge.register_backend_factory("cpu", make, priority=0, fail_quietly=False)


@contextmanager
def _aside() -> Iterator[None]:
    """Threads that are started inside leave the core of this one to it, where the system can.

    Gloo receives messages in a thread of its own, which asks again and again for a lock while
    another thread sends. On the one core of a process it would keep the sender from going on until
    the system takes the core away from it: four milliseconds for each message, not a third of one.
    """
    try:
        cores, policy = os.sched_getaffinity(0), (os.sched_getscheduler(0), os.sched_getparam(0))
    except AttributeError:
        yield
        return
    try:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # it pushes nobody aside
            if len(cores) == 1:
                os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))
        yield
    finally:
        with suppress(OSError):
            os.sched_setscheduler(0, *policy)
            os.sched_setaffinity(0, cores)


def _has_begun() -> bool:
    from jax._src import xla_bridge

    return bool(xla_bridge.backends_are_initialized())


def _client() -> Any:
    from jax._src import distributed

    return distributed.global_state.client
