"""Decisions for the rows of a file, a part at a time: memory does not grow with the file."""

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

# Of what is odd about rows.
MOST_TOLD = 20
# Sections of the spec of which decisions can try other values.
TRIED = ("loss", "utility", "decision")
COST, GAIN = "expected_cost", "expected_gain"


class Handed(NamedTuple):
    """What was written.

    Attributes:
        decisions: of the rows that lack no value.
        doubts: why some or all decisions are not to be relied on, and what was odd about the rows.
        written: how, where that is not the usual way.
        basis: which way has decided, and the rows that its fit rests on.
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
) -> Handed:
    """Write the rows of `source` with a decision for each, the central 90 % of what is predicted,
    and what the decision will cost on average.

    Args:
        source: a table, or `-` for standard input.
        target: a .csv or .parquet file, a device or pipe, or `-` for standard output.
        known: whether the rows are those of the fit, in the same order; they are new otherwise.
            Where a run has fitted all rows, with those held out, it is all of them.
        way: the name of another way than the one that was chosen, as in the run's table.
        changes: values to try in place of those of the spec, such as `loss.newsvendor.under=4`: in
            [loss], [utility] and [decision]. Plain VI then decides unless `way` says otherwise:
            other ways have learned from the costs of the run. Also how the table is read, such as
            `data.replace.price."n/a"=""`.
        overwrite: whether to replace `target` if it is there.
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
    run = changed_run(run.to_decide(way), [each for each in changes if each not in costs])
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
    return Handed(done, decided, tuple(decider.doubts()), written, decider.basis)


@final
@dataclass(frozen=True, eq=False)
class _Decider:
    """Decides about the rows of a file with the result of a run."""

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
        """Whether the way decides by a posterior alone, so that it can decide for other costs."""
        job, name = self.run.job, self.way or TWO[0].name
        strategies = [*TWO, *(job.choosing.ways if job.choosing is not None else ())]
        free = (Plain, Calibrated, NUTS)
        return any(isinstance(each, free) for each in strategies if each.name == name)

    @cached_property
    def solution(self) -> Solution:
        """Made once the first rows have been read and checked."""
        solution, job = restore(self.run), self.rows.job
        begin("compiling what decides, and deciding")
        return solution if job is self.run.job else solution.at_costs_of(job)

    @property
    def basis(self) -> str:
        return f"by {self.solution.name(self.way)}, fitted to {rows_of_fit(self.rows.job)}"

    @cached_property
    def _ranges(self) -> Ranges:
        return Ranges.of(self.rows.job, self.rows.columns)

    @cached_property
    def _odd(self) -> list[str]:
        return []

    def doubts(self) -> list[str]:
        """To be asked when all rows are decided."""
        more = len(self._odd) - MOST_TOLD
        odd = self._odd[:MOST_TOLD] + ([f"... and {more} more"] if more > 0 else [])
        return (
            doubts_about(self.run.manifest, self.solution.name(self.way))
            + self._ranges.told()
            + odd
        )

    def decisions(self) -> Iterator[tuple[dict[str, Values], np.ndarray]]:
        """All columns with what is decided, and which rows lack a value, part by part."""
        return on_all_cores(self._with_decisions, self._parts())

    def _parts(self) -> Iterator[tuple[Part, int]]:
        """The rows, checked, and how many a part is filled up to."""
        size = 0
        for part in self.rows.parts(self.rows.fitted if self.known else self._chunk):
            if self.known:
                self._check_known(part)
            if part.lacking.any() and (self.known or self.rows.job.problem.task.per is not None):
                raise InputError(f"{self.rows.source}, {part.notes[0]} They cannot be left out.")
            size = size or self._padded_size(part.rows)
            self._odd.extend(str(note) for note in part.notes)
            self._ranges.look(part.arguments, self.rows.columns, part.start)
            yield part, size

    def _with_decisions(self, given: tuple[Part, int]) -> tuple[dict[str, Values], np.ndarray]:
        part, size = given
        try:
            with columns_named(self.rows.job, first_row=part.start):
                decided = self._decided(part.arguments, part.rows, size, part.start)
        except NumericalError as error:  # rows far outside may be why
            raise NumericalError(" ".join([str(error), *self._ranges.told()])) from None
        blanked = {n: _blank(v, part.lacking) for n, v in decided.items()}
        return {**part.table, **blanked}, part.lacking

    @property
    def _chunk(self) -> int:
        """Rows that may share a decision are read together."""
        return CHUNK if self.rows.job.problem.task.per is None else 2**31 - 1

    def _padded_size(self, rows: int) -> int:
        return self.rows.fitted if self.known else usual_size(self.rows.job, rows)

    def _decided(
        self, arguments: dict[str, np.ndarray], rows: int, size: int, start: int
    ) -> dict[str, np.ndarray]:
        job = self.rows.job
        rows_up_to_size = padded(job, arguments, rows, size)
        with ONE_AT_A_TIME:  # this runs the model, what follows only what was compiled of it
            cases = new_cases(self.solution, rows_up_to_size, known=self.known, first_row=start)
        found = self.solution.decide(cases, self.way)
        shape = cases.instances.shape
        if shape != (size,):
            raise InputError(
                f"For {size} rows the model predicts outcomes of shape {shape}; "
                f"`stakes decide` needs one for each row. Let the model take its number of rows "
                f"from a column."
            )
        decided = by_part(DECISION, cases.labels(found))
        self._look_beyond(found[:rows])
        if job.problem.action is None:  # otherwise what comes depends on the decision
            posterior = self.solution.posterior(self.way)
            central = cases.forecast(posterior).central
            cost = cases.expected_costs(posterior, found)
            worth = (GAIN, -cost) if job.problem.loss is None else (COST, cost)
            decided |= {LOW: central[:, 0], HIGH: central[:, -1], worth[0]: _rounded(worth[1])}
        return {name: np.asarray(values)[:rows] for name, values in decided.items()}

    def _look_beyond(self, decisions: np.ndarray) -> None:
        """Note decisions that were never made before, where they change what comes."""
        action, fit = self.rows.job.problem.action, self.rows.job.fit
        if action is None:
            return
        made = np.asarray(fit.arguments[action], float)
        beyond = int(beyond_made(self.rows.job.problem.space, made, decisions).sum())
        if beyond:
            self._odd.append(
                f"{beyond} of {len(decisions)} decisions about {action!r} lie outside those in the "
                f"data of the fit, {made.min():.6g} to {made.max():.6g}: there the model is all "
                f"that speaks for them."
            )

    def _check_known(self, part: Part) -> None:
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


def _rounded(costs: np.ndarray) -> np.ndarray:
    """To four digits: these are means over draws."""
    return np.array([float(f"{cost:.4g}") for cost in costs])


def _blank(values: np.ndarray, lacking: np.ndarray) -> np.ndarray:
    """No decision for rows that lack a value."""
    if not lacking.any():
        return values
    if values.dtype.kind == "f":
        return np.where(lacking, values.dtype.type(np.nan), values)
    blanked = values.astype(object)
    blanked[lacking] = None
    return blanked
