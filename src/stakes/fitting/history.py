"""The history of a fit, from chunk to chunk: what it has been through and what comes next.

A round has a stage for each step size: full, a tenth, a hundredth. A stage ends when the bound has
stopped rising, and at full step size only once the variables rest, too; the next one goes on from
its average. Rounds repeat, each with stages at least twice as long, until one ends no better than
the one before.

What to do next depends only on the history, so a history saved by another process is resumed as if
nothing had happened.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import jax
import numpy as np

from stakes._types import PyTree
from stakes.errors import StorageError
from stakes.fitting.fit import Fit, Stop
from stakes.fitting.settings import FitSettings
from stakes.fitting.stages import (
    Average,
    are_drifting,
    has_stopped_rising,
    is_no_better,
    owned,
    some_of,
    taken_over,
)
from stakes.fitting.step import Info, State
from stakes.host.trees import load_tree

# Step sizes of the stages of a round, as factors of the optimiser's own.
RATES = (1.0, 0.1, 0.01)
# How often a row comes up in a stage of full step size, at least: fewer tell nothing of drift.
VISITS = 6
# Steps in a row without a finite gradient before a fit gives up.
MOST_SKIPPED = 50


Look: TypeAlias = Callable[[PyTree], np.ndarray]
"""Variables -> some of them, to be watched."""


class History(NamedTuple):
    """Where a fit stands between two chunks: all that it takes to resume it.

    Attributes:
        elbo: of each step so far; several runs along a second axis.
        stage: how many stages are over; each round has one for each of the step sizes.
        stage_start: the step at which its stage began.
        watched: some of the variables after each chunk of a stage of full step size: chunk x
            variable.
        round_start: the step at which its round began.
        settled_start: the step at which the last stage of the round before began.
        ended: why it ended, where that is not to be told from its own steps: of one of several runs
            that kept the same pace.
    """

    state: State
    elbo: np.ndarray
    utility: np.ndarray
    finite: np.ndarray
    stage: int
    stage_start: int
    average: Average
    watched: np.ndarray
    round_start: int = 0
    settled_start: int = 0
    seconds: float = 0.0
    ended: str = ""

    @property
    def round(self) -> int:
        """How many rounds are over."""
        return self.stage // len(RATES)

    @property
    def rate(self) -> float:
        """The step size of the current stage, as a factor of the optimiser's own."""
        return RATES[self.stage % len(RATES)]

    @property
    def is_last_of_round(self) -> bool:
        """Whether the current stage has the smallest step size."""
        return self.rate == RATES[-1]


Watch: TypeAlias = Callable[[History], None]
"""Called after every chunk, including the last, to keep a record of where the fit stands.

The next chunk takes over the buffers of the state: a watch that keeps them has to copy them.
"""


def start_history(
    state: State,
    runs: tuple[int, ...] = (),
    look: Look = some_of,
    *,
    handed_over: bool = False,
) -> History:
    """The history of a fit that has yet to take its first step.

    The loop hands its buffers over to each chunk, so it must own them: it begins with a copy of the
    state, but for large arrays of one that is `handed_over`, since nobody else has them.
    """
    state = taken_over(state) if handed_over else owned(state)
    none = np.zeros((0, *runs))
    nothing = np.zeros((0, len(look(state.variables))))
    return History(state, none, none, none.astype(bool), 0, 0, Average(), nothing)


def load_history(arrays: Mapping[str, np.ndarray], start: History, where: str) -> History:
    """The history that was kept by `save_tree`, of a fit that would begin with `start`.

    Args:
        where: what holds the arrays, for the message if they do not fit.
    """
    counts = [arrays.get(f"average.{part}_count", 0) for part in ("older", "newer")]
    older, newer = (start.state.variables if np.any(count) else None for count in counts)
    average = start.average._replace(older=older, newer=newer)
    history = load_tree(arrays, start._replace(average=average), where)
    if history.stage < 0:
        raise StorageError(f"{where} is at stage {history.stage}.")
    if not len(history.elbo) == len(history.utility) == len(history.finite):
        raise StorageError(f"{where} has traces of different lengths.")
    return history


def extended(history: History, state: State, info: Info, look: Look = some_of) -> History:
    """Return the history after a chunk.

    Args:
        history: before the chunk.
        state: after it; its variables count towards the average, but at full step size.
        info: what each step of the chunk reported.
        look: picks the variables whose drift is watched at full step size.
    """
    if history.rate < 1:
        history = history._replace(average=history.average.add(state.variables))
    else:
        here = look(state.variables)
        history = history._replace(watched=np.concatenate([history.watched, here[None]]))
    return history._replace(
        state=state,
        elbo=np.concatenate([history.elbo, np.asarray(info.elbo, np.float64)]),
        utility=np.concatenate([history.utility, np.asarray(info.utility, np.float64)]),
        finite=np.concatenate([history.finite, np.asarray(info.finite)]),
    )


def verdict(history: History, settings: FitSettings, interrupted: bool) -> Stop | None:
    """Why to stop here; None to continue."""
    if history.ended:
        return Stop(history.ended)
    if np.asarray(history.state.skipped).max() >= MOST_SKIPPED:
        return Stop.NUMERICAL_FAILURE
    if _stopped_rising(history, settings) and _gained_nothing(history, settings):
        return Stop.CONVERGED
    if len(history.elbo) >= settings.steps:
        return Stop.STEP_LIMIT
    return Stop.INTERRUPTED if interrupted else None


def next_stage(history: History, settings: FitSettings) -> History:
    """Once a stage is over, continue from its average with the next step size.

    After the last stage of a round another round begins, twice as long, if there are steps left
    for it; if not, the stage goes on to the end.
    """
    if settings.all_steps or not _is_over(history, settings):
        return history
    state, done = history.state, len(history.elbo)
    after = history._replace(stage=history.stage + 1, stage_start=done, average=Average())
    after = after._replace(watched=history.watched[:0])
    if history.is_last_of_round:
        after = after._replace(round_start=done, settled_start=history.stage_start)
        if settings.steps - done < _least_steps_from(after.stage, settings):
            return history
    return after._replace(
        state=state._replace(
            variables=history.average.over(state.variables),
            rate=jax.device_put(np.full_like(state.rate, after.rate)),
        )
    )


def _is_over(history: History, settings: FitSettings) -> bool:
    """Whether the current stage is over.

    A round that has been begun is brought to its end, at the smallest step size, where steps run
    short.
    """
    if _stopped_rising(history, settings) and not _is_moving(history, settings):
        return True
    # A round that has been begun is brought to its end, at the smallest step size.
    left = settings.steps - len(history.elbo)
    to_come = _least_steps_from(history.stage + 1, settings)
    return history.round > 0 and not history.is_last_of_round and left <= to_come


def _is_moving(history: History, settings: FitSettings) -> bool:
    """Whether variables drift, at full step size; directions that are all the same never rest."""
    taken = len(history.elbo) - history.stage_start
    return history.rate == 1 and taken < settings.steps // 5 and are_drifting(history.watched)


def least_steps(settings: FitSettings) -> int:
    """The fewest steps after which a fit is called converged: those of two rounds."""
    return sum(_least_steps_from(stage, settings) for stage in (0, len(RATES)))


def _least_steps_from(stage: int, settings: FitSettings) -> int:
    """The fewest steps of the stages of a round, from this one on."""
    left = range(stage, (stage // len(RATES) + 1) * len(RATES))
    return settings.chunk * sum(_least_chunks(each, settings) for each in left)


def _least_chunks(stage: int, settings: FitSettings) -> int:
    """Return the fewest chunks of a stage: twice as many in each round, and some for every row."""
    round_, number = divmod(stage, len(RATES))
    visits = VISITS if RATES[number] == 1 else 1
    least: int = settings.least_chunks * 2**round_
    return max(least, -(-visits * settings.sweep // settings.chunk))


def _stopped_rising(history: History, settings: FitSettings) -> bool:
    """Whether the bound has stopped rising in the current stage."""
    chunks = _chunks(history, settings, history.stage_start, len(history.elbo))
    return has_stopped_rising(chunks, _least_chunks(history.stage, settings))


def _gained_nothing(history: History, settings: FitSettings) -> bool:
    """Whether this round ends no better than the one before, which was half as long."""
    if history.round == 0 or not history.is_last_of_round:
        return False
    before = _chunks(history, settings, history.settled_start, history.round_start)
    return is_no_better(before, _chunks(history, settings, history.stage_start, len(history.elbo)))


def _chunks(history: History, settings: FitSettings, start: int, end: int) -> np.ndarray:
    """The bound at these steps, a row for each chunk; the mean over runs where there are some."""
    bound: np.ndarray = (history.elbo + history.utility)[start:end]
    if bound.ndim > 1:
        bound = bound.mean(axis=1)
    count = len(bound) // settings.chunk
    return bound[: count * settings.chunk].reshape(count, settings.chunk)


def one_of(history: History, i: int, count: int, reason: Stop) -> History:
    """Return the history of one of several runs that were one batch, and ended for this reason."""
    state = jax.tree.map(lambda leaf: leaf[i], history.state)
    return history._replace(
        state=state,
        elbo=history.elbo[:, i],
        utility=history.utility[:, i],
        finite=history.finite[:, i],
        average=history.average.one_of(i),
        watched=np.zeros((0, len(some_of(state.variables)))),
        seconds=history.seconds / count,
        ended=str(reason),
    )


def fit_of(history: History, reason: Stop, step_seconds: float) -> Fit:
    """Return the fit that a history ends with.

    Its variables are the average over the last stage, which has less noise than any one step.
    """
    return Fit(
        variables=history.average.over(history.state.variables),
        elbo=history.elbo,
        utility=history.utility,
        reason=reason,
        skipped=int((~history.finite).sum()),
        seconds=history.seconds,
        step_seconds=step_seconds,
    )


def not_begun(state: State, reason: Stop) -> Fit:
    """The fit that was not wanted, or that an interrupt left no time for, where it would begin."""
    return fit_of(start_history(state), reason, float("nan"))
