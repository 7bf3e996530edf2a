"""An argument of the model that is decided about, where decisions change outcomes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from stakes import checks
from stakes.arguments import arguments_of
from stakes.errors import InputError, name_of, some
from stakes.protocols import Space
from stakes.spaces import Vector

if TYPE_CHECKING:
    from stakes.problem.problem import Problem

SUCH_AS = "such as {'price': Interval(1, 10)}"


@final
@dataclass(frozen=True)
class Argument:
    """An argument of the model that is decided about, and where its decisions may lie."""

    name: str
    space: Space

    def __repr__(self) -> str:
        return f"{{{self.name!r}: {self.space!r}}}"


def argument(stated: Mapping[str, Any] | str) -> Argument:
    if not isinstance(stated, Mapping) or len(stated) != 1:
        rule = f"a space, or one argument of the model and its space, {SUCH_AS}"
        raise checks.refused("`Problem(decision=...)`", rule, stated)
    [(name, space)] = stated.items()
    known = "`Interval(low, high)`, `Integers(low, high)` or `OneOf(labels)`"
    checks.choice(f"`Problem(decision=...)`: that of {name!r}", space, Space, known)
    return Argument(str(name), space)


def check_action(problem: "Problem", stated: Argument) -> None:
    """Decisions that change outcomes: an argument of the model, and a space with limits."""
    where, name, space = "`Problem(decision=...)`", stated.name, stated.space
    arguments = arguments_of(problem.model)
    if name == problem.outcome or (name not in arguments.names and not arguments.open_ended):
        raise InputError(
            f"{where}: `{name_of(problem.model)}` has no argument {name!r} to decide about; its "
            f"arguments are {some(arguments.names)}."
        )
    if isinstance(space, Vector):
        raise InputError(
            f"{where}: decisions about {name!r} must be single numbers; got {space!r}."
        )
    if space.needs:
        raise InputError(
            f"{where}: the limits of {name!r} must be numbers, the same for all; got {space!r}."
        )
    if not space.bounded:
        raise InputError(
            f"{where}: decisions about {name!r} need limits, between which the best one is looked "
            f"for, {SUCH_AS}; got {space!r}."
        )
