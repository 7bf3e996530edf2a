"""`stakes resume`: resume a run that was cut short."""

import typer

from stakes.app.cli.arguments import (
    Beats,
    Coordinator,
    Dask,
    Json,
    NoReport,
    Process,
    ProcessCount,
    RunPath,
)
from stakes.app.cli.cluster import on_cluster
from stakes.app.cli.command import command, print_json, say
from stakes.app.cli.ending import conclude, finish, summary, text_of
from stakes.app.cli.processes import joined, supervised
from stakes.host.supervisor import end_with_supervisor
from stakes.host.watching import Beat, Waiting


@command
def resume(
    run: RunPath,
    no_report: NoReport = False,
    dask: Dask = None,
    json: Json = False,
    processes: ProcessCount = None,
    coordinator: Coordinator = None,
    process: Process = None,
    beats: Beats = None,
) -> None:
    """Resume an interrupted run from its last checkpoint.

    It ends with the same numbers, bit for bit, as if it had not been interrupted. With a different
    number of processes, its minibatches differ from there on.

    Example: stakes resume runs/sales
    """
    from stakes.app import runs

    if beats is not None:
        end_with_supervisor(beats)
    others = joined(coordinator, process, processes, dask)
    if beats is not None and others is not None:
        others.waiting = Waiting(beats, others.index)
    opened = runs.reopen(run)
    is_done = opened.manifest.status == "done"
    if others is not None and not others.speaks:
        if not is_done:
            runs.assist(opened.job, others, opened.folder)
        return
    if not is_done:
        if processes is not None:
            supervised(run, processes, report=not no_report, json=json)
        beat = None if beats is None else Beat(beats)
        with on_cluster(dask) as client:
            finish(
                opened,
                report=not no_report,
                json=json,
                on=client,
                processes=others,
                beat=beat,
            )
        return
    say(f"The run in {run} is finished already.")
    assert opened.manifest.ending is not None
    if json:
        print_json(summary(opened, opened.manifest))
    elif opened.manifest.choice is not None:
        typer.echo(text_of(opened.manifest.choice, opened.job.unit))
    else:
        typer.echo(opened.manifest.ending.verdict)
    conclude(opened.manifest)
