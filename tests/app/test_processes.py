"""Runs on several processes of this machine, left alone and disturbed."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from stakes.app.runs import RunFolder, sealed

pytestmark = pytest.mark.slow

MODEL = """\
import signal

import numpyro
import numpyro.distributions as dist


def busy(*_):
    while True:
        pass


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
loss = {name = "tilted", under = 3, over = 1}
fit = {steps = 6000, checkpoint_seconds = 1}
"""
KILLS = int(os.environ.get("KILLS", "8"))
"""How often runs are disturbed. `KILLS=40 pytest -s` on this file prints what each has cost."""
SHORT = ("--set", "fit.steps=400", "--set", "fit.checkpoint_seconds=0.2")
"""For runs that are disturbed: a few checkpoints of each fit."""
KINDS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGUSR1)
"""A process that dies, one that is stopped, and one in an endless loop."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shops")
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


STAGES = ("begun", "fitting VI", "fitting calibrated", "deciding")
"""Of a run, as its log tells of them; with the last, the first process is left alone."""


class Alone(NamedTuple):
    """A run on two processes that was left alone."""

    path: Path
    begins: list[float]
    """Seconds after which its processes were there, and each stage began."""
    seconds: float


def stages_begun(run: Path) -> int:
    log = run / "log.txt"
    said = log.read_text() if log.exists() else ""
    return sum(f" {stage}" in said for stage in STAGES)


@pytest.fixture(scope="module")
def alone(project: Path) -> Alone:
    run, begins, began = project / "alone", [], time.monotonic()
    watched = subprocess.Popen(run_command(project, run, 2, *SHORT))
    while watched.poll() is None:
        count = stages_begun(run) + bool(workers(watched.pid))
        begins += [time.monotonic() - began] * (count - len(begins))
        time.sleep(0.05)
    assert watched.returncode in (0, 4)
    return Alone(run, begins, time.monotonic() - began)


def parameters(run: Path) -> dict[str, np.ndarray]:
    arrays = sealed.load(run / "state.npz")
    return {name: array for name, array in arrays.items() if not name.endswith("/seconds")}


def check_same(run: Path, other: Path) -> None:
    found, expected = parameters(run), parameters(other)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    assert (run / "decisions.csv").read_text() == (other / "decisions.csv").read_text()


def workers(supervisor: int) -> list[int]:
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text()
    return [int(pid) for pid in children.split()]


def test_only_the_loopback_address_is_listened_on(project: Path, tmp_path: Path) -> None:
    watched = subprocess.Popen(run_command(project, tmp_path / "run", 2))
    listening: set[str] = set()
    while watched.poll() is None:
        for pid in workers(watched.pid):
            listening |= _listening(pid)
        time.sleep(0.3)
    assert watched.returncode in (0, 4)
    assert listening == {"127.0.0.1"}


def _listening(pid: int) -> set[str]:
    """The addresses at which a process listens."""
    try:
        held = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
        lines = [
            line.split()
            for name in ("tcp", "tcp6")
            for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
        ]
    except OSError:  # it has just ended
        return set()
    return {
        _address(line[1].partition(":")[0])
        for line in lines
        if line[3] == "0A" and f"socket:[{line[9]}]" in held
    }


def _address(digits: str) -> str:
    words = [bytes.fromhex(digits[i : i + 8])[::-1] for i in range(0, len(digits), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    # IPv4 addresses may be written as those of IPv6.
    return socket.inet_ntop(family, b"".join(words)).removeprefix("::ffff:")


@pytest.mark.parametrize("number", range(KILLS))
def test_a_disturbed_run_ends_with_the_same_numbers(
    number: int, project: Path, alone: Alone, tmp_path: Path
) -> None:
    """Disturbed at any moment at which the processes depend on each other."""
    rng, kind = random.Random(number), KINDS[number % 3]
    victim, stage, part = rng.randrange(2), rng.randrange(len(STAGES)), rng.random()
    began = time.monotonic()
    watched = subprocess.Popen(
        run_command(project, tmp_path, 2, *SHORT), stderr=subprocess.PIPE, text=True
    )
    while len(pids := workers(watched.pid)) < 2 or stages_begun(tmp_path) < stage:
        assert watched.poll() is None
        time.sleep(0.05)
    time.sleep(part * (alone.begins[stage + 1] - alone.begins[stage]))
    hit = len(workers(watched.pid)) == 2
    if hit:
        os.kill(pids[victim], kind)
    _, said = watched.communicate(timeout=900)
    lost = time.monotonic() - began - alone.seconds
    again = [line for line in said.splitlines() if "start again" in line]
    at = f"stage {stage + part:.2f}" if hit else "no moment"
    print(f"{number}: {kind.name} of process {victim} at {at}: {lost:.0f} s lost; {again}")
    assert watched.returncode in (0, 4), said
    check_same(tmp_path, alone.path)


def test_rows_held_out_are_fitted_by_all_processes_in_the_end(
    project: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    tried = ("data.held_out={fraction = 0.2}", "fit.steps=600")
    words = [part for each in tried for part in ("--set", each)]
    ended = subprocess.run([*run_command(project, run, 2), *words], check=False, timeout=600)
    assert ended.returncode in (0, 4)
    manifest = RunFolder(run).manifest()
    assert (manifest.ending.instances, manifest.refit.rows) == (41, 203)
    fits = [sealed.load(run / name)["VI/elbo"] for name in ("state.npz", "refit.npz")]
    assert [len(elbo) for elbo in fits] == [600, 600]
    assert fits[1][-100:].mean() < fits[0][-100:].mean()  # of more rows


STREAMED = """\
import sys

import numpy as np
import numpyro
import numpyro.distributions as dist

import stakes

index, count, port, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
on = None if count == 1 else stakes.join(f"127.0.0.1:{port}", process=index, of=count)
import jax


def model(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    level = numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("row", len(x), subsample_size=8) as at:
        seen = None if y is None else y[at]
        numpyro.sample("y", dist.Normal(level + slope * x[at], 1), obs=seen)


problem = stakes.Problem(model, outcome="y", loss=stakes.Tilted(0.2))
result = stakes.calibrate(
    jax.random.key(0),
    problem,
    stakes.Stream(f"{folder}/table.csv", scratch=folder),
    steps=500,
    draws=4,
    independent=True,
    all_steps=True,
    progress=False,
    on=on,
)
found = {f"{name} {n}": v for name, fit in result.fits.items() for n, v in fit.params.items()}
found |= {f"{name} bound": fit.bound for name, fit in result.fits.items()}
np.savez(f"{folder}/{index} of {count}", decisions=result.decisions, **found)
if on is not None:
    on.leave()
"""


@pytest.mark.parametrize("count", [2, 4])
def test_a_stream_is_fitted_by_several_processes_as_by_one(tmp_path: Path, count: int) -> None:
    """With the same minibatches, as each process takes its part of them."""
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    x = rng.normal(size=1001)
    rows = np.column_stack([x, 0.5 - x + rng.normal(size=1001)])
    np.savetxt(tmp_path / "table.csv", rows, delimiter=",", header="x,y", comments="")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    for number in (1, count):
        words = [sys.executable, "-c", STREAMED]
        others = [
            subprocess.Popen([*words, str(i), str(number), str(port), str(tmp_path)])
            for i in range(number)
        ]
        assert [each.wait(timeout=300) for each in others] == [0] * number
    alone = np.load(tmp_path / "0 of 1.npz")
    for index in range(count):
        found = np.load(tmp_path / f"{index} of {count}.npz")
        for name in alone.files:
            most = np.abs(alone[name]).max()
            tolerance = 1e-4 if name == "decisions" else 1e-5
            np.testing.assert_allclose(found[name], alone[name], rtol=0, atol=tolerance * most)
    assert not list(tmp_path.glob("stakes-*"))  # every process has removed its copy


def test_a_run_is_resumed_on_another_number_of_processes(project: Path, tmp_path: Path) -> None:
    undisturbed = project / "undisturbed"
    subprocess.run(run_command(project, undisturbed, 2), check=False, timeout=900)
    run = tmp_path / "run"
    watched = subprocess.Popen(run_command(project, run, 2))
    while not (run / "state.npz").exists():
        assert watched.poll() is None
        time.sleep(0.1)
    watched.send_signal(signal.SIGTERM)
    assert watched.wait(timeout=120) == 128 + signal.SIGTERM
    before = parameters(run)["VI/elbo"]
    ended = subprocess.run(
        command("resume", run, "--no-report", "--processes", 4), check=False, timeout=600
    )
    assert ended.returncode in (0, 4)
    after, expected = parameters(run), parameters(undisturbed)
    np.testing.assert_array_equal(after["VI/elbo"][: len(before)], before)  # nothing is lost
    ends = [trace["calibrated/elbo"][-1000:].mean() for trace in (after, expected)]
    noise = expected["calibrated/elbo"][-1000:].std() / np.sqrt(1000)
    assert abs(ends[0] - ends[1]) < 5 * np.sqrt(2) * noise
