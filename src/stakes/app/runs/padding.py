"""Rows of a new table, padded to a usual number, for which programs may be there already."""

from collections.abc import Mapping

import numpy as np

from stakes.app.spec import Job

CHUNK = 8192
"""The most rows decided at once: what JAX compiles for one part serves all parts."""


def usual_size(job: Job, rows: int) -> int:
    """How many rows so many are padded to; draws depend on it, and so does what is shown of them.

    A short file is not padded to the size of a whole part, and rows that may share a decision not
    at all.
    """
    if job.problem.task.per is not None or rows > CHUNK:
        return rows
    return min(CHUNK, 1 << max(rows - 1, 1).bit_length())


def padded(
    job: Job, arguments: Mapping[str, np.ndarray], rows: int, size: int
) -> dict[str, np.ndarray]:
    """Arguments of the model for a new table, with its last row repeated."""
    fitted = job.rows_in(job.fit)

    def is_by_row(name: str) -> bool:
        values = job.fit.arguments[name]
        return bool(np.ndim(values)) and len(values) == fitted

    return {
        name: np.concatenate([values, np.repeat(values[-1:], size - rows, axis=0)])
        if is_by_row(name)
        else values
        for name, values in arguments.items()
    }
