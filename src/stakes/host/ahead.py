"""Work done ahead of time, in another thread, and work shared out among all cores."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Generic, TypeVar, final

Item = TypeVar("Item")
Made = TypeVar("Made")


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
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable is not None else os.cpu_count() or 1
