"""The loop of every fit: VI, joint optimisation and EM differ only in their `step`."""

import time
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax
import numpy as np

from stakes._types import Array, Batch, Key, Params, PyTree
from stakes.fitting.crew import Crew
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
from stakes.fitting.shares import Keeper
from stakes.fitting.stages import finite_mean, some_of
from stakes.fitting.step import Info, Numbered, State, Step
from stakes.host import progress
from stakes.host.interrupts import deferred_ctrl_c
from stakes.host.programs import Program
from stakes.port import Approximation, Batches, steps_of_a_pass
from stakes.processes import Processes

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


class Taken(NamedTuple):
    """Where a chunk of steps has led, and how long it took."""

    state: State
    info: Info
    seconds: float


class Ended(NamedTuple):
    """Where a loop ended, why, and the seconds that a step took once it was compiled."""

    history: History
    reason: Stop
    step_seconds: float


Loop: TypeAlias = Generator[Callable[[], Taken], Taken, Ended]
"""A loop that leaves it to others to take its chunks, and is sent what came of each."""


class _Keys(NamedTuple):
    step: Key
    batches: Key


@Program
def _split(key: Key) -> _Keys:
    return _Keys(*jax.random.split(key))


def run(
    title: str,
    step: Step,
    approximation: Approximation,
    state: State,
    key: Key,
    settings: FitSettings,
    *,
    history: History | None = None,
    watch: Watch | None = None,
    feed: Feed | None = None,
    rows: RowsElsewhere | None = None,
    on: Processes | None = None,
    due: Callable[[], bool] = lambda: False,
    keeper: Keeper | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Fit:
    """Step until the bound has stopped rising at the smallest step size, or a limit is reached.

    Given the `history` of a run that was cut short, it is resumed there and ends with the same
    numbers, bit for bit, as if it had not been; given that of a finished run, it ends at once.
    A `feed` brings in the rows of each chunk, where the approximation does not have them all; it
    has the members that this process takes of each minibatch. What the state has for these rows is
    taken from `rows`, and goes back there; averages over the steps are of everything else. If the
    steps have to be compiled, `meanwhile` is called while they are.

    Several processes that call this with a divided approximation make one fit `on` all of them.
    State, history and what becomes of them are whole in each. `watch` is called in one process
    alone: when it says, before a chunk, that a record is `due`, and at the end. A `keeper` is
    called in its place, in every process, with what each of them has.
    """
    keys = _split(key)
    settings = sweeping(settings, approximation, state.variables["params"])
    history = history or start_history(state, look=_look(rows))
    if on is not None:
        crew = Crew(on, approximation, state, settings, _steps, _numbered(step), keys.step, due)
        feed = feed or _always(approximation, crew.schedule(keys.batches))
        return _run_on(crew, title, history, feed, rows, settings, watch, keeper)
    chunk = partial(compiled(step), key=keys.step)
    if feed is None:
        feed = _always(approximation, Batches(keys.batches, approximation.subsamples))
    ended = _loop(title, chunk, feed, history, settings, watch, rows=rows, meanwhile=meanwhile)
    return fit_of(*ended)


def begin_to_compile(
    step: Step, approximation: Approximation, state: State, key: Key, settings: FitSettings
) -> None:
    """Begin to compile the steps of such a fit, in another thread."""
    keys, count = _split(key), min(settings.chunk, settings.steps)
    batches = Batches(keys.batches, approximation.subsamples).take(0, count)
    given = {"key": keys.step, "numbers": np.arange(count), "batches": batches}
    _begin(partial(compiled(step), **given), approximation, start_history(state).state)


def _begin(chunk: "partial[Any]", given: Any, state: State, **more: Any) -> bool:
    """Begin to compile the program of a chunk; says whether that takes a while."""
    program: Any = chunk.func
    begun: bool = program.begin(given, state, **chunk.keywords, **more)
    return begun


def _run_on(
    crew: Crew,
    title: str,
    history: History,
    feed: Feed,
    rows: RowsElsewhere | None,
    settings: FitSettings,
    watch: Watch | None,
    keeper: Keeper | None,
) -> Fit:
    own, record = crew.cut(history), crew.recording(watch, keeper)
    history, reason, step_seconds = _loop(
        title, crew.chunk, feed, own, settings, record, crew, rows
    )
    if keeper is not None:
        crew.keep(history, keeper)
    whole = crew.whole(history)
    if keeper is None:
        crew.record(whole, watch)
    return fit_of(whole, reason, step_seconds)


def loop_of_runs(
    chunk: "partial[tuple[State, Info]]",
    each: Any,
    approximation: Approximation,
    states: State,
    keys: Key,
    settings: FitSettings,
    **how: Any,
) -> Loop:
    """The loop of several runs that are one compiled batch: `chunk` is that of `for_each_run`.

    States, keys and `each` have a leading axis of runs. The runs see the same minibatches and keep
    the same pace: a stage ends when their bounds, taken together, have stopped rising.
    """
    # A generator itself, so that states are copied when the loop begins.
    settings = sweeping(settings, approximation, states.variables["params"])
    each_keys = jax.vmap(lambda key: _Keys(*jax.random.split(key)))(keys)
    schedule = Batches(each_keys.batches[0], approximation.subsamples)
    feed = _always((approximation, each), schedule)
    history = start_history(states, (len(keys),))
    ended = yield from steps_of(partial(chunk, key=each_keys.step), feed, history, settings, **how)
    return ended


def for_each_run(step: Callable[[Any], Step]) -> "partial[tuple[State, Info]]":
    """A chunk of steps of several runs, each with its own of `each`, which is passed to `step`."""

    # As an argument, not a constant, so that a compiled program can be reused for other values.
    def every(given: tuple[Approximation, Any], states: State, keys: Key, batch: Batch) -> Any:
        approximation, each = given

        def one(state: State, key: Key, own: Any) -> tuple[State, Info]:
            return step(own)(approximation, state, key, batch)

        return jax.vmap(one)(states, keys, each)

    return compiled(every)


def sweeping(settings: FitSettings, approximation: Approximation, params: Params) -> FitSettings:
    """Settings for rows that have to come up several times, if they have parameters."""
    return replace(settings, sweep=steps_of_a_pass(approximation, params))


def _look(rows: RowsElsewhere | None) -> Look:
    return some_of if rows is None else lambda variables: some_of(rows.others(variables))


def _always(given: Any, schedule: Batches) -> Feed:
    """All rows are there from the beginning."""
    return lambda start, count: (given, schedule.take(start, count))


def _loop(
    title: str,
    chunk: Callable[..., tuple[State, Info]],
    feed: Feed,
    history: History,
    settings: FitSettings,
    watch: Watch | None,
    crew: Crew | None = None,
    rows: RowsElsewhere | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Ended:
    with (
        deferred_ctrl_c() as interruption,
        progress.bar(title, settings.steps, show=settings.progress) as tell,
    ):
        asked = interruption.asked if crew is None else crew.agreed(interruption.asked)
        look = _look(rows) if crew is None else crew.watched
        how: dict[str, Any] = {"watch": watch, "rows": rows, "meanwhile": meanwhile, "look": look}
        return alone(steps_of(chunk, feed, history, settings, asked=asked, tell=tell, **how))


def alone(loop: Loop) -> Ended:
    """The loop, its chunks taken one after the other."""
    then = after(loop, None)
    while not isinstance(then, Ended):
        then = after(loop, then())
    return then


def after(loop: Loop, taken: Taken | None) -> Callable[[], Taken] | Ended:
    """What comes after a chunk, None for the first: the next chunk, or where the loop has ended."""
    try:
        return next(loop) if taken is None else loop.send(taken)
    except StopIteration as over:
        ended: Ended = over.value
        return ended


def steps_of(
    chunk: Callable[..., tuple[State, Info]],
    feed: Feed,
    history: History,
    settings: FitSettings,
    *,
    asked: Callable[[], bool],
    tell: progress.Tell,
    watch: Watch | None = None,
    look: Look = some_of,
    rows: RowsElsewhere | None = None,
    meanwhile: Callable[[], None] | None = None,
    elsewhere: bool = False,
) -> Loop:
    """From chunk to chunk, until there is a reason to stop.

    Args:
        asked: whether it has been asked to stop.
        elsewhere: whether chunks are taken in other threads, where nothing may be traced.
    """
    started, chunks = time.monotonic() - history.seconds, list[float]()
    while (reason := verdict(history, settings, asked())) is None:
        history = next_stage(history, settings)
        done = len(history.elbo)
        count = min(settings.chunk, settings.steps - done)
        chunk_started = time.monotonic()
        given, batches = feed(done, count)
        steps = {"numbers": np.arange(done, done + count), "batches": batches}
        state = history.state if rows is None else rows.bring(history.state, done)
        if meanwhile is not None and not chunks:
            assert isinstance(chunk, partial)
            if _begin(chunk, given, state, **steps):
                meanwhile()
        call = partial(chunk, given, state, **steps)
        left = time.monotonic()
        state, info, seconds = yield partial(_taken, _bound(call) if elsewhere else call)
        waited = time.monotonic() - left - seconds
        if rows is not None:
            rows.put(state, done)
        history = extended(history, state, info, look)
        history = history._replace(seconds=time.monotonic() - started)
        chunks.append((time.monotonic() - chunk_started - waited) / count)
        recent = history.utility[done:]
        tell(done + count, finite_mean(history.elbo[done:] + recent), finite_mean(recent))
        if watch is not None:
            watch(history)
    return Ended(history, reason, float(np.median(chunks[1:])) if chunks[1:] else float("nan"))


def _taken(call: Callable[[], tuple[State, Info]]) -> Taken:
    started = time.monotonic()
    state, info = call()
    info = jax.tree.map(np.asarray, info)  # waits until they are there
    return Taken(state, info, time.monotonic() - started)


def _bound(call: "partial[Any]") -> Callable[[], tuple[State, Info]]:
    program: Any = call.func
    bound: Callable[[], tuple[State, Info]] = program.bound(*call.args, **call.keywords)
    return bound


def compiled(step: Callable[..., tuple[State, Info]]) -> "partial[tuple[State, Info]]":
    """A `Program` that takes as many steps as there are numbers, each with `given` first."""
    numbered = _numbered(step)
    program = Program(_steps(numbered), donated=("state",), numbers=("parameters",))
    return partial(program, scale=numbered.scale, parameters=numbered.parameters)


def _numbered(step: Callable[..., tuple[State, Info]]) -> Numbered:
    return step if isinstance(step, Numbered) else Numbered(lambda *_: step, None, ())


def _steps(numbered: Numbered) -> Callable[..., tuple[State, Info]]:
    def chunk(
        given: Any,
        state: State,
        key: Key,
        numbers: Array,
        batches: Batch,
        scale: Any,
        parameters: tuple[Any, ...],
    ) -> tuple[State, Info]:
        here = numbered.make(scale, parameters)

        def one(state: State, x: tuple[Array, Batch]) -> tuple[State, Info]:
            number, batch = x
            return here(given, state, _folded(key, number), batch)

        return jax.lax.scan(one, state, (numbers, batches))

    return chunk


def _folded(key: Key, number: Array) -> Key:
    """The key of a step; one for each run, where there are several."""
    fold = jax.vmap(jax.random.fold_in, (0, None)) if key.ndim else jax.random.fold_in
    return fold(key, number)
