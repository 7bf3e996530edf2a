"""What the system says of a process; nothing elsewhere than on Linux."""

import os
from pathlib import Path
from typing import NamedTuple


class Known(NamedTuple):
    is_stopped: bool
    busy: float
    """Seconds of processors' time that all of its threads have taken."""


def known_of(pid: int) -> Known:
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return Known(is_stopped=False, busy=0.0)
    ticks = int(after_name[11]) + int(after_name[12])  # the 14th and 15th fields of all
    return Known(after_name[0] in ("T", "t"), ticks / os.sysconf("SC_CLK_TCK"))
