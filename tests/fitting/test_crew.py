"""Rows divided among processes: each step is that of one process with the same minibatch."""

import contextlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jax
import numpy as np
import pytest

from benchmarks.processes import alone, begun, leaves, planned
from stakes.errors import InputError
from stakes.port import Batches, Division, Subsample
from stakes.processes import Processes

KEY = jax.random.key(7)
PROGRAM = """
import sys, types
import numpy as np
index, count, port, folder, rows, steps, method = sys.argv[1:]
from stakes.processes import join
on = join(f"127.0.0.1:{port}", process=int(index), of=int(count))
import jax
from benchmarks.processes import begun, leaves, planned
from stakes.fitting import run
plan = planned(types.SimpleNamespace(rows=int(rows), steps=int(steps)), method, 8)
step, state = begun(plan, method)
fit = run(method, step, plan.approximation.divided(on), state, jax.random.key(1), plan.settings)
if on.speaks:
    np.savez(f"{folder}/found.npz", **leaves(fit.variables), bound=fit.bound)
on.gather(np.zeros(()))
"""


def member(part: Subsample, index: int, count: int) -> Division:
    return Division(part, cast(Processes, SimpleNamespace(index=index, count=count)))


@pytest.mark.parametrize("size", [12, 13, 15])
def test_shares_are_cut_and_joined_again(size: int) -> None:
    whole = np.arange(2.0 * size).reshape(2, size)
    members = [member(Subsample("row", size, 4), index, 4) for index in range(4)]
    shares = np.stack([each.cut(whole, 1) for each in members])
    np.testing.assert_array_equal(members[0].joined(shares, 1), whole)
    assert shares.shape == (4, 2, members[0].most)


def test_minibatches_of_shares_visit_each_row_once_an_epoch() -> None:
    members = [member(Subsample("row", 24, 8), index, 4) for index in range(4)]
    taken = [
        Batches(KEY, (each.own,), start=int(each.starts[i]), share=i).take(0, 3)["row"]
        for i, each in enumerate(members)
    ]
    assert sorted(np.concatenate(taken, axis=None)) == list(range(24))
    assert len({tuple(part.ravel() - part.min()) for part in taken}) > 1  # in orders of their own


def test_rows_of_uneven_shares_count_alike() -> None:
    """How often a row comes up, times what it counts for then, is the same for all rows."""
    part = Subsample("row", 13, 8)
    members = [member(part, index, 4) for index in range(4)]
    weights = members[0].weights
    assert weights is not None
    each = [w / share.own.size for share, w in zip(members, weights[::2], strict=True)]
    np.testing.assert_allclose(each, each[0])
    assert weights.mean() == 1


CASES = [
    ("Joint", 2, 13, 100),
    *(
        pytest.param(method, count, rows, 500, marks=pytest.mark.slow)
        for method, count, rows in [
            ("VI", 2, 12),
            ("Joint", 4, 13),
            ("EM", 2, 13),
            ("EM", 4, 12),
        ]
    ),
]


@pytest.mark.parametrize(("method", "count", "rows", "steps"), CASES)
def test_steps_of_several_processes_are_those_of_one(
    method: str, count: int, rows: int, steps: int, tmp_path: Path
) -> None:
    found = _of_several(method, count, rows, steps, tmp_path)
    plan = planned(SimpleNamespace(rows=rows, steps=steps), method, 8)
    variables, bound = alone(plan, *begun(plan, method), count, steps)
    for name, expected in {**leaves(variables), "bound": bound}.items():
        bar = (1e-4 if name == "decisions" else 1e-5) * np.abs(expected).max()
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=bar, err_msg=name)


def _of_several(method: str, count: int, rows: int, steps: int, path: Path) -> dict[str, Any]:
    import socket

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    words = [str(each) for each in (count, port, path, rows, steps, method)]
    with contextlib.ExitStack() as stack:
        members = []
        for index in range(count):
            command = [sys.executable, "-c", PROGRAM, str(index), *words]
            members.append(subprocess.Popen(command))
            stack.callback(members[-1].kill)
        assert not any(each.wait(timeout=240) for each in members)
    with np.load(path / "found.npz") as saved:
        return dict(saved)


def test_minibatches_that_cannot_be_divided_are_refused() -> None:
    plan = planned(SimpleNamespace(rows=12, steps=1), "VI", 8)
    three = cast(Processes, SimpleNamespace(index=0, count=3))
    with pytest.raises(InputError, match=r"'row' have 8 members.*among 3 processes"):
        plan.approximation.divided(three)
