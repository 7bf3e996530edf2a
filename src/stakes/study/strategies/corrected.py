"""Another way's decisions, corrected by what happened to rows that it had not seen."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from stakes import checks
from stakes.errors import InputError
from stakes.predicting import Posterior
from stakes.problem import Problem
from stakes.study.bench import Bench
from stakes.study.ground import Forecast, Ground
from stakes.study.strategies.fitted import Plain
from stakes.study.strategies.heads import FittedHead, Head, Shift, Shown, Unchanged
from stakes.study.strategies.way import Fitted, Way


@final
@dataclass(frozen=True)
class Corrected:
    """Another way, its decisions corrected by a head.

    A head maps what that way predicts and decides to another decision. It is fitted to predictions
    for outcomes that their fit has not seen. Where its decisions are judged, the head has not seen
    the outcomes either; with random folds, the fits behind what it is shown of other rows have.

    Examples:
        >>> import stakes
        >>> stakes.Corrected(stakes.Plain(), stakes.Shift()).name
        'plain VI, corrected by shift'
    """

    base: Any = Plain()  # noqa: RUF009 (a frozen value)
    head: Head = Shift()  # noqa: RUF009

    is_yardstick: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checks.choice("`Corrected(base=...)`", self.base, Way, "one such as `Plain()`")
        checks.choice("`Corrected(head=...)`", self.head, Head, "one such as `Shift()`")

    @property
    def name(self) -> str:
        return f"{self.base.name}, corrected by {self.head.title}"

    @property
    def bases(self) -> tuple[Any, ...]:
        return (self.base,)

    @staticmethod
    def objection(problem: Problem) -> str | None:
        """Why decisions of this problem cannot be corrected; None where they can."""
        if problem.space.labels:
            return "a correction moves numbers, and the decisions are actions"
        if problem.space.axes:
            return "a correction moves single numbers, and the decisions have several parts"
        if problem.task.needs:
            return "what decisions cost, or their limits, differ from case to case"
        return None

    def check(self, bench: Bench) -> None:
        self.base.check(bench)
        reason = self.objection(bench.problem)
        if reason is not None:
            raise InputError(f"`{self}` does not fit: {reason}.")
        if self.base.is_yardstick:
            raise InputError(
                f"`Corrected(base=...)` needs a way that predicts outcomes; {self.base.name!r} "
                f"decides without predicting any."
            )
        bench.home.covariates(self.head.covariates)

    def fit(self, bench: Bench) -> "WithHead":
        base, started = bench.fitted(self.base), time.monotonic()
        shown = _out_of_fold(bench, base, self.head)
        judged, outcomes = bench.splits.ever_judged.ravel(), bench.seen.outcomes.ravel()

        def fitted(mask: np.ndarray) -> FittedHead:
            rows = mask.ravel() & judged
            if not rows.any():  # the first block forward in time
                return Unchanged()
            criterion, key = bench.problem.criterion, bench.keys.heads
            return self.head.fit(key, _rows(shown, rows), outcomes[rows], criterion)

        heads = [fitted(mask) for mask in bench.splits.masks]
        seconds = base.seconds + time.monotonic() - started
        return WithHead(base, self.head, heads, seconds, base.notes)


@final
@dataclass(frozen=True, eq=False)
class WithHead:
    """A fitted way, and a fitted head for each fold and for everything."""

    base: Fitted
    head: Head
    heads: Sequence[FittedHead]
    seconds: float
    notes: dict[str, float | str]

    def decide(self, at: int, ground: Ground) -> np.ndarray:
        found = self.heads[at].decide(_shown(self.base, self.head, at, ground))
        return ground.inside(found.reshape(ground.instances.shape))

    def forecast(self, at: int, ground: Ground) -> Forecast | None:
        return self.base.forecast(at, ground)

    def posterior(self, at: int) -> Posterior | None:
        return self.base.posterior(at)


def _shown(base: Fitted, head: Head, at: int, ground: Ground) -> Shown:
    forecast = base.forecast(at, ground)
    assert forecast is not None
    covariates = ground.covariates(head.covariates)
    return Shown(base.decide(at, ground).ravel(), forecast.quantiles, covariates)


def _out_of_fold(bench: Bench, base: Fitted, head: Head) -> Shown:
    """What the base decides and predicts for each outcome that it was judged by."""
    whole = _shown(base, head, 0, bench.grounds[0])
    decisions, quantiles = whole.decisions.copy(), whole.quantiles.copy()
    for at, (judged, ground) in enumerate(zip(bench.splits.judged, bench.grounds, strict=True)):
        rows, here = judged.ravel(), _shown(base, head, at, ground)
        decisions[rows], quantiles[rows] = here.decisions[rows], here.quantiles[rows]
    return whole._replace(decisions=decisions, quantiles=quantiles)


def _rows(shown: Shown, rows: np.ndarray) -> Shown:
    covariates = None if shown.covariates is None else shown.covariates[rows]
    return Shown(shown.decisions[rows], shown.quantiles[rows], covariates)
