"""Values that a spec names, made by the classes of the library or by the user's own code.

`newsvendor = { under = 3, over = 1 }` is `stakes.Newsvendor(under=3, over=1)`: the name of a public
class in snake case, and a table of its arguments. The name alone, `{}` and `true` stand for no
arguments. `"costs.py:MyLoss"` is a name, too: a class of the user's, or a function with arguments,
is called; anything else is the value itself.

So the classes check their arguments themselves, and a new class can be named without a change here.
"""

import csv
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar, final

from numpyro.infer import autoguide

import stakes
from stakes import checks
from stakes.app.spec.messages import Collector
from stakes.app.spec.schema import CODE
from stakes.app.spec.source import UserCode
from stakes.errors import InputError, some, suggestion
from stakes.fitting import Method
from stakes.losses import CostTable
from stakes.problem import check_guide
from stakes.protocols import DecisionRule, Estimator, Expectation, Loss, Space, Transform
from stakes.spaces import Vector
from stakes.study import CalibrationMap, Forward, Strategy
from stakes.utilities import ExpUtility, Utility

T = TypeVar("T")
# Where a word begins in the name of a class.
WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
UTILITIES = (Utility, ExpUtility)


@cache
def _classes() -> dict[str, type]:
    """The public classes of the library and NumPyro's autoguides, by name in snake case."""
    public = [getattr(stakes, name) for name in stakes.__all__]
    guides = [getattr(autoguide, name) for name in autoguide.__all__]
    return {
        WORDS.sub("_", c.__name__).lower(): c for c in (*public, *guides) if isinstance(c, type)
    }


@final
@dataclass(frozen=True)
class Slot(Generic[T]):
    """A place in a spec, and what can be named there.

    Attributes:
        noun: what is named, for messages, such as "a loss".
        makes: whether the values of a class belong here.
        check: returns a value that fits and refuses any other; its first argument names the value
            in messages.
        instantiates: whether the value is made by the class; otherwise it is the class itself, as
            for a guide.
    """

    noun: str
    makes: Callable[[type], bool]
    check: Callable[[str, Any], T]
    instantiates: bool = True

    @cached_property
    def classes(self) -> dict[str, type]:
        """Name -> class, for the classes whose values belong here."""
        return {name: kind for name, kind in _classes().items() if self.makes(kind)}


def _implementing(noun: str, contract: Any, but: tuple[type, ...] = ()) -> Slot[Any]:
    """A slot for values that implement a protocol.

    Args:
        noun: what is named, for messages.
        contract: the protocol.
        but: classes that implement it, too, but have a place of their own.
    """

    def check(where: str, value: object) -> object:
        checks.choice(where, value, contract, noun)
        return value

    return Slot(noun, lambda c: _implements(c, contract) and not issubclass(c, but), check)


def _implements(kind: type, contract: type) -> bool:
    """Whether the values of a class have all that a protocol asks for."""
    asked = {name for base in contract.__mro__ for name in vars(base)}
    members = {
        name for base in kind.__mro__ for name in (*vars(base), *inspect.get_annotations(base))
    }
    return {name for name in asked if name == "__call__" or name[0] != "_"} <= members


def _is_loss(kind: type) -> bool:
    """Whether a class makes losses, which are called with an outcome and a decision."""
    if not _implements(kind, Loss) or issubclass(kind, UTILITIES):
        return False
    return [*inspect.signature(kind.__call__).parameters][1:3] == ["outcome", "decision"]


def _loss(where: str, value: Loss) -> Loss:
    """A loss, or any function of an outcome and a decision."""
    rule = "a function of (outcome, decision), or a value that can be called like one"
    return checks.function(where, value, ("outcome", "decision"), rule, others=True)


def _utility(where: str, value: Any) -> Utility | ExpUtility:
    """A function stands for the utility that it is."""
    return value if isinstance(value, UTILITIES) else Utility(fn=value)


def _is_guide(kind: type) -> bool:
    return issubclass(kind, autoguide.AutoGuide) and not inspect.isabstract(kind)


def _guide(where: str, value: T) -> T:
    """A guide, checked."""
    check_guide(where, value)
    return value


def _folds(where: str, value: object) -> int | Forward:
    """A number of folds, or blocks forward in time."""
    return value if isinstance(value, Forward) else checks.whole(where, value, least=2)


LOSS = Slot("a loss", _is_loss, _loss)
SPACE: Slot[Space] = _implementing("a decision space", Space)
TRANSFORM: Slot[Transform] = _implementing("a transform", Transform)
EXPECTATION: Slot[Expectation] = _implementing("an expectation", Expectation)
WAY: Slot[Strategy] = _implementing("a strategy", Strategy)
FOLDS = Slot("folds", lambda kind: kind is Forward, _folds)
GUIDE: Slot[Any] = Slot("an autoguide", _is_guide, _guide, instantiates=False)
OWN: Slot[Any] = Slot(
    "a name in a Python file of your own", lambda kind: False, lambda where, value: value
)
# Section of a spec -> what can be named there.
SECTIONS: dict[str, Slot[Any]] = {
    "loss": LOSS,
    "utility": Slot("a utility", lambda kind: issubclass(kind, UTILITIES), _utility),
    "guide": GUIDE,
    "decision": SPACE,
    "transform": TRANSFORM,
    "method": _implementing("a method", Method),
    "expectation": EXPECTATION,
    "estimator": _implementing("an estimator", Estimator, UTILITIES),
}
# Arguments of our classes that are named values themselves.
ARGUMENTS: dict[str, Slot[Any]] = {
    "base": WAY,
    "by": EXPECTATION,
    "estimator": OWN,
    "fn": OWN,
    "guide": GUIDE,
    "head": _implementing("a calibration map", CalibrationMap),
    "loss": LOSS,
    "m_step": _implementing("an M-step", DecisionRule),
    "transform": TRANSFORM,
}


@final
@dataclass(frozen=True)
class Constructors:
    """Makes the values that a spec names, and notes mistakes with their place in the spec.

    Attributes:
        code: the user's Python files.
        mistakes: where mistakes are noted.
    """

    code: UserCode
    mistakes: Collector

    def make(
        self, slot: Slot[T], where: str, given: object, fields: Iterable[str] = ()
    ) -> T | None:
        """Make the value that is named.

        Args:
            slot: what can be named.
            where: the place in the spec.
            given: a name, or a table from it to its arguments.
            fields: other names that belong there, for suggestions.

        Returns:
            The value; None where there is a mistake.
        """
        table = {given: {}} if isinstance(given, str) else given
        rule = f"must be {slot.noun}: a name, or a table from one name to its arguments"
        if not isinstance(table, Mapping) or not table:
            self.mistakes.add(where, f"{rule}; got {given!r}.")
            return None
        unknown = [name for name in table if name not in slot.classes and not _is_code(name)]
        for name in unknown:
            meant = suggestion(str(name), [*slot.classes, *fields])
            place = where if isinstance(given, str) else f"{where}.{name}"
            self.mistakes.add(place, f"{name!r} is not the name of {slot.noun}.{meant}")
        if len(table) > 1 and not unknown:
            self.mistakes.add(where, f"{rule}; got {some(table)}. Leave out all but one.")
        if unknown or len(table) > 1:
            return None
        [(name, arguments)] = table.items()
        place = where if isinstance(given, str) else f"{where}.{name}"
        with self.mistakes.at(place):
            return self._made(slot, place, name, {} if arguments is True else arguments)
        return None

    def _made(self, slot: Slot[T], place: str, name: str, arguments: object) -> T | None:
        """Make a value by its class or by the user's function, and check it."""
        if not isinstance(arguments, Mapping):
            raise InputError(f"must be a table of arguments, `{{}}` for none; got {arguments!r}.")
        if _is_code(name):
            value = self.code.get(name)
            if slot.instantiates and (isinstance(value, type) or arguments):
                value = self.code.call(name, arguments)
            return slot.check(f"`{name}`", value)
        maker = slot.classes[name]
        if not slot.instantiates:
            if arguments:
                raise InputError("takes no arguments.")
            return slot.check(f"`{name}`", maker)
        before = len(self.mistakes.mistakes)
        for argument, message in _misfits(maker, arguments):
            self.mistakes.add(f"{place}.{argument}", message)
        values = {n: self._argument(maker, n, f"{place}.{n}", v) for n, v in arguments.items()}
        if len(self.mistakes.mistakes) > before:
            return None
        try:
            return slot.check(f"`{name}`", maker(**values))
        except TypeError as error:  # of a value that the class did not think of
            raise InputError(f"{error}.") from error

    def _argument(self, maker: type, name: str, place: str, given: object) -> object:
        """An argument of one of our classes: itself, or the value that it names."""
        if maker is CostTable and name == "costs" and isinstance(given, str):
            with self.mistakes.at(place):
                return _costs_in(self.code.folder / given)
        slot: Slot[Any] | None = SPACE if maker is Vector else ARGUMENTS.get(name)
        return given if slot is None else self.make(slot, place, given)


def _is_code(name: object) -> bool:
    """Whether a name stands for the user's Python, such as `costs.py:MyLoss`."""
    return isinstance(name, str) and re.fullmatch(CODE, name) is not None


def _misfits(maker: type, given: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Compare arguments with what a class takes.

    Args:
        maker: the class.
        given: the names of the arguments.

    Yields:
        Each argument that is unknown or lacking, and what is wrong with it.
    """
    parameters = inspect.signature(maker).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for name in given:
        if name not in parameters:
            yield name, f"unknown.{suggestion(name, parameters)}"
    call = f"`{maker.__name__}({', '.join(parameters)})`"
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in given:
            yield name, f"is required by {call}."


def _costs_in(path: Path) -> dict[str, list[float | str]]:
    """Read a table of costs from a CSV file.

    Args:
        path: of a file with a header, and a row for each action: its label, then its cost for each
            class.

    Returns:
        Action -> its costs; a cost that is no number is the name of a column.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            _, *rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, ValueError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a table of costs: {error}.") from None
    labels = [row[0].strip() for row in rows]
    if len(set(labels)) != len(labels):
        raise InputError(f"{path} has an action more than once: {some(labels)}.")
    return {row[0].strip(): [_number_or_name(cell) for cell in row[1:]] for row in rows}


def _number_or_name(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell.strip()
