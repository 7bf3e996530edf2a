"""Fits on two Dask workers that are disturbed, beside fits that are left alone.

Run `python -m benchmarks.disturbed --fits 40`. Of each fit, one process or the Dask worker that
started it is killed, stopped or caught in an endless loop at a random moment. For each: why all
were started again, how much longer the fit took than the median of those that were left alone, of
which one is made before every ten, and whether it ended with the same numbers, bit for bit.
"""

import argparse
import contextlib
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist

import stakes
from stakes.study import Options, Study, Work, fit_on_workers
from stakes.wording import text_table

KINDS = {
    "second killed": (1, signal.SIGKILL),
    "first killed": (0, signal.SIGKILL),
    "second stopped": (1, signal.SIGSTOP),
    "first in a loop": (0, signal.SIGUSR1),
    "worker of the second killed": (3, signal.SIGKILL),
    "second in a loop": (1, signal.SIGUSR1),
    "first stopped": (0, signal.SIGSTOP),
    "worker of the first stopped": (2, signal.SIGSTOP),
}
OFTEN = 10
ROWS, BATCH = 203, 24


def busy(*_: object) -> None:
    """An endless loop."""
    while True:
        pass


if "stakes.host.gang" in sys.orig_argv and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGUSR1, busy)


class Found(NamedTuple):
    """What a fit found, how long it took, and what was told on the way."""

    numbers: list[np.ndarray]
    seconds: float
    told: list[str]


def main() -> None:
    from distributed import Client

    parser = argparse.ArgumentParser(prog="python -m benchmarks.disturbed", description=__doc__)
    parser.add_argument("--fits", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="the number of the first fit")
    asked = parser.parse_args()
    lines = [["fit", "disturbed", "at", "lost", "numbers", "why"]]
    alone: list[Found] = []
    cluster: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with Client(**cluster, host="127.0.0.1") as client:
        for number in range(asked.first, asked.first + asked.fits):
            if (number - asked.first) % OFTEN == 0:
                alone.append(fitted(client))
                print(f"left alone: {alone[-1].seconds:.0f} s", flush=True)
            usual, rng = statistics.median(each.seconds for each in alone), random.Random(number)
            kind, moment = list(KINDS)[number % len(KINDS)], 0.8 * rng.random() * usual
            found = fitted(client, kind, moment)
            same = all(map(np.array_equal, found.numbers, alone[0].numbers))
            lost = f"{found.seconds - usual:.0f} s"
            numbers = "the same" if same else "others"
            at = f"{moment / usual:.0%}"
            lines.append([str(number), kind, at, lost, numbers, "; ".join(found.told)])
            print(*lines[-1], sep=" | ", flush=True)
    print("\n".join(text_table(lines, right={0, 2, 3})))


def fitted(client: Any, kind: str | None = None, moment: float = 0.0) -> Found:
    """Fit, and disturb that so many seconds after its processes have been started."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if kind is not None:
            threading.Thread(target=disturb, args=(*KINDS[kind], moment), daemon=True).start()
        path = Path(folder) / "fits.npz"
        made = fit_on_workers(client, study, path, batch=BATCH, interval=0.2)
    assert made.calibrated is not None
    params = jax.tree.leaves((made.plain.variables, made.calibrated.variables))
    numbers = [*map(np.asarray, params), made.plain.bound, made.calibrated.bound, made.decisions]
    again = [str(each.message).partition(";")[0] for each in told if "again" in str(each.message)]
    return Found(numbers, time.monotonic() - began, again)


def study(work: Work) -> Study:
    rng = np.random.default_rng(0)
    data = {"x": (x := rng.normal(size=ROWS)), "y": 0.7 * x + rng.normal(size=ROWS)}
    problem = stakes.Problem(shops, outcome="y", loss=stakes.Newsvendor(3, 1))
    return Study(jax.random.key(3), problem, data, Options(steps=400), work=work)


def shops(x: Any, y: Any = None) -> None:
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("row", len(x), subsample_size=BATCH) as members:
        level = numpyro.sample("level", dist.Normal(0, 1))
        seen = None if y is None else y[members]
        numpyro.sample("y", dist.Normal(level + slope * x[members], 0.5), obs=seen)


def disturb(victim: int, sent: signal.Signals, moment: float) -> None:
    while len(workers(os.getpid())) < 2:
        time.sleep(0.05)
    time.sleep(moment)
    pids = workers(os.getpid())
    while sent == signal.SIGUSR1 and not all(map(would_loop, pids)):
        time.sleep(0.05)
    if len(pids) == 2:
        os.kill([*pids, *map(parent, pids)][victim], sent)


def workers(client: int) -> list[int]:
    """The processes that make the fits of this one, in their order."""
    found = dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            pid = int(path.parent.name)
            if "stakes.host.gang" in words and is_within(pid, client):
                found[int(words[-3])] = pid
    return [found[index] for index in sorted(found)]


def is_within(pid: int, client: int) -> bool:
    """Whether a process was started by this one, or by one that it has started."""
    while pid > 1 and pid != client:
        pid = parent(pid)
    return pid == client


def parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def would_loop(pid: int) -> bool:
    """Whether the process loops when it is asked to; or has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (signal.SIGUSR1 - 1) & 1)


if __name__ == "__main__":
    from benchmarks import disturbed  # functions of a module that other processes can import

    disturbed.main()
