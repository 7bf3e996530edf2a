"""The ways of `stakes`, on the model that a contest brings."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import stakes
from benchmarks.against.contest import Contest
from benchmarks.against.costs import Cost
from benchmarks.against.keeping import Decided

Found = tuple[np.ndarray, float, Any]
"""Decisions (table, row), seconds and a note."""


def calibrated(contest: Contest, cost: Cost) -> Found:
    """By the calibrated fit, all options left at their defaults."""
    return _calibrated(contest, cost, "calibrated")


def plain(contest: Contest, cost: Cost) -> Found:
    return _calibrated(contest, cost, "vi")


def _calibrated(contest: Contest, cost: Cost, fit: str) -> Found:
    model = contest.model
    problem = stakes.Problem(model.function, outcome=model.outcome, loss=cost.loss())
    options: dict[str, Any] = {} if model.steps is None else {"steps": model.steps}
    started = time.process_time()
    result = stakes.calibrate(
        jax.random.key(0), problem, dict(model.data), progress=False, **options
    )
    new = {name: values for name, values in model.new_data.items() if name != model.outcome}
    decided = result.decide(new, known=model.known, new=model.new, fit=getattr(result, fit))
    return model.arranged(decided.values), time.process_time() - started, None


def _every_cost(way: Callable[[Contest, Cost], Found]) -> Callable[[Contest], Decided]:
    def decide(contest: Contest) -> Decided:
        found = [way(contest, cost) for cost in contest.costs]
        return Decided(
            np.stack([decisions for decisions, _, _ in found]),
            np.array([seconds for _, seconds, _ in found]),
            {cost.name: note for cost, (_, _, note) in zip(contest.costs, found, strict=True)},
        )

    return decide


WAYS: dict[str, Callable[[Contest], Decided]] = {}
