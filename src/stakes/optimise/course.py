"""The course of a fit, from chunk to chunk: what it has been through and what comes next.

What to do next depends only on the course, so a course saved by another process is resumed as if
nothing had happened.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stakes.optimise.fit import Fit, Stop
from stakes.optimise.settings import FitSettings
from stakes.optimise.stages import Average, has_stopped_rising
from stakes.optimise.step import Info, State

RATES = (1.0, 0.1, 0.01)
"""Step sizes of the stages, as factors of the optimiser's own."""
MOST_SKIPPED = 50
"""Steps in a row without a finite gradient before a fit gives up."""


class Course(NamedTuple):
    """Where a fit stands between two chunks: all that it takes to resume it."""

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


def outset(state: State, runs: tuple[int, ...] = ()) -> Course:
    """The course of a fit that has yet to take its first step."""
    # The loop hands its buffers over to each chunk, so it must own them; naming the dtype makes
    # weak types strong, for which the chunk would otherwise be compiled again.
    state = jax.tree.map(lambda leaf: jnp.array(leaf, leaf.dtype), state)
    none = np.zeros((0, *runs))
    return Course(state, none, none, none.astype(bool), 0, 0, Average())


def extended(course: Course, state: State, info: Info) -> Course:
    return course._replace(
        state=state,
        elbo=np.concatenate([course.elbo, np.asarray(info.elbo, np.float64)]),
        utility=np.concatenate([course.utility, np.asarray(info.utility, np.float64)]),
        finite=np.concatenate([course.finite, np.asarray(info.finite)]),
        average=course.average.add(state.variables) if course.stage > 0 else course.average,
    )


def verdict(course: Course, settings: FitSettings, interrupted: bool) -> Stop | None:
    """Why to stop here; None to continue."""
    if np.max(course.state.skipped) >= MOST_SKIPPED:
        return Stop.NUMERICAL_FAILURE
    if course.stage + 1 == len(RATES) and _stopped_rising(course, settings):
        return Stop.CONVERGED
    if len(course.elbo) >= settings.steps:
        return Stop.STEP_LIMIT
    return Stop.INTERRUPTED if interrupted else None


def next_stage(course: Course, settings: FitSettings) -> Course:
    """Once a stage is over, continue from its average with a smaller step size."""
    if settings.all_steps or not _stopped_rising(course, settings):
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


def _stopped_rising(course: Course, settings: FitSettings) -> bool:
    """Whether the bound has stopped rising in the current stage."""
    bound = (course.elbo + course.utility)[course.stage_start :]
    if bound.ndim > 1:
        bound = bound.mean(axis=1)
    count = len(bound) // settings.chunk
    chunks = bound[: count * settings.chunk].reshape(count, settings.chunk)
    return has_stopped_rising(chunks, settings.least_chunks)


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
