"""What people wait for beside the steps: compiling, in processes of their own that keep nothing."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax

Figure = tuple[float, float | None]

DEMO = """
import contextlib, io, json, time
started = time.perf_counter()
from benchmarks.compiling import compilations
from examples import eight_schools
from examples.judging import main
with compilations() as names, contextlib.redirect_stdout(io.StringIO()):
    main(eight_schools.solve, eight_schools.summary)
print(json.dumps([len(names), time.perf_counter() - started]))
"""

AGAIN = """
import json, time
import jax, stakes
from stakes.demos.eight_schools import EFFECT, SIGMA, model
from benchmarks.compiling import compilations
def fit(seed, q, scale, more):
    data = {"sigma": SIGMA, "effect": tuple(effect + more for effect in EFFECT)}
    problem = stakes.Problem(model, outcome="effect", loss=stakes.Tilted(q))
    transform = stakes.Linearized(scale=scale)
    started = time.perf_counter()
    stakes.calibrate(jax.random.key(seed), problem, data, transform=transform, progress=False)
    return time.perf_counter() - started
first = fit(0, 0.2, 7, 0.0)
with compilations() as names:
    second = fit(1, 0.3, 9, 1.0)
print(json.dumps([len(names), second / first]))
"""


def figures() -> dict[str, Figure]:
    programs, demo = _said(DEMO)
    compiled, ratio = _said(AGAIN)
    importing = _seconds("-c", "import stakes; stakes.calibrate")
    return {
        "programs compiled in the demo": (programs, 25),
        "seconds of the demo": (demo, 10),
        "programs compiled by a second calibrate": (compiled, 0),
        "second calibrate / first": (ratio, 0.4),
        "seconds of a cold decide of two rows": (cold_decide(), 6),
        "seconds of importing": (importing, None),
    }


@contextmanager
def compilations() -> Iterator[list[str]]:
    """The names of all programs that JAX compiles meanwhile, or takes from a cache on disk."""
    names: list[str] = []

    def listen(event: str, duration_secs: float, **about: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(str(about.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield names
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def cold_decide() -> float:
    """After a run, by the command line, which keeps compiled programs."""
    with tempfile.TemporaryDirectory() as folder:
        home, mine = Path(folder), Path(folder) / "mine"
        run, new, out = home / "run", home / "new.csv", home / "out.csv"
        keeping, command = {"XDG_CACHE_HOME": folder}, ("-m", "stakes_command")
        _seconds(*command, "init", str(mine), **keeping)
        fit = ("run", str(mine / "stakes.toml"), "--no-choose", "--no-report", "-o", str(run))
        _seconds(*command, *fit, **keeping)
        new.write_text("".join((mine / "tomorrow.csv").read_text().splitlines(True)[:3]))
        decide = ("decide", str(run), str(new), "-o", str(out))
        _seconds(*command, *decide, **keeping)
        out.unlink()
        return _seconds(*command, *decide, **keeping)


def _said(program: str) -> tuple[float, float]:
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=_bare()
    )
    first, second = json.loads(found.stdout)
    return first, second


def _seconds(*command: str, **environment: str) -> float:
    started = time.perf_counter()
    found = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=_bare() | environment
    )
    if found.returncode not in (0, 4):  # 4: not converged, with results written
        raise RuntimeError(found.stderr)
    return time.perf_counter() - started


@contextmanager
def installed() -> Iterator[dict[str, str]]:
    """An environment in which the first process leaves bytecode for the others."""
    others = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        yield others | {"PYTHONPYCACHEPREFIX": folder}


def _bare() -> dict[str, str]:
    """The environment, without a cache of compiled programs."""
    return {name: value for name, value in os.environ.items() if "CACHE" not in name}


if __name__ == "__main__":
    for name, (value, limit) in figures().items():
        print(f"{name}: {value:.3g}" + ("" if limit is None else f" (at most {limit:g})"))
