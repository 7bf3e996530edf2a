"""One fit on several processes against one process with the same minibatches.

Run `python -m benchmarks.processes`. For 2 and 4 processes and each method: by how much bound,
parameters and decisions differ after 500 steps from those that one process finds with the same
minibatches, weights of rows and independent draws, in units of the largest; and what a step takes,
beside one process that takes all of it, and beside one with a single core that takes one share
alone: the difference is what processes wait for each other. These are measured by turns, `--rounds`
times; the table has medians, and for the ratio its median over the rounds and the extremes.
Shares, and so the weights of rows, differ where `--rows` is no multiple of the processes. Every
process gets cores of its own where there are enough; the one process may use all.
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

import stakes
from examples import matrix_factorization
from stakes.bridge.sites import Times
from stakes.fitting import Fit, Hooks, State, Step, adam, compiled, run, start_history
from stakes.port import Batches, Division
from stakes.processes import Processes, join
from stakes.study import Options, prepare
from stakes.study.plan import Plan
from stakes.wording import text_table

METHODS = {"VI": None, "Joint": stakes.Joint(), "EM": stakes.EM(every=5)}
HEADS = ["method", "batch", "processes", "bound", "parameters", "decisions"]
HEADS += ["ms a step", "of one", "from", "to", "processor", "share alone"]


class Member(NamedTuple):
    """One of several processes, as its share of the rows knows it."""

    index: int
    count: int


class Cost(NamedTuple):
    """Of a step, in milliseconds."""

    wall: float
    processor: float
    """Of the first process."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.processes", description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--batches", type=int, nargs="+", default=[200])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        work(asked, *asked.worker)
        return
    rows = [HEADS]
    for method in asked.methods:
        for batch in asked.batches:
            for count in asked.processes:
                found = table(asked, method, batch, count)
                print(*map("  ".join, found), sep="\n", flush=True)  # while others are awaited
                rows += found
    print("\n".join(["", *text_table(rows, right=set(range(1, len(HEADS))))]))


def table(asked: Any, method: str, batch: int, count: int) -> list[list[str]]:
    """Two lines: one process, and several."""
    cores = sorted(os.sched_getaffinity(0))
    shares = [cores[i % len(cores) :: count] or cores for i in range(count)]
    with (
        tempfile.TemporaryDirectory() as folder,
        team(asked, method, batch, [cores], folder) as one,
        team(asked, method, batch // count, [cores[:1]], folder) as share,
        team(asked, method, batch, shares, folder) as several,
    ):
        rounds = [(took(one), took(share), took(several)) for _ in range(asked.rounds)]
        with np.load(Path(folder) / f"{count}.npz") as saved:
            apart = differences(asked, method, batch, count, dict(saved))
    ones, shared, all_ = (
        Cost(*np.median(np.array(costs), axis=0)) for costs in zip(*rounds, strict=True)
    )
    ratios = [c.wall / a.wall for a, _, c in rounds]
    figures = [np.median(ratios), min(ratios), max(ratios), all_.processor, shared.wall]
    alone = ["", "", "", f"{ones.wall:.2f}", "", "", "", f"{ones.processor:.2f}", ""]
    return [
        [method, str(batch), "1", *alone],
        [method, str(batch), str(count), *apart, f"{all_.wall:.2f}"]
        + [f"{figure:.2f}" for figure in figures],
    ]


def differences(
    asked: Any, method: str, batch: int, count: int, found: dict[str, np.ndarray]
) -> list[str]:
    """Of bound, parameters and decisions, from those of one process."""
    plan = planned(asked, method, batch)
    expected, elbo = alone(plan, *begun(plan, method), count, asked.steps)
    apart = {
        name: float(np.abs(found[name] - value).max() / np.abs(value).max())
        for name, value in {**leaves(expected), "bound": elbo}.items()
    }
    decisions, bound = apart.pop("decisions", None), apart.pop("bound")
    decided = "" if decisions is None else f"{decisions:.1e}"
    return [f"{bound:.1e}", f"{max(apart.values()):.1e}", decided]


def planned(asked: Any, method: str, batch: int) -> Plan:
    problem = stakes.Problem(matrix_factorization.model, outcome="y", loss=stakes.Tilted(0.2))
    data = {**matrix_factorization.simulate(asked.rows), "batch": batch}
    # Adam, because the default finds its way from a start without any factors so quickly that it
    # takes rounding along: a start that is 1e-7 off ends 1e-2 off after 500 steps of one process.
    options = Options(
        method=METHODS[method], steps=asked.steps, draws=10, independent=True, optimizer=adam()
    )
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
    [part] = plan.approximation.subsamples
    shares = [Division(part, cast(Processes, Member(i, count))) for i in range(count)]
    taken = [
        Batches(keys[1], (share.own,), start=int(share.starts[i]), share=i)
        for i, share in enumerate(shares)
    ]
    batches = {"row": np.concatenate([b.take(0, steps)["row"] for b in taken], axis=1)}
    weights = shares[0].weights
    with Times("row", None if weights is None else jnp.asarray(weights)):
        state, info = compiled(step)(
            plan.approximation,
            start_history(state).state,
            key=keys[0],
            numbers=np.arange(steps),
            batches=batches,
        )
    return state.variables, np.asarray(info.elbo + info.utility)


def leaves(variables: Any) -> dict[str, np.ndarray]:
    params = {name: np.asarray(value) for name, value in variables["params"].items()}
    decided = variables.get("decisions")
    return params if decided is None else {**params, "decisions": np.asarray(decided)}


@contextlib.contextmanager
def team(
    asked: Any, method: str, batch: int, cores: list[list[int]], folder: str
) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes with these cores, which make a fit whenever they are told to."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    common = ["--rows", str(asked.rows), "--steps", str(asked.steps)]
    common += ["--methods", method, "--batches", str(batch)]
    members = []
    for index, own in enumerate(cores):
        words = ["--worker", str(index), str(len(cores)), str(port), folder]
        command = [sys.executable, "-m", "benchmarks.processes", *common, *words]
        member = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        os.sched_setaffinity(member.pid, own if len(cores) == 1 else os.sched_getaffinity(0))
        members.append(member)
    try:
        yield members
        for member in members:  # all of them first: each waits for the others to leave
            assert member.stdin is not None
            member.stdin.close()
        codes = [member.wait(timeout=600) for member in members]
        assert not any(codes), codes
    finally:
        for member in members:
            member.kill()


def took(members: list[subprocess.Popen[str]]) -> Cost:
    for member in members:
        assert member.stdin is not None
        member.stdin.write("go\n")
    assert members[0].stdout is not None
    for line in members[0].stdout:
        if line.startswith("["):
            with contextlib.suppress(json.JSONDecodeError):  # others write there, too
                return Cost(*json.loads(line))
    raise AssertionError("A process has ended.")


def work(asked: Any, index: str, count: str, port: str, folder: str) -> None:
    on = None
    if int(count) > 1:
        on = join(f"127.0.0.1:{port}", process=int(index), of=int(count))
    [method], [batch] = asked.methods, asked.batches
    plan = planned(asked, method, batch)
    step, state = begun(plan, method)
    approximation = plan.approximation if on is None else plan.approximation.divided(on)
    for _ in sys.stdin:
        clock = list[float]()

        def tick(*_: Any, clock: list[float] = clock) -> bool:
            """With each chunk of steps; nothing is recorded."""
            clock.append(time.process_time())
            return False

        key, settings = jax.random.key(1), plan.settings
        fit = run(method, step, approximation, state, key, settings, hooks=Hooks(watch=tick))
        if on is None or on.speaks:
            save(Path(folder) / f"{count}.npz", fit)
            processor = np.median(np.diff(clock)[1:]) / settings.chunk
            print(json.dumps([1e3 * fit.step_seconds, 1e3 * processor]), flush=True)
    if on is not None:
        on.gather(np.zeros(()))


def save(path: Path, fit: Fit) -> None:
    np.savez(path, **leaves(fit.variables), bound=fit.bound)


if __name__ == "__main__":
    main()
