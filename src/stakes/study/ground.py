"""Cases to decide about, and what a posterior predicts and decides for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np

from stakes import predicting
from stakes.bridge import Predictor
from stakes.errors import InputError, some
from stakes.port import Instances
from stakes.predicting import Posterior
from stakes.problem import Problem
from stakes.protocols import Expectation
from stakes.study.assessment import Assessment, decided, labelled_decisions, predictive_quantiles
from stakes.study.keys import Keys
from stakes.study.strategies.heads import LEVELS

if TYPE_CHECKING:
    import xarray as xr

MOST_VALUES = 4_000_000
"""Predicted outcomes held at once."""
MOST_DECIDED = 2**20
"""Instances times draws of θ, to decide by where decisions are judged."""
CENTRAL = (0.05, 0.25, 0.75, 0.95)
"""Ends of the central 90 and 50 % of what is predicted."""


def draws_in_folds(instances: int) -> int:
    """Of θ, to decide by where decisions are judged: 512, or fewer for many instances.

    All ways have the same ones, so that they differ by no luck, and more of them change a decision
    by little beside the spread of outcomes.
    """
    return int(np.clip(MOST_DECIDED // max(instances, 1), 128, 512))


class Forecast(NamedTuple):
    """What is predicted for each instance."""

    quantiles: np.ndarray
    """Instance x level, at the levels that heads see."""
    central: np.ndarray
    """Instance x (low of 90 %, low of 50 %, high of 50 %, high of 90 %)."""


class Outlook(NamedTuple):
    """What is predicted for each instance, and what its decision will cost by that."""

    interval: np.ndarray
    """Instance x ends of the central 90 %."""
    cost: np.ndarray
    """The mean cost, or minus the mean utility."""


@final
@dataclass(frozen=True, eq=False)
class Ground:
    """Some cases: those of the fit, some of whose members may be taken for new, or others."""

    problem: Problem
    predictor: Predictor
    expectation: Expectation
    keys: Keys
    data: Mapping[str, Any]
    coords: Mapping[str, Any]
    of_fit: bool
    """Whether these are the cases of the fit."""
    asked: np.ndarray | None = None
    """The instances asked about; for others, decisions and forecasts may be anything."""
    most_draws: int | None = None
    """Of θ, to decide by, and twice as many to predict by; None for many."""

    @classmethod
    def of(cls, cases: Assessment) -> "Ground":
        """The cases that a calibration was assessed on."""
        predictor = cases.predictor
        return cls(
            problem=cases.problem,
            predictor=predictor,
            expectation=cases.expectation,
            keys=cases.keys,
            data={**predictor.trace.constants, **predictor.arrays},
            coords=cases.coords,
            of_fit=not cases.held_out,
        )

    @property
    def instances(self) -> Instances:
        return self.predictor.trace.instances

    def judged(self, asked: np.ndarray | None = None) -> "Ground":
        """The same cases, decided by fewer draws because decisions are only judged there."""
        draws = draws_in_folds(int(np.prod(self.instances.shape)))
        return replace(self, asked=asked, most_draws=draws)

    def decide(self, posterior: Posterior) -> np.ndarray:
        """The best decision for each instance."""
        return decided(
            self.problem,
            posterior,
            self.predictor,
            self.expectation,
            self.keys,
            self.asked,
            self.most_draws,
        )

    def inside(self, decisions: np.ndarray) -> np.ndarray:
        """The nearest decisions that are allowed."""
        task = self.problem.task
        space = task.at(self.predictor.columns(task.needs)).space
        return np.array(space.inside(jnp.asarray(decisions)))

    def labels(self, decisions: np.ndarray) -> "xr.DataArray":
        """Decisions as users see them, with the names of their axes and members."""
        return labelled_decisions(self.problem.space, decisions, self.instances, self.coords)

    def forecast(self, posterior: Posterior) -> Forecast:
        drawn = self.drawn(posterior)
        levels = np.array([*LEVELS, *CENTRAL])
        found = predictive_quantiles(drawn.reshape(len(drawn), -1), levels)
        return Forecast(found[:, : len(LEVELS)], found[:, len(LEVELS) :])

    def outlook(self, posterior: Posterior, decisions: np.ndarray) -> Outlook:
        """What a posterior predicts, and what decisions will cost by that."""
        drawn, task = self.drawn(posterior), self.problem.task
        criterion = task.at(self.predictor.columns(task.needs)).criterion
        costs = criterion.cost(jnp.asarray(drawn), task.space.unpack(jnp.asarray(decisions)))
        ends = np.array([CENTRAL[0], CENTRAL[-1]])
        interval = predictive_quantiles(drawn.reshape(len(drawn), -1), ends)
        return Outlook(interval, np.asarray(costs, np.float64).mean(axis=0).ravel())

    def drawn(self, posterior: Posterior) -> np.ndarray:
        """Outcomes that may come: many draws for a few instances, fewer for many."""
        size = int(np.prod(self.instances.shape))
        values, most = MOST_VALUES, 2000
        if self.most_draws is not None:
            values, most = MOST_VALUES // 4, 2 * self.most_draws
        draws = int(np.clip(values // max(size, 1), 200, most))
        key = self.keys.predictions
        return predicting.predict(posterior, self.predictor, key, draws, self.asked)

    def covariates(self, names: Sequence[str]) -> np.ndarray | None:
        """Data arguments with one row for each instance: instance x column."""
        shape = self.instances.shape
        columns = []
        for name in names:
            values = np.asarray(self.data[name]) if name in self.data else None
            if values is None or values.shape[: len(shape)] != shape:
                came = "is not there" if values is None else f"has the shape {values.shape}"
                raise InputError(
                    f"A head asks for the covariate {name!r}, which {came}; it must be a data "
                    f"argument with a row for each outcome, in the shape {shape}. There are "
                    f"{some(self.data)}."
                )
            columns.append(values.reshape(int(np.prod(shape)), -1))
        return np.concatenate(columns, axis=1).astype(float) if columns else None
