"""Numbers of categories against the plates that they index, told by column, row and category."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax

from stakes.app.spec import Job
from stakes.bridge import approximate
from stakes.errors import InputError, OutOfRangeError


def check_indices(job: Job) -> None:
    """Refuse tables with a category beyond its plate, before anything is fitted or written."""
    if job.spec.data is None or job.by_table:
        return
    for table in job.tables.both:
        with columns_named(job):
            data = job.problem.check_data(table.arguments, needs_outcome=True)
            approximate(job.problem, data, jax.random.key(job.spec.seed))


@contextmanager
def columns_named(job: Job, *, first_row: int | None = None) -> Iterator[None]:
    """Tell an index beyond its plate by its column; `first_row` is where these rows start."""
    try:
        yield
    except OutOfRangeError as error:
        columns = job.spec.data.columns if job.spec.data else {}
        column = columns.get(error.argument)
        if column is None:
            raise
        place = "" if first_row is None else f", row {first_row + error.row + 1}"
        words = job.fit.vocabulary.get(column, ())
        shown = repr(words[error.value]) + " " if 0 <= error.value < len(words) else ""
        raise InputError(
            f"column {column!r}{place}: {shown}({error.value}) is not among the {error.size} "
            f"members that the model has for it, numbered from 0 to {error.size - 1}. Let the "
            f"model take the size of the plate from an argument, and list that in `data.counts`: "
            f'`counts = {{ argument = "{column}" }}`.'
        ) from None
