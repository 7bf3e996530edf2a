"""A model on rows that come and go: which it takes at a time, and whether they fit."""

from collections.abc import Callable
from typing import Any

from stakes._types import Array, Key
from stakes.bridge.approximation import NumPyroApproximation
from stakes.bridge.checks import check_outcome
from stakes.bridge.forms import first_look
from stakes.bridge.indices import check_indices
from stakes.bridge.sites import shapes_of, subsamples_of
from stakes.bridge.support import check_support
from stakes.errors import InputError, some
from stakes.port import Subsample
from stakes.problem import Problem


def parts_of(problem: Problem, data: dict[str, Any], key: Key) -> tuple[Subsample, ...]:
    """The plates in minibatches, where these data are a sample of more rows."""
    plain, _, sites = first_look(problem.program, data, key)
    seen = [name for name in plain if name in data]
    if seen:
        raise InputError(
            f"The model looks at the values of {some(seen)}, and of a stream it only ever has some "
            f"of the rows. Give what it needs to know of all rows, such as the number of "
            f"categories, as an argument of its own: `Stream(..., constants={{...}})`."
        )
    check_outcome(problem, sites)
    return subsamples_of(sites)


def row_check(
    problem: Problem, approximation: NumPyroApproximation, key: Key
) -> Callable[[dict[str, Array]], None]:
    """What refuses other rows in place of those of a fit, as these have been checked."""
    trace = approximation.trace
    site = shapes_of(problem.program, approximation.data, key)[problem.outcome]

    def check(rows: dict[str, Array]) -> None:
        arrays = {**approximation.arrays, **rows}
        check_indices(trace, arrays)
        check_support(trace, site, arrays)

    return check
