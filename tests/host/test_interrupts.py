"""Signals that end work."""

import os
import signal

import pytest

from stakes.host.interrupts import Signalled, deferred, raised


def test_the_first_signal_is_noted_and_the_second_ends_at_once() -> None:
    with deferred(signal.SIGTERM) as heard:
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard.signum == signal.SIGTERM
        with pytest.raises(Signalled, match="ended by SIGTERM"):
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As in a program started with `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with raised(signal.SIGHUP), deferred(signal.SIGHUP) as heard:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not heard.asked()
    finally:
        signal.signal(signal.SIGHUP, before)
