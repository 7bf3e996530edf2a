"""Both fits of a study by processes on several workers of a Dask cluster, each with some rows.

The study is sent to each worker and made there. All of them take the same steps, each with the
gradient of its own rows, and write one journal together, from which they go on when a worker is
lost. The client gets back both fits, and decides from these as if it had made them.
"""

import pickle
import signal
import uuid
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stakes.errors import InputError, Interrupted, StakesWarning, warn
from stakes.fitting import Fit
from stakes.host.gang import MET, SAVED, STEP, Place, asked_to_end, tell_client, work_together
from stakes.host.progress import begin, report_to
from stakes.processes import join
from stakes.study.file_journal import FileJournal
from stakes.study.fits import PAPER
from stakes.study.streaming import StreamedRows
from stakes.study.study import Study, Work
from stakes.tables import Read

if TYPE_CHECKING:
    from distributed import Client


class Made(NamedTuple):
    """What workers have made.

    Attributes:
        plain: the fit of plain VI.
        decisions: its decisions for the cases of the fit.
        calibrated: the calibrated fit; None where that was not asked for.
        stream: the rows of a stream, of which those of the fit are a sample; None for other data.
        of_all_rows: for a stream, the decisions about all rows by each of the two fits.
        warnings: messages for the user.
    """

    plain: Fit
    decisions: np.ndarray
    calibrated: Fit | None
    stream: StreamedRows | Read | None
    of_all_rows: tuple[np.ndarray, ...]
    warnings: tuple[str, ...]

    def handed_to(self, study: Study) -> None:
        """Hand these fits to the study, with the decisions about all rows of a stream."""
        study.fits().adopt(self.plain, self.decisions, self.calibrated)
        if study.beyond is not None:
            for fit, decisions in zip(
                (self.plain, self.calibrated), self.of_all_rows, strict=False
            ):
                assert fit is not None
                study.beyond.add_decisions(fit.params, decisions)


def fit_on_workers(
    client: "Client",
    make: Callable[[Work], Study],
    path: Path,
    *,
    batch: int | None = None,
    interval: float = 30.0,
    plain: bool = False,
    ended: Callable[[], Interrupted | None] = lambda: None,
) -> Made:
    """Make plain VI and the calibrated fit on the workers of a cluster, each with some rows.

    Args:
        client: the client of the cluster.
        make: makes the study in each process.
        path: a journal in a folder that all workers should see: from there they go on when one
            is lost.
        batch: how many rows a minibatch has, of which workers take equal parts; None for a stream,
            of which that is not known yet.
        interval: seconds between two checkpoints.
        plain: leave the calibrated fit out.
        ended: what to raise where a signal has asked to end.
    """
    from distributed.protocol.pickle import dumps

    try:
        sent = dumps(make)
    except (TypeError, pickle.PicklingError) as error:
        raise InputError(f"`on=`: the problem or its data cannot be sent: {error}.") from None
    sign = path.with_name(f".{uuid.uuid4().hex}")
    sign.write_bytes(b"")
    try:
        made = work_together(
            client,
            partial(_fit, sent, path.resolve(), sign.name, interval, plain, batch is None),
            lambda count: batch is None or batch % count == 0,
            say=warn,
            tell=begin,
            ended=ended,
        )
    finally:
        sign.unlink(missing_ok=True)
    for text in made.warnings:
        warn(text)
    return made


def _fit(
    sent: bytes, path: Path, sign: str, interval: float, plain: bool, is_stream: bool, place: Place
) -> Made:
    """Make the fits in one of the processes.

    Args:
        sent: what makes the study, as bytes.
        path: the path of the journal.
        sign: the name of a file that the client wrote there: a worker that sees it shares the
            folder.
        interval: seconds between two checkpoints.
        plain: leave the calibrated fit out.
        is_stream: return the rows of the sample, too.
        place: this process among all of them.
    """
    processes = join(place.address, process=place.process, of=place.of)
    sees = bool(processes.gather(path.with_name(sign).exists()).all())
    processes.arrive = partial(tell_client, MET)
    with report_to(tell_client), warnings.catch_warnings(record=True) as told:
        work = Work(progress=False, processes=processes)
        # After all have met: what is unpickled may have arrays, which begin JAX.
        study = pickle.loads(sent)(work)
        study.plan.divided_batch()  # or why there is none
        journal = None
        if sees and not study.keeps_rows:
            journal = FileJournal(
                path,
                interval,
                interruption=_interruption,
                processes=processes,
                tell=lambda saved: tell_client(SAVED if saved else STEP),
            )
            study.employ(replace(work, journal=journal))
        try:
            made = _made(study, plain=plain, is_stream=is_stream)
        finally:
            if journal is not None:
                journal.finish()
            processes.gather(np.zeros(()))  # all have written what they have
        said = [each.message for each in told if isinstance(each.message, StakesWarning)]
        return made._replace(warnings=tuple(map(str, said)))


def _made(study: Study, *, plain: bool, is_stream: bool) -> Made:
    """Return the fits, made by all processes together.

    Args:
        study: the same in each process.
        plain: leave the calibrated fit out.
        is_stream: return the rows of the sample, too.
    """
    if not plain:
        study.ask(None, PAPER)
    fits, everything, beyond = study.fits(), study.everything, study.beyond
    made = [fits.plain(everything)]
    if not plain:
        made.append(fits.calibrated(PAPER, everything))
    plan, decisions = fits.reference()
    stream: StreamedRows | Read | None = plan.table if is_stream else None
    of_all_rows = list[np.ndarray]()
    if beyond is not None and not study.problem.space.axes:
        tell_client("deciding about all rows")
        given = plan.predictors.on(), plan.expectation, study.keys
        for fit in made:
            found = beyond.decisions(study.problem, fits.posterior(fit), *given)
            of_all_rows.append(np.array(found))
    if beyond is not None:
        stream = beyond.elsewhere()
    return Made(made[0], decisions, None if plain else made[1], stream, tuple(of_all_rows), ())


def _interruption() -> Interrupted | None:
    """Return what to raise where the client has asked to end."""
    asked = asked_to_end()
    return Interrupted("Ended by the client.", signal.SIGINT) if asked else None
