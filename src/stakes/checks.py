"""Checks of what a caller passes in: each returns the plain value, or says what would be one.

`where` names the argument as the caller wrote it, such as "`Tilted(q=...)`". Numbers of NumPy and
JAX serve as numbers, and become Python's own; True and False do not. A message has the form
"`Tilted(q=...)` must be a number strictly between 0 and 1; got 1.5."
"""

import inspect
import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from stakes.errors import InputError, name_of, some

T = TypeVar("T")
# The largest count: JAX numbers the elements of an array up to here.
LARGEST = 2**31 - 1


def shown(value: object) -> str:
    """What came, for a message: its text where that is short, otherwise its type."""
    text = f"the function {name_of(value)}" if inspect.isfunction(value) else repr(value)
    short = len(text) <= 80 and "\n" not in text
    return text if short else f"a value of type {type(value).__name__}"


def refused(where: str, rule: str, value: object, hint: str = "") -> InputError:
    """Return the error for a value that is refused.

    Args:
        where: the argument as the caller wrote it.
        rule: what the value must be.
        value: what came.
        hint: a sentence on what to do instead.
    """
    return InputError(f"{where} must be {rule}; got {shown(value)}.{hint and ' ' + hint}")


def number(
    where: str,
    value: object,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    least: float | None = None,
    most: float | None = None,
    nonzero: bool = False,
    hint: str = "",
) -> float:
    """Return a finite number within limits.

    Args:
        where: the argument as the caller wrote it.
        value: what came.
        above: a limit that is not included.
        below: a limit that is not included.
        least: a limit that is included, in place of `above`.
        most: a limit that is included, in place of `below`.
        nonzero: whether zero is refused.
        hint: a sentence on what to do instead.
    """
    found = _as_float(value)
    low = above < found if least is None else least <= found
    high = found < below if most is None else found <= most
    if not (low and high) or (nonzero and found == 0):
        rule = _range(above, below, least, most) + " other than zero" * nonzero
        raise refused(where, rule, value, hint)
    return found


def whole(where: str, value: object, *, least: int = 1, most: int = LARGEST) -> int:
    """Return a whole number, `least` and `most` included."""
    plain = _plain(value)
    if not isinstance(plain, int) or not least <= plain <= most:
        rule = {0: "of zero or more", 1: "above zero"}.get(least, f"of at least {least}")
        if most < LARGEST or (isinstance(plain, int) and plain > most):
            rule = f"from {least} to {most}"
        raise refused(where, f"a whole number {rule}", value)
    return plain


def flag(where: str, value: object) -> bool:
    """Return a truth value, Python's own or NumPy's."""
    if not isinstance(value, bool | np.bool_):
        raise refused(where, "True or False", value)
    return bool(value)


def flags(value: object, *names: str) -> None:
    """Check that each of these fields of a frozen dataclass is True or False, and keep Python's
    own."""
    for name in names:
        where = f"`{type(value).__name__}({name}=...)`"
        assign(value, **{name: flag(where, getattr(value, name))})


def assign(instance: object, **values: object) -> None:
    """Give fields of a frozen dataclass their checked values; only for its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def text(where: str, value: object) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise refused(where, "text", value)
    return str(value)


def path(where: str, value: object) -> Path:
    """Return a path given as text or as a path; refuse bytes and open files."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise refused(where, "the path of a file or folder", value)
    return Path(value)


def one_of(where: str, value: T, options: Iterable[T]) -> T:
    """Return a value that is one of some options, of the same type: 1 is not True."""
    listed = list(options)
    if not any(isinstance(value, type(option)) and value == option for option in listed):
        raise refused(where, f"one of {some(listed)}", value)
    return value


def instance(where: str, value: object, kind: type[T] | tuple[type[T], ...], rule: str) -> T:
    """Return a value of this type; `rule` says how a caller gets one."""
    if not isinstance(value, kind):
        raise refused(where, rule, value)
    return value


def array(where: str, value: object) -> np.ndarray:
    """Return numbers along at least one axis, as a NumPy array."""
    found = value if isinstance(value, jax.Array) else _as_array(value)
    if found is None or not found.ndim or not found.size or not holds_numbers(found):
        raise refused(where, "an array of numbers", value)
    return np.asarray(found)


def fields(value: object, **kinds: type) -> None:
    """Check that each of these fields of a dataclass has a value of its type."""
    for name, kind in kinds.items():
        where = f"`{type(value).__name__}({name}=...)`"
        instance(where, getattr(value, name), kind, f"a value of type {kind.__name__}")


def names(
    where: str, value: object, rule: str = "a name or a sequence of names, such as `('row',)`"
) -> tuple[str, ...]:
    """Return one name, or several, as a tuple."""
    if isinstance(value, str):
        return (value,)
    listed = None if isinstance(value, bytes | Mapping) else _listed(value)
    if listed is None or not all(isinstance(name, str) for name in listed):
        raise refused(where, rule, value)
    return tuple(str(name) for name in listed)


def labels(where: str, value: Any) -> dict[str, Sequence[object]]:
    """Return a mapping from names to labels, one for each member.

    Args:
        where: the argument as the caller wrote it.
        value: a mapping whose values are lists, arrays or columns of any library.
    """
    try:
        pairs = list(value.items())
    except (AttributeError, TypeError):  # of a class, it is no method of a value
        rule = "a mapping from names to labels, such as `{'row': [...]}`"
        raise refused(where, rule, value) from None
    found: dict[str, Sequence[object]] = {}
    for name, each in pairs:
        listed = None if isinstance(each, str | bytes | Mapping) else _labels(each)
        if not isinstance(name, str) or listed is None:
            rule = "a sequence of names or numbers, one for each member"
            raise refused(f"{where}: the labels of {name!r}", rule, each)
        found[name] = listed
    return found


def _labels(value: Any) -> list[Any] | None:
    """As values that can be told apart, which those of JAX and xarray cannot before NumPy's can."""
    for read in (_listed, lambda value: _listed(np.asarray(value))):
        try:
            listed = read(value)
            if listed is not None and all(hash(x) is not None and x == x for x in listed):
                return listed
        except (TypeError, ValueError):
            continue
    return None


def function(
    where: str, value: T, takes: Sequence[str], rule: str = "", *, others: bool = False
) -> T:
    """Return a function, not a class, that can be called with as many arguments as `takes` names.

    Args:
        where: the argument as the caller wrote it.
        value: what came.
        takes: names of the arguments, for the message.
        rule: what it must be; by default, a function of these arguments.
        others: whether it may need further arguments, which are given by name alone.
    """
    call = f"({', '.join(takes)})"
    rule = rule or f"a function of {call}"
    if isinstance(value, type) or not callable(value):
        raise refused(where, rule, value)
    if not _can_take(value, len(takes), others=others):
        raise InputError(f"{where} must be {rule}; {shown(value)} cannot be called with {call}.")
    return value


def program(where: str, value: T, rule: str) -> T:
    """Return a function, not a class, whose arguments have names that Python can tell."""
    if isinstance(value, type) or not callable(value) or _parameters(value) is None:
        raise refused(where, rule, value)
    return value


def choice(
    where: str, value: object, contract: object, known: str, *, hashable: bool = True
) -> None:
    """Check that a choice is a value, not its class, that does all that its protocol asks for.

    Args:
        where: the argument as the caller wrote it.
        value: what came.
        contract: the protocol, whose public members the value must have, with arguments to match.
        known: examples of such values, for the message.
        hashable: whether it needs a hash, so that JAX can reuse what was compiled for it.
    """
    shortcoming = _shortcoming(value, contract)
    if shortcoming is not None:
        raise InputError(
            f"{where} must be {known}, or a value of your own that implements the protocol "
            f"`{name_of(contract)}` (derive from it to inherit its defaults); got "
            f"{shown(value)}{shortcoming}."
        )
    if hashable:
        hashed(where, value)


def hashed(where: str, value: object) -> None:
    """Check that a value has a hash, so that JAX can reuse what was compiled for it."""
    try:
        hash(value)
    except TypeError:
        raise InputError(
            f"{where} must be hashable, so that JAX can reuse what was compiled for it; make the "
            f"dataclass of {shown(value)} `frozen=True`."
        ) from None


def is_traced(value: object) -> bool:
    """Whether JAX is tracing a function of this value, which is not known then."""
    return isinstance(value, jax.core.Tracer)


def holds_numbers(array: np.ndarray | np.generic | jax.Array) -> bool:
    """Whether these are real numbers: no truth values, text, random keys or the like."""
    return any(jnp.issubdtype(array.dtype, kind) for kind in (np.integer, np.floating))


def _plain(value: Any) -> Any:
    """Return an array of one number as that number; None for True and False."""
    if isinstance(value, np.ndarray | np.generic | jax.Array) and not is_traced(value):
        value = value.item() if value.shape == () and holds_numbers(value) else None
    return None if isinstance(value, bool) else value


def _as_float(value: Any) -> float:
    """Return a number as a float; nan where it is not a finite number."""
    plain = _plain(value)
    try:
        found = float(plain) if isinstance(plain, numbers.Real) else math.nan
    except OverflowError:
        return math.nan
    return found if math.isfinite(found) else math.nan


def is_many(value: object) -> bool:
    """Whether it is a sequence, or an array or a column of any library."""
    return isinstance(value, Sequence) or hasattr(value, "__array__")


def _as_array(value: Any) -> np.ndarray | None:
    try:
        return np.asarray(value) if is_many(value) else None
    except ValueError:  # rows of different lengths
        return None


def _range(above: float, below: float, least: float | None, most: float | None) -> str:
    """Return limits in words."""
    if least is None and most is None and math.isfinite(above) and math.isfinite(below):
        return f"a number strictly between {above:g} and {below:g}"
    limits = [
        f"of at least {least:g}" if least is not None else f"above {above:g}" * (above > -math.inf),
        f"at most {most:g}" if most is not None else f"below {below:g}" * (below < math.inf),
    ]
    said = " and ".join(limit for limit in limits if limit)
    return f"a finite number {said}".rstrip()


def _listed(value: Any) -> list[Any] | None:
    try:
        len(value)
        return list(value)
    except TypeError:
        return None


def _can_take(value: Callable[..., Any], count: int, *, others: bool = False) -> bool:
    parameters = _parameters(value)
    if parameters is None:
        return True
    if others:
        parameters = [p for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    try:
        inspect.Signature(parameters).bind(*range(count))
    except TypeError:
        return False
    return True


def _parameters(value: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """None where Python does not know, as for some functions written in C."""
    try:
        return list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return None


def _shortcoming(value: object, contract: Any) -> str | None:
    """Return why a value does not implement the protocol; None where it does.

    It is empty where the value has nothing of the protocol: the message then says what is expected,
    and not what is missing.
    """
    asked = {
        name: member
        for each in reversed(contract.__mro__)
        for name, member in vars(each).items()
        if name == "__call__" or name[0] != "_"
    }
    missing = sorted(name for name in asked if not hasattr(value, name))
    if isinstance(value, type) or len(missing) == len(asked):
        return ""
    if missing:
        return f", which lacks {some(missing)}"
    other = [name for name, member in asked.items() if not _alike(value, name, member)]
    return f", whose {some(other)} takes other arguments" if other else None


def _alike(value: object, name: str, asked: Any) -> bool:
    """Whether a method can be called as its protocol says; a property may be anything.

    Arguments may have other names, but not those of one another: they would be mixed up.
    """
    found = getattr(value, name)
    if not inspect.isfunction(asked) or (own := _parameters(found)) is None:
        return not inspect.isfunction(asked) or callable(found)
    wanted = list(inspect.signature(asked).parameters)[1:]
    places = {parameter.name: place for place, parameter in enumerate(own)}
    return _can_take(found, len(wanted)) and all(
        places.get(argument, place) == place for place, argument in enumerate(wanted)
    )
