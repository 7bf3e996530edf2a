"""Signals that end work: at its next stopping place, or at once by an exception.

A fit has a stopping place after every chunk of steps, so that Ctrl-C leaves a result that can be
used. A run saves what it has. Only a second signal ends the work at once, as an exception that lets
every `with` clear up.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, final

# Signals that ask a program to end: Ctrl-C, `kill`, and a terminal that was closed.
ENDING = tuple(
    signal.Signals[name]
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if name in signal.Signals.__members__
)


@final
class Signalled(KeyboardInterrupt):
    """The exception by which a signal ends the work at once, as Ctrl-C does.

    It is a `KeyboardInterrupt`, so that nothing handles it by accident, and files half written are
    removed.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"ended by {signal.Signals(signum).name}")
        self.signum = signum


def signal_of(error: KeyboardInterrupt) -> int:
    """Return the number of the signal behind an exception; that of Ctrl-C for Python's own."""
    return error.signum if isinstance(error, Signalled) else signal.SIGINT


@final
class Interruption:
    """A record of the signals that have come while work is under way.

    Args:
        patient: whether a second signal is just recorded, too, instead of ending the work at once.
    """

    def __init__(self, *, patient: bool = False) -> None:
        self.patient = patient
        """Whether a second signal is just recorded, too."""
        self.signum: int | None = None
        self.times = 0
        """How often a signal has come."""
        self._at_once = False

    def asked(self) -> bool:
        """Whether a signal has asked the work to end."""
        return self.signum is not None

    def note(self, signum: int, frame: FrameType | None) -> None:
        """Record a signal, as its handler; end the work at once where that is due."""
        again = self.asked()
        self.signum = self.signum or signum
        self.times += 1
        if (again and not self.patient) or self._at_once:
            raise Signalled(signum)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Where there are no stopping places: the first signal raises, as does one from before."""
        before, self._at_once = self._at_once, True
        try:
            if self.signum is not None:
                raise Signalled(self.signum)
            yield
        finally:
            self._at_once = before


@contextmanager
def deferred(*signals: signal.Signals, patient: bool = False) -> Iterator[Interruption]:
    """Record these signals instead of handling them; outside the main thread, do nothing."""
    heard = Interruption(patient=patient)
    with _handled(signals, heard.note):
        yield heard


@contextmanager
def raised(*signals: signal.Signals) -> Iterator[None]:
    """Raise these signals as exceptions, so that what they end can clear up after itself."""

    def end(signum: int, frame: FrameType | None) -> NoReturn:
        raise Signalled(signum)

    with _handled(signals, end):
        yield


@contextmanager
def unheard_by_processes() -> Iterator[None]:
    """Start processes that do not hear of signals for all of a terminal, such as Ctrl-C."""
    ignored: Any = signal.SIG_IGN
    with _handled(tuple(each for each in ENDING if each != signal.SIGTERM), ignored):
        yield


@contextmanager
def left_at_once() -> Iterator[None]:
    """End the program at Ctrl-C without an exception.

    For imports: an exception in one can crash a library written in C.
    """

    def leave(signum: int, frame: FrameType | None) -> NoReturn:
        print("error: Interrupted.", file=sys.stderr, flush=True)
        os._exit(128 + signum)

    with _handled((signal.SIGINT,), leave):
        yield


@contextmanager
def deferred_ctrl_c() -> Iterator[Interruption]:
    """Record Ctrl-C, unless another handler is already set.

    Within work that handles Ctrl-C itself, such as a run, or in a notebook, that handler decides.
    """
    listened_for = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    with deferred(*(() if listened_for else (signal.SIGINT,))) as heard:
        yield heard


@contextmanager
def _handled(
    signals: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], Any]
) -> Iterator[None]:
    """Handle signals; those that the program was started to ignore, as with `nohup`, stay so."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        heeded = [each for each in signals if signal.getsignal(each) is not signal.SIG_IGN]
        before = {each: signal.signal(each, handler) for each in heeded}
    try:
        yield
    finally:
        for each, handled_before in before.items():
            signal.signal(each, handled_before)
