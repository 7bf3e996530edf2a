"""One fit on several processes against one process with the same minibatches.

Run `python -m benchmarks.processes`. For 2 and 4 processes and each method: by how much bound,
parameters and decisions differ after 500 steps from those that one process finds with the same
minibatches, weights of rows and independent draws, in units of the largest; and what a step takes,
beside one process that takes all of it. Shares, and so the weights of rows, differ where `--rows`
is no multiple of the processes. Every process gets cores of its own where there are enough; the one
process may use all.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import stakes
from stakes.bridge import divided
from stakes.bridge.sites import Times
from stakes.calibration import Options, prepare
from stakes.calibration.plan import Plan
from stakes.examples import matrix_factorization
from stakes.host.text_tables import text_table
from stakes.optimise import Fit, State, Step, compiled, outset, run
from stakes.port import Batches, Division
from stakes.processes import join

METHODS = {"VI": None, "Joint": stakes.Joint(), "EM": stakes.EM(every=5)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.processes", description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        work(asked, *asked.worker)
        return
    rows = [["method", "processes", "bound", "parameters", "decisions", "ms a step", "of one"]]
    for method in asked.methods:
        rows += table(asked, method)
    print("\n".join(text_table(rows, right={1, 2, 3, 4, 5, 6})))


def table(asked: Any, method: str) -> list[list[str]]:
    plan = planned(asked, method)
    step, state = begun(plan, method)
    plain = run(method, step, plan.approximation, state, jax.random.key(1), plan.settings)
    lines = [[method, "1", "", "", "", f"{1e3 * plain.step_seconds:.2f}", ""]]
    for count in asked.processes:
        found = started(asked, method, count)
        expected, elbo = alone(plan, step, state, count, asked.steps)
        apart = {
            name: float(np.abs(found[name] - value).max() / np.abs(value).max())
            for name, value in {**leaves(expected), "bound": elbo}.items()
        }
        decisions = apart.pop("decisions", None)
        bound, seconds = apart.pop("bound"), float(found["seconds"])
        lines.append(
            [
                method,
                str(count),
                f"{bound:.1e}",
                f"{max(apart.values()):.1e}",
                "" if decisions is None else f"{decisions:.1e}",
                f"{1e3 * seconds:.2f}",
                f"{seconds / plain.step_seconds:.2f}",
            ]
        )
    return lines


def planned(asked: Any, method: str) -> Plan:
    problem = stakes.Problem(matrix_factorization.model, outcome="y", loss=stakes.Tilted(0.2))
    data = {**matrix_factorization.simulate(asked.rows), "batch": 200}
    options = Options(method=METHODS[method], steps=asked.steps, draws=10, independent=True)
    plan = prepare(jax.random.key(0), problem, data, options)
    return replace(plan, transform=stakes.Linearized(scale=1.0))


def begun(plan: Plan, method: str) -> tuple[Step, State]:
    start = plan.approximation.start
    if method == "VI":
        return plan.vi_step(), plan.vi_state(start)
    return plan.step(1.0), plan.state(start, np.zeros(plan.approximation.instances.shape))


def alone(plan: Plan, step: Step, state: State, count: int, steps: int) -> tuple[Any, np.ndarray]:
    """Variables and bounds of one process with the minibatches of several."""
    keys = jax.random.split(jax.random.key(1))
    division = Division(plan.approximation.subsamples[0], count)
    taken = [
        Batches(keys[1], (division.share(i),), start=int(division.starts[i]), share=i)
        for i in range(count)
    ]
    batches = {"row": np.concatenate([b.take(0, steps)["row"] for b in taken], axis=1)}
    times = np.repeat(division.weights, division.part.batch_size // count)[:, None]
    with Times("row", None if division.is_even else jnp.asarray(times)):
        state, info = compiled(step)(
            plan.approximation,
            outset(state).state,
            key=keys[0],
            numbers=np.arange(steps),
            batches=batches,
        )
    return state.variables, np.asarray(info.elbo + info.utility)


def leaves(variables: Any) -> dict[str, np.ndarray]:
    params = {name: np.asarray(value) for name, value in variables["params"].items()}
    decided = variables.get("decisions")
    return params if decided is None else {**params, "decisions": np.asarray(decided)}


def started(asked: Any, method: str, count: int) -> dict[str, np.ndarray]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        common = ["--rows", str(asked.rows), "--steps", str(asked.steps), "--methods", method]
        workers = []
        for index in range(count):
            own = ["--worker", str(index), str(count), str(port), folder]
            command = [sys.executable, "-m", "benchmarks.processes", *common, *own]
            workers.append(subprocess.Popen(command))
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(workers[-1].pid, cores[index % len(cores) :: count] or cores)
        codes = [worker.wait(timeout=600) for worker in workers]
        assert not any(codes), codes
        with np.load(Path(folder) / "found.npz") as found:
            return dict(found)


def work(asked: Any, index: str, count: str, port: str, folder: str) -> None:
    on = join(f"127.0.0.1:{port}", process=int(index), of=int(count))
    [method] = asked.methods
    plan = planned(asked, method)
    step, state = begun(plan, method)
    shared = divided(plan.approximation, on.count)
    fit: Fit = run(method, step, shared, state, jax.random.key(1), plan.settings, on=on)
    if on.speaks:
        found = {**leaves(fit.variables), "bound": fit.bound, "seconds": fit.step_seconds}
        np.savez(Path(folder) / "found.npz", **found)
    on.leave()


if __name__ == "__main__":
    main()
