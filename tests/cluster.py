"""A cluster of two workers on this machine, and one of them lost on the way."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def two_workers() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.Client(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as client:
        yield client


def dying(client: Any, seconds: float = 5.0) -> str:
    """The address of a worker that is killed after some seconds, with all that it has to do."""
    import threading

    address, about = next(iter(client.scheduler_info()["workers"].items()))
    [pid] = client.run(_pid, workers=[address]).values()
    threading.Timer(seconds, _kill, (pid,)).start()
    assert about
    return str(address)


def _pid() -> int:
    import os

    return os.getpid()


def _kill(pid: int) -> None:
    import os
    import signal

    os.kill(pid, signal.SIGKILL)
