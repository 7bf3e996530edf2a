"""The cases that a report is about: what is decided, and what that is expected to cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from stakes import checks
from stakes.losses import CostTable
from stakes.predicting import CENTRAL
from stakes.study import Cases, are_whole_numbers, predictive_quantiles, why_not_judged

MOST_CLASSES = 6
PARTS = ("new", "held out", "fit")

Labels = Mapping[str, Sequence[Any]]
"""Column name -> a value for each instance."""


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Some cases, and what is to be decided about them.

    What is left out comes from the calibrated posterior; or from plain VI, if there is no
    calibrated one, or if decisions cannot be judged by data, so that nothing shows that calibration
    helps.
    """

    part: str
    """Where they come from: "new", "held out" or "fit"."""
    cases: Cases
    where: str = ""
    """The same in words that readers understand, such as the name of a file."""
    labels: Labels | None = None
    """What identifies each row; by default the labels of the plates."""
    inputs: Labels = field(default_factory=dict)
    """What the model was told about each row."""
    decided: np.ndarray | None = None
    """By the way that was chosen."""
    drawn: np.ndarray | None = None
    """Outcomes that this way predicts: draw x instance."""
    others: Mapping[str, np.ndarray] = field(default_factory=dict)
    """What simple rules would decide."""
    doubts: tuple[str, ...] = ()
    """Why decisions about some of these rows are not to be relied on."""
    basis: str = ""
    """Which rows the fit behind the decisions rests on, as a sentence."""
    about: str = ""
    """What the outcomes are called by the user; as in the model where left out."""

    def __post_init__(self) -> None:
        texts = {"where": str, "basis": str, "about": str}
        checks.fields(self, cases=Cases, inputs=Mapping, others=Mapping, **texts)
        checks.one_of("`Rows(part=...)`", self.part, PARTS)
        doubts = checks.names("`Rows(doubts=...)`", self.doubts, "a sentence or several")
        checks.assign(self, doubts=doubts)
        if self.labels is not None:
            checks.labels("`Rows(labels=...)`", self.labels)
        for name in ("decided", "drawn"):
            if getattr(self, name) is not None:
                checks.array(f"`Rows({name}=...)`", getattr(self, name))

    @property
    def cost_table(self) -> CostTable | None:
        """The table of costs that decisions are judged by; None for any other loss or utility."""
        loss = self.cases.problem.loss
        return loss if isinstance(loss, CostTable) else None

    @property
    def method(self) -> str:
        """The posterior that decides, where no other way was chosen."""
        is_judged = why_not_judged(self.cases.problem) is None
        return "LCVI" if is_judged and "LCVI" in self.cases.posteriors else "VI"

    @property
    def _best(self) -> np.ndarray:
        return self.cases.decide(self.cases.posteriors[self.method])

    @property
    def decisions(self) -> np.ndarray:
        """The decisions to take, as numbers."""
        found = self._best if self.decided is None else self.decided
        return np.asarray(found, float).ravel()

    @property
    def draws(self) -> np.ndarray:
        if self.drawn is not None:
            return self.drawn
        return self.cases.drawn(self.cases.posteriors[self.method])

    @cached_property
    def ranges(self) -> np.ndarray:
        """Instance x (5, 25, 75, 95 %) of what is predicted."""
        return predictive_quantiles(self.draws, np.array(CENTRAL))

    @cached_property
    def costs(self) -> np.ndarray:
        """What each decision is expected to cost; minus what it gains, where there is a utility."""
        return self.expected(self.decisions)

    def expected(self, decisions: np.ndarray) -> np.ndarray:
        """What decisions about these cases are expected to cost; nan where they change outcomes."""
        if self.cases.problem.action is not None:
            return np.full(self.draws.shape[1], np.nan)
        return self.cases.mean_costs(self.draws, decisions.reshape(self.cases.instances.shape))

    @cached_property
    def seen(self) -> np.ndarray:
        """The outcomes that came; nan where there are none."""
        observed = self.cases.observed
        if observed is None:
            return np.full(self.draws.shape[1], np.nan)
        return np.asarray(observed.values, float).ravel()

    @property
    def realised(self) -> np.ndarray:
        """What the decisions did cost, where outcomes came that count."""
        found = self.cases.observations
        assert found is not None
        return found.costs(self.cases.problem.task, self.decisions.reshape(found.outcomes.shape))

    @property
    def actions(self) -> tuple[str, ...]:
        """Labels of the actions, where decisions are no numbers."""
        space = self.cases.problem.space
        if space.are_numbers:
            return ()
        return tuple(map(str, space.labels))

    @cached_property
    def classes(self) -> tuple[float, ...]:
        """The values of outcomes that are classes: a few whole numbers from zero, and actions."""
        if not (are_whole_numbers(self.draws) and self.draws.min() >= 0):
            return ()
        top = max(self.draws.max(), np.nanmax(self.seen, initial=0.0))
        are_few = top == 1 or (self.actions and top < MOST_CLASSES)
        return tuple(np.arange(top + 1)) if are_few else ()

    @cached_property
    def chances(self) -> dict[str, np.ndarray]:
        """Class -> its probability for each row."""
        return {f"{value:.0f}": (self.draws == value).mean(axis=0) for value in self.classes}

    @property
    def are_counts(self) -> bool:
        """Whether decisions can be added up: outcomes are counts, and not just yes and no."""
        problem = self.cases.problem
        if problem.action is not None or problem.task.per is not None:
            return False  # a price, or one decision many times over
        whole = are_whole_numbers(self.draws) and self.draws.min() >= 0 and self.draws.max() > 1
        return bool(whole and not self.actions)
