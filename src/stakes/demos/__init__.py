"""Decision problems that come with the library, by the names that specs and `stakes demo` use.

Each is a small real problem, with its model, data and costs in one readable file. The module of a
problem can be copied as a beginning for one's own.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

from stakes.errors import InputError, suggestion

if TYPE_CHECKING:
    from stakes.problem import Problem
    from stakes.study import Forward

# Each with the decision that it is about.
NAMES = {
    "eight-schools": "how large an effect to promise each school",
    "newsvendor": "how many portions to prepare each day",
    "bank": "whom to call",
}

Arguments: TypeAlias = Callable[[], Mapping[str, Any]]
"""What returns the arguments of a model, by name."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Demo:
    """A decision problem with its data; each module of this package has one, as `DEMO`.

    Attributes:
        path: the file of the module.
        labels: labels of the plates' members in the fit.
        known: plates whose members are the same in `held_out()` as in `data()`.
        options: fields of `Options`, other than the usual ones.
        folds: to choose among ways by, where not any rows will do.
    """

    path: Path
    problem: "Callable[[], Problem]"
    data: Arguments
    held_out: Arguments | None = None
    labels: Callable[[], Mapping[str, Sequence[str]]] = dict
    known: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    folds: "Forward | None" = None


def load(name: str) -> Demo:
    """The demo of this name.

    Examples:
        >>> from stakes import demos
        >>> demos.load("eight-schools").problem().outcome
        'effect'
    """
    if name not in NAMES:
        raise InputError(f"there is no example {name!r}.{suggestion(name, NAMES)}")
    demo: Demo = importlib.import_module(f"stakes.demos.{name.replace('-', '_')}").DEMO
    return demo
