"""The command `stakes`: outside the package, so that Ctrl-C is heard while that is imported."""

import os
import signal
import sys
from typing import Any


def main() -> None:
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        # At once: an exception in the middle of an import can crash a library written in C.
        signal.signal(signal.SIGINT, _leave)
    from stakes.app.cli import main as run

    signal.signal(signal.SIGINT, before)
    try:
        run()
    except KeyboardInterrupt:
        _leave()


def _leave(*_: Any) -> None:
    print("error: Interrupted.", file=sys.stderr, flush=True)
    os._exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
