"""The command `stakes`, which can be interrupted from its first moment.

It is outside the package, so that Ctrl-C is handled while the package is imported.
"""

import os
import signal
import sys
from typing import Any


def main() -> None:
    """Run the command line.

    Until the package is imported, Ctrl-C ends the process at once: an exception in the middle of an
    import can crash a library written in C.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from stakes.app.cli import main as run

    signal.signal(signal.SIGINT, before)
    try:
        run()
    except KeyboardInterrupt:
        _leave()


def _leave(*_: Any) -> None:
    """End the process as an interrupted one ends."""
    print("error: Interrupted.", file=sys.stderr, flush=True)
    os._exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
