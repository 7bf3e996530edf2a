"""The data of a problem, checked against the arguments of its model."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from stakes._types import Data
from stakes.arguments import Columns, arguments_of, checked_value, in_order, is_conditioned
from stakes.errors import InputError, name_of, some

if TYPE_CHECKING:
    from stakes.problem.problem import Problem


def checked_data(
    problem: "Problem",
    data: Data,
    *,
    needs_outcome: bool,
    columns: Mapping[str, Columns] | None = None,
) -> Data:
    """As `Problem.check_data` says."""
    try:
        given = {str(name): data[name] for name in data.keys()}  # noqa: SIM118 (not only mappings)
    except (AttributeError, TypeError):
        example = ", ".join(f"{name!r}: ..." for name in arguments_of(problem.model).names)
        raise InputError(
            f"`data` must be a mapping from the model's arguments to arrays, such as "
            f"{{{example}}}; got {type(data).__name__}."
        ) from None
    if problem.action is not None and not needs_outcome:
        given.setdefault(problem.action, _any_decision(problem, given))
    _check_names(problem, given)
    conditioned = problem.observed is None and is_conditioned(problem.model, problem.outcome)
    known = conditioned or problem.about_latent
    if needs_outcome and given.get(problem.observations) is None and not known:
        raise InputError(
            f"`data` has no {problem.observations!r}: a fit needs the observed outcomes. "
            f"To decide without them use `result.decide(...)`."
        )
    for name, order in (columns or {}).items():
        if name in given:
            given[name] = in_order(name, given[name], order)
    return {n: checked_value(n, value, groups=n == problem.per) for n, value in given.items()}


def _any_decision(problem: "Problem", given: Mapping[str, Any]) -> np.ndarray:
    """Stands in for decisions that are still to be made, one for each row."""
    rows = [np.shape(value)[0] for value in given.values() if np.ndim(value)]
    if not rows:
        raise InputError(
            f"`data` has no {problem.action!r} and no other argument with a row for each case; "
            f"give any values of {problem.action!r}: they are decided about."
        )
    return np.full(rows[0], float(problem.space.inside(jnp.zeros(()))))


def _check_names(problem: "Problem", given: dict[str, Any]) -> None:
    arguments = arguments_of(problem.model)
    allowed = (*arguments.names, *problem.named_needs)
    unknown = [name for name in given if name not in allowed]
    if unknown and not arguments.open_ended:
        raise InputError(
            f"`data` has {some(unknown)}, which `{name_of(problem.model)}` does not take; "
            f"its arguments are {some(arguments.names)}."
        )
    asked = [need for need in problem.task.needs if isinstance(need, str) and need not in given]
    if asked:
        raise InputError(
            f"`data` lacks {some(asked)}, which the loss or the limits of decisions ask for by "
            f"name; it has {some(given)}."
        )
    missing = [
        name for name in arguments.required if name not in given and name != problem.observations
    ]
    if missing:
        raise InputError(
            f"`data` lacks {some(missing)}, which `{name_of(problem.model)}` needs; "
            f"it has {some(given)}."
        )
