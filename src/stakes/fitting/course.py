"""The course of a fit, from chunk to chunk: what it has been through and what comes next.

What to do next depends only on the course, so a course saved by another process is resumed as if
nothing had happened.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import numpy as np

from stakes._types import PyTree
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

RATES = (1.0, 0.1, 0.01)
"""Step sizes of the stages of a round, as factors of the optimiser's own."""
VISITS = 6
"""How often a row comes up in a stage of full step size, at least."""
MOST_SKIPPED = 50
"""Steps in a row without a finite gradient before a fit gives up."""


Look: TypeAlias = Callable[[PyTree], np.ndarray]
"""Variables -> some of them, to be watched."""


class Course(NamedTuple):
    """Where a fit stands between two chunks: all that it takes to resume it."""

    state: State
    elbo: np.ndarray
    """Of each step so far; several runs along a second axis."""
    utility: np.ndarray
    finite: np.ndarray
    stage: int
    """How many stages are over; each round has one for each of the step sizes."""
    stage_start: int
    """The step at which its stage began."""
    average: Average
    watched: np.ndarray
    """Some of the variables after each chunk of a stage of full step size: chunk x variable."""
    round_start: int = 0
    """The step at which its round began."""
    settled_start: int = 0
    """The step at which the last stage of the round before began."""
    seconds: float = 0.0

    @property
    def round(self) -> int:
        return self.stage // len(RATES)

    @property
    def rate(self) -> float:
        return RATES[self.stage % len(RATES)]

    @property
    def is_last_of_round(self) -> bool:
        return self.rate == RATES[-1]


Watch: TypeAlias = Callable[[Course], None]
"""Called after every chunk, including the last, to keep a record of where the fit stands.

The next chunk takes over the buffers of the state: a watch that keeps them has to copy them.
"""


def outset(
    state: State,
    runs: tuple[int, ...] = (),
    look: Look = some_of,
    *,
    handed_over: bool = False,
) -> Course:
    """The course of a fit that has yet to take its first step.

    The loop hands its buffers over to each chunk, so it must own them: it begins with a copy of the
    state, but for large arrays of one that is `handed_over`, since nobody else has them.
    """
    state = taken_over(state) if handed_over else owned(state)
    none = np.zeros((0, *runs))
    nothing = np.zeros((0, len(look(state.variables))))
    return Course(state, none, none, none.astype(bool), 0, 0, Average(), nothing)


def extended(course: Course, state: State, info: Info, look: Look = some_of) -> Course:
    if course.rate < 1:
        course = course._replace(average=course.average.add(state.variables))
    else:
        here = look(state.variables)
        course = course._replace(watched=np.concatenate([course.watched, here[None]]))
    return course._replace(
        state=state,
        elbo=np.concatenate([course.elbo, np.asarray(info.elbo, np.float64)]),
        utility=np.concatenate([course.utility, np.asarray(info.utility, np.float64)]),
        finite=np.concatenate([course.finite, np.asarray(info.finite)]),
    )


def verdict(course: Course, settings: FitSettings, interrupted: bool) -> Stop | None:
    """Why to stop here; None to continue."""
    if np.asarray(course.state.skipped).max() >= MOST_SKIPPED:
        return Stop.NUMERICAL_FAILURE
    if _stopped_rising(course, settings) and _gained_nothing(course, settings):
        return Stop.CONVERGED
    if len(course.elbo) >= settings.steps:
        return Stop.STEP_LIMIT
    return Stop.INTERRUPTED if interrupted else None


def next_stage(course: Course, settings: FitSettings) -> Course:
    """Once a stage is over, continue from its average with the next step size.

    After the last stage of a round another round begins, twice as long, if there are steps left
    for it; if not, the stage goes on to the end.
    """
    if settings.all_steps or not _is_over(course, settings):
        return course
    state, done = course.state, len(course.elbo)
    after = course._replace(stage=course.stage + 1, stage_start=done, average=Average())
    after = after._replace(watched=course.watched[:0])
    if course.is_last_of_round:
        after = after._replace(round_start=done, settled_start=course.stage_start)
        if settings.steps - done < _least_steps_from(after.stage, settings):
            return course
    return after._replace(
        state=state._replace(
            variables=course.average.over(state.variables),
            rate=jax.device_put(np.full_like(state.rate, after.rate)),
        )
    )


def _is_over(course: Course, settings: FitSettings) -> bool:
    if _stopped_rising(course, settings) and not _is_moving(course, settings):
        return True
    # A round that has been begun is brought to its end, at the smallest step size.
    left = settings.steps - len(course.elbo)
    to_come = _least_steps_from(course.stage + 1, settings)
    return course.round > 0 and not course.is_last_of_round and left <= to_come


def _is_moving(course: Course, settings: FitSettings) -> bool:
    """Whether variables drift, at full step size; directions that are all the same never rest."""
    taken = len(course.elbo) - course.stage_start
    return course.rate == 1 and taken < settings.steps // 5 and are_drifting(course.watched)


def least_steps(settings: FitSettings) -> int:
    """The fewest steps after which a fit is called converged: those of two rounds."""
    return sum(_least_steps_from(stage, settings) for stage in (0, len(RATES)))


def _least_steps_from(stage: int, settings: FitSettings) -> int:
    """The fewest steps of the stages of a round, from this one on."""
    left = range(stage, (stage // len(RATES) + 1) * len(RATES))
    return settings.chunk * sum(_least_chunks(each, settings) for each in left)


def _least_chunks(stage: int, settings: FitSettings) -> int:
    round_, number = divmod(stage, len(RATES))
    visits = VISITS if RATES[number] == 1 else 1
    least: int = settings.least_chunks * 2**round_
    return max(least, -(-visits * settings.sweep // settings.chunk))


def _stopped_rising(course: Course, settings: FitSettings) -> bool:
    """Whether the bound has stopped rising in the current stage."""
    chunks = _chunks(course, settings, course.stage_start, len(course.elbo))
    return has_stopped_rising(chunks, _least_chunks(course.stage, settings))


def _gained_nothing(course: Course, settings: FitSettings) -> bool:
    """Whether this round ends no better than the one before, which was half as long."""
    if course.round == 0 or not course.is_last_of_round:
        return False
    before = _chunks(course, settings, course.settled_start, course.round_start)
    return is_no_better(before, _chunks(course, settings, course.stage_start, len(course.elbo)))


def _chunks(course: Course, settings: FitSettings, start: int, end: int) -> np.ndarray:
    """The bound at these steps, a row for each chunk; the mean over runs where there are some."""
    bound: np.ndarray = (course.elbo + course.utility)[start:end]
    if bound.ndim > 1:
        bound = bound.mean(axis=1)
    count = len(bound) // settings.chunk
    return bound[: count * settings.chunk].reshape(count, settings.chunk)


def one_of(course: Course, i: int, count: int) -> Course:
    return course._replace(
        state=jax.tree.map(lambda leaf: leaf[i], course.state),
        elbo=course.elbo[:, i],
        utility=course.utility[:, i],
        finite=course.finite[:, i],
        average=course.average.one_of(i),
        seconds=course.seconds / count,
    )


def fit_of(course: Course, reason: Stop, step_seconds: float) -> Fit:
    return Fit(
        variables=course.average.over(course.state.variables),
        elbo=course.elbo,
        utility=course.utility,
        reason=reason,
        skipped=int((~course.finite).sum()),
        seconds=course.seconds,
        step_seconds=step_seconds,
    )


def not_begun(state: State, reason: Stop) -> Fit:
    """The fit that was not wanted, or that an interrupt left no time for, where it would begin."""
    return fit_of(outset(state), reason, float("nan"))
