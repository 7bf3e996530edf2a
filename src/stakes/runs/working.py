"""A run from its first step to its last file."""

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stakes.comparison import Comparison
from stakes.errors import Interrupted, NumericalError
from stakes.progress import waiting
from stakes.result import Calibration
from stakes.runs import exports
from stakes.runs.opening import Reopened, fresh_plates, restore, result_of
from stakes.runs.packing import packed
from stakes.runs.signals import Stopper
from stakes.runs.versions import precision, versions
from stakes.spec import Job
from stakes.storage import FileJournal, Manifest, RunFolder, files
from stakes.storage.folder import DECISIONS, DRAWS, REPORT, STATE
from stakes.storage.manifest import Outcome, Source


def begin(job: Job, raw: Mapping[str, Any], path: Path, *, command: str) -> Reopened:
    """Make the run folder, with the data in it and nothing fitted yet."""
    first = Manifest(
        status="running",
        title=job.title,
        created=_now(),
        command=command,
        seed=job.spec.seed,
        spec=dict(raw),
        folder=str(job.folder),
        code=[Source(path=file, sha256=digest) for file, digest in job.code.items()],
        data=[Source(path=str(file), sha256=files.sha256(file)) for file in job.files],
        versions=versions(),
        precision=precision(),
    )
    folder = RunFolder.create(path, first, packed(job.fit, job.held_out))
    return Reopened(folder, folder.manifest(), job)


def carry_out(
    run: Reopened, stopper: Stopper, *, report: bool, progress: bool
) -> tuple[Manifest, Comparison]:
    """Fit from where the run stands, and write all that it leaves behind."""
    folder, job, started = run.folder, run.job, time.monotonic()
    with folder.log() as log:

        def note(text: str) -> None:
            print(_now(), text, file=log, flush=True)

        def end(status: str, timings: Mapping[str, float], **fields: object) -> Manifest:
            total = run.manifest.timings.get("total", 0.0) + time.monotonic() - started
            return folder.update(status=status, timings={**timings, "total": total}, **fields)

        note(f"{run.manifest.status}: {run.manifest.title}")
        journal = FileJournal(
            folder / STATE,
            job.spec.fit.checkpoint_seconds,
            stopping=stopper.asked,
            stop=stopper.stop,
        )
        try:
            result = result_of(job, journal, progress=progress)
        except (Interrupted, KeyboardInterrupt) as error:
            note(f"interrupted: {error}")
            end("interrupted", {})
            raise
        except NumericalError as error:
            journal.save()
            note(f"failed: {error}")
            end("failed", {})
            raise
        journal.save()
        with waiting("deciding, and writing decisions, draws and report", show=progress):
            comparison = export(folder, job, result, report=report)
        note(f"VI: {result.vi!r}; calibrated: {result.calibrated!r}; {comparison.verdict}")
        timings = {"VI": result.vi.seconds, "calibrated": result.calibrated.seconds}
        return end("done", timings, outcome=_outcome(result, comparison)), comparison


def export(folder: RunFolder, job: Job, result: Calibration, *, report: bool) -> Comparison:
    """Decisions, draws and report: made from the result, and made again from the same result."""
    held_out = job.held_out
    new = fresh_plates(result, job) if held_out is not None else ()
    data = held_out.arguments if held_out is not None else None
    comparison = result.compare(data, new=new, known=job.known)
    exports.write_decisions(folder / DECISIONS, result, job, new)
    exports.write_draws(folder / DRAWS, result)
    if report:
        exports.write_report(folder / REPORT, result, job, new, folder.manifest())
    return comparison


def rewrite_report(run: Reopened) -> Path:
    """The report of a finished run, anew."""
    result = restore(run)
    new = fresh_plates(result, run.job) if run.job.held_out is not None else ()
    path = run.folder / REPORT
    exports.write_report(path, result, run.job, new, run.manifest, required=True)
    run.folder.update()
    return path


def _outcome(result: Calibration, comparison: Comparison) -> Outcome:
    low, high = comparison.interval
    fits = {"VI": result.vi, "calibrated": result.calibrated}
    return Outcome(
        risk=comparison.risk,
        reduction=_finite(comparison.reduction),
        interval=(_finite(low), _finite(high)),
        held_out=comparison.held_out,
        gain=comparison.gain,
        instances=comparison.instances,
        verdict=comparison.verdict,
        setting=comparison.setting,
        scale=result.scale,
        stopped={name: str(fit.reason) for name, fit in fits.items()},
        converged=all(fit.converged for fit in fits.values()),
    )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
