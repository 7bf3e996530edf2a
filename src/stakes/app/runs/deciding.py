"""Decisions for the rows of a file, a part at a time: memory does not grow with the file."""

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np

from stakes import checks
from stakes.app.runs.results import fresh_plates
from stakes.app.spec import Job, RowReader
from stakes.calibration import Calibration
from stakes.errors import InputError
from stakes.host import files

CHUNK = 8192
"""The most rows decided at once: what JAX compiles for one part serves all parts."""


def decide_file(
    job: Job,
    restore: Callable[[], Calibration],
    source: str | Path,
    target: str | Path,
    *,
    known: bool = False,
    tell: Callable[[int], None] = lambda rows: None,
) -> int:
    """Write a decision for each row of `source`, and return the number of rows.

    Args:
        restore: gives the result of the run; called once the first rows have been read and checked.
        known: whether the rows are those of the fit, in the same order; they are new otherwise.
        tell: called with the number of rows done after each part.
    """
    checks.instance("`job`", job, Job, "what `read_job(path)` returns")
    checks.function("`restore`", restore, ())
    checks.function("`tell=`", tell, ("rows",))
    source, target = checks.path("`source`", source), checks.path("`target`", target)
    known = checks.flag("`known=`", known)
    decider, done = _Decider(RowReader(job, source), restore, known), 0
    with files.replacing(target) as raw:
        out = io.TextIOWrapper(raw, "utf-8", newline="")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([decider.rows.label or "row", "decision"])
        for labels, decisions in decider.decisions():
            # As many digits as single precision has, as in decisions.csv.
            writer.writerows(zip(labels, map(str, decisions), strict=True))
            done += len(labels)
            tell(done)
        if not done:
            raise InputError(f"{source} has no rows.")
        out.flush()
        out.detach()
    return done


@final
@dataclass(frozen=True, eq=False)
class _Decider:
    """Decides about the rows of a file with the result of a run."""

    rows: RowReader
    restore: Callable[[], Calibration]
    known: bool

    @cached_property
    def result(self) -> Calibration:
        return self.restore()

    def decisions(self) -> Iterator[tuple[list[Any], np.ndarray]]:
        """Labels and decisions, part by part."""
        size = 0
        for part in self.rows.parts(self.rows.fitted if self.known else CHUNK):
            if self.known:
                self._check_known(part.labels, part.start)
            size = size or self._padded_size(len(part.labels))
            yield part.labels, self._decided(part.arguments, len(part.labels), size)

    def _padded_size(self, rows: int) -> int:
        """A short file is not padded to the size of a whole part."""
        return self.rows.fitted if self.known else min(CHUNK, 1 << max(rows - 1, 1).bit_length())

    def _decided(self, arguments: dict[str, np.ndarray], rows: int, size: int) -> np.ndarray:
        """A part that is not full is padded with its last row, so that shapes stay the same."""
        job, missing = self.rows.job, size - rows
        padded = {
            name: np.concatenate([values, np.repeat(values[-1:], missing, axis=0)])
            if self.rows.is_by_row(name)
            else values
            for name, values in arguments.items()
        }
        others = {n: v for n, v in job.fit.arguments.items() if n != job.problem.outcome}
        plates = fresh_plates(self.result, job)
        new, known = ((), plates) if self.known else (plates, ())
        found = self.result.decide({**others, **padded}, new=new, known=known).values
        if found.shape != (size,):
            raise InputError(
                f"For {size} rows the model predicts outcomes of shape {found.shape}; "
                f"`stakes decide` needs one for each row. Let the model take its number of rows "
                f"from a column."
            )
        return found[:rows]

    def _check_known(self, labels: list[Any], start: int) -> None:
        source, fitted = self.rows.source, self.rows.fitted
        if start or len(labels) != fitted:
            raise InputError(
                f"With `--known`, {source} must have the {fitted} rows of the fit; leave `--known` "
                f"out to decide about new rows."
            )
        own = self.rows.job.fit.labels
        if own is not None and labels != own.tolist():
            row = next(i for i, (a, b) in enumerate(zip(labels, own, strict=True)) if a != b)
            raise InputError(
                f"{source}, row {row + 1}: {labels[row]!r} is {own[row]!r} in the fit. Known rows "
                f"have to be in the order of the fit; leave `--known` out for new ones."
            )
