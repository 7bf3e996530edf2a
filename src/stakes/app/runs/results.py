"""The result of a run, made from its job and its journal, with the labels of its table."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import pandas as pd

from stakes import checks
from stakes.app.runs import sealed
from stakes.app.runs.choosing import Ways
from stakes.app.runs.folder import CHOICE, REFIT, STATE
from stakes.app.runs.journal import FileJournal
from stakes.app.runs.opening import Run
from stakes.app.spec import Job, Table
from stakes.errors import InputError
from stakes.fitting import Fit
from stakes.host.progress import begin, untold
from stakes.processes import Processes
from stakes.study import Assessment, By, Calibration, Ordered, calibrate_with, prepare

TITLES = ("VI", "calibrated")
"""What the files of a run call the two fits."""
ALL = "all rows/"
"""Before the names of what ways decide by that were fitted to all rows."""


def check_run(run: Run) -> None:
    checks.instance("`run`", run, Run, "what `begin(...)` or `reopen(path)` returns")


def restore(run: Run) -> Calibration:
    """The result of a finished run: the same steps as in the run, except the fits themselves."""
    check_run(run)
    path, manifest = run.folder.path, run.manifest
    if manifest.status != "done":
        why = f"{manifest.status}: {manifest.reason}" if manifest.reason else manifest.status
        raise InputError(
            f"The run in {path} is not finished ({why}). Resume it: `stakes resume {path}`."
        )
    kept, latents = STATE, manifest.latents
    if run.refit and manifest.refit is not None:
        kept, latents = REFIT, manifest.refit.latents
    begin(f"reading back the fits to {rows_of_fit(run.job)}")
    with untold():
        result = result_of(run.job, FileJournal(run.folder / kept, float("inf")), progress=False)
    if latents_of(result) != latents:
        raise InputError(
            f"The run in {path} was fitted to the latents {_shapes(latents)}; the model "
            f"now has {_shapes(latents_of(result))}. Put it back as it was, or run again."
        )
    return result


def ways_of(run: Run, result: Calibration) -> Ways:
    """The ways to a decision of a run that has chosen among them, or has the two fits alone."""
    chosen = run.folder.manifest().choice
    arrays = {} if chosen is None else sealed.load(run.folder / CHOICE)
    if run.refit:
        arrays = {n.removeprefix(ALL): a for n, a in arrays.items() if n.startswith(ALL)}
    return Ways(run.job, result, arrays, chosen)


def result_of(
    job: Job, journal: FileJournal | None, *, progress: bool, on: Processes | None = None
) -> Calibration:
    result = calibrate_with(
        jax.random.key(job.spec.seed),
        job.problem,
        job.data(job.fit.arguments),
        job.options,
        progress=progress,
        journal=journal,
        on=on,
        plain=not job.calibrates,
    )
    return replace(result, coords=result.coords | _labels(result, job), by=_by(job, job.fit))


def with_task_of(job: Job, result: Calibration) -> Calibration:
    """The same fits, for decisions that cost what this job says."""
    plan = prepare(
        jax.random.key(job.spec.seed), job.problem, job.data(job.fit.arguments), job.options
    )
    plan = plan.sized(result.vi.params, result.keys.spread)
    return replace(
        result,
        problem=plan.problem,
        approximation=plan.approximation,
        expectation=plan.expectation,
        predictors=plan.predictors,
        columns=plan.columns,
        plan=plan,
    )


def rows_of_fit(job: Job) -> str:
    """How many rows its fits rest on, and how many they do not, in words."""
    fitted = f"{job.rows_in(job.fit):,} rows"
    if job.held_out is None:
        return f"all {fitted}"
    return f"{fitted}, without the {job.rows_in(job.held_out):,} held out"


def held_out_cases(result: Calibration, job: Job) -> Assessment | None:
    """The result on the rows held out, with their labels; None where there are none."""
    table, dims = job.held_out, result.approximation.instances.dims
    if table is None:
        return None
    coords = {}
    if table.names is not None and len(dims) == 1:
        coords = {dims[0]: table.names.tolist()}
    return result.assess(
        job.data(table.arguments),
        new=fresh_plates(result, job),
        known=job.known,
        coords=coords,
        by=_by(job, table),
    )


def _by(job: Job, table: Table) -> By:
    """Which rows belong together, as the spec says; None where it does not."""
    if job.spec.data is not None and job.spec.data.ordered:
        return Ordered(table.beside.get("when"))
    groups = tuple(pd.Series(values, name=name) for name, values in table.groups.items())
    return groups[0] if len(groups) == 1 else groups or None


def latents_of(result: Calibration) -> dict[str, list[int]]:
    """The shape of each latent. Some guides keep the parameters of all in one array, unnamed."""
    return {name: list(latent.shape) for name, latent in result.approximation.latents.items()}


def _shapes(latents: Mapping[str, list[int]]) -> str:
    return ", ".join(f"{name!r} {shape}" for name, shape in latents.items())


def titled_fits(result: Calibration) -> dict[str, Fit]:
    return dict(zip(TITLES, result.fits.values(), strict=False))


def fresh_plates(result: Calibration, job: Job) -> tuple[str, ...]:
    """Plates to call new for another table: with as many rows, they would pass for the fit's.

    Only plates with latents of their own matter.
    """
    rows = _row_plates(result, job.rows_in(job.fit))
    known = result.approximation.trace.known_instances
    return tuple(plate for plate in known if plate in rows and plate not in job.known)


def _row_plates(result: Calibration, rows: int) -> tuple[str, ...]:
    """Plates of the outcome with one member for each row of the table."""
    instances = result.approximation.instances
    return tuple(d for d, n in zip(instances.dims, instances.shape, strict=True) if n == rows)


def _labels(result: Calibration, job: Job) -> dict[str, Any]:
    """Labels of plates: of the rows, of an example, and of categories with a plate's name."""
    approximation = result.approximation
    sizes = {
        dim: size
        for each in (approximation.instances, *approximation.latents.values())
        for dim, size in zip(each.dims, each.shape, strict=True)
    }
    found: dict[str, Any] = {n: labels for n, labels in job.coords.items() if n in sizes}
    columns = job.spec.data.columns if job.spec.data else {}
    for argument, column in columns.items():
        words = job.fit.vocabulary.get(column)
        for name in (argument, column):
            if words is not None and sizes.get(name) == len(words):
                found[name] = words
    names = job.fit.names
    if names is not None:
        found |= dict.fromkeys(_row_plates(result, len(names)), names)
    return found
