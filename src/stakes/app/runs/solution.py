"""The solution of a run: its fits, the strategy that decides, and the others that can be asked."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np
import pandas as pd

from stakes import checks
from stakes.app.spec import FIT, HELD_OUT, Job, Table
from stakes.errors import InputError, OutOfRangeError
from stakes.fitting import Fit
from stakes.predicting import Posterior
from stakes.study import (
    By,
    Calibrated,
    Calibration,
    Cases,
    FittedStrategy,
    Given,
    Ordered,
    Plain,
    Plan,
    Same,
    Strategy,
    Study,
    Summary,
    Work,
    below,
    calibration_of,
    enter,
    prepare,
)

if TYPE_CHECKING:
    import xarray as xr

# The strategies whose fits to all outcomes every run has.
TWO: tuple[Strategy, Strategy] = (Plain(), Calibrated())
# What the files of a run call these two fits.
TITLES = ("VI", "calibrated")
TODAY, SAME = Given.name, Same.name


def study_of(job: Job) -> Study:
    """The problem of a job, traced on the rows of its fit, with all labels of the table."""
    with columns_named(job):
        study = Study(
            jax.random.key(job.spec.seed),
            job.problem,
            job.data(job.fit.arguments),
            job.options,
            work=Work(progress=False),
        )
    study.label(_labels(study.plan, job))
    return study


def check_study(study: Study, job: Job) -> None:
    """Refuse, before anything is fitted, rows held out and strategies that do not fit."""
    table = job.held_out
    if table is not None and "today" in table.beside:
        job.problem.space.from_labels("`choose.today`", table.beside["today"])
    if table is not None and not job.by_table:
        data = job.problem.check_data(table.arguments, needs_outcome=True)
        with columns_named(job):
            study.plan.predictors.on(data, new=new_plates(study.plan, job))
    take_part(study, job)


def take_part(study: Study, job: Job) -> None:
    """Let all strategies of the job take part; refuses what some strategy cannot handle."""
    if job.choosing is not None:
        study.split(job.choosing.folds, job.choosing.by)
        enter(study, job.choosing.ways, job.choosing.optional)


@final
@dataclass(frozen=True, eq=False)
class Solution:
    """The fits of a run, the strategies that were compared, and the one that decides.

    Attributes:
        job: what was to be fitted and decided.
        study: the problem with its data, and all fits.
        result: plain VI and the calibrated fit.
        summary: of the comparison; None where the run has the two fits alone. The calibrated one
            then decides, or plain VI where data cannot judge decisions.
        arrays: what strategies decide by that were fitted in an earlier program; the name of each
            begins with that of its strategy.
    """

    job: Job
    study: Study
    result: Calibration
    summary: Summary | None = None
    arrays: Mapping[str, np.ndarray] | None = None

    @classmethod
    def of(cls, job: Job, study: Study, *, plain: bool = False) -> "Solution":
        """Plain VI and the calibrated fit of a study; plain VI alone if `plain`."""
        result = calibration_of(study, plain=plain or not job.calibrates)
        return cls(job, study, replace(result, by=by_of(job, job.fit)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the strategies that can decide."""
        if self.summary is None:
            return tuple(strategy.name for strategy in TWO)
        return tuple(line.name for line in self.summary.ways)

    def name(self, way: str | None = None) -> str:
        """The name of the strategy that decides, unless another is asked for."""
        if way is not None:
            return checks.one_of("`--way`", way, self.names)
        if self.summary is not None:
            return self.summary.way
        # Nothing can show that calibration helps where data cannot judge decisions.
        return TWO[1 if self.result.problem.why_not_judged is None else 0].name

    def fitted(self, way: str | None = None) -> FittedStrategy:
        """A strategy, fitted to all rows of the job."""
        name = self.name(way)
        if name not in self._restored:
            strategies = TWO if self.job.choosing is None else self.job.choosing.ways
            strategy = next(one for one in (*strategies, *TWO) if one.name == name)
            if self.arrays is None or strategy in TWO:
                self._restored[name] = self.study.fitted(strategy, self.study.everything)
            else:
                kept = below(f"{name}/", self.arrays)
                self._restored[name] = strategy.restore(self.study, kept)
        return self._restored[name]

    @cached_property
    def _restored(self) -> dict[str, FittedStrategy]:
        return {}

    def decide(self, cases: Cases, way: str | None = None) -> np.ndarray:
        """Decisions as numbers, with as many digits as the fits have.

        Args:
            cases: the cases to decide about.
            way: the name of a strategy; None for the one that decides.
        """
        name = self.name(way)
        decisions = self._today(cases) if name == TODAY else self.fitted(name).decide(cases)
        return decisions.astype(jax.dtypes.canonicalize_dtype(float))

    def _today(self, cases: Cases) -> np.ndarray:
        """Today's decisions, which are known for the rows of the run."""
        for own, table in self.parts.values():
            if own is cases:
                return cases.problem.space.from_labels("`choose.today`", table.beside["today"])
        raise InputError(
            f"Today's decisions are known for the rows of the run alone. For new rows, name "
            f"another strategy of the run's table, such as `--way {TWO[0].name!r}`."
        )

    def labels(self, cases: Cases, way: str | None = None) -> "xr.DataArray":
        """Decisions as users see them, with the labels of cases and of actions.

        Args:
            cases: the cases to decide about.
            way: the name of a strategy; None for the one that decides.
        """
        return cases.labels(self.decide(cases, way))

    def posterior(self, way: str | None = None) -> Posterior:
        """The posterior that a strategy predicts by; plain VI's where it predicts nothing."""
        own = self.fitted(way).posterior
        return self.result.posteriors["VI"] if own is None else own

    def rules(self, cases: Cases) -> dict[str, np.ndarray]:
        """What the baselines among the strategies decide, except for the one that decides anyway.

        What is done today is left out where it is not known.
        """
        known = any(own is cases for own, _ in self.parts.values())
        names = {SAME, *([TODAY] if known else [])} & {*self.names} - {self.name()}
        return {name: self.decide(cases, name) for name in sorted(names, key=self.names.index)}

    def at_costs_of(self, job: Job) -> "Solution":
        """The same fits, for decisions that cost what another job says.

        Args:
            job: on the same data.
        """
        plan = prepare(
            self.result.keys.setup, job.problem, job.data(job.fit.arguments), job.options
        )
        plan = replace(plan, coords=self.result.plan.coords)
        plan = plan.sized(self.result.vi.params, self.result.keys.spread)
        return replace(self, job=job, result=replace(self.result, plan=plan, home=None))

    def to_refit(self) -> list[Strategy]:
        """The strategies that are fitted again to all rows: the one that decides, and baselines."""
        if self.summary is None or self.job.choosing is None:
            return [*TWO] if self.job.calibrates else [TWO[0]]
        names = {self.summary.way, SAME} - {TODAY}  # which comes with the table
        chosen = [way for way in self.job.choosing.ways if way.name in names]
        # A base is found in the same study, so that its fits are there, too.
        return list(dict.fromkeys([*(base for way in chosen for base in way.bases), *chosen]))

    def kept(self, strategies: Sequence[Strategy] | None = None) -> dict[str, np.ndarray]:
        """What strategies decide by, as arrays to be saved.

        The two fits are left out: they have a file of their own.

        Args:
            strategies: those to be saved; None for all.
        """
        assert self.job.choosing is not None
        every = self.job.choosing.ways if strategies is None else strategies
        return {
            f"{strategy.name}/{name}": array
            for strategy in every
            if strategy not in TWO and (self.summary is None or strategy.name in self.names)
            for name, array in self.study.fitted(strategy, self.study.everything).arrays().items()
        }

    @property
    def fits(self) -> dict[str, Fit]:
        """The two fits, as the files of a run call them."""
        return dict(zip(TITLES, self.result.fits.values(), strict=False))

    @property
    def latents(self) -> dict[str, list[int]]:
        """The shape of each latent: some guides keep the parameters of all in one array."""
        latents = self.result.approximation.latents
        return {name: list(latent.shape) for name, latent in latents.items()}

    @cached_property
    def parts(self) -> dict[str, tuple[Cases, Table]]:
        """The rows of the fit, and those held out if there are any: their cases and their table."""
        parts = {FIT: (self.result.on_fit, self.job.fit)}
        table, dims = self.job.held_out, self.result.approximation.instances.dims
        if table is not None:
            coords = {}
            if table.names is not None and len(dims) == 1:
                coords = {dims[0]: table.names.tolist()}
            cases = self.result.assess(
                self.job.data(table.arguments),
                new=new_plates(self.result.plan, self.job),
                known=self.job.known,
                coords=coords,
                by=by_of(self.job, table),
            )
            parts[HELD_OUT] = (cases, table)
        return parts

    @property
    def held_out(self) -> Cases | None:
        """The rows held out, with their labels; None where there are none."""
        return self.parts[HELD_OUT][0] if HELD_OUT in self.parts else None


@contextmanager
def columns_named(job: Job, *, first_row: int | None = None) -> Iterator[None]:
    """Name the column of an index beyond its plate.

    Args:
        job: whose spec names the columns.
        first_row: the number of rows before those at hand; None where rows are not named.
    """
    try:
        yield
    except OutOfRangeError as error:
        column = job.spec.data.columns.get(error.argument)
        if column is None:
            raise
        place = "" if first_row is None else f", row {first_row + error.row + 1}"
        words = job.fit.vocabulary.get(column, ())
        shown = repr(words[error.value]) + " " if 0 <= error.value < len(words) else ""
        raise InputError(
            f"column {column!r}{place}: {shown}({error.value}) is not among the {error.size} "
            f"members that the model has for it, numbered from 0 to {error.size - 1}. Let the "
            f"model take the size of the plate from an argument, and list that in `data.counts`: "
            f'`counts = {{ argument = "{column}" }}`.'
        ) from None


def new_plates(plan: Plan, job: Job) -> tuple[str, ...]:
    """The plates of another table's rows, which are called new.

    With as many rows, they would pass for those of the fit. Only plates with latents of their own
    matter.
    """
    rows, known = _row_plates(plan, job.rows_in(job.fit)), plan.approximation.trace.known_instances
    return tuple(plate for plate in known if plate in rows and plate not in job.known)


def rows_of_fit(job: Job) -> str:
    """How many rows the fits of a job rest on, and how many they do not, in words."""
    fitted = f"{job.rows_in(job.fit):,} rows"
    if job.held_out is None:
        return f"all {fitted}"
    return f"{fitted}, without the {job.rows_in(job.held_out):,} held out"


def by_of(job: Job, table: Table) -> By:
    """Which rows belong together, as the spec says; None where it does not."""
    if job.spec.data.ordered:
        return Ordered(table.beside.get("when"))
    groups = tuple(pd.Series(values, name=name) for name, values in table.groups.items())
    return groups[0] if len(groups) == 1 else groups or None


def _row_plates(plan: Plan, rows: int) -> tuple[str, ...]:
    """The plates of the outcome with one member for each row of the table."""
    instances = plan.approximation.instances
    return tuple(d for d, n in zip(instances.dims, instances.shape, strict=True) if n == rows)


def _labels(plan: Plan, job: Job) -> dict[str, Any]:
    """Labels of plates: of the rows, of an example, and of categories with a plate's name."""
    approximation = plan.approximation
    sizes = {
        dim: size
        for array in (approximation.instances, *approximation.latents.values())
        for dim, size in zip(array.dims, array.shape, strict=True)
    }
    labels: dict[str, Any] = {n: known for n, known in job.coords.items() if n in sizes}
    for argument, column in job.spec.data.columns.items():
        words = job.fit.vocabulary.get(column)
        for name in (argument, column):
            if words is not None and sizes.get(name) == len(words):
                labels[name] = words
    names = job.fit.names
    if names is not None:
        labels |= dict.fromkeys(_row_plates(plan, len(names)), names)
    return labels
