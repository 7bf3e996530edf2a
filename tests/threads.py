"""Threads in place of processes, for what these tell each other.

One runs at a time, until it waits for the others: NumPyro's handlers are not made for threads.
"""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from stakes.errors import InputError, StorageError

PATIENCE = 120


class Meeting:
    """Where they tell each other something."""

    def __init__(self, count: int) -> None:
        self.barrier, self.told = threading.Barrier(count), dict[int, np.ndarray]()
        self.turn = threading.Lock()

    def wait(self) -> None:
        self.turn.release()
        try:
            self.barrier.wait(PATIENCE)
        finally:
            self.turn.acquire()


class Member:
    """One of them, as it sees the others."""

    def __init__(self, meeting: Meeting, index: int) -> None:
        self.meeting, self.index, self.speaks = meeting, index, index == 0
        self.count = meeting.barrier.parties

    def gather(self, local: Any) -> np.ndarray:
        self.meeting.told[self.index] = np.asarray(local)
        self.meeting.wait()
        told = np.stack([self.meeting.told[i] for i in sorted(self.meeting.told)])
        self.meeting.wait()
        return told

    def any(self, value: bool) -> bool:
        return bool(self.gather(np.array(value)).any())


def together(count: int, work: Callable[[Any], Any]) -> list[Any]:
    """What each returns, or what the error says that it ends in."""
    meeting, found = Meeting(count), dict[int, Any]()
    unexpected: list[BaseException] = []

    def one(index: int) -> None:
        with meeting.turn:
            try:
                found[index] = work(Member(meeting, index))
            except (InputError, StorageError) as error:
                found[index] = str(error)
            except BaseException as error:
                unexpected.append(error)
                meeting.barrier.abort()

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if unexpected:
        raise unexpected[0]
    return [found[i] for i in range(count)]
