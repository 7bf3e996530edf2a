"""The one loop. VI, joint optimisation and EM differ in the `step` they bring to it."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stakes import progress
from stakes.approximation import Approximation
from stakes.batches import Batches
from stakes.errors import InputError
from stakes.stages import Average, finite_mean, has_stopped_rising
from stakes.typing import Array, Batch, Key

RATES = (1.0, 0.1, 0.01)
"""Step sizes of the stages, as factors of the optimiser's own."""
MOST_SKIPPED = 50
"""Steps in a row without a finite gradient before a fit gives up."""


class State(NamedTuple):
    """All that one step hands to the next."""

    variables: Any
    """What is optimised or decided: `params`, and `decisions` where there are any."""
    optimizer: Any
    rate: Array
    taken: Array
    """How many steps have been taken."""
    skipped: Array
    """How many steps in a row had no finite gradient."""


class Info(NamedTuple):
    """What one step reports; the bound is elbo + utility, and larger is better."""

    elbo: Array
    utility: Array
    finite: Array


Step: TypeAlias = Callable[[Approximation, State, Key, Batch], tuple[State, Info]]


class Stop(StrEnum):
    """Why a fit ended."""

    CONVERGED = "converged"
    STEP_LIMIT = "reached the step limit"
    INTERRUPTED = "interrupted"
    NUMERICAL_FAILURE = "stopped: no finite gradient in many steps in a row"


@final
@dataclass(frozen=True, kw_only=True)
class Fitting:
    """How to optimise.

    Args:
        steps: at most this many.
        draws: of θ at each step.
        optimizer: any optax optimiser; Adam by default. Its step size is reduced tenfold,
            twice, each time that the bound has stopped rising; after the first time the fit
            goes on from, and ends with, the average of where it has been.
        chunk: steps compiled into one call, between which progress is shown and stopping
            decided.
        patience: chunks that a stage lasts at the least; fewer where `steps` is small.
        all_steps: take every step at the optimiser's own step size, for one with a schedule.
    """

    steps: int = 30_000
    draws: int = 10
    optimizer: optax.GradientTransformation | None = None
    chunk: int = 100
    patience: int = 30
    all_steps: bool = False
    progress: bool = True

    def __post_init__(self) -> None:
        for name in ("steps", "draws", "chunk", "patience"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InputError(f"`{name}=` must be a whole number above zero; got {value!r}.")

    def transformation(self) -> optax.GradientTransformation:
        return optax.adam(0.03) if self.optimizer is None else self.optimizer


@final
@dataclass(frozen=True, eq=False)
class Fit:
    """Where a fit ended, how it got there, and why it stopped."""

    variables: Any
    elbo: np.ndarray
    """Estimate at each step."""
    utility: np.ndarray
    """Utility term at each step; zero throughout for plain VI."""
    reason: Stop
    skipped: int
    """Steps left out because their gradient was not finite."""
    seconds: float
    step_seconds: float = float("nan")
    """Seconds a step took, without the first chunk, which has to be compiled."""

    @property
    def params(self) -> Any:
        """The variational parameters, unconstrained."""
        return self.variables["params"]

    @property
    def bound(self) -> np.ndarray:
        """Estimate of ELBO + utility term at each step: larger is better."""
        return self.elbo + self.utility

    @property
    def steps(self) -> int:
        return len(self.elbo)

    @property
    def converged(self) -> bool:
        return self.reason is Stop.CONVERGED

    def __repr__(self) -> str:
        end = finite_mean(self.bound[-max(1, self.steps // 10) :])
        skipped = f", {self.skipped} steps skipped" if self.skipped else ""
        return f"Fit({self.reason} after {self.steps} steps, bound {end:.4g}{skipped})"


class Course(NamedTuple):
    """Where a fit stands between two chunks: all that it takes to go on from there."""

    state: State
    elbo: np.ndarray
    """Of each step so far; several runs along a second axis."""
    utility: np.ndarray
    finite: np.ndarray
    stage: int
    """Which of the step sizes is in use."""
    stage_start: int
    """The step at which its stage began."""
    average: Average
    seconds: float = 0.0


Watch: TypeAlias = Callable[[Course], None]
"""Called after every chunk, the last one too, to keep a record of where the fit stands.

The next chunk takes the buffers of the state over: a watch that keeps them has to copy.
"""


def run(
    title: str,
    step: Step,
    approximation: Approximation,
    state: State,
    key: Key,
    settings: Fitting,
    *,
    course: Course | None = None,
    watch: Watch | None = None,
) -> Fit:
    """Step until the bound has stopped rising at the smallest step size, or a limit is met.

    With the `course` of a run that was cut short it goes on from there and ends with the same
    numbers, bit for bit, as if it had not been; with that of a finished one it ends at once.
    """
    step_key, batch_key = jax.random.split(key)
    chunk = partial(compiled(step), approximation, key=step_key)
    schedule = Batches(batch_key, approximation.subsamples)
    return _fit(*_loop(title, chunk, schedule, course or outset(state), settings, watch))


def run_together(
    title: str,
    step: Callable[[Any], Step],
    each: Any,
    approximation: Approximation,
    states: State,
    keys: Key,
    settings: Fitting,
    *,
    watch: Watch | None = None,
) -> list[Fit]:
    """Several runs as one compiled batch.

    States, keys and whatever `step` asks for in `each` have a leading axis of runs. The runs see
    the same minibatches and keep the same pace: a stage ends when their bounds, taken together,
    have stopped rising.
    """
    count = len(keys)
    split = jax.vmap(jax.random.split)(keys)

    def every(given: tuple[Approximation, Any], states: State, keys: Key, batch: Batch) -> Any:
        approximation, each = given

        def one(state: State, key: Key, own: Any) -> tuple[State, Info]:
            return step(own)(approximation, state, key, batch)

        return jax.vmap(one)(states, keys, each)

    # As an argument, not a constant: a compiled program that was kept serves for other values.
    chunk = partial(compiled(every), (approximation, each), key=split[:, 0])
    schedule = Batches(split[0, 1], approximation.subsamples)
    start = outset(states, (count,))
    course, reason, step_seconds = _loop(title, chunk, schedule, start, settings, watch)
    return [_fit(_one_of(course, i, count), reason, step_seconds / count) for i in range(count)]


def _loop(
    title: str,
    chunk: Callable[..., tuple[State, Info]],
    schedule: Batches,
    course: Course,
    settings: Fitting,
    watch: Watch | None,
) -> tuple[Course, Stop, float]:
    """Where it ended, why, and the seconds that a step took once it was compiled."""
    # A small limit leaves room for all stages, too.
    patience = min(settings.patience, max(6, settings.steps // (6 * settings.chunk)))
    started, chunks = time.monotonic() - course.seconds, []
    with (
        _deferred_interrupt() as interrupted,
        progress.bar(title, settings.steps, show=settings.progress) as report,
    ):
        # What to do next is a function of the course alone, so that it may come from elsewhere.
        while (reason := _verdict(course, settings, patience, interrupted())) is None:
            course = _next_stage(course, settings, patience)
            done = len(course.elbo)
            count = min(settings.chunk, settings.steps - done)
            chunk_started = time.monotonic()
            state, info = chunk(
                course.state,
                numbers=np.arange(done, done + count),
                batches=schedule.take(done, count),
            )
            course = _extended(course, state, info)._replace(seconds=time.monotonic() - started)
            chunks.append((time.monotonic() - chunk_started) / count)
            recent = course.utility[done:]
            report(done + count, finite_mean(course.elbo[done:] + recent), finite_mean(recent))
            if watch is not None:
                watch(course)
    return course, reason, float(np.median(chunks[1:])) if chunks[1:] else float("nan")


def outset(state: State, runs: tuple[int, ...] = ()) -> Course:
    """The course of a fit that has yet to take its first step."""
    # The loop hands its buffers over to each chunk, so that it must own them; naming the dtype
    # makes weak types strong, which would otherwise compile the chunk anew.
    state = jax.tree.map(lambda leaf: jnp.array(leaf, leaf.dtype), state)
    none = np.zeros((0, *runs))
    return Course(state, none, none, none.astype(bool), 0, 0, Average())


def _extended(course: Course, state: State, info: Info) -> Course:
    return course._replace(
        state=state,
        elbo=np.concatenate([course.elbo, np.asarray(info.elbo, np.float64)]),
        utility=np.concatenate([course.utility, np.asarray(info.utility, np.float64)]),
        finite=np.concatenate([course.finite, np.asarray(info.finite)]),
        average=course.average.add(state.variables) if course.stage > 0 else course.average,
    )


def _verdict(course: Course, settings: Fitting, patience: int, interrupted: bool) -> Stop | None:
    """Why to stop here; None to go on."""
    if np.max(course.state.skipped) >= MOST_SKIPPED:
        return Stop.NUMERICAL_FAILURE
    last = course.stage + 1 == len(RATES)
    if last and _stage_is_over(course, settings, patience):
        return Stop.CONVERGED
    if len(course.elbo) >= settings.steps:
        return Stop.STEP_LIMIT
    return Stop.INTERRUPTED if interrupted else None


def _next_stage(course: Course, settings: Fitting, patience: int) -> Course:
    """A smaller step from the average of the stage that ends, once it is over."""
    if not _stage_is_over(course, settings, patience):
        return course
    state, stage = course.state, course.stage + 1
    return course._replace(
        state=state._replace(
            variables=course.average.over(state.variables),
            rate=jnp.full_like(state.rate, RATES[stage]),
        ),
        stage=stage,
        stage_start=len(course.elbo),
        average=Average(),
    )


def _stage_is_over(course: Course, settings: Fitting, patience: int) -> bool:
    if settings.all_steps:
        return False
    bound = (course.elbo + course.utility)[course.stage_start :]
    if bound.ndim > 1:
        bound = bound.mean(axis=1)
    count = len(bound) // settings.chunk
    chunks = bound[: count * settings.chunk].reshape(count, settings.chunk)
    return has_stopped_rising(chunks, patience)


def _one_of(course: Course, i: int, count: int) -> Course:
    return course._replace(
        state=jax.tree.map(lambda leaf: leaf[i], course.state),
        elbo=course.elbo[:, i],
        utility=course.utility[:, i],
        finite=course.finite[:, i],
        average=course.average.one_of(i),
        seconds=course.seconds / count,
    )


def _fit(course: Course, reason: Stop, step_seconds: float) -> Fit:
    return Fit(
        variables=course.average.over(course.state.variables),
        elbo=course.elbo,
        utility=course.utility,
        reason=reason,
        skipped=int((~course.finite).sum()),
        seconds=course.seconds,
        step_seconds=step_seconds,
    )


def compiled(step: Callable[..., tuple[State, Info]]) -> Callable[..., tuple[State, Info]]:
    """As many steps as there are numbers; `given` is what each of them is given first."""

    @partial(jax.jit, donate_argnums=1)
    def chunk(
        given: Any, state: State, key: Key, numbers: Array, batches: Batch
    ) -> tuple[State, Info]:
        def one(state: State, x: tuple[Array, Batch]) -> tuple[State, Info]:
            number, batch = x
            return step(given, state, _folded(key, number), batch)

        return jax.lax.scan(one, state, (numbers, batches))

    return chunk


def _folded(key: Key, number: Array) -> Key:
    """The key of a step; of each run, where there are several."""
    fold = jax.vmap(jax.random.fold_in, (0, None)) if key.ndim else jax.random.fold_in
    return fold(key, number)


@contextmanager
def _deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Ctrl-C ends the fit after the chunk under way; a second one ends it at once.

    Someone who listens for it already, and ends the fit by raising from its watch, is left alone.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    pressed = False

    def note(signum: int, frame: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, previous)
