"""Processes that make one fit together: arrays that all of them have, or each its part of."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, final

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import ArrayLike

from stakes._types import Array

T = TypeVar("T")

# Of the mesh, with one device of each process.
AXIS = "process"
# Seconds for all to come together.
WAIT = 300
# Seconds without a sign of life after which JAX ends the other processes, too.
HEARTBEAT = 30
# The axis of rows in an array that has none.
NOWHERE = -1


@final
class Processes:
    """Processes that make one fit together, as `join` returns them."""

    def __init__(self) -> None:
        self.index, self.count = jax.process_index(), jax.process_count()
        first = {device.process_index: device for device in reversed(jax.devices())}
        # Called before each wait for the others: one that is stuck comes behind them.
        self.arrive: Callable[[], None] = lambda: None
        self.mesh = Mesh(np.array([first[process] for process in sorted(first)]), (AXIS,))

    @property
    def speaks(self) -> bool:
        """Whether this is the process that shows progress and writes what all have in common."""
        return self.index == 0

    def sharding(self, axis: int = NOWHERE) -> NamedSharding:
        """How an array lies: the same in every process, or each with its part along an axis."""
        return NamedSharding(self.mesh, spread_along(axis))

    def shared(self, local: ArrayLike, axis: int = NOWHERE) -> Array:
        """One array of all processes: the same in each, or each with its part along an axis."""
        if is_shared(local):
            assert isinstance(local, jax.Array)
            return local
        make: Any = jax.make_array_from_process_local_data
        made: Array = make(self.sharding(axis), np.asarray(local))
        return made

    def from_first(self, tree: T) -> T:
        """The arrays of the first process, in all of them."""
        self.arrive()
        told: T = multihost_utils.broadcast_one_to_all(tree)
        return told

    def gather(self, local: ArrayLike) -> np.ndarray:
        """What each process has, along a new first axis; the shapes have to be the same."""
        self.arrive()
        own = np.asarray(local)[None]
        return np.asarray(multihost_utils.process_allgather(own, tiled=True))


def is_shared(leaf: object) -> bool:
    """Whether several processes have this array together."""
    return isinstance(leaf, jax.Array) and not leaf.is_fully_addressable


def own_part(leaf: Array) -> Array:
    """What this process has of an array; all of it where there is one process."""
    part: Array = leaf.addressable_data(0) if is_shared(leaf) else leaf
    return part


def axis_of(leaf: object) -> int:
    """The axis of an array along which each process has its part."""
    if not is_shared(leaf):
        return NOWHERE
    assert isinstance(leaf, jax.Array)
    assert isinstance(leaf.sharding, NamedSharding)
    spec = tuple(leaf.sharding.spec)
    return spec.index(AXIS) if AXIS in spec else NOWHERE


def spread_along(axis: int) -> PartitionSpec:
    """How the axes of an array are spread over the processes."""
    spec: Any = PartitionSpec
    made: PartitionSpec = spec() if axis == NOWHERE else spec(*(None,) * axis, AXIS)
    return made


def join(address: str, *, process: int, of: int) -> Processes:
    """Join the processes that make one fit together, before anything else is done with JAX.

    Args:
        address: HOST:PORT, where the first process listens.
        process: the number of this process.
        of: how many there are.
    """
    configure: Any = jax.config.update
    configure("jax_enable_preemption_service", False)  # JAX would take SIGTERM for itself
    jax.distributed.initialize(
        address,
        of,
        process,
        local_device_ids=[0],
        coordinator_bind_address=address,  # JAX would listen on all addresses of the machine
        initialization_timeout=WAIT,
        heartbeat_timeout_seconds=HEARTBEAT,
    )
    listen_at(_own_address(address))
    _begin_aside()
    return Processes()


def _own_address(address: str) -> str:
    """By which address of this machine the first process is reached; no packet is sent for it."""
    host, _, port = address.rpartition(":")
    found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
    family, kind, protocol, _, there = found[0]
    with socket.socket(family, kind, protocol) as way:
        way.connect(there)
        return str(way.getsockname()[0])


def _begin_aside() -> None:
    """Start JAX, its threads as ones that push no other aside, where the system can.

    Gloo receives messages in a thread of its own, which asks again and again for a lock while
    another thread sends. With the priority of others it would keep the sender from going on until
    the system takes the core away from it: four milliseconds for each message, not a third of one.
    """
    policy = None
    with suppress(AttributeError, OSError):
        policy = os.sched_getscheduler(0), os.sched_getparam(0)
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    jax.devices()
    with suppress(AttributeError, OSError):
        if policy is not None:
            os.sched_setscheduler(0, *policy)


def listen_at(address: str) -> None:
    """Let collectives listen at this address alone, for which JAX has no public name.

    Otherwise they listen at that of the host's name, which other machines may reach or nobody.
    """
    from jax._src import distributed, xla_bridge
    from jaxlib import _jax

    def make() -> object:
        client = distributed.global_state.client
        made = _jax.make_gloo_tcp_collectives(distributed_client=client, hostname=address)
        return xla_bridge.make_cpu_client(made)

    xla_bridge.register_backend_factory("cpu", make, priority=0, fail_quietly=False)
