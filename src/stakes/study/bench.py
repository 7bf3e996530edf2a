"""What all ways are fitted with: the problem prepared once, its folds, and fits that they share."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np

from stakes import checks, predicting
from stakes._types import Data, Key
from stakes.bridge import lost_parameters, seen_members
from stakes.errors import InputError, some
from stakes.fitting import Fit
from stakes.host.progress import waiting
from stakes.predicting import FittedPosterior, Observations
from stakes.problem import Problem
from stakes.study.data import CheckedData, Coords, given
from stakes.study.dependence import dependence_of
from stakes.study.folds import Forward, check_order, split
from stakes.study.ground import Ground
from stakes.study.intervals import Clustered, Ordered
from stakes.study.keys import Keys
from stakes.study.members import predictor_for
from stakes.study.options import Options
from stakes.study.plan import Plan, prepare
from stakes.study.setup import Setup, Strength

if TYPE_CHECKING:
    from stakes.study.strategies.way import Fitted, Way


@final
class Bench:
    """A problem with its data and folds, and what has been fitted to them so far.

    Given one of the same model, data, key and folds `before`, about another loss, its fits of plain
    VI are taken over: they do not depend on the loss.
    """

    def __init__(
        self,
        key: Key,
        problem: Problem,
        data: Data,
        options: Options,
        *,
        strengths: Mapping[Any, Sequence[Strength]],
        folds: Any,
        by: Any,
        coords: Coords | None,
        progress: bool,
        before: "Bench | None" = None,
        on: Any = None,
    ) -> None:
        self._before, self.client = before, on
        self.keys, self.options, self.progress = Keys.of(key), options, progress
        self._said = None if coords is None else checks.labels("`coords=`", coords)
        self._strengths = strengths
        self._plans: dict[Any, Plan] = {}
        self._setups: dict[Any, Setup] = {}
        self._calibrated: dict[Any, dict[Strength, list[Fit]]] = {}
        self._fitted: dict[Way, Fitted] = {}
        self.problem, self._given = problem, data
        if problem.action is not None:
            raise InputError(
                f"`choose(...)` judges ways by observed outcomes, but decisions about "
                f"{problem.action!r} change the outcome. Use `calibrate(...)`."
            )
        self.plan = self.plan_of(None)
        read = given(problem, data, needs_outcome=True)
        self.coords, self.data = self.plan.coords, read.data
        self.rows = None if read.table is None else read.table.rows
        if isinstance(folds, Forward) and self.rows is not None:
            check_order(folds, self.rows.index)
        self.seen = self._observations()
        instances = self.plan.approximation.instances
        self.home = self._ground(self.plan.predictors.on(), of_fit=True)
        together = dependence_of(by, self.home.predictor)
        groups = None
        if by is not None and isinstance(together, Clustered):
            groups = together.groups.reshape(instances.shape)
        self.splits = split(folds, groups, self.seen.counted, instances, self.keys.folds)
        if by is None and isinstance(folds, Forward):
            together = Ordered(folds.together)
        self.dependence = together.among(self.splits.ever_judged)
        self.grounds = [
            self._without(fitted).judged(judged)
            for fitted, judged in zip(self.splits.fitted, self.splits.judged, strict=True)
        ]

    @property
    def everything(self) -> int:
        """The number of the fits to everything, after those of the folds."""
        return len(self.splits.fitted)

    def plan_of(self, guide: Any) -> Plan:
        """The problem prepared with another guide; with its own for None."""
        if guide not in self._plans:
            problem = self.problem if guide is None else replace(self.problem, guide=guide)
            with waiting("tracing the model", show=self.progress):
                self._plans[guide] = prepare(
                    self.keys.setup,
                    problem,
                    self._given,
                    self.options,
                    coords=self._said,
                    progress=self.progress,
                    approximation=self._before and self._before.plan_of(guide).approximation,
                )
        return self._plans[guide]

    def setup(self, guide: Any) -> Setup:
        """The fits with this guide."""
        if guide not in self._setups:
            plan, masks = self.plan_of(guide), self.splits.masks
            fewer = self.options.draws is None
            found = self._before and self._before.setup(guide).plain
            self._setups[guide] = Setup(
                plan, masks, self.keys, self.seen, self.home, fewer, found, self.client
            )
        return self._setups[guide]

    def calibrated(self, guide: Any, strength: Strength) -> list[Fit]:
        """Calibrated fits; those of all strengths that ways ask for are found together."""
        if guide not in self._calibrated:
            asked = list(dict.fromkeys(self._strengths[guide]))
            self._calibrated[guide] = self.setup(guide).calibrated(asked)
        return self._calibrated[guide][strength]

    def fitted(self, way: "Way") -> "Fitted":
        if way not in self._fitted:
            self._fitted[way] = way.fit(self)
        return self._fitted[way]

    def given(self, data: Data) -> CheckedData:
        """Other data, with the same numbers for the same things as in the fit."""
        return given(
            self.problem,
            data,
            needs_outcome=False,
            columns=self.plan.columns,
            fitted=self.plan.table,
            cases=self.plan.approximation.trace,
        )

    def on(
        self, read: CheckedData, new: Any = (), known: Any = (), coords: Coords | None = None
    ) -> Ground:
        """Other cases."""
        predictor, labels = predictor_for(
            self.plan.predictors,
            self.plan.approximation,
            self.coords,
            read,
            new,
            known,
            coords,
        )
        return self._ground(predictor, data=read.data, coords=labels, of_fit=False)

    def _without(self, mask: np.ndarray) -> Ground:
        """The cases of the fit; members of which it saw no outcome are new."""
        approximation = self.plan.approximation.counting(jax.numpy.asarray(mask))
        lost = lost_parameters(approximation, self.keys.spread)
        if lost:
            raise InputError(
                f"`folds=` leaves out all outcomes that tell the model some of its parameter "
                f"{some(lost)}, and no way can predict such cases: a parameter has no distribution "
                f"to draw new members from. Sample it inside a plate, or give other folds."
            )
        rows = seen_members(approximation, self.keys.spread)
        if not rows:
            return self.home
        return self._ground(self.plan.predictors.on(self.data, rows=rows), of_fit=True)

    def _ground(
        self, predictor: Any, *, of_fit: bool, data: Any = None, coords: Any = None
    ) -> Ground:
        return Ground(
            problem=self.problem,
            predictor=predictor,
            expectation=self.plan.expectation,
            keys=self.keys,
            data=self.data if data is None else data,
            coords=self.coords if coords is None else coords,
            of_fit=of_fit,
        )

    def _observations(self) -> Observations:
        approximation = self.plan.approximation
        posterior = FittedPosterior(approximation, approximation.start)
        seen = predicting.observations(posterior, self.plan.predictors.on())
        if seen is None or not seen.counted.any():
            raise InputError("`choose(...)` needs observed outcomes; the mask leaves none.")
        return seen
