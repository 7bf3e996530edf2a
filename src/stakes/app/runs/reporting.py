"""The report of a run: its page, made from what the run has saved, and from a table of new rows."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stakes.app.runs.manifest import Manifest, Refit
from stakes.app.runs.new_cases import Ranges, new_cases, padded, usual_size
from stakes.app.runs.solution import Solution, rows_of_fit
from stakes.app.spec import Job, NewFile, Part
from stakes.errors import InputError, listed, warn
from stakes.study import Cases
from stakes.wording import count

if TYPE_CHECKING:
    from stakes import report

# The most rows of a table that a report decides about: its page holds the numbers of all of them.
MOST_ROWS = 100_000


class Asked(NamedTuple):
    """The rows of a new table that a report decides about.

    Attributes:
        source: the path of the table.
        part: all rows that were read, also those without a decision.
        doubts: which rows lie far outside what the fit has seen.
        changes: values in place of those of the spec, by which the table was read.
    """

    source: Path
    part: Part
    doubts: tuple[str, ...]
    changes: tuple[str, ...] = ()

    @property
    def kept(self) -> np.ndarray:
        """The places of the rows that lack no value: there are decisions about these alone."""
        return np.flatnonzero(~self.part.lacking)

    @property
    def arguments(self) -> dict[str, np.ndarray]:
        """Arguments of the model for these rows."""
        given, rows = self.part.arguments, self.part.rows
        return {n: v[self.kept] if len(v) == rows else v for n, v in given.items()}

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """What identifies these rows; their numbers, where the table has no labels."""
        labels = {name: np.array(values)[self.kept] for name, values in self.part.labels.items()}
        return labels or {"row": self.kept + 1}

    @property
    def options(self) -> str:
        """The options of the command that makes the same report."""
        changes = [word for change in self.changes for word in ("--set", change)]
        return shlex.join(["--for", str(self.source), *changes])

    @property
    def given(self) -> str:
        """The arguments of the Python function that makes the same report."""
        return f", {str(self.source)!r}" + (f", {list(self.changes)!r}" if self.changes else "")

    @property
    def where(self) -> str:
        """The name of the table, and how many of its rows are left out."""
        left_out = int(self.part.lacking.sum())
        if not left_out:
            return self.source.name
        rows = count(left_out, "row that lacks", "rows that lack")
        return f"{self.source.name}, without {rows} a value"


def write_report(
    path: Path,
    solution: Solution,
    manifest: Manifest,
    *,
    asked: tuple[Solution, Asked] | None = None,
    required: bool = False,
) -> None:
    """Write the report of a run.

    Args:
        path: of the page, in the folder of the run.
        solution: the fits of the run.
        manifest: of the run.
        asked: the rows of a new table, which the report opens with, and what decides about them.
        required: whether to refuse a report that cannot be written; otherwise a warning says why.
    """
    from stakes import report

    reason = report.objection()
    if reason is not None and not required:
        reason += f" Then write it: `stakes report {path.parent}`."
    reason = reason or report.unfit(solution.result.problem)
    if reason is not None:
        if required:
            raise InputError(reason)
        warn(f"No report was written. {reason}")
        return
    folder = path.parent
    rows = report_rows(solution, manifest.refit)
    table = None if asked is None else asked[1]
    page = report.summarise(
        solution.result,
        title=manifest.title,
        held_out=solution.held_out,
        origin=report.Origin(
            provenance=_provenance(manifest),
            command=f"stakes report {folder}" + ("" if table is None else f" {table.options}"),
            program=PROGRAM.format(path=str(folder), table="" if table is None else table.given),
        ),
        rows=rows if asked is None else [asked_rows(*asked), *rows],
        choice=solution.summary,
        unit=solution.job.unit,
    )
    report.write(page, path)


def report_rows(solution: Solution, refit: Refit | None = None) -> "list[report.Rows]":
    """The rows of the run, those held out first: they are the latest where time matters.

    Args:
        solution: what decides.
        refit: the fits that decide about new rows, where there are others.
    """
    job, rows = solution.job, list["report.Rows"]()
    for part, (cases, table) in solution.parts.items():
        labels = None
        if table.labels is not None:
            labels = dict(zip(job.spec.data.label, table.labels.T, strict=True))
        rows.append(_rows(part, solution, cases, table.arguments, labels))
    if len(rows) > 1:
        new = (
            "" if refit is None else f" New rows are decided about by a fit to all {refit.rows:,}."
        )
        basis = f"The fit behind these decisions has seen {rows_of_fit(job)}.{new}"
        rows[-1] = replace(rows[-1], basis=basis)
    return rows[::-1]


def read_asked(job: Job, table: Path) -> Asked:
    """Read a table of new rows; rows that lack a value are left out, as by `stakes decide`.

    Args:
        job: of the run, whose spec says what columns mean.
        table: the path of the table.
    """
    reader = NewFile(job, table)
    parts = reader.parts(MOST_ROWS)
    part, further = next(parts, None), next(parts, None)
    if part is None:
        raise InputError(f"{table} has no rows.")
    ranges = Ranges.of(job, reader.columns)
    ranges.look(part.arguments, reader.columns, part.start)
    doubts = ranges.warnings()
    if further is not None:
        doubts.append(
            f"the table has more than {part.rows:,} rows. The page is about the first "
            f"{part.rows:,}, and so are its totals; `stakes decide` decides about all of them."
        )
    for doubt in doubts:
        warn(f"{table}: {doubt}")
    kept = np.flatnonzero(~part.lacking)
    gaps = [f"row {row + 1}" for row in np.flatnonzero(part.lacking)]
    if gaps and (job.problem.task.per is not None or not len(kept)):
        raise InputError(
            f"{table}: a value that the model needs is missing in {listed(gaps)}. Fill it in: "
            f"there are no decisions about the other rows without it."
        )
    if gaps:
        warn(f"{table}: no decision for {listed(gaps)}: a value that the model needs is missing.")
    return Asked(table, part, tuple(doubts))


def asked_rows(solution: Solution, asked: Asked) -> "report.Rows":
    """The rows of a new table, and what is decided about them.

    Args:
        solution: what decides.
        asked: the rows, as `read_asked` reads them.
    """
    job, part, kept = solution.job, asked.part, asked.kept
    dims = solution.result.approximation.instances.dims
    coords = {}
    if len(dims) == 1 and part.names is not None:
        coords = {dims[0]: [part.names[row] for row in kept]}
    cases = new_cases(solution, asked.arguments, coords=coords)
    own = (solution, cases, asked.arguments, asked.labels)
    if cases.instances.shape != (len(kept),) or job.problem.task.per is not None:
        rows = _rows("new", *own)
    else:
        # With the numbers of `stakes decide`, whose draws depend on how many rows there are.
        size = usual_size(job, part.rows)
        every = new_cases(solution, padded(job, part.arguments, part.rows, size))
        rows = _rows("new", *own, every=every, at=kept)
    basis = (
        f"These decisions come from a fit to {rows_of_fit(job)}. How good they are was judged on "
        f"outcomes that no fit had seen."
    )
    return replace(rows, where=asked.where, doubts=asked.doubts, basis=basis)


def _rows(
    part: str,
    solution: Solution,
    cases: Cases,
    arguments: Mapping[str, Any],
    labels: Mapping[str, Any] | None,
    *,
    every: Cases | None = None,
    at: np.ndarray | slice = slice(None),
) -> "report.Rows":
    """Rows with all that the report shows of them.

    Args:
        labels: what identifies each row; left out where the model has other instances than rows.
        every: cases to decide about in place of these, which are those `at` among them.
    """
    from stakes import report

    decided = cases if every is None else every

    def own(decisions: np.ndarray) -> np.ndarray:
        return decisions if every is None else decisions[..., at]

    inputs, size = _columns(solution.job, arguments), cases.size
    is_by_row = labels is not None and all(len(values) == size for values in labels.values())
    return report.Rows(
        part,
        cases,
        labels=labels if is_by_row else None,
        inputs={name: values for name, values in inputs.items() if len(values) == size},
        decided=own(solution.decide(decided)),
        drawn=decided.drawn(solution.posterior())[:, at],
        others={name: own(decisions) for name, decisions in solution.rules(decided).items()},
        about=solution.job.about,
    )


def _columns(job: Job, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The predictors of each row, under the names of the table's columns, with words for codes.

    Args:
        job: of the run.
        arguments: of the model, for these rows.
    """
    columns = {}
    for argument, column in job.spec.data.columns.items():
        values = np.asarray(arguments.get(argument))
        if argument == job.problem.outcome or values.ndim != 1:
            continue
        words = None if job.by_table else job.fit.vocabulary.get(column)
        columns[column] = values if words is None else np.array(words)[values]
    return columns


PROGRAM = """\
from stakes.app import runs

runs.rewrite_report(runs.reopen({path!r}){table})
"""


def _provenance(manifest: Manifest) -> dict[str, str]:
    """Return what the page says about the origin of its numbers.

    Returns:
        A text for each label, in the order of the page.
    """
    return {
        "made": manifest.created,
        "by": manifest.command,
        "seed": str(manifest.seed),
        "precision": manifest.precision,
        **manifest.versions,
        **{f"SHA-256 of {Path(s.path).name}": s.sha256 for s in (*manifest.code, *manifest.data)},
    }
