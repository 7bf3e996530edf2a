"""A first Ctrl-C or the like ends work at its next stopping place; a second one, at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import final


@final
class Interruption:
    """Records the signal that interrupted the work."""

    def __init__(self) -> None:
        self.signum: int | None = None

    def asked(self) -> bool:
        return self.signum is not None

    def note(self, signum: int, frame: FrameType | None) -> None:
        if self.asked():
            raise KeyboardInterrupt  # the second time, at once
        self.signum = signum


@contextmanager
def deferred(*signals: signal.Signals) -> Iterator[Interruption]:
    """Record these signals instead of handling them; outside the main thread, do nothing."""
    heard = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield heard
        return
    before = {each: signal.signal(each, heard.note) for each in signals}
    try:
        yield heard
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def deferred_ctrl_c() -> Iterator[Interruption]:
    """Record Ctrl-C, unless it has a handler already."""
    listened_for = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    with deferred(*(() if listened_for else (signal.SIGINT,))) as heard:
        yield heard
