"""The loop of every fit: VI, joint optimisation and EM differ only in their `step`."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, final

import jax
import numpy as np

from stakes._types import Array, Batch, Key, Number, Params, PyTree
from stakes.fitting.crew import Crew, axes_of
from stakes.fitting.fit import Fit, Stop
from stakes.fitting.history import (
    History,
    Look,
    Watch,
    extended,
    fit_of,
    next_stage,
    start_history,
    verdict,
)
from stakes.fitting.settings import FitSettings
from stakes.fitting.stages import finite_mean, some_of
from stakes.fitting.step import Info, ParametricStep, State, Step
from stakes.host import progress
from stakes.host.interrupts import deferred_ctrl_c
from stakes.host.programs import Bound, Program
from stakes.port import Approximation, Batches, steps_of_a_pass

Feed: TypeAlias = Callable[[int, int], tuple[Any, Batch]]
"""(first step, how many) -> the approximation with the rows of these steps, and their batches."""


class RowsElsewhere(Protocol):
    """What a state has for single rows, where only those of one chunk are ever in memory."""

    def bring(self, state: State, start: int) -> State:
        """The state with the rows of the chunk that begins with this step."""
        ...

    def put(self, state: State, start: int) -> None:
        """Keep the rows of this chunk, which has ended."""
        ...

    def others(self, variables: PyTree) -> PyTree:
        """The variables without those of rows, which are of other rows in each chunk."""
        ...


@final
@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What is done around the chunks of a fit; nothing by default.

    Args:
        watch: called after every chunk with where the fit stands.
        feed: brings in the rows of each chunk, where the approximation does not have them all; it
            has the members that this process takes of each minibatch.
        rows: has what the state has for these rows, and takes it back; averages over the steps are
            of everything else.
        meanwhile: called while the steps are compiled, if they have to be.
    """

    watch: Watch | None = None
    feed: Feed | None = None
    rows: RowsElsewhere | None = None
    meanwhile: Callable[[], None] | None = None

    def look(self, variables: PyTree) -> np.ndarray:
        """Some of the variables, to be watched: none of rows, which are others in each chunk."""
        return some_of(variables if self.rows is None else self.rows.others(variables))


class Taken(NamedTuple):
    """Where a chunk of steps has led, and how long it took."""

    state: State
    info: Info
    seconds: float


class FitKeys(NamedTuple):
    step: Key
    batches: Key


@Program
def split(key: Key) -> FitKeys:
    return FitKeys(*jax.random.split(key))


def run(
    title: str,
    step: Step,
    approximation: Approximation,
    state: State,
    key: Key,
    settings: FitSettings,
    *,
    history: History | None = None,
    hooks: Hooks | None = None,
) -> Fit:
    """Step until the bound has stopped rising at the smallest step size, or a limit is reached.

    Given the `history` of a run that was cut short, it is resumed there and ends with the same
    numbers, bit for bit, as if it had not been; given that of a finished run, it ends at once.
    """
    keys, hooks = split(key), hooks or Hooks()
    settings = sweeping(settings, approximation, state.variables["params"])
    history = history or start_history(state, look=hooks.look)
    division, feed, look = approximation.division, hooks.feed, hooks.look
    if division is None:
        feed = feed or always(approximation, Batches(keys.batches, approximation.subsamples))
        loop = Loop(bound(compiled(step), keys.step), feed, history, settings, look, hooks)
        return run_loop(title, loop).fit()
    crew = Crew(division, axes_of(approximation, division.part.plate, state, settings))
    parametric = _parametric(step)
    chunk = crew.chunks(parametric, _steps(parametric), keys.step)
    feed = feed or always(approximation, crew.schedule(keys.batches))
    look = partial(crew.look, rows=hooks.rows is None)
    loop = run_loop(title, Loop(chunk, feed, crew.cut(history), settings, look, hooks))
    loop.history = crew.whole(loop.history)
    return loop.fit()


def begin_to_compile(
    step: Step, approximation: Approximation, state: State, key: Key, settings: FitSettings
) -> None:
    """Begin to compile the steps of such a fit, in another thread."""
    keys, count = split(key), min(settings.chunk, settings.steps)
    batches = Batches(keys.batches, approximation.subsamples).take(0, count)
    chunk = bound(compiled(step), keys.step)
    chunk(approximation, start_history(state).state, numbers=np.arange(count), batches=batches)


def sweeping(settings: FitSettings, approximation: Approximation, params: Params) -> FitSettings:
    """Settings for rows that have to come up several times, if they have parameters."""
    return replace(settings, sweep=steps_of_a_pass(approximation, params))


def always(given: PyTree, schedule: Batches) -> Feed:
    """All rows are there from the beginning."""
    return lambda start, count: (given, schedule.take(start, count))


@final
@dataclass(eq=False)
class Loop:
    """A fit under way, from chunk to chunk, until there is a reason to stop.

    What is done between chunks is done in the thread that calls it: JAX traces there, and NumPyro
    keeps its handlers in one list for all threads. A chunk itself may be taken in any thread.
    """

    chunk: Callable[..., Any]
    """Binds the call that takes a chunk."""
    feed: Feed
    history: History
    settings: FitSettings
    look: Look = some_of
    hooks: Hooks = Hooks()
    asked: Callable[[], bool] = lambda: False
    """Whether it has been asked to stop."""
    tell: progress.Tell = lambda done, bound, utility: None
    reason: Stop | None = None
    """Why it has stopped."""

    def __post_init__(self) -> None:
        self._began = time.monotonic() - self.history.seconds
        self._between, self._step_seconds = 0.0, list[float]()

    def begin(self) -> Callable[[], Taken] | None:
        """A call that takes the next chunk; None where the fit has stopped."""
        self.reason = verdict(self.history, self.settings, self.asked())
        if self.reason is not None:
            return None
        began, rows = time.monotonic(), self.hooks.rows
        self.history = next_stage(self.history, self.settings)
        done = len(self.history.elbo)
        count = min(self.settings.chunk, self.settings.steps - done)
        given, batches = self.feed(done, count)
        state = self.history.state if rows is None else rows.bring(self.history.state, done)
        call = self.chunk(given, state, numbers=np.arange(done, done + count), batches=batches)
        if self.hooks.meanwhile is not None and not self._step_seconds and call.is_compiling():
            self.hooks.meanwhile()
        self._between = time.monotonic() - began
        return partial(_take, call)

    def end(self, taken: Taken) -> None:
        """Go on from where the chunk has led."""
        began, done = time.monotonic(), len(self.history.elbo)
        if self.hooks.rows is not None:
            self.hooks.rows.put(taken.state, done)
        history = extended(self.history, taken.state, taken.info, self.look)
        self.history = history._replace(seconds=time.monotonic() - self._began)
        seconds = self._between + taken.seconds + time.monotonic() - began
        self._step_seconds.append(seconds / (len(history.elbo) - done))
        elbo, utility = history.elbo[done:], history.utility[done:]
        self.tell(len(history.elbo), finite_mean(elbo + utility), finite_mean(utility))
        if self.hooks.watch is not None:
            self.hooks.watch(self.history)

    @property
    def step_seconds(self) -> float:
        """The seconds that a step took, once it was compiled."""
        later = self._step_seconds[1:]
        return float(np.median(later)) if later else float("nan")

    def fit(self) -> Fit:
        assert self.reason is not None
        return fit_of(self.history, self.reason, self.step_seconds)


def run_loop(title: str, loop: Loop) -> Loop:
    """Take the chunks of a fit one after the other; Ctrl-C stops it after the one at hand."""
    settings = loop.settings
    with (
        deferred_ctrl_c() as interruption,
        progress.bar(title, settings.steps, show=settings.progress) as tell,
    ):
        loop.asked, loop.tell = interruption.asked, tell
        while (chunk := loop.begin()) is not None:
            loop.end(chunk())
    return loop


def _take(call: Callable[[], tuple[State, Info]]) -> Taken:
    started = time.monotonic()
    state, info = call()
    info = jax.tree.map(np.asarray, info)  # waits until they are there
    return Taken(state, info, time.monotonic() - started)


def for_each_run(step: Callable[[PyTree], Step]) -> "partial[tuple[State, Info]]":
    """A chunk of steps of several runs, each with its own of `each`, which is passed to `step`."""

    # As an argument, not a constant, so that a compiled program can be reused for other values.
    def every(
        given: tuple[Approximation, PyTree], states: State, keys: Key, batch: Batch
    ) -> tuple[State, Info]:
        approximation, each = given

        def one(state: State, key: Key, own: PyTree) -> tuple[State, Info]:
            return step(own)(approximation, state, key, batch)

        return jax.vmap(one)(states, keys, each)

    return compiled(every)


def bound(
    chunk: "partial[tuple[State, Info]]", key: Key
) -> Callable[..., Bound[tuple[State, Info]]]:
    """What binds calls that take chunks with this key, each in whichever thread."""
    program: Any = chunk.func
    return partial(program.bound, **chunk.keywords, key=key)


def compiled(step: Callable[..., tuple[State, Info]]) -> "partial[tuple[State, Info]]":
    """A `Program` that takes as many steps as there are numbers, each with `given` first."""
    parametric = _parametric(step)
    program = Program(_steps(parametric), donated=("state",), numbers=("parameters",))
    return partial(program, scale=parametric.scale, parameters=parametric.parameters)


def _parametric(step: Callable[..., tuple[State, Info]]) -> ParametricStep:
    return step if isinstance(step, ParametricStep) else ParametricStep(lambda *_: step, None, ())


def _steps(parametric: ParametricStep) -> Callable[..., tuple[State, Info]]:
    def chunk(
        given: PyTree,
        state: State,
        key: Key,
        numbers: Array,
        batches: Batch,
        scale: Number | None,
        parameters: tuple[Number, ...],
    ) -> tuple[State, Info]:
        here = parametric.make(scale, parameters)

        def one(state: State, x: tuple[Array, Batch]) -> tuple[State, Info]:
            number, batch = x
            return here(given, state, _folded(key, number), batch)

        return jax.lax.scan(one, state, (numbers, batches))

    return chunk


def _folded(key: Key, number: Array) -> Key:
    """The key of a step; one for each run, where there are several."""
    fold = jax.vmap(jax.random.fold_in, (0, None)) if key.ndim else jax.random.fold_in
    return fold(key, number)
