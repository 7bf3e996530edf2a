"""A run folder reopened: its spec, its data, the user's code if it is what it was, its fits."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import jax

from stakes.calibration import calibrate
from stakes.errors import InputError, StakesWarning, StorageError
from stakes.result import Calibration
from stakes.runs.packing import unpacked
from stakes.runs.versions import precision, versions
from stakes.spec import Job, restored_job
from stakes.storage import FileJournal, Manifest, RunFolder
from stakes.storage.folder import STATE


@final
@dataclass(frozen=True, eq=False)
class Reopened:
    folder: RunFolder
    manifest: Manifest
    job: Job


def reopen(path: Path, *, but: tuple[str, ...] = (), allow_changed_model: bool = False) -> Reopened:
    """Check every file of the run and read back what it was made of; `but` these files."""
    folder = RunFolder(path)
    manifest = folder.verified(but=but)
    _check_code(path, manifest)
    _check_versions(manifest)
    job = restored_job(
        manifest.spec,
        Path(manifest.folder),
        unpacked(folder.data()),
        None if allow_changed_model else {code.path: code.sha256 for code in manifest.code},
        where=f"The spec of {path}",
    )
    return Reopened(folder, manifest, job)


def restore(opened: Reopened) -> Calibration:
    """The result of a finished run: the same steps as in the run, but for the fits themselves."""
    if opened.manifest.status != "done":
        path = opened.folder.path
        raise InputError(
            f"The run in {path} is not finished ({opened.manifest.status}). Go on with it: "
            f"`stakes resume {path}`."
        )
    return result_of(opened.job, FileJournal(opened.folder / STATE, float("inf")), progress=False)


def result_of(job: Job, journal: FileJournal, *, progress: bool) -> Calibration:
    result = calibrate(
        jax.random.key(job.spec.seed),
        job.problem,
        job.fit.arguments,
        **job.options,
        progress=progress,
        journal=journal,
    )
    return replace(result, coords=_labels(result, job))


def _labels(result: Calibration, job: Job) -> dict[str, Any]:
    """Labels of plates: of the rows, of an example, and of categories with a plate's name."""
    structure = result.approximation.structure
    sizes = {
        dim: size
        for each in (structure.instances, *structure.latents.values())
        for dim, size in zip(each.dims, each.shape, strict=True)
    }
    found = {name: labels for name, labels in job.coords.items() if name in sizes}
    columns = job.spec.data.columns if job.spec.data else {}
    for argument, column in columns.items():
        words = job.fit.vocabulary.get(column)
        for name in (argument, column):
            if words is not None and sizes.get(name) == len(words):
                found[name] = words
    if job.fit.labels is not None:
        for plate in row_plates(result, len(job.fit.labels)):
            found[plate] = job.fit.labels
    return found


def row_plates(result: Calibration, rows: int) -> tuple[str, ...]:
    """Plates of the outcome with one member for each row of the table."""
    instances = result.approximation.instances
    return tuple(d for d, n in zip(instances.dims, instances.shape, strict=True) if n == rows)


def fresh_plates(result: Calibration, job: Job) -> tuple[str, ...]:
    """Plates to call new: rows of another table, where as many as in the fit would pass for them.

    Only those with latents of their own matter.
    """
    latents = result.approximation.structure.latents.values()
    local = {dim for latent in latents for dim in latent.dims}
    rows = len(job.fit.arguments[job.problem.outcome])
    return tuple(plate for plate in row_plates(result, rows) if plate in local - set(job.known))


def _check_code(path: Path, manifest: Manifest) -> None:
    """A run folder comes from anywhere; no code comes from it."""
    for code in manifest.code:
        if path.resolve() in Path(code.path).resolve().parents:
            raise StorageError(
                f"{path} names code inside itself ({code.path}), which a run folder never carries."
            )


def _check_versions(manifest: Manifest) -> None:
    if manifest.precision != precision():
        raise InputError(
            f"The run was made in {manifest.precision} precision, and JAX is set to {precision()} "
            f"precision now. Set the environment variable JAX_ENABLE_X64 to "
            f"{1 if manifest.precision == 'double' else 0}."
        )
    now = versions()
    changed = [
        f"{name} {was} (now {now[name]})"
        for name, was in manifest.versions.items()
        if name in now and now[name] != was
    ]
    if changed:
        warnings.warn(
            f"The run was made with {', '.join(changed)}; numbers may differ in their last digits.",
            StakesWarning,
            stacklevel=3,
        )
