"""A run from its first step to its last file."""

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, final

import numpy as np

from stakes import checks
from stakes.app.runs import exports, sealed
from stakes.app.runs.choosing import Ways, chosen_for, finite
from stakes.app.runs.folder import CHOICE, DECISIONS, DRAWS, REPORT, STATE, RunFolder
from stakes.app.runs.journal import FileJournal
from stakes.app.runs.manifest import Ending, Manifest
from stakes.app.runs.opening import Run, now
from stakes.app.runs.reporting import read_asked, write_report
from stakes.app.runs.results import (
    check_run,
    held_out_cases,
    latents_of,
    restore,
    result_of,
    titled_fits,
    ways_of,
)
from stakes.app.spec import Job
from stakes.calibration import Assessment, Calibration, Comparison, why_not_judged
from stakes.errors import Interrupted, NumericalError
from stakes.host.interrupts import ENDING, Interruption, Signalled, deferred
from stakes.host.progress import begin, told_to, waiting
from stakes.host.workers import checked_client
from stakes.processes import Processes

WRITING = "deciding, and writing decisions, draws and report"


def carry_out(
    run: Run,
    *,
    report: bool,
    progress: bool,
    on: Any = None,
    processes: Processes | None = None,
    beat: Callable[[str], None] | None = None,
) -> tuple[Manifest, Comparison | None]:
    """Fit from where the run stands, and write all that it leaves behind.

    There is no comparison where data cannot judge the decisions.

    Ctrl-C, SIGTERM and SIGHUP end its fits after the current chunk of steps, with a checkpoint
    saved, and what comes after them at once; so does a second one. Whatever ends it, log
    and manifest say what it was.

    Args:
        on: the client of a Dask cluster, which makes the fits of a choice.
        processes: those that make the two fits together with this one, while they `assist` it.
        beat: told what is begun, and of each chunk of steps that several processes take.
    """
    check_run(run)
    report = checks.flag("`carry_out(report=...)`", report)
    progress = checks.flag("`carry_out(progress=...)`", progress)
    on = None if on is None else checked_client(on)
    if processes is not None:
        rule = "what `stakes.join(...)` returns"
        checks.instance("`carry_out(processes=...)`", processes, Processes, rule)
    with run.folder.log() as log, deferred(*ENDING) as heard:
        record = _Record(run, log)
        journal = FileJournal(
            run.folder / STATE,
            run.job.spec.fit.checkpoint_seconds,
            interruption=partial(_interruption, heard, run.folder.path),
            beat=beat or _unheard,
        )
        with record.of_ending(journal), told_to(record.note), told_to(beat or _unheard):
            result = result_of(run.job, journal, progress=progress, on=processes)
            journal.save()
            if processes is not None:
                processes.leave()
            _choose(run, result, record, heard, progress=progress, on=on)
            ways = ways_of(run, result)
            with (
                _ended_by(heard, run.folder.path),
                waiting(WRITING, show=progress),
            ):
                begin(WRITING)
                held_out = held_out_cases(result, run.job)
                comparison = _export(run, result, ways, held_out, report=report)
            ending = _ending(result, comparison)
            record.note(f"VI: {result.vi!r}; calibrated: {result.calibrated!r}; {ending.verdict}")
            timings = {title: fit.seconds for title, fit in titled_fits(result).items()}
            timings |= {"choice": record.choosing} if ways.chosen is not None else {}
            latents = latents_of(result)
            return record.end("done", timings, ending=ending, latents=latents), comparison


def _unheard(what: str) -> None:
    """No supervisor listens."""


def assist(job: Job, on: Processes, folder: RunFolder | None = None) -> None:
    """Make the fits of a run together with the process that carries it out.

    Args:
        job: the same as that of the run.
        on: the processes, of which this is one.
        folder: of a run that is resumed; it is read and not written to.
    """
    checks.instance("`assist(job)`", job, Job, "what `read_job(path)` returns")
    journal = None if folder is None else FileJournal(folder / STATE, 0)
    with deferred(*ENDING, patient=True):  # the process that carries it out decides when to end
        result_of(job, journal, progress=False, on=on)
        on.leave()


def _choose(
    run: Run,
    result: Calibration,
    record: "_Record",
    heard: Interruption,
    *,
    progress: bool,
    on: Any,
) -> None:
    """Choose among the ways, unless that has been done before.

    What a signal cuts short begins anew when the run is resumed; the two fits are kept.
    """
    if run.job.choosing is None or run.folder.manifest().choice is not None:
        return
    started = time.monotonic()
    with _ended_by(heard, run.folder.path):
        chosen, arrays = chosen_for(run.job, result, progress=progress, on=on)
    sealed.save(run.folder / CHOICE, arrays)
    run.folder.update(choice=chosen)
    record.choosing = time.monotonic() - started
    record.note(chosen.verdict)


def rewrite_report(run: Run, table: str | Path | None = None) -> Path:
    """Write the report of a finished run again.

    Args:
        table: rows to decide about, which the report is to open with.
    """
    table = None if table is None else checks.path("`table=`", table)
    asked = None if table is None else read_asked(run.job, table)  # before what takes long
    result = restore(run)
    path = run.folder / REPORT
    held_out, ways = held_out_cases(result, run.job), ways_of(run, result)
    write_report(path, result, ways, held_out, run.manifest, asked=asked, required=True)
    run.folder.update()
    return path


@final
class _Record:
    """Records in log and manifest what happens to a run."""

    def __init__(self, run: Run, log: IO[str]) -> None:
        self._run, self._log, self._started = run, log, time.monotonic()
        self.choosing = run.manifest.timings.get("choice", 0.0)

    def note(self, text: str) -> None:
        print(now(), text, file=self._log, flush=True)

    def end(self, status: str, timings: Mapping[str, float], **fields: object) -> Manifest:
        before = self._run.manifest.timings.get("total", 0.0)
        total = before + time.monotonic() - self._started
        return self._run.folder.update(status=status, timings={**timings, "total": total}, **fields)

    @contextmanager
    def of_ending(self, journal: FileJournal) -> Iterator[None]:
        """If the run does not finish, record why, whatever the reason."""
        begun = "resumed" if (self._run.folder / STATE).exists() else "begun"
        self.note(f"{begun}: {self._run.manifest.title}")
        self._run.folder.update(status="running", reason=None)
        try:
            yield
        except BaseException as error:
            if isinstance(error, NumericalError):
                journal.save()
            status = _status(error)
            reason = str(error) or type(error).__name__
            with suppress(OSError):  # such as a full disk, which may be the very reason
                self.note(f"{status}: {reason}")
                self.end(status, {}, reason=reason)
            raise


def _status(error: BaseException) -> str:
    return "interrupted" if isinstance(error, Interrupted | KeyboardInterrupt) else "failed"


@contextmanager
def _ended_by(heard: Interruption, path: Path) -> Iterator[None]:
    """What comes after the fits, which are saved by then."""
    try:
        with heard.at_once():
            yield
    except Signalled as error:
        raise _interrupted(error.signum, path) from None


def _interruption(heard: Interruption, path: Path) -> Interrupted | None:
    return None if heard.signum is None else _interrupted(heard.signum, path)


def _interrupted(signum: int, path: Path) -> Interrupted:
    return Interrupted(
        f"Ended by {signal.Signals(signum).name}; what had been done is saved. Resume it: "
        f"`stakes resume {path}`.",
        signum,
    )


def _export(
    run: Run, result: Calibration, ways: Ways, held_out: Assessment | None, *, report: bool
) -> Comparison | None:
    """Decisions, draws and report, and the comparison that they rest on."""
    folder, parts = run.folder, {"fit": result.on_fit}
    if held_out is not None:
        parts["held out"] = held_out
    judged = why_not_judged(result.problem) is None
    comparison = (result.on_fit if held_out is None else held_out).comparison if judged else None
    exports.write_decisions(folder / DECISIONS, parts, ways, run.job)
    exports.write_draws(folder / DRAWS, result)
    if report:
        write_report(folder / REPORT, result, ways, held_out, run.manifest)
    return comparison


def _ending(result: Calibration, comparison: Comparison | None) -> Ending:
    fits = titled_fits(result)
    stopped = {title: str(fit.reason) for title, fit in fits.items()}
    converged = all(fit.converged for fit in fits.values())
    if comparison is None:
        return Ending(
            held_out=False,
            gain=result.problem.loss is None,
            instances=int(np.prod(result.on_fit.instances.shape)),
            verdict=f"{why_not_judged(result.problem)} Plain VI decides.",
            setting=f"{result.problem!r}; {result.on_fit.setting}.",
            scale=result.scale,
            stopped=stopped,
            converged=converged,
        )
    low, high = comparison.interval
    return Ending(
        risk=comparison.risk,
        reduction=finite(comparison.reduction),
        interval=(finite(low), finite(high)),
        held_out=comparison.held_out,
        gain=comparison.gain,
        instances=comparison.instances,
        verdict=comparison.verdict,
        setting=comparison.setting,
        scale=result.scale,
        stopped=stopped,
        converged=converged,
    )
