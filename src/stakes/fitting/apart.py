"""Batches of fits that do not depend on each other: here, or on the workers of a Dask cluster.

Several fits of one kind, such as folds or strengths of calibration, are one compiled program with a
leading axis. Programs of different kinds run side by side, one on each core. A compiled step of a
small problem keeps one core busy, so that two take no longer than one.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from stakes._types import Key, PyTree
from stakes.fitting.fit import Fit
from stakes.fitting.history import History, Watch, fit_of, one_of, start_history
from stakes.fitting.loop import (
    Hooks,
    Loop,
    Taken,
    always,
    bound,
    for_each_run,
    run_loop,
    split,
    sweeping,
)
from stakes.fitting.settings import FitSettings
from stakes.fitting.step import Info, State, Step
from stakes.host import progress
from stakes.host.interrupts import deferred_ctrl_c
from stakes.host.workers import run_all, usable_cores
from stakes.port import Approximation, Batches

if TYPE_CHECKING:
    from distributed import Client

# Numbers in the states of a batch up to which there are several at a time: a step of a larger one
# uses all cores by itself, and several would take as many times the memory.
MOST_BESIDE = 10_000_000


class Together(NamedTuple):
    """Several runs that are one compiled batch.

    States, keys and `each`, which is passed to `step`, have a leading axis of runs. The runs see
    the same minibatches and keep the same pace: a stage ends when their bounds, taken together,
    have stopped rising.
    """

    title: str
    step: Callable[[PyTree], Step]
    each: PyTree
    approximation: Approximation
    states: State
    keys: Key
    settings: FitSettings


def run_together(batch: Together, watch: Watch | None = None) -> list[Fit]:
    """Return the fits of a batch, in the order of its runs.

    Args:
        batch: what its runs have in common, and what each has of its own.
        watch: called after every chunk with the history of all runs.
    """
    return resume_together(batch, lambda start: start, watch)[0]


def resume_together(
    batch: Together, resume: Callable[[History], History], watch: Watch | None
) -> tuple[list[Fit], History]:
    """Return the fits of a batch, from where a record of it ends, and the history of all runs.

    Args:
        batch: what its runs have in common, and what each has of its own.
        resume: from the history of a batch that is about to begin to the one on record.
        watch: called after every chunk with the history of all runs.
    """
    loop = _loop(batch, for_each_run(batch.step), Hooks(watch=watch))
    loop.history = resume(loop.history)
    loop = run_loop(batch.title, loop)
    return _fits(batch, loop), loop.history


def _loop(batch: Together, chunk: "partial[tuple[State, Info]]", hooks: Hooks) -> Loop:
    settings = sweeping(batch.settings, batch.approximation, batch.states.variables["params"])
    keys = jax.vmap(split)(batch.keys)
    schedule = Batches(keys.batches[0], batch.approximation.subsamples)
    feed = always((batch.approximation, batch.each), schedule)
    history = start_history(batch.states, (len(batch.keys),))
    return Loop(bound(chunk, keys.step), feed, history, settings, hooks=hooks)


def run_apart(
    title: str, batches: Sequence[Together], on: "Client | None" = None
) -> list[list[Fit]]:
    """Return the fits of each batch: a batch on each core, or on each worker of a client.

    On the cores, chunks are taken in a thread for each batch, and all else is done in this one.
    What is one batch in one place is one everywhere, so that the numbers are the same: fits that
    run together keep the same pace.

    Args:
        title: what is shown of the progress.
        batches: independent of each other; those with the same `step` are traced once.
        on: a client of a Dask cluster; None for the cores of this machine.
    """
    show = batches[0].settings.progress
    if on is not None:
        quiet = [(b._replace(settings=replace(b.settings, progress=False)),) for b in batches]
        return run_all(run_together, quiet, title=title, on=on, show=show)
    if len(batches) == 1:
        return [run_together(batches[0])]
    # Batches of the same steps are traced once.
    chunks = {step: for_each_run(step) for step in dict.fromkeys(each.step for each in batches)}
    numbers = sum(np.size(leaf) for leaf in jax.tree.leaves(batches[0].states))
    most = min(usable_cores() if numbers <= MOST_BESIDE else 1, len(batches))
    waiting, loops = deque(batches), list[Loop]()
    at_work: dict[Future[Taken], Loop] = {}
    with (
        deferred_ctrl_c() as interruption,
        progress.bar(title, sum(each.settings.steps for each in batches), show=show) as tell,
        ThreadPoolExecutor(most) as pool,
    ):

        def tell_all(done: int, bound: float, utility: float) -> None:
            tell(sum(len(loop.history.elbo) for loop in loops), bound, utility)

        def go_on(loop: Loop) -> None:
            if (chunk := loop.begin()) is not None:
                at_work[pool.submit(chunk)] = loop

        while waiting or at_work:
            while waiting and len(at_work) < most:
                batch = waiting.popleft()
                loops.append(_loop(batch, chunks[batch.step], Hooks()))
                loops[-1].asked, loops[-1].tell = interruption.asked, tell_all
                go_on(loops[-1])
            for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                loop = at_work.pop(future)
                loop.end(future.result())
                go_on(loop)
    return [_fits(batch, loop) for batch, loop in zip(batches, loops, strict=True)]


def _fits(batch: Together, loop: Loop) -> list[Fit]:
    count = len(batch.keys)
    assert loop.reason is not None
    return [
        fit_of(one_of(loop.history, i, count, loop.reason), loop.reason, loop.step_seconds / count)
        for i in range(count)
    ]
