"""Runs on two processes that are disturbed, beside runs that are left alone.

Run `python -m benchmarks.disturbed --runs 40`. Each is a whole `stakes run --processes 2` of a
small problem, of which one process or the Dask worker that started it is killed, stopped or caught
in an endless loop at a random moment at which the processes depend on each other. For each: after
how many seconds that was noticed, how much longer the run took than those that were left alone (of
which one is made before every ten, and the median taken), and whether it ended with the same
numbers, bit for bit.
"""

import argparse
import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stakes.host.trees import load_arrays
from stakes.wording import text_table

MODEL = """\
import signal
import threading

import numpyro
import numpyro.distributions as dist


def busy(*_):
    while True:
        pass


if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGUSR1, busy)


def shops(x, y=None, batch=24):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("row", len(x), subsample_size=batch) as members:
        level = numpyro.sample("level", dist.Normal(0, 1))
        seen = None if y is None else y[members]
        numpyro.sample("y", dist.Normal(level + slope * x[members], 0.5), obs=seen)
"""
SPEC = """\
title = "Shops"
seed = 3
model = {python = "model.py:shops", outcome = "y"}
data = {file = "table.csv", outcome = "y", columns = {x = "x"}}
loss = {newsvendor = {under = 3, over = 1}}
fit = {steps = 6000, checkpoint_seconds = 1}
"""
SHORT = ("--set", "fit.steps=400", "--set", "fit.checkpoint_seconds=0.2")
"""For runs that are disturbed: a few checkpoints of each fit."""
STAGES = ("begun", "fitting VI", "fitting calibrated", "deciding")
"""Of a run, as its log tells of them; with the last, the first process is left alone."""
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
"""Before so many runs that are disturbed, one is left alone."""
ENDED = (0, 4)
"""Exit codes of a run that has come to its end."""


class Alone(NamedTuple):
    """A run on two processes that was left alone."""

    path: Path
    begins: list[float]
    """Seconds after which its processes were there, and each stage began."""
    seconds: float


class Disturbed(NamedTuple):
    kind: str
    stage: str
    """That it was in, and how far; none where the processes had parted before."""
    seconds: float
    noticed: list[float]
    """Seconds after the disturbance at which all were started again."""
    said: list[str]
    differs: list[str]
    """What is not the same as in the run that was left alone."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.disturbed", description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = write_project(Path(folder))
        times, done, number = list[float](), list[Disturbed](), asked.first
        while len(done) < asked.runs:
            if len(done) % OFTEN == 0:
                alone = left_alone(project, project / f"alone {number}")
                times.append(alone.seconds)
                print(f"left alone: {alone.seconds:.1f} s", flush=True)
            found = disturb(number, project, project / str(number), alone)
            print(number, found, flush=True)
            done += [found] * (found.stage != "none")
            number += 1
    print("\n".join(text_table(rows(done, statistics.median(times)), right={0, 3, 4})))


def rows(done: list[Disturbed], alone: float) -> list[list[str]]:
    lines = [["run", "disturbed", "while", "noticed after", "lost", "numbers"]]
    for number, each in enumerate(done, 1):
        noticed = ", ".join(f"{seconds:.0f} s" for seconds in each.noticed)
        same = f"{len(each.differs)} differ" if each.differs else "the same"
        lost = f"{each.seconds - alone:.0f} s"
        lines.append([str(number), each.kind, each.stage, noticed, lost, same])
    return lines


def write_project(folder: Path) -> Path:
    rng = random.Random(0)
    xs = [rng.gauss(0, 1) for _ in range(203)]
    lines = ["x,y", *(f"{x},{0.7 * x + rng.gauss(0, 1)}" for x in xs)]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    (folder / "model.py").write_text(MODEL)
    (folder / "spec.toml").write_text(SPEC)
    return folder


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "stakes_command", *map(str, words)]


def run_command(project: Path, run: Path, processes: int, *changes: str) -> list[str]:
    bare = ("--no-choose", "--no-report", "-o", run)
    return command("run", project / "spec.toml", "--processes", processes, *bare, *changes)


def left_alone(project: Path, run: Path) -> Alone:
    begins, began, met = list[float](), time.monotonic(), False
    watched = subprocess.Popen(
        run_command(project, run, 2, *SHORT), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while watched.poll() is None:
        met = met or len(workers(watched.pid)) == 2
        count = stages_begun(run) + met
        begins += [time.monotonic() - began] * (count - len(begins))
        time.sleep(0.05)
    assert watched.returncode in ENDED, watched.returncode
    return Alone(run, begins, time.monotonic() - began)


def disturb(number: int, project: Path, run: Path, alone: Alone) -> Disturbed:
    """A run disturbed at any moment at which the processes depend on each other."""
    rng, kind = random.Random(number), list(KINDS)[number % len(KINDS)]
    victim, sent = KINDS[kind]
    stage, part = rng.randrange(len(STAGES)), rng.random()
    began, said, noticed = time.monotonic(), list[str](), list[float]()
    watched = subprocess.Popen(
        run_command(project, run, 2, *SHORT),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(workers(watched.pid)) < 2 or stages_begun(run) < stage:
        assert watched.poll() is None
        time.sleep(0.05)
    time.sleep(part * (alone.begins[stage + 1] - alone.begins[stage]))
    while sent == signal.SIGUSR1 and not all(map(would_loop, workers(watched.pid))):
        time.sleep(0.05)
    pids = workers(watched.pid)
    hit = len(pids) == 2
    pids += map(parent, pids)
    if hit:
        os.kill(pids[victim], sent)
    at = time.monotonic()
    assert watched.stderr is not None
    for line in watched.stderr:
        if "start again" in line:
            noticed.append(time.monotonic() - at)
            said.append(line.strip())
    assert watched.wait() in ENDED, watched.returncode
    named = f"{('starting', *STAGES[:-1])[stage]}, {part:.0%}" if hit else "none"
    seconds = time.monotonic() - began
    return Disturbed(kind, named, seconds, noticed, said, differences(run, alone.path))


def stages_begun(run: Path) -> int:
    log = run / "log.txt"
    said = log.read_text() if log.exists() else ""
    return sum(f" {stage}" in said for stage in STAGES)


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
    """Whether the process has read the model, which loops when it is asked to; or has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (signal.SIGUSR1 - 1) & 1)


def parameters(run: Path) -> dict[str, np.ndarray]:
    arrays = load_arrays(run / "state.npz")
    return {name: array for name, array in arrays.items() if not name.endswith("/seconds")}


def differences(run: Path, other: Path) -> list[str]:
    """Names of what is not the same in two runs, bit for bit."""
    found, expected = parameters(run), parameters(other)
    both = found.keys() & expected.keys()
    apart = sorted(found.keys() ^ expected.keys())
    apart += [name for name in sorted(both) if not is_same(found[name], expected[name])]
    decided = [(folder / "decisions.csv").read_text() for folder in (run, other)]
    return apart + ["decisions"] * (decided[0] != decided[1])


def is_same(one: np.ndarray, other: np.ndarray) -> bool:
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


if __name__ == "__main__":
    main()
