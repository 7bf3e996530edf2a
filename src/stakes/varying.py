"""What may differ from case to case: a number for all, an array, or the name of a data argument.

A loss such as `Newsvendor(under="price", over=1)` does not know its prices. It names its needs; the
data give a column for each, one value for each case; and `at` returns the loss with the columns in
place of the names, which computes as it would with numbers.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Array, Data, Number
from stakes.errors import InputError, some

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False)
class PerCase:
    """A number for each case of the fit."""

    values: np.ndarray

    name: ClassVar[None] = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PerCase) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.values.shape, self.values.tobytes()))

    def __repr__(self) -> str:
        return f"array of shape {self.values.shape}"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype, copy=copy)


@final
@dataclass(frozen=True)
class GroupOf:
    """The group of each case: by a plate, or by a data argument; one group for "all"."""

    name: str


# Where values come from: a data argument, an array, or groups of cases.
Need: TypeAlias = str | PerCase | GroupOf
# A number, the name of a data argument, an array, or values in place of these.
Varying: TypeAlias = Any
# The values for some cases, one for each.
Columns: TypeAlias = Mapping[Need, Array]


def number(where: str, value: object, **limits: Any) -> Varying:
    """Return a number within limits, or what stands for one for each case.

    Args:
        where: what the value is, for the message.
        value: a number, an array, or the name of a data argument.
        limits: those of `checks.number`.
    """
    if _is_need(value) and not _is_number(value):
        return value
    if isinstance(value, np.ndarray | jax.Array | list | tuple) and np.ndim(value):
        values = checks.array(where, value).astype(float)
        for one in np.unique(values):
            checks.number(f"{where}: each", float(one), **limits)
        return PerCase(values)
    hint = limits.pop("hint", "") or "It may also be an array, or the name of a data argument."
    return checks.number(where, value, hint=hint, **limits)


def _is_number(need: Any) -> bool:
    """Return whether a value is a number in quotes rather than a name."""
    try:
        float(need)
    except (TypeError, ValueError):
        return False
    return True


def _is_need(value: object) -> "TypeIs[str | PerCase]":
    """Return whether a value stands for one for each case, to be looked up."""
    return isinstance(value, str | PerCase)


def needs(values: Iterable[object]) -> tuple[Need, ...]:
    """Return what has to be looked up for these values."""
    return tuple(dict.fromkeys(filter(_is_need, values)))


def is_one_number(value: object) -> bool:
    """Return whether a value is the same for all cases: a number, which may be traced."""
    return isinstance(value, float) or (isinstance(value, jax.Array) and value.ndim == 0)


def value_at(value: Varying, columns: Mapping[Need, object]) -> Varying:
    """Return a value for some cases: their own, where they differ."""
    return columns[value] if _is_need(value) else value


def with_values(instance: T, **values: object) -> T:
    """Return a copy of a frozen dataclass with other values, unchecked: they may be traced."""
    other = copy(instance)
    checks.assign(other, **values)
    return other


def columns_for(
    asked: tuple[Need, ...],
    data: Data,
    shape: tuple[int, ...],
    plates: tuple[str, ...] = (),
) -> dict[Need, Array]:
    """Return the values for all cases, from the data, or refuse those that do not fit.

    Args:
        asked: the needs of loss and limits.
        data: all arguments, by name.
        shape: the shape of the cases.
        plates: names of the axes of the cases.
    """
    return {
        need: _column(need, data, shape)
        if _is_need(need)
        else _groups(need.name, data, shape, plates)
        for need in asked
    }


def _groups(name: str, data: Data, shape: tuple[int, ...], plates: tuple[str, ...]) -> Array:
    """Return the number of each case's group, from zero."""
    if name in plates:
        axis = plates.index(name)
        along = (1,) * axis + (-1,) + (1,) * (len(shape) - axis - 1)
        return jnp.broadcast_to(jnp.arange(shape[axis]).reshape(along), shape)
    if data.get(name) is not None:
        # As they are: large numbers of groups are not told apart in single precision.
        values = _broadcast(name, jnp.asarray(data[name]), shape).ravel()
        _, number = jnp.unique(values, return_inverse=True, size=values.size)
        return jnp.reshape(number, shape)
    if name == "all":
        return jnp.zeros(shape, int)
    raise InputError(
        f"`Problem(per={name!r})` must name a plate of the outcome, a data argument with a group "
        f"for each outcome, or 'all'; the plates are {some(plates)}, the arguments {some(data)}."
    )


def _column(need: str | PerCase, data: Data, shape: tuple[int, ...]) -> Array:
    """Return the values of a data argument, or of an array, one for each case."""
    if isinstance(need, str) and data.get(need) is None:
        raise InputError(
            f"`data` has no {need!r}, which the loss or the limits of decisions ask for by name."
        )
    values = jnp.asarray(data[need] if isinstance(need, str) else need.values)
    return _broadcast(need, values.astype(jnp.result_type(float)), shape)


def _broadcast(need: str | PerCase, values: Array, shape: tuple[int, ...]) -> Array:
    """Return values in the shape of the cases, or refuse them."""
    try:
        # A row of its own is no number for all: it would be spread over all rows without a word.
        if values.ndim and values.size == 1 < math.prod(shape):
            raise ValueError
        return jnp.broadcast_to(values, shape)
    except ValueError:
        name = f"`data[{need!r}]`" if isinstance(need, str) else f"An {need!r}"
        hint = "" if isinstance(need, str) else " Give the name of a data argument instead."
        raise InputError(
            f"{name} has the shape {values.shape}; the loss or the limits of decisions need a "
            f"number for each case, in the shape {shape}.{hint}"
        ) from None


class CanVary:
    """A frozen dataclass, some of whose fields may differ from case to case.

    Attributes:
        numbers: fields that, as numbers, compiled programs may take as arguments.
    """

    numbers: ClassVar[tuple[str, ...]] = ()

    def split_numbers(self) -> tuple[Self, tuple[float, ...]]:
        """Return the same without its numbers, and these."""
        own = {n: v for n in self.numbers if isinstance(v := getattr(self, n), float)}
        return with_values(self, **dict.fromkeys(own)), tuple(own.values())

    def with_numbers(self, numbers: Sequence[Number]) -> Self:
        """Return the same with these numbers, where `split_numbers` took some."""
        missing = [name for name in self.numbers if getattr(self, name) is None]
        return with_values(self, **dict(zip(missing, numbers, strict=True)))

    @property
    def needs(self) -> tuple[Need, ...]:
        """What has to be looked up in the data."""
        return needs(self._values())

    def at(self, columns: Columns) -> Self:
        """Return the same for some cases, with their values in place."""
        if not self.needs:
            return self
        values = {name: value_at(value, columns) for name, value in vars(self).items()}
        return with_values(self, **values)

    def check(self, columns: Columns) -> None:
        """Refuse values for some cases that the class would refuse for all."""
        if self.needs:
            plain = {need: np.asarray(values) for need, values in columns.items()}
            type(self)(*(value_at(value, plain) for value in self._values()))

    def _values(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)]  # type: ignore[arg-type]

    def _check_numbers(self, *names: str, **limits: Any) -> None:
        """Refuse fields that neither are numbers within the limits nor stand for such numbers."""
        for name in names:
            where = f"`{type(self).__name__}({name}=...)`"
            checks.assign(self, **{name: number(where, getattr(self, name), **limits)})
