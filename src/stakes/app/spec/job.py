"""A job: a spec with its code run and its data read, ready to be fitted.

All mistakes in a spec are reported at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np

from stakes import checks
from stakes.app.spec.assembly import Assembly, Choosing
from stakes.app.spec.data_tables import Tables
from stakes.app.spec.schema import Spec
from stakes.app.spec.table import Table, by_name, joined
from stakes.app.spec.toml import read_toml, unfilled, unit_of, with_values, without_choice
from stakes.fitting import least_steps
from stakes.formulas import FormulaColumns, formula_columns
from stakes.problem import Problem
from stakes.study import Coords, Options


@final
@dataclass(frozen=True, eq=False)
class Job:
    """A spec with its code run and its data read.

    Attributes:
        spec: the spec, validated.
        raw: the spec as written.
        folder: where relative paths in the spec start from.
        problem: model, outcome and loss.
        tables: the rows to fit to, and those held out.
        options: of the fits.
        coords: labels that come with an example.
        known: plates whose members are the same in the held-out data.
        code: Python file -> its checksum.
        unit: of costs, such as "€"; None where the spec does not say.
        choosing: strategies and folds to choose by; None for the two fits alone.
    """

    spec: Spec
    raw: Mapping[str, object]
    folder: Path
    problem: Problem
    tables: Tables
    options: Options
    coords: Coords
    known: tuple[str, ...]
    code: Mapping[str, str]
    unit: str | None
    choosing: Choosing | None

    @property
    def title(self) -> str:
        """The title of the spec; made up where it has none."""
        return (
            self.spec.title or self.spec.model.example or f"Decisions about {self.problem.outcome}"
        )

    @property
    def about(self) -> str:
        """The column of the outcomes; the name of the outcome, where there is no column."""
        data, outcome = self.spec.data, self.problem.outcome
        return data.outcome or data.columns.get(outcome, outcome)

    @property
    def fit(self) -> Table:
        """The rows to fit to."""
        return self.tables.fit

    @property
    def held_out(self) -> Table | None:
        """The rows that judge the fits; None where there are none."""
        return self.tables.held_out

    @property
    def notes(self) -> tuple[str, ...]:
        """What is odd about spec and tables but stops no fit, such as costs not filled in."""
        notes = list(self.tables.notes)
        if fields := unfilled(self.raw) if self.by_table else ():
            notes.append(
                f"{' and '.join(fields)}: still as `stakes init` proposes. Fill in what a wrong "
                f"decision costs you: all decisions depend on it."
            )
        today = self.spec.choose.today
        if self.by_table and today in self.spec.data.columns.values():
            notes.append(
                f"choose.today: the formula has {today!r}, too, so that every table to decide "
                f"about needs that column. If it is what you want decided, leave it out of the "
                f"formula."
            )
        settings = self.options.fit_settings(draws=1, progress=False)
        if settings.steps < least_steps(settings):
            notes.append(
                f"fit.steps: {settings.steps:,} are too few to see whether a fit has converged, "
                f"which takes {least_steps(settings):,} or more. Leave `steps` out, or allow "
                f"more, before you rely on decisions."
            )
        if _is_to_refit(self) and _all_rows(self) is None:
            notes.append(
                "data.held_out: these rows cannot be joined with the others, so decisions "
                "about new rows will come from a fit without them."
            )
        return tuple(notes)

    @property
    def calibrates(self) -> bool:
        """Whether there is a calibrated fit: not where it is none of the ways to choose among."""
        return self.choosing is None or not self.choosing.ways or bool(self.choosing.calibrated)

    @property
    def by_table(self) -> bool:
        """Whether the model makes its arguments of a table itself."""
        return self.spec.model.formula is not None

    def data(self, arguments: Mapping[str, Any], first_row: int = 0) -> Any:
        """Data as `calibrate` takes them.

        Args:
            arguments: of the model.
            first_row: the number of rows before these, for the labels of a table.

        Returns:
            The arguments; for a formula, the table that they are the columns of.
        """
        if self.spec.model.formula is None:
            return arguments
        data = self.spec.data
        listed = [name for name, column in data.columns.items() if column in data.categories]
        return by_name(arguments, self.dates, listed, first_row)

    @cached_property
    def formula(self) -> FormulaColumns | None:
        """The columns that the formula needs; None for other models."""
        text = self.spec.model.formula
        return None if text is None else formula_columns(text, list(self.fit.arguments))

    @property
    def dates(self) -> tuple[str, ...]:
        """The columns, as a formula calls them, of which it asks for parts of dates."""
        return () if self.formula is None else self.formula.dates

    def rows_in(self, table: Table) -> int:
        """The number of outcomes in a table; of its longest column, where there are none."""
        seen = table.arguments.get(self.problem.outcome)
        columns = table.arguments.values() if seen is None else (seen,)
        return max(len(column) for column in columns if np.ndim(column))


def read_job(path: str | Path, *, choose: bool = True, changes: Sequence[str] = ()) -> Job:
    """Read a spec file, its code and its data.

    Args:
        path: the spec file.
        choose: whether to choose among strategies; otherwise the job is for the two fits alone.
        changes: values to try in place of those of the spec, such as `loss.newsvendor.under=4`.

    Returns:
        The job, which `stakes.app.runs.begin` makes a run of.

    Raises:
        SpecError: listing all mistakes in the spec.

    Examples:
        >>> import pathlib, tempfile
        >>> spec = pathlib.Path(tempfile.mkdtemp()) / "schools.toml"
        >>> _ = spec.write_text('model = { example = "eight-schools" }')
        >>> read_job(spec, changes=["title=Eight schools"]).title
        'Eight schools'
    """
    path = checks.path("`read_job(path)`", path)
    choose = checks.flag("`read_job(choose=...)`", choose)
    changes = checks.names("`read_job(changes=...)`", changes)
    raw = with_values(read_toml(path), changes)
    raw = raw if choose else without_choice(raw)
    return job_of(raw, path.resolve().parent, where=str(path))


def job_of(
    raw: Mapping[str, object],
    folder: Path,
    tables: Tables | None = None,
    code: Mapping[str, str] | None = None,
    *,
    where: str,
) -> Job:
    """The job that the content of a spec file describes.

    Args:
        raw: the content.
        folder: where relative paths in it start from.
        tables: the data of an earlier run, in place of the files.
        code: the checksums that its code must have; None for any.
        where: the name of the spec, for messages.

    Examples:
        >>> spec = {"model": {"example": "eight-schools"}}
        >>> job = job_of(spec, Path("."), where="the spec")
        >>> job.rows_in(job.fit)
        8
    """
    assembly = Assembly(raw, folder, tables, code)
    assembly.mistakes.raise_any(where)
    problem, tables, example = assembly.problem, assembly.tables, assembly.example
    assert problem is not None
    assert tables is not None
    return Job(
        spec=assembly.spec,
        raw=raw,
        folder=folder,
        problem=problem,
        tables=tables,
        options=assembly.options(),
        coords=example.labels() if example else {},
        known=example.known if example else (),
        code=assembly.code.checksums,
        unit=unit_of(raw),
        choosing=assembly.choosing(problem, tables.fit),
    )


def job_on_all_rows(job: Job) -> Job | None:
    """The same job with the rows held out in its fit; None where they are to stay out."""
    whole = _all_rows(job) if _is_to_refit(job) else None
    if whole is None:
        return None
    tables = replace(job.tables, fit=whole, held_out=None)
    return job_of(job.raw, job.folder, tables, job.code, where="The spec, for all rows")


def _is_to_refit(job: Job) -> bool:
    """Whether the spec asks for fits to all rows, after those without the rows held out."""
    how = job.spec.data.held_out
    return how is not None and how.refit and job.held_out is not None


def _all_rows(job: Job) -> Table | None:
    """Both tables as one; None where they cannot be put together."""
    data, held_out = job.spec.data, job.held_out
    assert held_out is not None and data.held_out is not None  # noqa: PT018
    if data.held_out.file is not None and data.ordered:
        return None  # times are numbered in each file by itself
    rows = (job.rows_in(job.fit), job.rows_in(held_out))
    columns = Path(data.file).suffix.lower() != ".npz"
    return joined(job.fit, held_out, rows, data.held_out, columns=columns)
