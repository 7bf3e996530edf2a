"""Decisions for the rows of a file, a part at a time: memory does not grow with the file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, final

import numpy as np

from stakes import checks
from stakes.app.runs.choosing import Ways
from stakes.app.runs.indices import columns_named
from stakes.app.runs.opening import Run
from stakes.app.runs.outputs import check_output, output
from stakes.app.runs.results import check_run, fresh_plates, restore, ways_of
from stakes.app.spec import Part, RowReader
from stakes.calibration import Calibration
from stakes.errors import InputError

CHUNK = 8192
"""The most rows decided at once: what JAX compiles for one part serves all parts."""


def decide_file(
    run: Run,
    source: str | Path,
    target: str | Path,
    *,
    known: bool = False,
    way: str | None = None,
    tell: Callable[[int], None] = lambda rows: None,
) -> int:
    """Write a decision for each row of `source`, and return the number of rows.

    Args:
        target: a .csv or .parquet file, a device or pipe, or `-` for standard output.
        known: whether the rows are those of the fit, in the same order; they are new otherwise.
        way: the name of another way than the one that was chosen, as in the run's table.
        tell: called with the number of rows done after each part.
    """
    check_run(run)
    checks.function("`tell=`", tell, ("rows",))
    source, target = checks.path("`source`", source), checks.path("`target`", target)
    known = checks.flag("`known=`", known)
    if way is not None:
        checks.text("`way=`", way)
    check_output(target, (source, *run.folder.inputs, *map(Path, run.job.code)))
    decider, done = _Decider(run, RowReader(run.job, source), known, way), 0
    parts = decider.decisions()
    first = next(parts, None)  # before the target is opened: what is refused leaves no trace
    if first is None:
        raise InputError(f"{source} has no rows.")
    with output(target, ", ".join(decider.rows.label) or "row") as add:
        for labels, decisions in chain([first], parts):
            add(labels, decisions)
            done += len(labels)
            tell(done)
    return done


@final
@dataclass(frozen=True, eq=False)
class _Decider:
    """Decides about the rows of a file with the result of a run."""

    run: Run
    rows: RowReader
    known: bool
    way: str | None

    @cached_property
    def result(self) -> Calibration:
        """Made once the first rows have been read and checked."""
        return restore(self.run)

    @cached_property
    def ways(self) -> Ways:
        return ways_of(self.run, self.result)

    def decisions(self) -> Iterator[tuple[list[Any], np.ndarray]]:
        """Labels and decisions, part by part."""
        size = 0
        for part in self.rows.parts(self.rows.fitted if self.known else self._chunk):
            if self.known:
                self._check_known(part)
            size = size or self._padded_size(part.rows)
            with columns_named(self.rows.job, first_row=part.start):
                decided = self._decided(part.arguments, part.rows, size, part.start)
            yield part.labels or list(range(part.start + 1, part.start + part.rows + 1)), decided

    @property
    def _chunk(self) -> int:
        """Rows that may share a decision are read together."""
        return CHUNK if self.rows.job.problem.aim.per is None else 2**31 - 1

    def _padded_size(self, rows: int) -> int:
        """A short file is not padded to the size of a whole part."""
        if self.rows.job.problem.aim.per is not None:
            return rows
        return self.rows.fitted if self.known else min(CHUNK, 1 << max(rows - 1, 1).bit_length())

    def _decided(
        self, arguments: dict[str, np.ndarray], rows: int, size: int, start: int
    ) -> np.ndarray:
        """A part that is not full is padded with its last row, so that shapes stay the same."""
        job, missing = self.rows.job, size - rows
        padded = {
            name: np.concatenate([values, np.repeat(values[-1:], missing, axis=0)])
            if self.rows.is_by_row(name)
            else values
            for name, values in arguments.items()
        }
        others = {n: v for n, v in job.fit.arguments.items() if n != job.problem.observations}
        plates = fresh_plates(self.result, job)
        new, known = ((), plates) if self.known else (plates, ())
        data = job.data({**others, **padded}, start)
        cases = self.result.assess(data, new=new, known=known)
        found = self.ways.decide(cases, self.way).values
        if found.shape != (size,):
            raise InputError(
                f"For {size} rows the model predicts outcomes of shape {found.shape}; "
                f"`stakes decide` needs one for each row. Let the model take its number of rows "
                f"from a column."
            )
        return found[:rows]

    def _check_known(self, part: Part) -> None:
        source, fitted = self.rows.source, self.rows.fitted
        if part.start or part.rows != fitted:
            raise InputError(
                f"With `--known`, {source} must have the {fitted} rows of the fit; leave `--known` "
                f"out to decide about new rows."
            )
        own, labels = self.rows.job.fit.names, part.labels
        if own is not None and labels is not None and labels != own.tolist():
            row = next(i for i, (a, b) in enumerate(zip(labels, own, strict=True)) if a != b)
            raise InputError(
                f"{source}, row {row + 1}: {labels[row]!r} is {own[row]!r} in the fit. Known rows "
                f"have to be in the order of the fit; leave `--known` out for new ones."
            )
