"""A strategy whose decisions are corrected by what happened after it had decided.

Folds give decisions and predictions for outcomes that the fit behind them had not seen. A
calibration map learns from these how decisions should have been moved, and moves new ones.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from stakes import checks
from stakes.errors import InputError
from stakes.predicting import Posterior
from stakes.problem import Problem
from stakes.study.cases import Cases, Forecast
from stakes.study.comparison import Diagnosis
from stakes.study.folds import Mask
from stakes.study.strategies.by_posterior import Plain
from stakes.study.strategies.correction import CalibrationMap, FittedMap, Identity, MapInputs
from stakes.study.strategies.maps import Shift
from stakes.study.strategies.strategy import FittedStrategy, Strategy, below

if TYPE_CHECKING:
    from stakes.study.study import Study


@final
@dataclass(frozen=True)
class Corrected(Strategy):
    """Another strategy, with its decisions corrected by a calibration map.

    The map, `head`, turns the predictions and decisions of that strategy into other decisions. It
    is fitted to predictions for outcomes that the fits behind them have not seen. The outcomes that
    judge the corrected decisions have not been seen by the map either. With random folds they have
    been seen by the fits that predicted the other rows for the map.

    Examples:
        >>> import stakes
        >>> stakes.Corrected(stakes.Plain(), stakes.Shift()).name
        'plain VI, corrected by shift'
    """

    base: Any = Plain()  # noqa: RUF009 (a frozen value)
    head: CalibrationMap = Shift()  # noqa: RUF009

    def __post_init__(self) -> None:
        checks.choice("`Corrected(base=...)`", self.base, Strategy, "one such as `Plain()`")
        checks.choice("`Corrected(head=...)`", self.head, CalibrationMap, "one such as `Shift()`")

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"{self.base.name}, corrected by {self.head.title}"

    @property
    def description(self) -> str:
        """What it decides, in plain words."""
        unseen = "by what happened to rows that were left out"
        return f"{self.base.description}; then {self.head.description}, {unseen}"

    @property
    def bases(self) -> tuple[Strategy, ...]:
        """The strategy whose decisions are corrected."""
        return (self.base,)

    @staticmethod
    def objection(problem: Problem) -> str | None:
        """Return why decisions of this problem cannot be corrected; None where they can."""
        if problem.space.labels:
            return "a correction moves numbers, and the decisions are actions"
        if problem.space.axes:
            return "a correction moves single numbers, and the decisions have several parts"
        if problem.task.needs:
            return "what decisions cost, or their limits, differ from case to case"
        return None

    def check(self, study: "Study") -> None:
        """Refuse decisions that are no single numbers, and a base that predicts nothing."""
        self.base.check(study)
        reason = self.objection(study.problem)
        if reason is not None:
            raise InputError(f"`{self}` does not fit: {reason}.")
        if self.base.is_baseline:
            raise InputError(
                f"`Corrected(base=...)` needs a strategy that predicts outcomes, and "
                f"{self.base.name!r} decides without predicting any."
            )
        study.home.covariates(self.head.covariates)

    def fit(self, study: "Study", mask: Mask) -> "FittedCorrected":
        """Return the map, fitted to what the base predicted for outcomes it had not seen."""
        if not study.splits.masks:
            raise InputError(f"`{self}` learns from rows left out, and the study has no folds.")
        base, started = study.fitted(self.base, mask), time.monotonic()
        rows = mask.seen.ravel() & study.splits.ever_judged.ravel()
        fitted: FittedMap = Identity()
        if rows.any():  # not in the first block forward in time
            inputs = study.once(self, lambda: self._out_of_fold(study))
            outcomes, criterion = study.seen.outcomes.ravel()[rows], study.problem.criterion
            fitted = self.head.fit(study.keys.maps, inputs.rows(rows), outcomes, criterion)
        seconds = base.seconds + time.monotonic() - started
        return FittedCorrected(base, self.head, fitted, seconds, base.diagnosis)

    def restore(self, study: "Study", arrays: Mapping[str, np.ndarray]) -> "FittedCorrected":
        """Return the base and the map that were kept."""
        base = self.base.restore(study, below("base/", arrays))
        return FittedCorrected(base, self.head, self.head.restore(below("map/", arrays)))

    def _out_of_fold(self, study: "Study") -> MapInputs:
        """Return what the base decides and predicts for each outcome that judges it."""
        whole: MapInputs | None = None
        for mask, judged in zip(study.splits.masks, study.splits.judged, strict=True):
            part = _inputs(study.fitted(self.base, mask), self.head, study.cases(mask))
            if whole is None:
                whole = part._replace(
                    decisions=part.decisions.copy(), quantiles=part.quantiles.copy()
                )
            rows = judged.ravel()
            whole.decisions[rows] = part.decisions[rows]
            whole.quantiles[rows] = part.quantiles[rows]
        assert whole is not None
        return whole


@final
@dataclass(frozen=True, eq=False)
class FittedCorrected:
    """A fitted strategy, and the map that corrects its decisions.

    Attributes:
        base: the strategy.
        head: the kind of map.
        fitted: the map that was learned.
        seconds: how long both fits took.
        diagnosis: of the base.
    """

    base: FittedStrategy
    head: CalibrationMap
    fitted: FittedMap
    seconds: float = 0.0
    diagnosis: Diagnosis = Diagnosis()  # noqa: RUF009

    @property
    def posterior(self) -> Posterior | None:
        """The posterior that the base predicts by."""
        return self.base.posterior

    def decide(self, cases: Cases) -> np.ndarray:
        """Return the base's decisions, corrected, inside their limits."""
        decisions = self.fitted.decide(_inputs(self.base, self.head, cases))
        return cases.inside(decisions.reshape(cases.instances.shape))

    def predict(self, cases: Cases) -> Forecast | None:
        """Return what the base predicts."""
        return self.base.predict(cases)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what the base decides by, and the map."""
        base = {f"base/{name}": array for name, array in self.base.arrays().items()}
        return base | {f"map/{name}": array for name, array in self.fitted.arrays().items()}


def _inputs(base: FittedStrategy, head: CalibrationMap, cases: Cases) -> MapInputs:
    """Return what a map sees of these cases."""
    forecast = base.predict(cases)
    assert forecast is not None
    covariates = cases.covariates(head.covariates)
    return MapInputs(base.decide(cases).ravel(), forecast.quantiles, covariates)
