"""A run from its first step to its last file.

First come plain VI and the calibrated fit, then the choice among strategies, then the fits to all
rows, where some are held out, and last the files. Each step is saved before the next one begins,
and a run that is resumed begins with the first step that is not there yet.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from stakes import checks
from stakes.app.runs.folder import CHOICE, DECISIONS, DRAWS, REFIT, REPORT, STATE
from stakes.app.runs.journal import Record, ended_by, interruption
from stakes.app.runs.manifest import Ending, Manifest, Refit
from stakes.app.runs.opening import ALL, Run, changed_run, check_run, restore
from stakes.app.runs.outputs import write_decisions, write_draws
from stakes.app.runs.reporting import read_asked, write_report
from stakes.app.runs.solution import TWO, Solution, study_of, take_part
from stakes.app.spec import Job
from stakes.errors import NumericalError, warn
from stakes.fitting import Fit, Stop
from stakes.host.interrupts import ENDING, Interruption, deferred
from stakes.host.progress import begin, report_to, waiting
from stakes.host.trees import load_arrays, save_arrays
from stakes.host.workers import checked_client
from stakes.study import (
    NOT_CALIBRATED,
    Comparison,
    FileJournal,
    Study,
    Work,
    chosen_among,
    enter,
    finite,
    fit_on_workers,
    screen,
)

WRITING = "deciding, and writing decisions, draws and report"


def carry_out(
    run: Run, *, report: bool, progress: bool, on: object = None
) -> tuple[Manifest, Comparison | None]:
    """Fit from where the run stands, and write all that it leaves behind.

    Where rows are held out, the fits without them are judged by them; the fits to all rows, which
    come after, decide about new rows.

    Ctrl-C, SIGTERM and SIGHUP end its fits after the current chunk of steps, with a checkpoint
    saved, and what comes after them at once; so does a second one. Whatever ends it, log and
    manifest say what it was.

    Args:
        run: what `begin(...)` or `reopen(path)` returns.
        report: whether to write its report.
        progress: whether to show progress bars.
        on: the client of a Dask cluster, whose workers make the fits of a choice and, for a model
            that takes minibatches, each of the two fits together.

    Returns:
        The manifest as it is at the end, and the comparison of the two fits; None where data cannot
        judge the decisions.
    """
    check_run(run)
    report = checks.flag("`carry_out(report=...)`", report)
    progress = checks.flag("`carry_out(progress=...)`", progress)
    client = None if on is None else checked_client(on)
    with run.folder.log() as log, deferred(*ENDING) as heard:
        record, work = Record(run.folder, run.manifest, log), Work(progress=progress, client=client)
        with record.of_ending(), report_to(record.note):
            solution = _fitted(run, STATE, work, heard)
            solution = _chosen(run, solution, record, heard)
            refit, failed = _refitted(run, solution, work, heard)
            _keep_refit(run, solution, refit, heard)
            with ended_by(heard, run.folder.path), waiting(WRITING, show=progress):
                begin(WRITING)
                comparison = _export(run, solution, report=report)
            fits = solution.fits
            if refit is not None:
                fits |= {f"{title}, all rows": fit for title, fit in refit.fits.items()}
            ending = _ending(solution, comparison, fits, failed)
            record.note("; ".join([f"{t}: {f!r}" for t, f in fits.items()] + [ending.verdict]))
            timings = {title: fit.seconds for title, fit in fits.items()}
            timings |= {} if solution.summary is None else {"choice": record.choosing}
            return record.end("done", timings, ending=ending, latents=solution.latents), comparison


def _fitted(
    run: Run, name: str, work: Work, heard: Interruption, *, plain: bool = False
) -> Solution:
    """Plain VI and the calibrated fit, from where the journal left them.

    Args:
        run: with or without the rows held out.
        name: of the journal's file.
        work: how the fits are made.
        heard: the signals that came.
        plain: whether plain VI is all that is needed.
    """
    study, path = run.study, run.folder / name
    interval, ended = (
        run.job.spec.fit.checkpoint_seconds,
        partial(interruption, heard, run.folder.path),
    )
    if run.job.choosing is not None and not run.refit and not study.splits.masks:
        take_part(study, run.job)
    if work.client is not None and study.plan.why_not_divided() is None:
        batch = study.plan.divided_batch()
        making = partial(fit_on_workers, work.client, partial(_study, run.job), path, batch=batch)
        with waiting("fitting on the workers", show=work.progress):
            making(interval=interval, plain=plain or not run.job.calibrates, ended=ended)
    journal = FileJournal(path, interval, interruption=ended)
    study.employ(replace(work, journal=journal))
    optional = run.job.choosing is not None and bool(run.job.choosing.optional)
    chosen = run.folder.manifest().choice
    try:
        if chosen is not None:
            plain = plain or bool(chosen.not_tried)
        elif optional and not run.refit:
            plain = plain or screen(study).rules_out
        solution = Solution.of(run.job, study, plain=plain)
    except NumericalError:
        journal.save()
        raise
    journal.finish()
    return solution


def _study(job: Job, work: Work) -> Study:
    """The study of a job, in another process."""
    study = study_of(job)
    study.employ(work)
    return study


def _refitted(
    run: Run, solution: Solution, work: Work, heard: Interruption
) -> tuple[Solution | None, bool]:
    """The fits to all rows, where rows are held out.

    Returns:
        The fits, and whether they failed: what was judged then decides about new rows, too.
    """
    whole = run.on_all_rows
    if whole is None:
        return None, False
    strategies, rows = solution.to_refit(), whole.job.rows_in(whole.job.fit)
    begin(f"fitting again, to all {rows:,} rows, for decisions about new ones")
    whole.study.drop_folds()
    try:
        return _fitted(whole, REFIT, work, heard, plain=TWO[1] not in strategies), False
    except NumericalError as error:
        failed = error
    warn(
        f"The fit to all {rows:,} rows failed: {failed} What was judged is kept: the fits without "
        f"the rows held out decide about new rows."
    )
    return None, True


def _chosen(run: Run, solution: Solution, record: Record, heard: Interruption) -> Solution:
    """The solution with a choice among the strategies, unless there is none to make.

    What a signal cuts short begins anew when the run is resumed; the fits before are kept.
    """
    job, done = run.job, run.folder.manifest().choice
    if job.choosing is None:
        return solution
    if done is not None:
        return replace(solution, summary=done, arrays=load_arrays(run.folder / CHOICE))
    started = time.monotonic()
    with ended_by(heard, run.folder.path):
        enter(solution.study, job.choosing.ways, job.choosing.optional)
        choice = chosen_among(solution.study, job.choosing.ways, job.choosing.optional)
        solution = replace(solution, summary=choice.summary)
        save_arrays(run.folder / CHOICE, solution.kept())
    record.choosing = time.monotonic() - started
    record.note(choice.verdict)
    run.folder.update(choice=solution.summary)
    return solution


def _keep_refit(run: Run, solution: Solution, refit: Solution | None, heard: Interruption) -> None:
    """Fit the strategies that decide to all rows, and keep them.

    Nothing is done where that has been done before.
    """
    if refit is None or run.folder.manifest().refit is not None:
        return
    names = [name for name, _ in zip((way.name for way in TWO), refit.fits, strict=False)]
    if solution.summary is not None:
        with ended_by(heard, run.folder.path):
            strategies = [way for way in solution.to_refit() if way not in TWO]
            # A correction has to see what its base decides about rows that it has not seen.
            if any(strategy.bases for strategy in strategies):
                take_part(refit.study, refit.job)
            enter(refit.study, strategies)
            more = refit.kept(strategies)
        arrays = solution.kept() if solution.arrays is None else solution.arrays
        save_arrays(
            run.folder / CHOICE, {**arrays, **{f"{ALL}{name}": a for name, a in more.items()}}
        )
        names += [strategy.name for strategy in strategies]
    rows = refit.job.rows_in(refit.job.fit)
    run.folder.update(refit=Refit(rows=rows, ways=names, latents=refit.latents))


def rewrite_report(run: Run, table: str | Path | None = None, changes: Sequence[str] = ()) -> Path:
    """Write the report of a finished run again.

    Args:
        run: what `reopen(path)` returns.
        table: rows to decide about, which the report opens with.
        changes: how that table is read where it is another way than in the spec, such as
            `data.replace.price."n/a"=""`.

    Returns:
        The path of the report.
    """
    check_run(run)
    table = None if table is None else checks.path("`table=`", table)
    changes = checks.names("`changes=`", changes)
    asked, deciding = None, changed_run(run.to_decide(), changes)
    if table is not None:  # before what takes long
        asked = read_asked(deciding.job, table)._replace(changes=changes)
    solution = restore(run)
    path, both = run.folder / REPORT, None
    if asked is not None:
        both = (restore(deciding) if deciding.refit else solution, asked)
    begin("deciding, and writing the report")
    write_report(path, solution, run.manifest, asked=both, required=True)
    run.folder.update()
    return path


def _export(run: Run, solution: Solution, *, report: bool) -> Comparison | None:
    """Write decisions, draws and report; returns the comparison that they rest on."""
    folder = run.folder
    write_decisions(folder / DECISIONS, solution)
    write_draws(folder / DRAWS, solution)
    if report:
        write_report(folder / REPORT, solution, folder.manifest())
    if solution.result.problem.why_not_judged is not None:
        return None
    return (solution.held_out or solution.result.on_fit).comparison


def _not_calibrated(solution: Solution) -> str:
    not_tried = "" if solution.summary is None else solution.summary.not_tried
    return not_tried or NOT_CALIBRATED


def _ending(
    solution: Solution, comparison: Comparison | None, fits: Mapping[str, Fit], failed: bool
) -> Ending:
    """The numbers of a run, for its manifest.

    Args:
        solution: the fits without the rows held out.
        comparison: of these; None where data cannot judge the decisions.
        fits: all fits of the run, by title.
        failed: whether the fits to all rows failed.
    """
    result, why = solution.result, solution.result.problem.why_not_judged
    ending = Ending(
        held_out=False,
        gain=result.problem.loss is None,
        cases=result.on_fit.size,
        verdict=_not_calibrated(solution) if why is None else f"{why} Plain VI decides.",
        setting=f"{result.problem!r}; {result.on_fit.setting}.",
        scale=result.scale,
        stopped={title: str(fit.reason) for title, fit in fits.items()}
        | ({"all rows": str(Stop.NUMERICAL_FAILURE)} if failed else {}),
        converged=not failed and all(fit.converged for fit in fits.values()),
    )
    if comparison is None:
        return ending
    judged: dict[str, object] = {"risk": comparison.risk, "held_out": comparison.held_out}
    if "LCVI" in comparison.risk:
        low, high = comparison.interval
        judged |= {
            "reduction": finite(comparison.reduction),
            "interval": (finite(low), finite(high)),
            "cases": comparison.cases,
            "verdict": comparison.verdict,
            "setting": " ".join(comparison.basis),
        }
    return ending.model_copy(update=judged)
