"""The report of a run: its page from what the run has saved, and from rows to decide about."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stakes.app.runs.manifest import Manifest, Refit
from stakes.app.runs.new_cases import Ranges, new_cases, padded, usual_size
from stakes.app.runs.solution import TODAY, Solution, rows_of_fit
from stakes.app.spec import Job, NewFile, Table
from stakes.errors import InputError, listed, warn
from stakes.study import Cases

if TYPE_CHECKING:
    from stakes import report

MOST_ROWS = 100_000
"""Of a table that a report decides about."""


class Asked(NamedTuple):
    """The rows of a new table that can be decided about."""

    source: Path
    every: dict[str, np.ndarray]
    """Arguments of the model for all rows of the table."""
    kept: np.ndarray
    """The places of the rows that lack no value, to which all that follows belongs."""
    arguments: dict[str, np.ndarray]
    labels: dict[str, Any]
    names: list[str] | None
    left_out: int
    """How many more lack a value."""
    doubts: tuple[str, ...]
    """Which rows lie far outside what the fit has seen."""
    changes: tuple[str, ...] = ()
    """Values that are not those of the spec, by which the table was read."""

    @property
    def options(self) -> str:
        """Those of the command that asks so."""
        return shlex.join(
            [
                "--for",
                str(self.source),
                *(part for each in self.changes for part in ("--set", each)),
            ]
        )

    @property
    def given(self) -> str:
        """The same in Python."""
        return f", {str(self.source)!r}" + (f", {list(self.changes)!r}" if self.changes else "")

    @property
    def where(self) -> str:
        if not self.left_out:
            return self.source.name
        rows = "row that lacks" if self.left_out == 1 else "rows that lack"
        return f"{self.source.name}, without {self.left_out:,} {rows} a value"


def write_report(
    path: Path,
    solution: Solution,
    held_out: Cases | None,
    manifest: Manifest,
    *,
    asked: "tuple[Solution, Asked] | None" = None,
    required: bool = False,
) -> None:
    """Write the report; where what it needs is not installed only warn, unless it is `required`.

    Args:
        asked: rows to decide about, which the report opens with, and the ways that decide.
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
    rows = report_rows(solution, held_out, manifest.refit)
    table = None if asked is None else asked[1]
    page = report.summarise(
        solution.result,
        title=manifest.title,
        held_out=held_out,
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


def report_rows(
    solution: Solution, held_out: Cases | None, refit: Refit | None = None
) -> "list[report.Rows]":
    """The rows of the run, those held out first: they are the latest where time matters."""
    job, fit = solution.job, solution.result.on_fit
    rows = [
        _decided(
            _rows("fit", fit, _columns(job, job.fit.arguments), _labels(job, job.fit)),
            fit,
            solution,
        )
    ]
    if held_out is not None and job.held_out is not None:
        inputs, labels = _columns(job, job.held_out.arguments), _labels(job, job.held_out)
        latest = replace(_rows("held out", held_out, inputs, labels), basis=_unseen(job, refit))
        rows.insert(0, _decided(latest, held_out, solution, today=job.held_out.beside))
    return rows


def read_asked(job: Job, table: Path) -> Asked:
    """Read a new table; rows that lack a value are left out, as `stakes decide` leaves them."""
    reader = NewFile(job, table)
    parts = reader.parts(MOST_ROWS)
    part, further = next(parts, None), next(parts, None)
    if part is None:
        raise InputError(f"{table} has no rows.")
    ranges = Ranges.of(job, reader.columns)
    ranges.look(part.arguments, reader.columns, part.start)
    doubts = [*ranges.told()]
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
    names = part.names
    return Asked(
        table,
        part.arguments,
        kept,
        {n: v[kept] if len(v) == part.rows else v for n, v in part.arguments.items()},
        {n: np.array(v)[kept] for n, v in part.labels.items()} or {"row": kept + 1},
        None if names is None else [names[row] for row in kept],
        len(gaps),
        tuple(doubts),
    )


def asked_rows(solution: Solution, asked: Asked) -> "report.Rows":
    """The rows of a new table, and what is decided."""
    job, result = solution.job, solution.result
    dims = result.approximation.instances.dims
    coords = {dims[0]: asked.names} if len(dims) == 1 and asked.names is not None else {}
    cases = new_cases(solution, asked.arguments, coords=coords)
    rows = _rows("new", cases, _columns(job, asked.arguments), asked.labels, asked.where)
    basis = (
        f"These decisions come from a fit to {rows_of_fit(job)}. How good they are was judged by "
        f"fits that had not seen the outcomes in question."
    )
    rows = replace(rows, doubts=asked.doubts, basis=basis)
    count = len(asked.kept) + asked.left_out
    size = usual_size(job, count)
    if cases.instances.shape != (len(asked.kept),) or job.problem.task.per is not None:
        return _decided(rows, cases, solution)
    # With the numbers of `stakes decide`, whose draws depend on how many rows there are.
    every = new_cases(solution, padded(job, asked.every, count, size))
    return _decided(rows, every, solution, at=asked.kept)


def _unseen(job: Job, refit: Refit | None) -> str:
    """That the rows held out are decided about by a fit without them."""
    new = "" if refit is None else f" New rows are decided about by a fit to all {refit.rows:,}."
    return f"The fit behind these decisions has seen {rows_of_fit(job)}.{new}"


def _labels(job: Job, table: Table) -> dict[str, Any] | None:
    if table.labels is None or job.spec.data is None:
        return None
    return dict(zip(job.spec.data.label, table.labels.T, strict=True))


def _rows(
    part: str,
    cases: Cases,
    inputs: Mapping[str, Any],
    labels: Mapping[str, Any] | None,
    where: str = "",
) -> "report.Rows":
    from stakes import report

    size = int(np.prod(cases.instances.shape))
    if labels is not None and any(len(values) != size for values in labels.values()):
        labels = None
    inputs = {name: values for name, values in inputs.items() if len(values) == size}
    return report.Rows(part, cases, where=where, labels=labels, inputs=inputs)


def _decided(
    rows: "report.Rows",
    cases: Cases,
    solution: Solution,
    *,
    at: np.ndarray | slice = slice(None),
    today: Mapping[str, np.ndarray] | None = None,
) -> "report.Rows":
    """With what is decided and predicted for these cases, of which the rows are those `at`."""

    def own(decisions: np.ndarray) -> np.ndarray:
        return decisions if cases is rows.cases else decisions[..., at]

    rules = solution.rules(cases)
    if today is not None and "today" in today and TODAY in solution.names:
        rules[TODAY] = today["today"]
    return replace(
        rows,
        decided=own(solution.decide(cases)),
        drawn=cases.drawn(solution.posterior())[:, at],
        others={name: own(found) for name, found in rules.items()},
        about=solution.job.about,
    )


def _columns(job: Job, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What the model was told, under the names of the table's columns, with words for codes."""
    if job.spec.data is None:
        return {}
    found = {}
    for argument, column in job.spec.data.columns.items():
        values = np.asarray(arguments.get(argument))
        if argument == job.problem.outcome or values.ndim != 1:
            continue
        words = None if job.by_table else job.fit.vocabulary.get(column)
        found[column] = values if words is None else np.array(words)[values]
    return found


PROGRAM = """\
from stakes.app import runs

runs.rewrite_report(runs.reopen({path!r}){table})
"""


def _provenance(manifest: Manifest) -> dict[str, str]:
    return {
        "made": manifest.created,
        "by": manifest.command,
        "seed": str(manifest.seed),
        "precision": manifest.precision,
        **manifest.versions,
        **{f"SHA-256 of {Path(s.path).name}": s.sha256 for s in (*manifest.code, *manifest.data)},
    }
