"""A study: a decision problem with its data, checked and traced once, and all that is made of it.

Folds and everything are masks over the same trace: a mask says which outcomes a fit may see. A
strategy is fitted to the study under a mask. Fits, decisions and predictions are kept, so that
nothing is computed twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, final

import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Key, Model
from stakes.bridge import Predictor, lost_parameters, seen_members
from stakes.errors import InputError, some
from stakes.fitting import FitSettings
from stakes.host.progress import waiting
from stakes.predicting import Observations
from stakes.problem import Problem, checked_key
from stakes.processes import Processes
from stakes.study.cases import Cases
from stakes.study.data import Coords, InputData
from stakes.study.dependence import By, dependence_of
from stakes.study.fits import Fits, Strength
from stakes.study.folds import NO_FOLDS, Folds, Mask, split
from stakes.study.intervals import Clustered, Dependence, Independent
from stakes.study.options import Journal, Keys, Options
from stakes.study.plan import Plan, prepare
from stakes.study.streaming import StreamedRows, opened, options_for_stream
from stakes.tables import Stream

if TYPE_CHECKING:
    from stakes.study.strategies.strategy import FittedStrategy, Strategy

Value = TypeVar("Value")


@final
@dataclass(frozen=True, eq=False)
class Work:
    """How and where the fits of a study are made.

    Attributes:
        progress: whether to show progress bars on a terminal.
        journal: A record of the fits, from which they can be resumed.
        client: the client of a Dask cluster that makes the fits of the folds; None to make them
            here.
        processes: the processes that make each fit together.
        before: A study of the same model, data, key and folds about another loss, whose plain fits
            serve.
    """

    progress: bool = True
    journal: Journal | None = None
    client: Any = None
    processes: Processes | None = None
    before: "Study | None" = None

    def __post_init__(self) -> None:
        checks.flags(self, "progress")
        if self.journal is not None:
            checks.choice("`journal=`", self.journal, Journal, "None")


@final
class Study:
    """A decision problem with its data, and everything that has been fitted to it so far.

    Args:
        key: the same key gives the same numbers.
        problem: model, outcome, loss or utility, and guide.
        data: with the observed outcomes.
        options: the options of all fits.
        folds: by which strategies are judged; None to fit to everything alone.
        by: outcomes that belong together, as in `choose`.
        coords: labels of the plates' members, by plate.
        work: how and where fits are made.

    Attributes:
        plan: the problem with everything chosen that a fit needs.
        beyond: all rows of a stream, of which the data are a sample; None for other data.
        everything: the mask that hides no outcome.
        splits: the folds; None where strategies are not judged.
        dependence: which of the outcomes that judge strategies vary together.
        strengths: guide -> the strengths of calibration that strategies will ask for.
    """

    def __init__(
        self,
        key: Key,
        problem: Problem,
        data: InputData,
        options: Options,
        *,
        folds: Folds | None = None,
        by: By = None,
        coords: Coords | None = None,
        work: Work | None = None,
    ) -> None:
        self.keys, self.work = Keys.of(checked_key(key)), work or Work()
        self._labels = None if coords is None else checks.labels("`coords=`", coords)
        self._fits: dict[Any, Fits] = {}
        self._cases: dict[Mask, Cases] = {}
        self._fitted: dict[tuple[Strategy, Mask], FittedStrategy] = {}
        self._shared: dict[object, Any] = {}
        self.beyond: StreamedRows | None = None
        rows: Any = data
        if isinstance(rows, Stream) and folds is None:  # otherwise it is refused below
            with waiting("reading all rows", show=self.work.progress):
                rows = opened(
                    problem, rows, FitSettings.chunk, self.keys.setup, self.work.processes
                )
        if isinstance(rows, StreamedRows):
            self.beyond, options, rows = rows, options_for_stream(options), rows.sample
        self.options, self._data = options, rows
        self.plan = self._prepared(problem)
        self.strengths: dict[Model | None, dict[Strength, None]] = {}
        self.everything = Mask(np.ones(self.plan.approximation.instances.shape, bool))
        self.splits = NO_FOLDS
        self.dependence: Dependence = Independent()
        if folds is not None:
            self.split(folds, by)

    def _prepared(self, problem: Problem) -> Plan:
        """Trace the problem, or use the trace of an earlier study of the same model and data."""
        before = self.work.before
        with waiting("tracing the model", show=self.work.progress):
            plan = prepare(
                self.keys.setup,
                problem,
                self._data,
                self.options,
                coords=self._labels,
                progress=self.work.progress,
                approximation=before and before.fits(problem.guide).plan.approximation,
            )
        return plan if self.beyond is None else self.beyond.of(plan, self.work.journal)

    def split(self, folds: Folds, by: By = None) -> None:
        """Divide the outcomes into folds, by which strategies are judged.

        Refuses folds that leave out all that the model could learn one of its parameters from.
        """
        instances, table = self.plan.approximation.instances, self.plan.table
        together = dependence_of(by, self.predictor)
        groups = None
        if by is not None and isinstance(together, Clustered):
            groups = together.groups.reshape(instances.shape)
        index = None if table is None else table.rows.index
        self.splits = split(folds, groups, self.seen.counted, instances, self.keys.folds, index)
        if by is None and self.splits.order is not None:
            together = self.splits.order
        self.dependence = together.among(self.splits.ever_judged)
        for mask in self.splits.masks:
            self.cases(mask)  # refuses folds of which nothing can be predicted

    def drop_folds(self) -> None:
        """Forget the folds: from now on strategies are fitted to everything alone."""
        self.splits, self.dependence = NO_FOLDS, Independent()

    @property
    def keeps_rows(self) -> bool:
        """Whether fits have parameters of single rows on disk, which no journal keeps."""
        plates = self.plan.approximation.structure.parameter_plates
        return self.beyond is not None and any(plates.values())

    @property
    def problem(self) -> Problem:
        """The problem: model, outcome, loss or utility, and guide."""
        return self.plan.problem

    @property
    def predictor(self) -> Predictor:
        """The model on the data of the fit."""
        return self.plan.predictors.on()

    @cached_property
    def seen(self) -> Observations:
        """The outcomes of the fit, and which of them count; refuses data without any."""
        seen = self.home.observations
        if seen is None or not seen.counted.any():
            raise InputError("`choose(...)` needs observed outcomes; the mask leaves none.")
        return seen

    # Masks, and the cases that a fit under each of them decides about.

    @property
    def masks(self) -> tuple[Mask, ...]:
        """The mask of each fold, and last the mask of everything."""
        return (*self.splits.masks, self.everything)

    @cached_property
    def home(self) -> Cases:
        """The cases of the fit."""
        return self.plan.cases(self.keys)

    def cases(self, mask: Mask) -> Cases:
        """Return the cases of the fit as a fit under this mask meets them.

        Members of plates whose outcomes the mask hides are new to that fit: their latents are drawn
        from the model.
        """
        if mask is self.everything:
            return self.home
        if mask not in self._cases:
            cases = self._without(mask)
            judged = self.splits.judged[self.splits.masks.index(mask)]
            self._cases[mask] = cases.judged(judged)
        return self._cases[mask]

    def _without(self, mask: Mask) -> Cases:
        """Return the cases of the fit; members are new if the mask hides all their outcomes."""
        approximation = self.plan.approximation.counting(jnp.asarray(mask.seen))
        lost = lost_parameters(approximation, self.keys.spread)
        if lost:
            raise InputError(
                f"`folds=` leaves some members of the parameter {some(lost)} without any outcome "
                f"to learn from, and a parameter has no distribution to draw new members from. "
                f"Sample it inside a plate, or give other folds."
            )
        rows = seen_members(approximation, self.keys.spread)
        if not rows:
            return self.home
        predictor = self.plan.predictors.on(self.plan.data.data, rows=rows)
        return replace(self.home, predictor=predictor)

    def employ(self, work: Work) -> None:
        """Make all further fits in this way, such as by other processes or with a journal."""
        self.work = work
        self.plan = self.plan.showing(progress=work.progress)
        for fits in self._fits.values():
            fits.plan = fits.plan.showing(progress=work.progress)

    def label(self, coords: Coords) -> None:
        """Add labels of the members of plates, before anything is fitted."""
        self.plan = replace(self.plan, coords={**self.plan.coords, **coords})

    # What is fitted, each thing once.

    def ask(self, guide: Model | None, strength: Strength) -> None:
        """Note that a strength of calibration will be needed.

        All strengths of one guide are fitted together, as one compiled program.
        """
        self.strengths.setdefault(self._none_for_own(guide), {})[strength] = None

    def _none_for_own(self, guide: Model | None) -> Model | None:
        """Return the guide, or None for the problem's own, so that it has one name."""
        return None if guide == self.problem.guide else guide

    def fits(self, guide: Model | None = None) -> Fits:
        """Return the fits with this guide; with the problem's own for None."""
        guide = self._none_for_own(guide)
        if guide not in self._fits:
            plan = self.plan
            if guide is not None:
                plan = self._prepared(replace(self.problem, guide=guide))
            self._fits[guide] = Fits(self, plan, guide)
        return self._fits[guide]

    def fitted(self, strategy: "Strategy", mask: Mask) -> "FittedStrategy":
        """Return the strategy, fitted once to what the mask lets it see."""
        if (strategy, mask) not in self._fitted:
            self._fitted[strategy, mask] = strategy.fit(self, mask)
        return self._fitted[strategy, mask]

    def once(self, key: object, make: Callable[[], Value]) -> Value:
        """Return what `make` makes, made once for all masks; `key` is the strategy that asks."""
        if key not in self._shared:
            self._shared[key] = make()
        value: Value = self._shared[key]
        return value
