"""Mistakes in a problem, found when it is stated, and in its data.

Everything that can be known without running the model is checked when a `Problem` is made, so that
the error points to the line that has the mistake. Each message says where, what the rule is, what
was given and what to do. Checks of the model itself, which has to be run, are in
`bridge.compatibility`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.autoguide import AutoGuide

from stakes import checks
from stakes._types import Data, Key
from stakes.arguments import Columns, arguments_of, checked_value, in_order, is_conditioned
from stakes.errors import InputError, name_of, some
from stakes.protocols import Space
from stakes.utilities import ExpUtility, Utility

if TYPE_CHECKING:
    from stakes.problem.problem import Problem

SUCH_AS = "such as {'price': Interval(1, 10)}"


@final
@dataclass(frozen=True)
class Argument:
    """An argument of the model that is decided about, and where its decisions may lie.

    Attributes:
        name: that of the argument, such as "price".
        space: with limits, between which the best decision is searched for.
    """

    name: str
    space: Space

    def __repr__(self) -> str:
        return f"{{{self.name!r}: {self.space!r}}}"


def argument(stated: Mapping[str, Space] | str) -> Argument:
    """Return the argument that is decided about, from `{"price": Interval(1, 10)}`.

    Refuse anything but one argument with a space.
    """
    if not isinstance(stated, Mapping) or len(stated) != 1:
        rule = f"a space, or one argument of the model and its space, {SUCH_AS}"
        raise checks.refused("`Problem(decision=...)`", rule, stated)
    [(name, space)] = stated.items()
    known = "`Interval(low, high)`, `Integers(low, high)` or `OneOf(labels)`"
    checks.choice(f"`Problem(decision=...)`: the space of {name!r}", space, Space, known)
    return Argument(str(name), space)


def check(problem: "Problem") -> None:
    """Refuse a problem whose parts do not go together.

    The model has to be a program with named arguments; outcome and `observed` have to be names;
    loss or utility, guide and space each have their own rules.
    """
    checks.program("`Problem(model=...)`", problem.model, "a NumPyro model")
    rule = "the name of a sample site"
    if not checks.instance("`Problem(outcome=...)`", problem.outcome, str, rule):
        raise InputError(f"`Problem(outcome=...)` is required: {rule}.")
    arguments = arguments_of(problem.model)
    if problem.observed is not None:
        checks.instance("`Problem(observed=...)`", problem.observed, str, "the name of an argument")
        if problem.observed not in arguments.names and not arguments.open_ended:
            raise InputError(
                f"`Problem(observed={problem.observed!r})`: `{name_of(problem.model)}` has no "
                f"argument of that name to carry the observations; its arguments are "
                f"{some(arguments.names)}."
            )
    _check_cost(problem)


def _check_cost(problem: "Problem") -> None:
    """Refuse anything but one loss or one utility, each of which takes outcome and decision."""
    if (problem.loss is None) == (problem.utility is None):
        came = "neither" if problem.loss is None else "both"
        raise InputError(
            f"`Problem(...)` takes either `loss=` or `utility=`; got {came}. A loss says what a "
            f"wrong decision costs, a utility what a right one is worth."
        )
    if problem.loss is not None:
        rule = "a function of (outcome, decision) or a loss such as `Tilted(0.2)`"
        takes = ("outcome", "decision")
        checks.function("`Problem(loss=...)`", problem.loss, takes, rule, others=True)
        checks.hashed("`Problem(loss=...)`", problem.loss)
    if problem.utility is not None:
        kinds = (Utility, ExpUtility)
        checks.instance("`Problem(utility=...)`", problem.utility, kinds, "a `Utility(fn)`")
        checks.hashed("`Problem(utility=...)`", problem.utility)
    check_guide("`Problem(guide=...)`", problem.guide)
    _check_together(problem)
    _check_space(problem)


def _check_space(problem: "Problem") -> None:
    """Refuse decisions that cannot lie in their space, or cannot be shared as `per` says."""
    where = "`Problem(decision=...)`"
    if problem.decision is not None and problem.argument is None:
        known = (
            "`Real()`, `Interval(low, high)`, `Integers(low, high)`, `OneOf(labels)` or a `Vector`"
        )
        checks.choice(where, problem.decision, Space, f"{known} of these")
    if problem.per is not None:
        rule = "the name of a plate or of a data argument, 'all' or 'row'"
        checks.instance("`Problem(per=...)`", problem.per, str, rule)
        if problem.space.axes and problem.per != "row":
            raise InputError(
                f"`Problem(per={problem.per!r})`: decisions with several parts are not shared; "
                f"leave `per` out, or decide about single numbers."
            )
        if problem.space.needs and problem.per != "row":
            raise InputError(
                f"`Problem(per={problem.per!r})`: outcomes that share a decision share its limits, "
                f"but those of `{problem.space!r}` differ from case to case."
            )
    if problem.decision is None:
        return
    if problem.argument is not None:
        _check_action(problem, problem.argument)
        return
    _check_own_space(problem)


def _check_together(problem: "Problem") -> None:
    """Refuse a loss of single numbers where outcomes are vectors.

    A latent is refused as well: it is known for each draw of θ, number by number.
    """
    checks.flags(problem, "together")
    if not problem.together:
        return
    if problem.criterion.of_numbers:
        raise InputError(
            f"`Problem(together=True)`: `{problem.criterion.title}` takes single numbers. Give a "
            f"function of (outcome, decision) that takes vectors, along the last axis of the "
            f"outcome."
        )
    if problem.about_latent:
        raise InputError(
            f"`Problem(together=True)` is for outcomes that are observed; {problem.outcome!r} is "
            f"not. Make what is decided about a `numpyro.deterministic` site of single numbers."
        )


def _check_own_space(problem: "Problem") -> None:
    """Refuse a space that is not that of the loss, or several parts for one of single numbers.

    A loss such as `CostTable` or `IntervalScore` says itself what is decided about.
    """
    stated, criterion = problem.decision, problem.criterion
    where, own = f"`Problem(decision={stated!r})`", criterion.space
    if stated.axes and criterion.of_numbers and not (own is not None and own.axes):
        raise InputError(
            f"{where}: `{criterion.title}` takes single numbers. Give a function of (outcome, "
            f"decision) that takes the parts of the decision, `{', '.join(stated.names)} = "
            f"decision`."
        )
    if own is None:
        return
    if own.axes and stated.names != own.names:
        raise InputError(
            f"{where}: `{criterion.title}` decides about "
            f"`Vector({', '.join(f'{name}=...' for name in own.names)})`."
        )
    if not own.axes and own != stated:
        raise InputError(f"{where}: the actions of the loss are {own!r}; leave `decision` out.")


def _check_action(problem: "Problem", stated: Argument) -> None:
    """Refuse an argument of the model that cannot be decided about.

    The model has to take it. Its decisions have to be single numbers with limits that are the same
    for all: without limits there is no range in which to search, since outcomes show none.

    Args:
        problem: its model, and the outcome, which is not decided about itself.
        stated: the argument and its space.
    """
    where, name, space = "`Problem(decision=...)`", stated.name, stated.space
    arguments = arguments_of(problem.model)
    if name == problem.outcome or (name not in arguments.names and not arguments.open_ended):
        raise InputError(
            f"{where}: `{name_of(problem.model)}` has no argument {name!r} to decide about; its "
            f"arguments are {some(arguments.names)}."
        )
    if space.axes:
        raise InputError(
            f"{where}: decisions about {name!r} must be single numbers; got {space!r}."
        )
    if space.needs:
        raise InputError(
            f"{where}: the limits of {name!r} must be numbers, the same for all cases; "
            f"got {space!r}."
        )
    if not space.is_bounded:
        raise InputError(
            f"{where}: decisions about {name!r} need limits, between which the best one is looked "
            f"for, {SUCH_AS}; got {space!r}."
        )


def check_guide(where: str, guide: object) -> None:
    """Refuse a guide that is neither an autoguide class nor a guide function, nor None.

    Args:
        where: the argument's name for the message.
        guide: the value to check.
    """
    if guide is not None and not (isinstance(guide, type) and issubclass(guide, AutoGuide)):
        checks.program(where, guide, "a NumPyro autoguide class or a guide function")


def checked_key(key: object) -> Key:
    """Return a JAX random key, of either of the two kinds that JAX has.

    A typed key, `jax.random.key(0)`, is returned as it is; the older array of two whole numbers,
    `jax.random.PRNGKey(0)`, is wrapped. A bare integer is refused: seeds are not converted
    silently.
    """
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        if key.shape == ():
            return key
    elif isinstance(key, jax.Array | np.ndarray) and (key.dtype, key.shape) == (np.uint32, (2,)):
        wrapped: Key = jax.random.wrap_key_data(jnp.asarray(key))
        return wrapped
    raise InputError(
        f"`key` must be one JAX random key, such as `jax.random.key(0)`; "
        f"got {key if isinstance(key, int) else type(key).__name__}."
    )


def checked_data(
    problem: "Problem",
    data: Data,
    *,
    needs_outcome: bool,
    columns: Mapping[str, Columns] | None = None,
) -> Data:
    """Return the data as arrays, as `Problem.check_data` says.

    Args:
        problem: names the outcome, and what loss and limits ask for.
        data: a mapping from arguments to values.
        needs_outcome: whether a fit needs the observed outcomes; a decision does not.
        columns: names of columns in the fit, for tables among the arguments: they are put in this
            order.
    """
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
    """Return decisions to stand in for those that are still to be made, one for each row.

    They lie inside the space; the model is run with better ones before anything is decided.
    """
    rows = [np.shape(value)[0] for value in given.values() if np.ndim(value)]
    if not rows:
        raise InputError(
            f"`data` has no {problem.action!r} and no other argument with a row for each case; "
            f"give any values of {problem.action!r}: they are decided about."
        )
    return np.full(rows[0], float(problem.space.inside(jnp.zeros(()))))


def _check_names(problem: "Problem", given: dict[str, Any]) -> None:
    """Refuse data with arguments that the model does not take, or without some that it needs."""
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
