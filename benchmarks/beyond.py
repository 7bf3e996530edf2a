"""Rows beyond memory: what a row costs from disk and in memory, and how memory grows with rows.

`python -m benchmarks.beyond FOLDER 1e4 1e5 1e6 1e7` simulates tables of these sizes into the
folder, fits a logistic regression to each from Parquet files and from memory, without and with a
latent of its own for each row, each in a process of its own, and prints one row for each. Further
arguments such as `stream` or `compared` leave out the others.
"""

import json
import resource
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

BATCH, STEPS = 1000, 3000
KINDS = ("stream", "memory", "stream with latents", "memory with latents")
ASIDE = ("counted", "compared")
PART = 250_000
SLOPES = np.array([1.0, -0.5, 0.25, 0.0])


def model(a: Any, b: Any, c: Any, d: Any, y: Any = None) -> None:
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    level = numpyro.sample("level", dist.Normal(0, 2))
    with numpyro.plate("column", 4):
        slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("row", len(a), subsample_size=min(BATCH, len(a))) as at:
        logits = level + jnp.stack([a[at], b[at], c[at], d[at]], axis=-1) @ slope
        numpyro.sample("y", dist.Bernoulli(logits=logits), obs=None if y is None else y[at])


def local(a: Any, b: Any, c: Any, d: Any, y: Any = None) -> None:
    """The same with a level for each row."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    with numpyro.plate("column", 4):
        slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("row", len(a), subsample_size=min(BATCH, len(a))) as at:
        level = numpyro.sample("level", dist.Normal(0, 2))
        logits = level + jnp.stack([a[at], b[at], c[at], d[at]], axis=-1) @ slope
        numpyro.sample("y", dist.Bernoulli(logits=logits), obs=None if y is None else y[at])


def simulate(folder: Path, rows: int) -> None:
    """In order of the outcome, so that neighbours are alike."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for part, start in enumerate(range(0, rows, PART)):
        path = folder / f"part-{part:04d}.parquet"
        if path.exists():
            continue
        rng = np.random.default_rng([rows, part])
        x = rng.normal(size=(min(PART, rows - start), 4)).astype(np.float32)
        y = rng.random(len(x)) < 1 / (1 + np.exp(-(x @ SLOPES)))
        order = np.argsort(y, kind="stable")
        columns = {name: x[order, i] for i, name in enumerate("abcd")}
        pq.write_table(pa.table({**columns, "y": y[order]}), path, row_group_size=50_000)


def peak() -> float:
    """Megabytes that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fitted(folder: Path, kind: str) -> dict[str, float]:
    import jax
    import pyarrow.dataset as ds

    import stakes

    program = local if "latents" in kind else model
    problem = stakes.Problem(program, outcome="y", loss=stakes.Tilted(0.2))
    data: Any = stakes.Stream(folder, scratch=folder.parent)
    if "stream" not in kind:
        table = ds.dataset(folder).to_table()
        data = {name: np.asarray(table[name]) for name in "abcd"}
        data["y"] = np.asarray(table["y"]).astype(np.int32)
        del table
    started = time.monotonic()
    result = stakes.calibrate(
        jax.random.key(0),
        problem,
        data,
        method=stakes.EM(),
        steps=STEPS,
        draws=4,
        progress=False,
    )
    whole = time.monotonic() - started
    found = {"seconds": whole, "peak_fit": peak()}
    found |= {f"step_{name}": fit.step_seconds for name, fit in result.fits.items()}
    started = time.monotonic()
    decisions = result.decisions
    found |= {"deciding": time.monotonic() - started, "rows": len(decisions), "peak": peak()}
    found["scale"] = float(result.scale or 0)
    return found


def compared(folder: Path, repeats: int = 7, steps: int = 1000) -> dict[str, float]:
    """Rows a second from disk over those from memory, by turns in one process."""
    import jax
    import pyarrow.dataset as ds

    import stakes
    from stakes.fitting import FitSettings, Hooks, run
    from stakes.study import Options, prepare
    from stakes.study.streaming import StreamedRows, opened

    key = jax.random.key(0)
    problem = stakes.Problem(model, outcome="y", loss=stakes.Tilted(0.2))
    options = Options(method=stakes.EM(), steps=steps, draws=4, all_steps=True)
    beyond = opened(problem, stakes.Stream(folder, scratch=folder.parent), FitSettings.chunk, key)
    assert isinstance(beyond, StreamedRows)
    there = beyond.of(prepare(key, problem, beyond.sample, options))
    table = ds.dataset(folder).to_table()
    data = {name: np.asarray(table[name]) for name in "abcd"}
    here = prepare(key, problem, {**data, "y": np.asarray(table["y"]).astype(np.int32)}, options)
    found: dict[str, list[float]] = {"VI": [], "calibrated": []}
    for _ in range(repeats):
        for name, seconds in found.items():
            taken = []
            for plan in (here, there):
                plan = replace(plan, transform=stakes.Linearized(scale=1.0))
                start, rows = plan.approximation.start, plan.approximation.instances.shape
                calibrated = name == "calibrated"
                step = plan.step(1.0) if calibrated else plan.vi_step()
                state = plan.state(start, np.zeros(rows)) if calibrated else plan.vi_state(start)
                go = partial(run, name, step, plan.approximation, state, key, plan.settings)
                if rows == here.approximation.instances.shape:
                    taken.append(go().seconds)
                    continue
                with beyond.feeding(plan.approximation, key) as feed:
                    taken.append(go(hooks=Hooks(feed=feed)).seconds)
            seconds.append(taken[0] / taken[1])
    return {name: float(np.median(each[1:])) for name, each in found.items()}


def counted(folder: Path) -> dict[str, float]:
    """How long a copy takes and one pass over it; and that each row comes once."""
    from stakes import Stream
    from stakes.tables import ROW, Passes, copy_shuffled

    started = time.monotonic()
    copy = copy_shuffled(Stream(folder).sources(), [*"abcd", "y"], "y", [0], folder.parent)
    copied = time.monotonic() - started
    passes, seen = Passes(copy, [1]), np.zeros(len(copy), np.uint8)
    started, window = time.monotonic(), 100 * BATCH
    for start in range(0, len(copy), window):
        np.add.at(seen, passes.take(start, min(window, len(copy) - start))[ROW], 1)
    return {
        "rows": len(copy),
        "copying": copied,
        "passing": time.monotonic() - started,
        "once": float((seen == 1).mean()),
    }


def main(folder: Path, sizes: list[int], kinds: list[str]) -> None:
    for rows in sizes:
        simulate(folder / str(rows), rows)
        for kind in kinds or (*KINDS, *ASIDE):
            if (kind == "compared") and rows <= 100 * BATCH:
                continue
            call = [sys.executable, "-m", "benchmarks.beyond", str(folder / str(rows)), kind]
            done = subprocess.run(call, check=True, stdout=subprocess.PIPE)
            found = json.loads(done.stdout)
            print(kind, rows, json.dumps({name: round(v, 6) for name, v in found.items()}))
            sys.stdout.flush()


if __name__ == "__main__":
    where, *what = sys.argv[1:]
    if what == ["counted"]:
        print(json.dumps(counted(Path(where))))
    elif what == ["compared"]:
        print(json.dumps(compared(Path(where))))
    elif len(what) == 1 and what[0] in KINDS:
        print(json.dumps(fitted(Path(where), what[0])))
    else:
        kinds = [each for each in what if each in (*KINDS, *ASIDE)]
        main(Path(where), [int(float(each)) for each in what if each not in kinds], kinds)
