"""Numbers of categories against the plates that they index.

JAX takes the last member of a plate for one beyond it, so a plate that is too small would give
wrong decisions in silence. A column is known to index a plate if that is named like it, or like its
argument.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from stakes.app.spec import Job
from stakes.bridge import NumPyroApproximation
from stakes.errors import InputError


def check_indices(
    approximation: NumPyroApproximation,
    job: Job,
    arguments: Mapping[str, Any],
    *,
    first_row: int | None = None,
) -> None:
    """Refuse numbers beyond their plate; `first_row` is where these rows start in their file."""
    columns = job.spec.data.columns if job.spec.data else {}
    sizes = _sizes(approximation, job.rows_in(job.fit))
    for argument, column in columns.items():
        values = np.asarray(arguments.get(argument, ()))
        if argument == job.problem.outcome or values.dtype.kind not in "iu":
            continue
        for plate in {argument, column} & sizes.keys():
            beyond = np.argwhere((values < 0) | (values >= sizes[plate]))
            if len(beyond):
                first = tuple(beyond[0])
                place = "" if first_row is None else f", row {first_row + int(first[0]) + 1}"
                raise InputError(
                    f"column {column!r}{place}: {_shown(job, column, int(values[first]))} is not "
                    f"among the {sizes[plate]} members of the plate {plate!r}, which are numbered "
                    f"from 0 to {sizes[plate] - 1}. Let the model take the size of the plate from "
                    f"an argument, and list that in `data.counts`: "
                    f'`counts = {{ argument = "{column}" }}`.'
                )


def _sizes(approximation: NumPyroApproximation, rows: int) -> dict[str, int]:
    """The plates that rows are grouped by: those with latents, but not one for each row."""
    return {
        plate: size
        for latent in approximation.latents.values()
        for plate, size in zip(latent.dims, latent.shape, strict=True)
        if size != rows
    }


def _shown(job: Job, column: str, code: int) -> str:
    words = job.fit.vocabulary.get(column)
    return str(code) if words is None or not 0 <= code < len(words) else f"{words[code]!r} ({code})"
