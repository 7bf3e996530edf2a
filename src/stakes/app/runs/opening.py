"""A run, newly begun, reopened or read back.

A run that is reopened has the data and the code that it was made with, or says which have changed.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import final

from stakes import checks
from stakes.app.runs.folder import CHOICE, REFIT, STATE, RunFolder
from stakes.app.runs.manifest import Manifest, SourceFile, now, precision
from stakes.app.runs.solution import TWO, Solution, check_study, rows_of_fit, study_of
from stakes.app.spec import Job, job_of, job_on_all_rows, path_of, with_values
from stakes.errors import InputError, StorageError, warn
from stakes.host import files, progress
from stakes.host.packages import versions
from stakes.host.trees import load_arrays
from stakes.study import FileJournal, Study, Work


@final
@dataclass(frozen=True, eq=False)
class Run:
    """A job and the folder that it is carried out in.

    Attributes:
        folder: of the run.
        manifest: as it was when the run was opened.
        job: what is to be fitted and decided.
        refit: whether its fits are those to all rows, of which none are held out.
    """

    folder: RunFolder
    manifest: Manifest
    job: Job
    refit: bool = False

    def __post_init__(self) -> None:
        checks.fields(self, folder=RunFolder, manifest=Manifest, job=Job)
        checks.flag("`Run(refit=...)`", self.refit)

    @cached_property
    def study(self) -> Study:
        """The problem, traced on the rows of the fit."""
        return study_of(self.job)

    @cached_property
    def on_all_rows(self) -> "Run | None":
        """The run with its fits to all rows; None where no rows are held out, or stay so."""
        job = job_on_all_rows(self.job)
        return None if job is None else replace(self, job=job, refit=True)

    def check(self) -> None:
        """Refuse, before anything is fitted, what the model or some strategy cannot handle."""
        for run in (self, self.on_all_rows):
            if run is not None:
                check_study(run.study, run.job)

    def to_decide(self, way: str | None = None) -> "Run":
        """The run with the fits that decide about new rows: those to all rows, if it has any.

        Args:
            way: the name of the strategy that decides; None for the chosen one.
        """
        made = self.manifest.refit
        if made is None or (way is not None and way not in made.ways):
            return self
        return self.on_all_rows or self


def begin(job: Job, path: str | Path, *, command: str) -> Run:
    """Make the folder of a new run, with the data in it and nothing fitted yet.

    Args:
        job: what `read_job(path)` returns.
        path: of the folder, which must be free.
        command: the command line, for the manifest.

    Returns:
        The run, which `carry_out` fits.
    """
    checks.instance("`begin(job=...)`", job, Job, "what `read_job(path)` returns")
    path = checks.path("`begin(path=...)`", path)
    checks.text("`begin(command=...)`", command)
    first = Manifest(
        status="running",
        title=job.title,
        created=now(),
        command=command,
        seed=job.spec.seed,
        spec=dict(job.raw),
        folder=str(job.folder),
        code=[SourceFile(path=file, sha256=digest) for file, digest in job.code.items()],
        data=[SourceFile(path=str(file), sha256=files.sha256(file)) for file in job.tables.files],
        versions=versions(),
        precision=precision(),
    )
    run = Run(RunFolder(path), first, job)
    run.check()
    run.folder.create(first, job.tables)
    return run


def reopen(
    path: str | Path, *, allow_changed_model: bool = False, model: str | Path | None = None
) -> Run:
    """Open a run that exists: check its files, and read back what it was made of.

    Args:
        path: of the run folder.
        allow_changed_model: whether to proceed even if the model's file has changed since the run.
        model: the model's file, or the folder of its project, where they have moved.
    """
    path = checks.path("`reopen(path)`", path)
    where = "`reopen(allow_changed_model=...)`"
    allow_changed_model = checks.flag(where, allow_changed_model)
    moved = None if model is None else checks.path("`reopen(model=...)`", model)
    folder = RunFolder(path)
    manifest = folder.verified()
    project = Path(manifest.folder)
    code = {source.path: source.sha256 for source in manifest.code}
    if moved is not None:
        project = _moved(manifest, moved)
        code = {
            str((project / os.path.relpath(name, manifest.folder)).resolve()): digest
            for name, digest in code.items()
        }
    _check_code(path, code)
    _check_versions(manifest)
    job = job_of(
        manifest.spec,
        project,
        folder.tables(),
        None if allow_changed_model else code,
        where=f"The spec of {path}",
    )
    return Run(folder, manifest, job)


# In choice.npz, the names of arrays of strategies that were fitted to all rows begin with this.
ALL = "all rows/"
# Fields of [data] that say how a table is read: a table of new rows may be written in another way.
READING = ("replace", "dates", "missing", "separator", "decimal", "encoding")


def changed_run(run: Run, changes: Sequence[str]) -> Run:
    """The run with other values for the table of new rows.

    Args:
        run: the run.
        changes: such as `data.replace.price."n/a"=""`. Those that went into the fits are refused.
    """
    for change in changes:
        section, *rest = path_of(change)
        if section != "data" or rest[:1] not in [[name] for name in READING]:
            raise InputError(
                f"`--set {change}`: the fits depend on it; change it in the spec, and run again. "
                f"Decisions can try other values of [loss], [utility] and [decision], and read "
                f"their table by another `data.{'`, `data.'.join(READING)}`."
            )
    return replace(run, job=changed_job(run, changes)) if changes else run


def changed_job(run: Run, changes: Sequence[str]) -> Job:
    """The job of a run with other values in its spec, on the same data."""
    return job_of(
        with_values(run.job.raw, changes),
        run.job.folder,
        run.job.tables,
        run.job.code,
        where="`--set`",
    )


def _moved(manifest: Manifest, model: Path) -> Path:
    """The folder that a spec's paths start from, found from where its model is now."""
    named = str(manifest.spec.get("model", {}).get("python") or "").rpartition(":")[0]
    if not named or Path(named).is_absolute():
        raise InputError("`--model`: the spec of the run names no model by a relative path.")
    given, parts = model.resolve(), Path(named).parts
    if given.is_dir():
        return given
    if given.parts[-len(parts) :] != parts:
        raise InputError(f"`--model {model}`: the spec of the run calls it {named!r}.")
    return given.parents[len(parts) - 1]


def _check_code(path: Path, code: Iterable[str]) -> None:
    """Refuse code inside a run's folder: that may come from anywhere."""
    for name in code:
        if path.resolve() in Path(name).resolve().parents:
            raise StorageError(
                f"{path} names code inside itself ({name}); a run folder never carries code."
            )


def _check_versions(manifest: Manifest) -> None:
    """Refuse another precision, and warn of other versions."""
    if manifest.precision != precision():
        raise InputError(
            f"The run was made in {manifest.precision} precision, but JAX is now set to "
            f"{precision()} precision. Set the environment variable JAX_ENABLE_X64 to "
            f"{1 if manifest.precision == 'double' else 0}."
        )
    now = versions()
    changed = [
        f"{name} {was} (now {now[name]})"
        for name, was in manifest.versions.items()
        if name in now and now[name] != was
    ]
    if changed:
        warn(
            f"The run was made with {', '.join(changed)}; numbers may differ in their last digits.",
        )


def check_run(run: Run) -> None:
    """Refuse what is no run."""
    checks.instance("`run`", run, Run, "what `begin(...)` or `reopen(path)` returns")


def restore(run: Run) -> Solution:
    """The fits of a finished run, and what decides by them.

    Args:
        run: what `reopen(path)` returns.

    Raises:
        InputError: if the run is not finished, or the model has other latents than it had.
    """
    check_run(run)
    path, manifest = run.folder.path, run.manifest
    if manifest.status != "done":
        why = f"{manifest.status}: {manifest.reason}" if manifest.reason else manifest.status
        raise InputError(
            f"The run in {path} is not finished ({why}). Resume it: `stakes resume {path}`."
        )
    summary = manifest.choice
    plain = summary is not None and bool(summary.not_tried)
    file, latents = STATE, manifest.latents
    if run.refit and manifest.refit is not None:
        file, latents = REFIT, manifest.refit.latents
        plain = TWO[1].name not in manifest.refit.ways
    progress.begin(f"reading back the fits to {rows_of_fit(run.job)}")
    with progress.part_of():
        journal = FileJournal(run.folder / file, float("inf"))
        run.study.employ(Work(progress=False, journal=journal))
        solution = Solution.of(run.job, run.study, plain=plain)
    if solution.latents != latents:
        raise InputError(
            f"The run in {path} was fitted to the latents {_shapes(latents)}; the model "
            f"now has {_shapes(solution.latents)}. Put it back as it was, or run again."
        )
    arrays = {} if summary is None else load_arrays(run.folder / CHOICE)
    if run.refit:
        arrays = {n.removeprefix(ALL): a for n, a in arrays.items() if n.startswith(ALL)}
    return replace(solution, summary=summary, arrays=arrays)


def _shapes(latents: Mapping[str, list[int]]) -> str:
    """Latents and their shapes, for a message."""
    return ", ".join(f"{name!r} {shape}" for name, shape in latents.items())
