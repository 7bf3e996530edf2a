"""One fit by workers on two hosts with addresses of their own, and one of these cut off on the way.

Run `python -m benchmarks.hosts` as root on Linux. The hosts are network namespaces that are joined
by a cable of their own, with a Dask scheduler and a client on the first and two workers on each.
One fit is left alone; in another the second host is cut off for some seconds; a third is made by
four workers on one host. For each: how long it took, and whether its numbers are the same, bit for
bit.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist

import stakes

HOSTS = {"stakes-first": "10.77.0.1", "stakes-second": "10.77.0.2"}
PORT = 8786
ROWS, BATCH = 20_000, 400


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hosts", description=__doc__)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument(
        "--after", type=float, default=15, help="seconds from the first fit to the cut"
    )
    parser.add_argument("--cut", type=float, default=25, help="seconds that the host is cut off")
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.fit:
        fit(asked.fit, asked.steps)
        return
    with tempfile.TemporaryDirectory() as folder:
        for workers in ((2, 2), (4, 0)):
            with hosts(workers, folder):
                if workers[1]:
                    apart = made(asked, folder)
                    print("two hosts, left alone:", told(apart, apart), flush=True)
                    print("one cut off:", told(made(asked, folder, cut=True), apart), flush=True)
                else:
                    print("one host:", told(made(asked, folder), apart), flush=True)


def told(found: dict[str, Any], expected: dict[str, Any]) -> str:
    same = all(found[name] == expected[name] for name in ("bound", "decisions"))
    return (
        f"{found['seconds']:.0f} s, numbers {'the same' if same else 'differ'}; {found['warned']}"
    )


@contextlib.contextmanager
def hosts(workers: Sequence[int], folder: str) -> Iterator[None]:
    """Two hosts with so many workers each, and a scheduler on the first."""
    first, second = HOSTS
    started = list[subprocess.Popen[bytes]]()
    try:
        for name in HOSTS:
            ip("netns", "add", name)
        ip("link", "add", "end0", "netns", first, "type", "veth", "peer", "end1", "netns", second)
        for (name, address), end in zip(HOSTS.items(), ("end0", "end1"), strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            for device in (end, "lo"):
                ip("-n", name, "link", "set", device, "up")
        started.append(inside(first, "scheduler", "--host", HOSTS[first], "--no-dashboard"))
        for (name, address), count in zip(HOSTS.items(), workers, strict=True):
            given = ("--host", address, "--nthreads", "1", "--no-dashboard")
            for _ in range(count):
                local = ("--local-directory", tempfile.mkdtemp(dir=folder))
                started.append(inside(name, "worker", f"{HOSTS[first]}:{PORT}", *given, *local))
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(timeout=60)
        for name in HOSTS:
            ip("netns", "del", name)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def inside(host: str, *words: str) -> subprocess.Popen[bytes]:
    """A part of Dask on a host."""
    command = [
        "ip",
        "netns",
        "exec",
        host,
        sys.executable,
        "-m",
        "distributed.cli.dask_" + words[0],
    ]
    return subprocess.Popen([*command, *words[1:]], stderr=subprocess.DEVNULL)


def made(asked: Any, folder: str, *, cut: bool = False) -> dict[str, Any]:
    """What a client on the first host finds."""
    first, second = HOSTS
    given = ["-m", "benchmarks.hosts", "--steps", str(asked.steps), "--fit", folder]
    command = ["ip", "netns", "exec", first, sys.executable, *given]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    found: dict[str, Any] = {}
    for line in client.stdout:
        if line.startswith("fitting") and cut:
            threading.Thread(target=cut_off, args=(asked.after, asked.cut, second)).start()
        elif line.startswith("{"):
            found = json.loads(line)
    assert client.wait() == 0
    return found


def cut_off(after: float, seconds: float, host: str) -> None:
    time.sleep(after)
    ip("-n", host, "link", "set", "end1", "down")
    time.sleep(seconds)
    ip("-n", host, "link", "set", "end1", "up")


def model(x: Any, y: Any = None) -> None:
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("row", len(x), subsample_size=BATCH) as at:
        level = numpyro.sample("level", dist.Normal(0, 1))
        seen = None if y is None else y[at]
        numpyro.sample("y", dist.Normal(level + slope * x[at], 1), obs=seen)


def fit(folder: str, steps: int) -> None:
    """Fit on the workers, and tell when that begins and what was found."""
    import warnings

    import dask
    from distributed import Client

    from stakes.host.progress import report_to

    rng = np.random.default_rng(0)
    data = {"x": (x := rng.normal(size=ROWS)), "y": 0.5 - x + rng.normal(size=ROWS)}
    problem = stakes.Problem(model, outcome="y", loss=stakes.Tilted(0.2))
    with (
        dask.config.set({"temporary-directory": folder}),
        Client(f"{HOSTS['stakes-first']}:{PORT}") as client,
        warnings.catch_warnings(record=True) as warned,
        report_to(lambda what: print(what, flush=True)),
    ):
        client.wait_for_workers(4, timeout=120)
        began = time.monotonic()
        result = stakes.calibrate(jax.random.key(0), problem, data, steps=steps, on=client)
    print(
        json.dumps(
            {
                "seconds": time.monotonic() - began,
                "bound": result.calibrated.bound.tolist(),
                "decisions": np.asarray(result.decisions).tolist(),
                "warned": [str(each.message) for each in warned if "start again" in str(each)],
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    if "--fit" not in sys.argv:
        Path("/var/run/netns").mkdir(exist_ok=True)
    main()
