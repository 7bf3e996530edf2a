"""The history of `make bench`: one line a run in history.jsonl, and what got worse since.

Ratios are compared with the median of earlier runs on the same kind of machine, since vector units
and the number of cores change them.
"""

import json
import os
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from stakes.wording import text_table

PATH = Path(__file__).with_name("history.jsonl")
WORSE = 1.15
"""The factor by which a ratio must grow to be listed; on a quiet machine it repeats within 10 %."""
RECENT = 5
"""The runs whose median is the standard; older ones tell about other code."""


class Run(TypedDict):
    """One line of the history."""

    date: str
    commit: str
    machine: str
    ratios: dict[str, float]


def this_run(ratios: Mapping[str, float]) -> Run:
    """The run that has just ended: now, here, and of the code as it is."""
    rounded = {name: round(value, 3) for name, value in ratios.items()}
    now = datetime.now(UTC).isoformat(timespec="minutes")
    return Run(date=now, commit=commit(), machine=machine(), ratios=rounded)


def commit() -> str:
    """The commit of the checkout, with a plus where files differ from it."""
    described = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    run = subprocess.run(described, cwd=PATH.parent, capture_output=True, text=True)
    return run.stdout.strip() or "unknown"


def machine() -> str:
    """The processor's model, where Linux tells it, and the number of cores."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else 'unknown processor'}, {os.cpu_count()} cores"


def worse(run: Run, earlier: Sequence[Run]) -> list[tuple[str, float, float]]:
    """Ratios that grew: name, median of recent runs on such a machine, and value now."""
    alike = [each["ratios"] for each in earlier if each["machine"] == run["machine"]][-RECENT:]
    grown = []
    for name, value in run["ratios"].items():
        before = [ratios[name] for ratios in alike if name in ratios]
        if before and value > WORSE * statistics.median(before):
            grown.append((name, statistics.median(before), value))
    return grown


def record(ratios: Mapping[str, float], path: Path = PATH) -> str:
    """Append a run to the history; return what got worse, as text."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    run, earlier = this_run(ratios), [json.loads(line) for line in lines]
    path.write_text("\n".join([*lines, json.dumps(run)]) + "\n", "utf-8")
    grown = worse(run, earlier)
    if not grown:
        alike = sum(each["machine"] == run["machine"] for each in earlier)
        return f"No ratio is worse than in {alike} earlier runs on such a machine."
    rows = [(name, f"{before:.2f}", f"{now:.2f}") for name, before, now in grown]
    return "\n".join(text_table([("got worse", "before", "now"), *rows], right={1, 2}))
