"""Decisions for the rows of a file, a part at a time, so that memory does not grow with the file.

Each part has as many rows as the others: it is padded, so that one compiled program decides about
all of them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from stakes import checks
from stakes.app.runs.manifest import doubts_about
from stakes.app.runs.new_cases import CHUNK, Ranges, new_cases, padded, usual_size
from stakes.app.runs.opening import Run, changed_job, changed_run, check_run, restore
from stakes.app.runs.outputs import DECISION, HIGH, LOW, by_part, check_output, output
from stakes.app.runs.solution import TWO, Solution, columns_named, rows_of_fit
from stakes.app.spec import NewFile, Part, path_of
from stakes.errors import InputError, NumericalError, some
from stakes.host import files
from stakes.host.progress import begin
from stakes.host.workers import ONE_AT_A_TIME, on_all_cores
from stakes.study import NUTS, Calibrated, Plain, beyond_made
from stakes.tables import Values

# The most oddities of rows that are listed, one line each; the rest is counted.
MOST_LISTED = 20
# Sections of the spec in which decisions can try other values: the fits do not depend on them where
# plain VI decides.
TRIED = ("loss", "utility", "decision")
COST, GAIN = "expected_cost", "expected_gain"


class Decided(NamedTuple):
    """What `decide_file` has written.

    Attributes:
        rows: the number of rows.
        decisions: the number of rows with a decision: those that lack no value.
        doubts: why decisions should not be relied on, and what is odd about rows.
        written: how the file is written; empty for commas, decimal points and UTF-8.
        basis: the strategy that has decided, and the rows that its fit rests on.
    """

    rows: int
    decisions: int
    doubts: tuple[str, ...]
    written: str
    basis: str


def decide_file(
    run: Run,
    source: str | Path,
    target: str | Path,
    *,
    known: bool = False,
    way: str | None = None,
    changes: Sequence[str] = (),
    overwrite: bool = False,
    tell: Callable[[int], None] = lambda rows: None,
) -> Decided:
    """Write the rows of a table with a decision for each.

    Each row also gets the central 90 % of its prediction, and the expected cost of the decision.

    Args:
        run: a finished run.
        source: the table: a file, or `-` for standard input.
        target: a .csv or .parquet file, a device or pipe, or `-` for standard output.
        known: whether the rows are those of the fit, in the same order; otherwise they are new.
            Where a run has fitted all rows, those held out belong to them.
        way: the name of the strategy to decide by, from the run's table; by default the chosen one.
        changes: values to try in place of those of the spec, such as `loss.newsvendor.under=4`, in
            [loss], [utility] and [decision]. Plain VI then decides unless `way` says otherwise:
            other strategies have learned from the costs of the run. Also how the table is read,
            such as `data.replace.price."n/a"=""`.
        overwrite: whether to replace `target` if it exists.
        tell: called with the number of rows done after each part.
    """
    check_run(run)
    checks.function("`tell=`", tell, ("rows",))
    source, target = checks.path("`source`", source), checks.path("`target`", target)
    known = checks.flag("`known=`", known)
    overwrite = checks.flag("`overwrite=`", overwrite)
    if way is not None:
        checks.text("`way=`", way)
    changes = checks.names("`changes=`", changes)
    costs = [change for change in changes if path_of(change)[0] in TRIED]
    way = way or (TWO[0].name if costs else None)
    run = changed_run(run.to_decide(way), [change for change in changes if change not in costs])
    job = changed_job(run, costs) if costs else run.job
    inputs = (source, *run.folder.inputs, *map(Path, run.job.code))
    check_output(target, inputs, overwrite=overwrite)
    with files.reading(source) as path:
        decider, done, decided = _Decider(run, NewFile(job, path), known, way), 0, 0
        parts = decider.decisions()
        first = next(parts, None)  # before the target is opened: what is refused leaves no trace
        if first is None:
            raise InputError(f"{source} has no rows.")
        dialect = decider.rows.file.dialect
        with output(target, dialect) as add:
            for columns, lacking in chain([first], parts):
                add(columns)
                done += len(lacking)
                decided += int((~lacking).sum())
                tell(done)
    written = "" if target.suffix.lower() == ".parquet" else dialect.unusual
    return Decided(done, decided, tuple(decider.doubts()), written, decider.basis)


@final
@dataclass(frozen=True, eq=False)
class _Decider:
    """Decides about the rows of a file with the result of a run.

    Attributes:
        run: with the fits that decide.
        rows: the file, read a part at a time; its job may have other costs than the run's.
        known: whether the rows are those of the fit.
        way: the name of the strategy to decide by; None for the chosen one.
    """

    run: Run
    rows: NewFile
    known: bool
    way: str | None

    def __post_init__(self) -> None:
        if self.rows.job is not self.run.job and not self.way_is_free:
            raise InputError(
                f"`--set`: {self.way!r} has learned from the costs of the run. Decide by "
                f"{TWO[0].name!r}, or run again."
            )
        names = self.rows.job.problem.space.names
        decided = {f"{DECISION}_{name}" for name in names} or {DECISION}
        taken = {*decided, LOW, HIGH, COST, GAIN} & {*self.rows.file.columns}
        if taken:
            raise InputError(
                f"{self.rows.source} already has columns called {some(sorted(taken))}. Rename "
                f"them: these names are used for the decisions."
            )

    @property
    def way_is_free(self) -> bool:
        """Whether the strategy decides by a posterior alone, and so for any costs."""
        job, name = self.run.job, self.way or TWO[0].name
        strategies = [*TWO, *(job.choosing.ways if job.choosing is not None else ())]
        free = (Plain, Calibrated, NUTS)
        return any(isinstance(way, free) for way in strategies if way.name == name)

    @cached_property
    def solution(self) -> Solution:
        """The fits, read back once the first rows have been read and checked."""
        solution, job = restore(self.run), self.rows.job
        begin("compiling what decides, and deciding")
        return solution if job is self.run.job else solution.at_costs_of(job)

    @property
    def basis(self) -> str:
        """The strategy that decides, and the rows that its fit rests on."""
        return f"by {self.solution.name(self.way)}, fitted to {rows_of_fit(self.rows.job)}"

    @cached_property
    def _ranges(self) -> Ranges:
        return Ranges.of(self.rows.job, self.rows.columns)

    @cached_property
    def _oddities(self) -> list[str]:
        return []

    def doubts(self) -> list[str]:
        """Why not to rely on decisions, once all rows are decided."""
        more = len(self._oddities) - MOST_LISTED
        listed = self._oddities[:MOST_LISTED] + ([f"... and {more} more"] if more > 0 else [])
        of_run = doubts_about(self.run.manifest, self.solution.name(self.way))
        return of_run + self._ranges.warnings() + listed

    def decisions(self) -> Iterator[tuple[dict[str, Values], np.ndarray]]:
        """All columns with what is decided, and which rows lack a value, part by part."""
        return on_all_cores(self._with_decisions, self._parts())

    def _parts(self) -> Iterator[tuple[Part, int]]:
        """The rows, checked, and the number of rows that each part is padded to."""
        size, shared = 0, self.rows.job.problem.task.per is not None
        most = CHUNK if not shared else 2**31 - 1  # rows that may share a decision come together
        for part in self.rows.parts(self.rows.fitted if self.known else most):
            if self.known:
                self._check_known(part)
            if part.lacking.any() and (self.known or shared):
                raise InputError(f"{self.rows.source}, {part.notes[0]} They cannot be left out.")
            if not size:
                size = self.rows.fitted if self.known else usual_size(self.rows.job, part.rows)
            self._oddities.extend(str(note) for note in part.notes)
            self._ranges.look(part.arguments, self.rows.columns, part.start)
            yield part, size

    def _with_decisions(self, given: tuple[Part, int]) -> tuple[dict[str, Values], np.ndarray]:
        """The columns of a part with those of the decisions, and which rows lack a value."""
        part, size = given
        try:
            with columns_named(self.rows.job, first_row=part.start):
                decided = self._decided(part, size)
        except NumericalError as error:  # rows far outside may be why
            raise NumericalError(" ".join([str(error), *self._ranges.warnings()])) from None
        blanked = {n: _blank(v, part.lacking) for n, v in decided.items()}
        return {**part.table, **blanked}, part.lacking

    def _decided(self, part: Part, size: int) -> dict[str, np.ndarray]:
        """The columns of the decisions about a part; draws depend on its padded size."""
        job = self.rows.job
        arguments = padded(job, part.arguments, part.rows, size)
        with ONE_AT_A_TIME:  # this runs the model, what follows only what was compiled of it
            cases = new_cases(self.solution, arguments, known=self.known, first_row=part.start)
        decisions = self.solution.decide(cases, self.way)
        shape = cases.instances.shape
        if shape != (size,):
            raise InputError(
                f"For {size} rows the model predicts outcomes of shape {shape}; "
                f"`stakes decide` needs one for each row. Let the model take its number of rows "
                f"from a column."
            )
        decided = by_part(DECISION, cases.labels(decisions))
        self._look_beyond(decisions[: part.rows])
        if job.problem.action is None:  # otherwise the outcome depends on the decision
            posterior = self.solution.posterior(self.way)
            central = cases.forecast(posterior).central
            cost = cases.expected_costs(posterior, decisions)
            worth = (GAIN, -cost) if job.problem.loss is None else (COST, cost)
            # To four digits: these are means over draws.
            rounded = np.array([float(f"{value:.4g}") for value in worth[1]])
            decided |= {LOW: central[:, 0], HIGH: central[:, -1], worth[0]: rounded}
        return {name: np.asarray(values)[: part.rows] for name, values in decided.items()}

    def _look_beyond(self, decisions: np.ndarray) -> None:
        """Note decisions unlike all in the data, where the decision changes the outcome.

        The data say nothing of what they would lead to.
        """
        action, fit = self.rows.job.problem.action, self.rows.job.fit
        if action is None:
            return
        made = np.asarray(fit.arguments[action], float)
        beyond = int(beyond_made(self.rows.job.problem.space, made, decisions).sum())
        if beyond:
            self._oddities.append(
                f"{beyond} of {len(decisions)} decisions about {action!r} lie outside those in the "
                f"data of the fit, {made.min():.6g} to {made.max():.6g}: only the model supports "
                f"them."
            )

    def _check_known(self, part: Part) -> None:
        """Refuse rows that are not those of the fit, in their order.

        They are told apart by their labels, where both have some.
        """
        source, fitted = self.rows.source, self.rows.fitted
        if part.start or part.rows != fitted:
            raise InputError(
                f"With `--known`, {source} must have the {fitted} rows of the fit; leave `--known` "
                f"out to decide about new rows."
            )
        own, labels = self.rows.job.fit.names, part.names
        if own is not None and labels is not None and labels != own.tolist():
            row = next(i for i, (a, b) in enumerate(zip(labels, own, strict=True)) if a != b)
            raise InputError(
                f"{source}, row {row + 1}: {labels[row]!r} is {own[row]!r} in the fit. Known rows "
                f"have to be in the order of the fit; leave `--known` out for new ones."
            )


def _blank(values: np.ndarray, lacking: np.ndarray) -> np.ndarray:
    """No decision for rows that lack a value.

    Args:
        values: of all rows.
        lacking: whether each lacks a value.
    """
    if not lacking.any():
        return values
    if values.dtype.kind == "f":
        return np.where(lacking, values.dtype.type(np.nan), values)
    blanked = values.astype(object)
    blanked[lacking] = None
    return blanked
