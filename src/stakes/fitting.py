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
from stakes.approximation import Approximation, Subsample
from stakes.errors import InputError
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
    """

    steps: int = 30_000
    draws: int = 10
    optimizer: optax.GradientTransformation | None = None
    chunk: int = 100
    patience: int = 30
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
        end = _mean(self.bound[-max(1, self.steps // 10) :])
        skipped = f", {self.skipped} steps skipped" if self.skipped else ""
        return f"Fit({self.reason} after {self.steps} steps, bound {end:.4g}{skipped})"


def run(
    title: str,
    step: Step,
    approximation: Approximation,
    state: State,
    key: Key,
    settings: Fitting,
) -> Fit:
    """Step until the bound has stopped rising at the smallest step size, or a limit is met."""
    step_key, batch_key = jax.random.split(key)
    schedule = Batches(batch_key, approximation.subsamples)
    chunk = compiled(step)
    elbos: list[np.ndarray] = []
    utilities: list[np.ndarray] = []
    done, skipped, stage, stage_start, reason = 0, 0, 0, 0, Stop.STEP_LIMIT
    means: list[float] = []
    # A small limit leaves room for all stages, too.
    patience = min(settings.patience, max(6, settings.steps // (6 * settings.chunk)))
    average = _Average()
    started = time.monotonic()
    # The loop hands its buffers over to each chunk, so that it must own them; naming the dtype
    # makes weak types strong, which would otherwise compile the chunk anew.
    state = jax.tree.map(lambda leaf: jnp.array(leaf, leaf.dtype), state)
    with (
        _deferred_interrupt() as interrupted,
        progress.bar(title, settings.steps, show=settings.progress) as report,
    ):
        while done < settings.steps:
            count = min(settings.chunk, settings.steps - done)
            batches = schedule.take(done, count)
            state, info = chunk(
                approximation, state, step_key, np.arange(done, done + count), batches
            )
            done += count
            finite = np.asarray(info.finite)
            elbos.append(np.asarray(info.elbo, np.float64))
            utilities.append(np.asarray(info.utility, np.float64))
            skipped += int((~finite).sum())
            report(done, _mean(elbos[-1] + utilities[-1]), _mean(utilities[-1]))
            if stage > 0:
                average.add(state.variables)
            if int(state.skipped) >= MOST_SKIPPED:
                reason = Stop.NUMERICAL_FAILURE
                break
            if interrupted():
                reason = Stop.INTERRUPTED
                break
            means.append(_mean(elbos[-1] + utilities[-1]))
            if has_stopped_rising(means[stage_start:], patience):
                if stage + 1 == len(RATES):
                    reason = Stop.CONVERGED
                    break
                stage, stage_start = stage + 1, len(means)
                state = state._replace(
                    variables=average.over(state.variables),
                    rate=jnp.asarray(RATES[stage], state.rate.dtype),
                )
                average = _Average()
    return Fit(
        variables=average.over(state.variables),
        elbo=np.concatenate(elbos),
        utility=np.concatenate(utilities),
        reason=reason,
        skipped=skipped,
        seconds=time.monotonic() - started,
    )


def has_stopped_rising(means: list[float], patience: int) -> bool:
    """Whether the last third of a stage is no better than the third before it, but for noise.

    The thirds grow with the stage, so that a slow rise is not mistaken for noise. A chunk whose
    mean is not finite is left out.
    """
    values = np.array([mean for mean in means if np.isfinite(mean)])
    third = len(values) // 3
    if len(values) < patience or third < 2:
        return False
    before, after = values[-2 * third : -third], values[-third:]
    noise = np.sqrt((before.var(ddof=1) + after.var(ddof=1)) / third)
    return bool(after.mean() - before.mean() <= noise)


def _mean(values: np.ndarray) -> float:
    """Over the steps that were not skipped."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else float("nan")


class Batches:
    """Which members of each subsampled plate each step sees: by epoch, without replacement.

    A pure function of the key and the step, so that a fit can go on from anywhere.
    """

    def __init__(self, key: Key, subsamples: tuple[Subsample, ...]) -> None:
        data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
        self._seed = [int(word) for word in np.asarray(data).ravel()]
        self._subsamples = subsamples
        self._orders: dict[tuple[str, int], np.ndarray] = {}

    def take(self, start: int, count: int) -> dict[str, np.ndarray]:
        """Plate -> (step, member) for `count` steps from `start`."""
        return {
            part.plate: np.stack([self._batch(i, part, t) for t in range(start, start + count)])
            for i, part in enumerate(self._subsamples)
        }

    def _batch(self, index: int, part: Subsample, step: int) -> np.ndarray:
        per_epoch = -(-part.size // part.batch_size)
        epoch, position = divmod(step, per_epoch)
        order = self._order(index, part, epoch)
        return order[position * part.batch_size : (position + 1) * part.batch_size]

    def _order(self, index: int, part: Subsample, epoch: int) -> np.ndarray:
        if (part.plate, epoch) not in self._orders:
            self._orders = {k: v for k, v in self._orders.items() if k[0] != part.plate}
            rng = np.random.Generator(np.random.Philox(seed=[*self._seed, index, epoch]))
            order = rng.permutation(part.size).astype(np.int32)
            # The last batch is filled up with members it does not hold yet.
            self._orders[part.plate, epoch] = np.concatenate(
                [order, order[: -part.size % part.batch_size]]
            )
        return self._orders[part.plate, epoch]


class _Average:
    """The mean of a stage's later part, sampled once a chunk: less noise than any one step.

    Each time that the stage has doubled in length a new mean is begun and the one before the last
    is dropped, so that the later half always counts and the beginning never does.
    """

    def __init__(self) -> None:
        self._older: tuple[Any, int] | None = None
        self._newer: tuple[Any, int] | None = None
        self._age, self._restart = 0, 4

    def add(self, variables: Any) -> None:
        self._age += 1
        if self._age == self._restart:
            self._older, self._newer = self._newer, None
            self._restart *= 2
        if self._newer is None:
            self._newer = jax.tree.map(jnp.array, variables), 1
        else:
            mean, count = self._newer
            self._newer = _towards(mean, variables, 1 / (count + 1)), count + 1

    def over(self, variables: Any) -> Any:
        if self._newer is None:
            return variables
        mean, count = self._newer
        if self._older is None:
            return mean
        older, before = self._older
        return jax.tree.map(lambda a, b: a + before / (before + count) * (b - a), mean, older)


@partial(jax.jit, donate_argnums=0)
def _towards(mean: Any, variables: Any, share: float) -> Any:
    return jax.tree.map(lambda old, new: old + share * (new - old), mean, variables)


def compiled(step: Step) -> Callable[..., tuple[State, Info]]:
    @partial(jax.jit, donate_argnums=1)
    def chunk(
        approximation: Approximation, state: State, key: Key, numbers: Array, batches: Batch
    ) -> tuple[State, Info]:
        def one(state: State, x: tuple[Array, Batch]) -> tuple[State, Info]:
            number, batch = x
            return step(approximation, state, jax.random.fold_in(key, number), batch)

        return jax.lax.scan(one, state, (numbers, batches))

    return chunk


@contextmanager
def _deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Ctrl-C ends the fit after the chunk under way; a second one ends it at once."""
    if threading.current_thread() is not threading.main_thread():
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
