"""Ctrl-C and SIGTERM end a run at the next chunk of steps, with what was done saved."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import final

from stakes.errors import Interrupted


@final
class Stopper:
    """Remembers the signal that asked for an end."""

    def __init__(self) -> None:
        self.signum: int | None = None

    def asked(self) -> bool:
        return self.signum is not None

    def stop(self) -> None:
        assert self.signum is not None
        name = signal.Signals(self.signum).name
        raise Interrupted(
            f"Ended by {name}, with what had been done saved: `stakes resume` goes on from there.",
            self.signum,
        )

    def note(self, signum: int, frame: FrameType | None) -> None:
        if self.asked():
            raise KeyboardInterrupt  # the second time, at once
        self.signum = signum


@contextmanager
def listening() -> Iterator[Stopper]:
    """A stopper that hears both signals, where signals can be heard."""
    stopper = Stopper()
    if threading.current_thread() is not threading.main_thread():
        yield stopper
        return
    before = {s: signal.signal(s, stopper.note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopper
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
