"""A finished run read back: the same steps as in the run, except the fits themselves."""

from collections.abc import Mapping
from dataclasses import replace

from stakes import checks
from stakes.app.runs import sealed
from stakes.app.runs.folder import CHOICE, REFIT, STATE
from stakes.app.runs.journal import FileJournal
from stakes.app.runs.opening import Run
from stakes.app.runs.solution import TWO, Solution, rows_of_fit
from stakes.errors import InputError
from stakes.host.progress import begin, part_of
from stakes.study import Work

ALL = "all rows/"
"""Before the names of what strategies decide by that were fitted to all rows."""


def check_run(run: Run) -> None:
    """Refuse what is no run."""
    checks.instance("`run`", run, Run, "what `begin(...)` or `reopen(path)` returns")


def restore(run: Run) -> Solution:
    """The fits of a finished run, and what decides by them."""
    check_run(run)
    path, manifest = run.folder.path, run.manifest
    if manifest.status != "done":
        why = f"{manifest.status}: {manifest.reason}" if manifest.reason else manifest.status
        raise InputError(
            f"The run in {path} is not finished ({why}). Resume it: `stakes resume {path}`."
        )
    file, latents, plain = STATE, manifest.latents, False
    if run.refit and manifest.refit is not None:
        file, latents = REFIT, manifest.refit.latents
        plain = TWO[1].name not in manifest.refit.ways
    begin(f"reading back the fits to {rows_of_fit(run.job)}")
    with part_of():
        journal = FileJournal(run.folder / file, float("inf"))
        run.study.employ(Work(progress=False, journal=journal))
        solution = Solution.of(run.job, run.study, plain=plain)
    if solution.latents != latents:
        raise InputError(
            f"The run in {path} was fitted to the latents {_shapes(latents)}; the model "
            f"now has {_shapes(solution.latents)}. Put it back as it was, or run again."
        )
    summary = run.folder.manifest().choice
    arrays = {} if summary is None else sealed.load(run.folder / CHOICE)
    if run.refit:
        arrays = {n.removeprefix(ALL): a for n, a in arrays.items() if n.startswith(ALL)}
    return replace(solution, summary=summary, arrays=arrays)


def _shapes(latents: Mapping[str, list[int]]) -> str:
    return ", ".join(f"{name!r} {shape}" for name, shape in latents.items())
