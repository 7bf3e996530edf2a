"""Batches of runs that do not depend on each other: here, or on the workers of a Dask cluster."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from stakes._types import Key
from stakes.fitting.fit import Fit
from stakes.fitting.history import Watch, fit_of, one_of
from stakes.fitting.loop import Ended, Loop, Taken, after, alone, for_each_run, loop_of_runs
from stakes.fitting.settings import FitSettings
from stakes.fitting.step import State, Step
from stakes.host import progress
from stakes.host.ahead import usable_cores
from stakes.host.interrupts import deferred_ctrl_c
from stakes.host.workers import run_all
from stakes.port import Approximation

MOST_BESIDE = 10_000_000
"""Numbers in the states of a batch up to which there are several at a time: a step of a larger one
uses all cores by itself, and several would take as many times the memory."""


class Together(NamedTuple):
    """Runs that are one compiled batch: the arguments of `run_together`."""

    title: str
    step: Callable[[Any], Step]
    each: Any
    approximation: Approximation
    states: State
    keys: Key
    settings: FitSettings


def divided(batch: Together, most: int | None) -> list[Together]:
    """The same runs in batches of at most so many; as they are for None."""
    count = len(batch.keys)
    cuts = range(0, count, most or count)
    parts = [slice(start, start + (most or count)) for start in cuts]
    return [
        batch._replace(
            each=jax.tree.map(lambda leaf, at=part: leaf[at], batch.each),
            states=jax.tree.map(lambda leaf, at=part: leaf[at], batch.states),
            keys=batch.keys[part],
        )
        for part in parts
    ]


def run_together(
    title: str,
    step: Callable[[Any], Step],
    each: Any,
    approximation: Approximation,
    states: State,
    keys: Key,
    settings: FitSettings,
    *,
    watch: Watch | None = None,
) -> list[Fit]:
    """Several runs as one compiled batch.

    States, keys and `each`, which is passed to `step`, have a leading axis of runs. The runs see
    the same minibatches and keep the same pace: a stage ends when their bounds, taken together,
    have stopped rising.
    """
    batch = Together(title, step, each, approximation, states, keys, settings)
    with (
        deferred_ctrl_c() as interruption,
        progress.bar(title, settings.steps, show=settings.progress) as tell,
    ):
        how: dict[str, Any] = {"asked": interruption.asked, "tell": tell, "watch": watch}
        return _fits(batch, alone(loop_of_runs(for_each_run(step), *batch[2:], **how)))


def run_apart(title: str, batches: Sequence[Together], on: Any = None) -> list[list[Fit]]:
    """The fits of each batch: a batch on each core, or on each worker of the client `on`.

    What is one batch in one place is one everywhere, so that the numbers are the same: fits that
    run together keep the same pace.
    """
    show = batches[0].settings.progress
    if on is not None:
        quiet = [each._replace(settings=replace(each.settings, progress=False)) for each in batches]
        return run_all(run_together, quiet, title=title, on=on, show=show)
    if len(batches) == 1:
        return [run_together(*batches[0])]
    # Batches of the same steps are traced once.
    chunks = {step: for_each_run(step) for step in dict.fromkeys(each.step for each in batches)}
    done = [0] * len(batches)
    with (
        deferred_ctrl_c() as interruption,
        progress.bar(title, sum(each.settings.steps for each in batches), show=show) as tell,
    ):

        def loop(i: int, batch: Together) -> Loop:
            def told(steps: int, bound: float, utility: float) -> None:
                done[i] = steps
                tell(sum(done), bound, utility)

            how: dict[str, Any] = {"asked": interruption.asked, "tell": told, "elsewhere": True}
            return loop_of_runs(chunks[batch.step], *batch[2:], **how)

        loops = [loop(i, batch) for i, batch in enumerate(batches)]
        numbers = sum(np.size(leaf) for leaf in jax.tree.leaves(batches[0].states))
        most = usable_cores() if numbers <= MOST_BESIDE else 1
        ended = side_by_side(loops, min(most, len(batches)))
    return [_fits(batch, each) for batch, each in zip(batches, ended, strict=True)]


def side_by_side(loops: Sequence[Loop], most: int) -> list[Ended]:
    """The loops, at most so many at a time, with a thread for the chunks of each.

    What a loop does between its chunks is done here, in one thread: JAX may trace there, and
    NumPyro keeps its handlers in one list for all threads.
    """
    found: dict[int, Ended] = {}
    waiting, at_work = deque(enumerate(loops)), dict[Future[Taken], tuple[int, Loop]]()

    def proceed(i: int, loop: Loop, taken: Taken | None = None) -> None:
        then = after(loop, taken)
        if isinstance(then, Ended):
            found[i] = then
        else:
            at_work[pool.submit(then)] = i, loop

    with ThreadPoolExecutor(most) as pool:
        while waiting or at_work:
            while waiting and len(at_work) < most:
                proceed(*waiting.popleft())
            for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                proceed(*at_work.pop(future), future.result())
    return [found[i] for i in range(len(loops))]


def _fits(batch: Together, ended: Ended) -> list[Fit]:
    history, reason, step_seconds = ended
    count = len(batch.keys)
    return [fit_of(one_of(history, i, count), reason, step_seconds / count) for i in range(count)]
