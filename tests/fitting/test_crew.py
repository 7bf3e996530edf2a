"""Rows divided among processes: each step is that of one process with the same minibatch and draws.

Programs of several processes are run here by `vmap` with a named axis, whose collectives are those
of processes; `tests/app/runs/test_processes.py` has real ones.
"""

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from quick import quickly

import stakes
from examples import matrix_factorization
from stakes.bridge import approximate, divided
from stakes.bridge.sites import Times
from stakes.errors import InputError
from stakes.fitting import FreshDecisions, Method, State, Step, bound
from stakes.fitting.crew import NOWHERE, agreed_on, axes_of, told
from stakes.port import Batches, Division, Subsample, key_of_part
from stakes.processes import AXIS
from stakes.study import Options, prepare
from stakes.study.plan import Plan

ROWS, UNEVEN, BATCH = 12, 13, 8
KEY = jax.random.key(7)
SAME = 1e-9
"""After 500 steps in double precision; `benchmarks/processes.py` has it in single precision."""


# Random numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize(("axis", "shape"), [(-2, (8, 3)), (-1, (5, 8)), (-3, (8, 2, 3))])
def test_parts_are_drawn_as_in_the_whole(axis: int, shape: tuple[int, ...]) -> None:
    part = tuple(n // 4 if i == len(shape) + axis else n for i, n in enumerate(shape))

    def draw(number: Any) -> Any:
        return jax.random.normal(key_of_part(KEY, number, 4, axis), part)

    parts = jax.jit(jax.vmap(draw))(jnp.arange(4))
    whole = jax.random.normal(KEY, shape)
    np.testing.assert_array_equal(np.concatenate(list(parts), axis), whole)


def test_parts_without_such_an_axis_have_draws_of_their_own() -> None:
    gamma = dist.Gamma(jnp.full(3, 2.0))
    parts = [gamma.sample(key_of_part(KEY, number, 2, -1)) for number in range(2)]
    assert (parts[0] != parts[1]).all()


# Shares --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [12, 13, 15])
def test_shares_are_cut_and_joined_again(size: int) -> None:
    division, whole = Division(Subsample("row", size, 4), 4), np.arange(2.0 * size).reshape(2, size)
    shares = np.stack([division.cut(whole, 1, index) for index in range(4)])
    np.testing.assert_array_equal(division.joined(shares, 1), whole)
    assert shares.shape == (4, 2, division.most)


def test_minibatches_of_shares_visit_each_row_once_an_epoch() -> None:
    division = Division(Subsample("row", 24, 8), 4)
    taken = [
        Batches(KEY, (division.share(i),), start=int(division.starts[i]), share=i).take(0, 3)["row"]
        for i in range(4)
    ]
    assert sorted(np.concatenate(taken, axis=None)) == list(range(24))
    assert len({tuple(part.ravel() - part.min()) for part in taken}) > 1  # in orders of their own


# Steps ---------------------------------------------------------------------------------------


@cache
def plan_for(method: Method | None, expectation: Any = None, rows: int = ROWS) -> Plan:
    problem = stakes.Problem(matrix_factorization.model, outcome="y", loss=stakes.Tilted(0.2))
    data = {**matrix_factorization.simulate(rows, 3, 2), "factors": 2, "batch": BATCH}
    # As several processes draw.
    options = Options(method=method, draws=3, expectation=expectation, independent=True)
    return replace(prepare(KEY, problem, data, options), transform=stakes.Linearized(scale=1.0))


def together(plan: Plan, step: Step, state: State, batches: np.ndarray, count: int) -> Any:
    """The steps of so many processes: the state of each, and what they found."""
    own = divided(plan.approximation, count)
    axes = axes_of(own, own.division.plate, state, plan.settings)

    def share(index: int) -> State:
        return jax.tree.map(
            lambda leaf, axis: leaf if axis == NOWHERE else own.division.cut(leaf, axis, index),
            state,
            axes,
        )

    shares = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(share, range(count)))

    def one(state: State, x: Any) -> Any:
        key, members = x
        steps = jax.vmap(lambda state, mine: step(own, state, key, {"row": mine}), axis_name=AXIS)
        return steps(state, members.reshape(count, -1))

    xs = (jax.random.split(KEY, len(batches)), batches)
    shares, info = quickly(lambda *given: jax.lax.scan(one, *given), shares, xs)
    agreed = partial(agreed_on, own.division, plan.settings)
    shares = jax.vmap(agreed, axis_name=AXIS)(shares)
    whole = jax.tree.map(
        lambda leaf, axis: leaf[0] if axis == NOWHERE else own.division.joined(leaf, axis),
        jax.tree.map(np.asarray, shares),
        axes,
    )
    same = jax.tree.map(
        lambda leaf, axis: axis != NOWHERE or np.ptp(np.asarray(leaf), axis=0).max() == 0,
        shares,
        axes,
    )
    return whole, jax.tree.map(lambda found: np.asarray(found), info), same


def alone(plan: Plan, step: Step, state: State, batches: np.ndarray, count: int) -> Any:
    """The steps of one process, in which rows have the weights of their shares."""
    [part] = plan.approximation.subsamples
    weights = Division(part, count).weights
    times = jnp.asarray(np.repeat(weights, part.batch_size // count))[:, None]

    def one(state: State, x: Any) -> Any:
        key, members = x
        with Times("row", times):
            return step(plan.approximation, state, key, {"row": members})

    xs = (jax.random.split(KEY, len(batches)), batches)
    return quickly(lambda *given: jax.lax.scan(one, *given), state, xs)


def batches_for(count: int, steps: int, rows: int = ROWS) -> np.ndarray:
    division = Division(Subsample("row", rows, BATCH), count)
    taken = [
        Batches(KEY, (division.share(i),), start=int(division.starts[i]), share=i).take(0, steps)
        for i in range(count)
    ]
    return np.concatenate([part["row"] for part in taken], axis=1)


METHODS = {
    "VI": (None, None),
    "Joint": (stakes.Joint(), None),
    "EM": (stakes.EM(draws=3), None),
    "Fresh, outcomes drawn": (
        FreshDecisions(stakes.EM(draws=3)),
        stakes.MonteCarlo(draws=4),
    ),
    "Joint, outcomes drawn": (stakes.Joint(), stakes.MonteCarlo(draws=4)),
}


CALIBRATED = [("Joint", n, rows) for n in (2, 4) for rows in (ROWS, UNEVEN)]
CASES = [
    *CALIBRATED,
    *(("EM", *case) for _, *case in CALIBRATED),
    *(
        (name, *case)
        for name in ("VI", "Joint, outcomes drawn", "Fresh, outcomes drawn")
        for case in ((2, ROWS), (4, UNEVEN))
    ),
]


@pytest.mark.some(2)
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize(("name", "count", "rows"), CASES)
def test_steps_of_several_processes_are_those_of_one(name: str, count: int, rows: int) -> None:
    plan = plan_for(*METHODS[name], rows=rows)
    params = plan.approximation.start
    if name == "VI":
        step, state = plan.vi_step(), plan.vi_state(params)
    else:
        decisions = np.random.default_rng(0).normal(size=plan.approximation.instances.shape)
        step, state = plan.step(1.0), plan.state(params, decisions)
    batches = batches_for(count, 500, rows)
    expected, of_one = alone(plan, step, state, batches, count)
    found, of_each, same = together(plan, step, state, batches, count)
    assert all(jax.tree.leaves(same))  # what all have is the same in all
    for mine, known in zip(of_each, of_one, strict=True):
        np.testing.assert_array_equal(mine, mine[:, :1].repeat(count, axis=1))
        np.testing.assert_allclose(mine[:, 0], known, rtol=SAME)
    for mine, known in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(mine, known, rtol=0, atol=SAME * np.abs(known).max())


def test_one_bad_gradient_keeps_all_processes_from_the_step() -> None:
    plan = plan_for(None)
    params = dict(plan.approximation.start)
    params["z_auto_loc"] = params["z_auto_loc"].at[ROWS - 1].set(jnp.nan)
    batches = np.arange(ROWS - BATCH, ROWS)[None]  # the last row is that of the last process
    batches[0, : BATCH // 2] = np.arange(BATCH // 2)
    state = plan.vi_state(params)
    found, info, _ = together(plan, plan.vi_step(), state, batches, 2)
    assert not info.finite.any()
    np.testing.assert_array_equal(found.variables["params"]["w_auto_loc"], params["w_auto_loc"])


@pytest.mark.parametrize("rows", [12, 13])
def test_processes_tell_each_other_what_one_would_know(rows: int) -> None:
    division = Division(Subsample("row", rows, 8), 4)
    rng = np.random.default_rng(0)
    whole = {"z": rng.normal(size=(3, rows)).astype("f"), "w": rng.normal(size=5).astype("f")}
    state = State(whole, (), np.ones((), "f"), np.zeros((), int), np.zeros((), int))
    axes = State({"z": 1, "w": NOWHERE}, (), NOWHERE, NOWHERE, NOWHERE)  # type: ignore[arg-type]

    def share(index: int) -> dict[str, np.ndarray]:
        return {"z": division.cut(whole["z"], 1, index), "w": whole["w"]}

    shares = jax.tree.map(lambda *leaves: np.stack(leaves), *map(share, range(4)))
    flags = np.array([[False, False], [False, False], [True, False], [False, False]])

    def said(own: Any, flags: Any) -> Any:
        return told(division, axes, 2, state._replace(variables=own), flags)

    all_said = jax.jit(jax.vmap(said, axis_name=AXIS))
    found = all_said(shares, flags)
    expected = np.concatenate([leaf.ravel()[::2] for leaf in jax.tree.leaves(whole)])
    np.testing.assert_array_equal(found.watched, np.broadcast_to(expected, (4, len(expected))))
    assert found.interrupted.all()
    assert not found.due.any()
    assert not found.apart.any()
    shares["w"][1, 2] += 0.5
    assert (all_said(shares, flags).apart > 0.1).all()


def test_rows_of_uneven_shares_count_alike() -> None:
    """The mean over all minibatches that may be is the same: ELBO and utility with all rows."""

    def slope(x: Any, y: Any = None) -> None:
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("row", 5, subsample_size=4) as members:
            seen = None if y is None else y[members]
            numpyro.sample("y", dist.Normal(b * x[members], 0.5), obs=seen)

    rng = np.random.default_rng(1)
    data = {name: jnp.asarray(rng.normal(size=5)) for name in "xy"}
    problem = stakes.Problem(slope, outcome="y", loss=stakes.Squared())
    plan = prepare(KEY, problem, data, Options(transform=stakes.Linearized(scale=1.0)))
    whole, term, decisions = plan.approximation, plan.objective(1.0).term, jnp.arange(5.0)
    own, params = divided(whole, 2), whole.start

    def terms(approximation: Any, members: Any) -> Any:
        given = {"row": members}, params, decisions[members]
        return jnp.stack(bound(approximation, term, 2, KEY, *given, independent=True)[1])

    pairs = jnp.array([[[0, 1], other] for other in ([2, 3], [2, 4], [3, 4])])
    of_two = jax.vmap(partial(terms, own), axis_name=AXIS)
    found = jax.lax.map(of_two, pairs).mean((0, 1))
    fours = jnp.array([np.delete(np.arange(5), left_out) for left_out in range(5)])
    expected = jax.lax.map(partial(terms, whole), fours).mean(0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


# What is refused -----------------------------------------------------------------------------


def test_a_model_without_minibatches_is_refused() -> None:
    def mean(y: Any = None) -> None:
        m = numpyro.sample("m", dist.Normal(0, 1))
        with numpyro.plate("row", 4):
            numpyro.sample("y", dist.Normal(m, 1), obs=y)

    whole = approximate(
        stakes.Problem(mean, outcome="y", loss=stakes.Squared()), {"y": jnp.ones(4)}, KEY
    )
    with pytest.raises(InputError, match=r"subsample_size=.*this model has none"):
        divided(whole, 2)


def test_minibatches_that_cannot_be_divided_are_refused() -> None:
    with pytest.raises(InputError, match=r"'row' have 8 members.*among 3 processes"):
        divided(plan_for(None).approximation, 3)


@pytest.mark.parametrize("address", ["", "8476", "host:", "host:99999", "a b:1", "host:1:2"])
def test_a_malformed_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match=r"`join\(coordinator\)`"):
        stakes.join(address, process=0, of=2)


def test_joining_after_the_first_use_of_jax_is_refused() -> None:
    jnp.ones(1).block_until_ready()
    with pytest.raises(InputError, match="before all else that uses JAX"):
        stakes.join("127.0.0.1:8476", process=0, of=2)


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="other systems cannot do it")
def test_a_thread_that_receives_leaves_the_core_of_its_process_to_it() -> None:
    """It may run where the process that started this one may, and pushes nobody aside."""
    look = """
import os, threading
from stakes.processes import _aside
def note():
    print(os.sched_getscheduler(0) == os.SCHED_BATCH, len(os.sched_getaffinity(0)))
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
for inside in (True, False):
    if inside:
        with _aside():
            thread = threading.Thread(target=note)
            thread.start()
    else:
        thread = threading.Thread(target=note)
        thread.start()
    thread.join()
"""
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    cores = len(os.sched_getaffinity(0))
    assert found.stdout == f"True {cores}\nFalse 1\n"


def test_the_command_line_can_join_once_it_is_imported() -> None:
    look = "import stakes.app.runs, stakes.processes as p; print(p._has_begun())"
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_an_optimiser_that_clips_by_a_norm_takes_processes_apart() -> None:
    """So that what all have differs between them, which a chunk of steps tells."""
    plan = plan_for(None)
    clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1))
    plan = replace(plan, settings=replace(plan.settings, optimizer=clipped))
    state = plan.vi_state(plan.approximation.start)
    _, _, same = together(plan, plan.vi_step(), state, batches_for(2, 2), 2)
    assert not all(jax.tree.leaves(same))
