"""A run from its first step to its last file."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stakes import checks
from stakes.app.runs import exports, sealed
from stakes.app.runs.choosing import Ways, chosen_for, finite, own_fits, refitted
from stakes.app.runs.folder import CHOICE, DECISIONS, DRAWS, REFIT, REPORT, STATE, RunFolder
from stakes.app.runs.journal import FileJournal
from stakes.app.runs.manifest import Ending, Manifest, Refit
from stakes.app.runs.meeting import seen_by_all
from stakes.app.runs.opening import Run, changed_run
from stakes.app.runs.recording import Record, ended_by, interruption
from stakes.app.runs.reporting import read_asked, write_report
from stakes.app.runs.results import (
    ALL,
    check_run,
    held_out_cases,
    latents_of,
    restore,
    result_of,
    titled_fits,
    ways_of,
)
from stakes.app.spec import Job, job_on_all_rows
from stakes.errors import NumericalError, warn
from stakes.fitting import Fit, Stop
from stakes.host.interrupts import ENDING, Interruption, deferred
from stakes.host.progress import begin, told_to, waiting
from stakes.host.workers import checked_client
from stakes.processes import Processes
from stakes.study import LEFT_OUT, Assessment, Calibration, Comparison, why_not_judged

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

    Where rows are held out, the fits without them are judged by them; the fits to all rows, which
    come after, decide about new rows. There is no comparison where data cannot judge the decisions.

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
        record = Record(run, log)
        in_shares = processes is not None and seen_by_all(processes, run.folder) is not None
        journals = {
            name: FileJournal(
                run.folder / name,
                run.job.spec.fit.checkpoint_seconds,
                interruption=partial(interruption, heard, run.folder.path),
                beat=beat or _unheard,
                in_shares=in_shares,
            )
            for name in (STATE, REFIT)
        }
        with record.of_ending(*journals.values()), told_to(record.note), told_to(beat or _unheard):
            result, refit, failed = _both(run, journals, progress=progress, on=processes)
            if processes is not None:
                processes.leave()
            _choose(run, result, refit, record, heard, progress=progress, on=on)
            ways = ways_of(run, result)
            with (
                ended_by(heard, run.folder.path),
                waiting(WRITING, show=progress),
            ):
                begin(WRITING)
                held_out = held_out_cases(result, run.job)
                comparison = _export(run, result, ways, held_out, report=report)
            fits = titled_fits(result) | ({} if refit is None else _of_all_rows(refit.result))
            ending = _ending(result, comparison, fits, failed)
            record.note("; ".join([f"{t}: {f!r}" for t, f in fits.items()] + [ending.verdict]))
            timings = {title: fit.seconds for title, fit in fits.items()}
            timings |= {"choice": record.choosing} if ways.chosen is not None else {}
            latents = latents_of(result)
            return record.end("done", timings, ending=ending, latents=latents), comparison


def _unheard(what: str) -> None:
    """No supervisor listens."""


class _Refit(NamedTuple):
    """The run on all rows, and its two fits."""

    run: Run
    result: Calibration


def _both(
    run: Run,
    journals: Mapping[str, FileJournal],
    *,
    progress: bool,
    on: Processes | None,
) -> tuple[Calibration, _Refit | None, bool]:
    """The fits to be judged, those to all rows, and whether these failed.

    What was judged stays then, and decides about new rows, too.
    """
    result = result_of(run.job, journals[STATE], progress=progress, on=on)
    journals[STATE].finish()
    whole = run.on_all_rows()
    if whole is None:
        return result, None, False
    rows = whole.job.rows_in(whole.job.fit)
    begin(f"fitting again, to all {rows:,} rows, for decisions about new ones")
    try:
        refit = _Refit(whole, result_of(whole.job, journals[REFIT], progress=progress, on=on))
    except NumericalError as error:
        journals[REFIT].finish()
        warn(
            f"The fit to all {rows:,} rows failed: {error} What was judged is kept: the fits "
            f"without the rows held out decide about new rows."
        )
        return result, None, True
    journals[REFIT].finish()
    return result, refit, False


def _of_all_rows(result: Calibration) -> dict[str, Fit]:
    return {f"{title}, all rows": fit for title, fit in titled_fits(result).items()}


def assist(job: Job, on: Processes, folder: RunFolder | None = None) -> None:
    """Make the fits of a run together with the process that carries it out.

    Args:
        job: the same as that of the run.
        on: the processes, of which this is one.
        folder: of a run that is resumed; else the one that the process that carries it out has.
    """
    checks.instance("`assist(job)`", job, Job, "what `read_job(path)` returns")
    jobs = {STATE: job, REFIT: job_on_all_rows(job)}
    shared = seen_by_all(on, folder)
    kept, in_shares = shared or folder, shared is not None
    journals = {n: kept and FileJournal(kept / n, 0, in_shares=in_shares) for n in jobs}
    with deferred(*ENDING, patient=True):  # the process that carries it out decides when to end
        for name, each in jobs.items():
            # A fit to all rows that fails leaves what was judged, there and here.
            with suppress(NumericalError) if name == REFIT else nullcontext():
                if each is not None:
                    result_of(each, journals[name], progress=False, on=on)
        on.leave()


def _choose(
    run: Run,
    result: Calibration,
    refit: _Refit | None,
    record: Record,
    heard: Interruption,
    *,
    progress: bool,
    on: Any,
) -> None:
    """Choose among the ways, and fit the chosen one to all rows, unless that has been done before.

    What a signal cuts short begins anew when the run is resumed; the fits before are kept.
    """
    done = run.folder.manifest()
    if (run.job.choosing is None or done.choice is not None) and (
        refit is None or done.refit is not None
    ):
        return
    started, chosen, again = time.monotonic(), None, {}
    if run.job.choosing is not None:
        with ended_by(heard, run.folder.path):
            chosen, arrays = chosen_for(run.job, result, progress=progress, on=on)
            if refit is not None:
                whole, own = refit.run.job, refit.result
                again = refitted(whole, own, chosen.way, progress=progress, on=on)
        sealed.save(run.folder / CHOICE, arrays | {f"{ALL}{n}": a for n, a in again.items()})
        record.choosing = time.monotonic() - started
        record.note(chosen.verdict)
    run.folder.update(choice=chosen, refit=None if refit is None else _kept(refit, again))


def _kept(refit: _Refit, arrays: Mapping[str, np.ndarray]) -> Refit:
    """What the manifest says of the fits to all rows."""
    job = refit.run.job
    own = [way.name for way in own_fits(refit.result)]
    ways = dict.fromkeys([*own, *(n.partition("/")[0] for n in arrays)])
    return Refit(rows=job.rows_in(job.fit), ways=list(ways), latents=latents_of(refit.result))


def rewrite_report(run: Run, table: str | Path | None = None, changes: Sequence[str] = ()) -> Path:
    """Write the report of a finished run again.

    Args:
        table: rows to decide about, which the report is to open with.
        changes: how that table is read where it is another way than in the spec, such as
            `data.replace.price."n/a"=""`.
    """
    check_run(run)
    table = None if table is None else checks.path("`table=`", table)
    changes = checks.names("`changes=`", changes)
    asked, deciding = None, changed_run(run.to_decide(), changes)
    if table is not None:  # before what takes long
        asked = read_asked(deciding.job, table)._replace(changes=changes)
    result = restore(run)
    path, ways = run.folder / REPORT, ways_of(run, result)
    both = None
    if asked is not None:
        both = (ways_of(deciding, restore(deciding)) if deciding.refit else ways, asked)
    begin("deciding, and writing the report")
    held_out = held_out_cases(result, run.job)
    write_report(path, result, ways, held_out, run.manifest, asked=both, required=True)
    run.folder.update()
    return path


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
        write_report(folder / REPORT, result, ways, held_out, folder.manifest())
    return comparison


def _ending(
    result: Calibration, comparison: Comparison | None, fits: Mapping[str, Fit], failed: bool
) -> Ending:
    stopped = {title: str(fit.reason) for title, fit in fits.items()}
    stopped |= {"all rows": str(Stop.NUMERICAL_FAILURE)} if failed else {}
    converged = not failed and all(fit.converged for fit in fits.values())
    if comparison is None or "LCVI" not in comparison.risk:
        why = why_not_judged(result.problem)
        return Ending(
            risk={} if comparison is None else comparison.risk,
            held_out=False if comparison is None else comparison.held_out,
            gain=result.problem.loss is None,
            instances=int(np.prod(result.on_fit.instances.shape)),
            verdict=LEFT_OUT if why is None else f"{why} Plain VI decides.",
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
