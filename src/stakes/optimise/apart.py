"""Batches of runs that do not depend on each other: here, or on the workers of a Dask cluster."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax

from stakes._types import Key
from stakes.host.workers import run_all
from stakes.optimise.fit import Fit
from stakes.optimise.loop import run_together
from stakes.optimise.settings import FitSettings
from stakes.optimise.step import State, Step
from stakes.port import Approximation


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


def run_apart(title: str, batches: Sequence[Together], on: Any = None) -> list[list[Fit]]:
    """The fits of each batch, one batch after the other, or each on a worker of the client `on`.

    What is one batch here is one there, so that the numbers are the same: fits that run together
    keep the same pace.
    """
    if on is None:
        return [run_together(*batch) for batch in batches]
    show = batches[0].settings.progress
    quiet = [each._replace(settings=replace(each.settings, progress=False)) for each in batches]
    return run_all(run_together, quiet, title=title, on=on, show=show)
