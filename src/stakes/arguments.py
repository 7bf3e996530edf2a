"""A model's arguments: which there are, and the values given for them, checked.

Values become arrays of JAX here, once. What JAX would change silently is refused: numbers that are
not finite, whole numbers too large for its type, and text, which has no place in an array.
"""

import inspect
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

import jax
import numpy as np
from numpyro import handlers
from numpyro.primitives import Messenger

from stakes import checks
from stakes._types import Array, Data, Model
from stakes.errors import InputError, name_of, name_rows, some

Columns: TypeAlias = tuple[Any, ...]
"""Names of a table's columns, in order."""


@runtime_checkable
class Tabular(Protocol):
    """A table with named columns, of pandas or the like, as the value of one argument."""

    @property
    def columns(self) -> Any: ...


@final
@dataclass(frozen=True, kw_only=True)
class Arguments:
    """A model's arguments by name.

    Attributes:
        names: all that can be given by name.
        required: those without a default.
        open: those that are None unless they are given.
        open_ended: whether it takes any further ones, by `**`.
    """

    names: tuple[str, ...]
    required: tuple[str, ...]
    open: tuple[str, ...]
    open_ended: bool


def arguments_of(model: Model) -> Arguments:
    """Return the arguments of a model.

    Handlers around it take whatever comes, so it is the function inside that counts.
    """
    kinds = inspect.Parameter
    while isinstance(model, Messenger) and model.fn is not None:  # handlers take whatever comes
        model = model.fn
    parameters = inspect.signature(model).parameters.values()
    named = [p for p in parameters if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
    return Arguments(
        names=tuple(p.name for p in named),
        required=tuple(p.name for p in named if p.default is kinds.empty),
        open=tuple(p.name for p in named if p.default is None),
        open_ended=any(p.kind is kinds.VAR_KEYWORD for p in parameters),
    )


def without(program: Model, names: tuple[str, ...]) -> Model:
    """The program, called with data that has these names, which it does not take."""
    if not names:
        return program

    def called(**data: object) -> object:
        return program(**{name: value for name, value in data.items() if name not in names})

    return called


def by_name(model: object) -> object:
    """A model or guide that takes all its arguments by name, whatever it is otherwise."""
    if isinstance(model, Messenger | type) or not callable(model):
        return model
    try:
        parameters = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):
        return model
    places = tuple(p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_ONLY)
    return ByName(model, places) if places else model


@final
@dataclass(frozen=True)
class ByName:
    """A program with arguments that only have places, called by their names.

    Attributes:
        program: such as `def model(x, /, y=None)`.
        places: names of the arguments without a name for callers, in order.
    """

    program: Model
    places: tuple[str, ...]

    def __post_init__(self) -> None:
        own, kind = inspect.signature(self.program), inspect.Parameter.POSITIONAL_OR_KEYWORD
        named = [
            p.replace(kind=kind) if p.name in self.places else p for p in own.parameters.values()
        ]
        signature = own.replace(parameters=named)
        checks.assign(self, __signature__=signature, __name__=name_of(self.program))

    def __call__(self, **given: Any) -> Any:
        placed = [given.pop(name) for name in self.places if name in given]
        return self.program(*placed, **given)


def is_conditioned(model: Model, site: str) -> bool:
    """Whether a handler around the model has observations of this site."""
    while isinstance(model, Messenger):
        if isinstance(model, handlers.condition) and site in (model.data or {}):
            return True
        model = model.fn
    return False


def columns_of(data: Data) -> dict[str, Columns]:
    """The names of columns, for each argument that is a table with names."""
    return {
        str(name): tuple(data[name].columns)
        for name in data.keys()  # noqa: SIM118
        if isinstance(data[name], Tabular)
    }


def in_order(name: str, table: Any, order: Columns) -> Any:
    """Return a table with its columns in this order; without named columns, as it is.

    Args:
        name: the argument, for messages.
        table: of pandas or the like, or an array.
        order: names of columns in the fit.
    """
    columns = columns_of({name: table}).get(name)
    if columns is None:
        return table
    if sorted(map(str, columns)) != sorted(map(str, order)):
        raise InputError(
            f"`data[{name!r}]` has the columns {some(columns)}; in the fit it had {some(order)}. "
            f"A column must have the name that it had in the fit."
        )
    return table[list(order)]


def checked_value(name: str, value: object, *, groups: bool = False) -> object:
    """Return arrays as arrays, finite and not empty; numbers, strings and None as they are.

    A tuple of whole numbers stays one, for a model that needs it so, as a shape, say.

    Args:
        name: the argument, for messages.
        value: what was given.
        groups: whether its numbers tell groups apart. As many have to be different in JAX as were
            before.
    """
    if isinstance(value, tuple) and value and all(_is_whole(number) for number in value):
        _checked_array(name, value)
        return tuple(map(int, value))
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        if isinstance(value, float | np.floating) and not np.isfinite(value):
            raise InputError(f"`data[{name!r}]` must be finite; got {value}.")
        return value.item() if isinstance(value, np.generic) else value
    held = _checked_array(name, value)
    if groups and len(np.unique(held)) < len(np.unique(np.asarray(value))):
        raise InputError(
            f"`data[{name!r}]` has numbers of groups that {held.dtype} cannot tell apart; renumber "
            f"them, or give them as whole numbers."
        )
    return held


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _checked_array(name: str, value: object) -> Array:
    """Return an array that JAX holds without changing its values."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"`data[{name!r}]` must hold numbers; got an array of {array.dtype}. "
            f"Encode categories as integers."
        )
    if array.size == 0:
        raise InputError(f"`data[{name!r}]` has zero rows: its shape is {array.shape}.")
    with np.errstate(over="ignore"):  # what is too large is infinite, and refused below
        held: Array = jax.device_put(array.astype(jax.dtypes.canonicalize_dtype(array.dtype)))
    if array.dtype.kind in "iu" and not np.array_equal(np.asarray(held), array):
        raise InputError(
            f"`data[{name!r}]` has whole numbers that {held.dtype} cannot hold; renumber them, or "
            f"enable double precision in JAX."
        )
    bad = ~np.isfinite(np.asarray(held))
    if bad.any():
        raise InputError(
            f"`data[{name!r}]` has {int(bad.sum())} values that are NaN or infinite"
            f"{'' if not np.isfinite(array).all() else f' in {held.dtype}'}, in "
            f"{rows_where(bad)}. Drop or fill them; to leave entries out of the fit, "
            f"fill them and mask the outcome site."
        )
    return held


def rows_where(bad: np.ndarray) -> str:
    """Return in words in which rows of an array something is bad; a single number is row 0."""
    return name_rows(np.unique(np.argwhere(np.atleast_1d(bad))[:, 0]).tolist())
