"""Where decisions may lie: any number, an interval, whole numbers, or one of some actions."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, final

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.transforms import Transform

from stakes import checks, varying
from stakes._types import Array, Float
from stakes.errors import InputError, some

FEW = 64
"""So many whole numbers are tried one by one."""
EDGE = 1e-3
"""How far from its limits, as a part of the interval, a decision starts on its way by gradients."""


class _OfNumbers(varying.CanVary):
    """What spaces of numbers share: decisions are what they are."""

    actions: tuple[float, ...] | None = None

    def labelled(self, decisions: np.ndarray) -> np.ndarray:
        """As users see them."""
        return decisions

    def coded(self, where: str, decisions: Any) -> np.ndarray:
        """As numbers, from what users see."""
        return checks.array(where, decisions).astype(float)


@final
@dataclass(frozen=True)
class Real(_OfNumbers):
    """Any real number: the default.

    Examples:
        >>> import stakes
        >>> stakes.Real()
        Real()
    """

    is_smooth: ClassVar[bool] = True
    bounded: ClassVar[bool] = False

    def inside(self, decision: Array) -> Array:
        return decision

    def beside(self, decision: Array) -> Array:
        return decision[None]

    def free(self, decision: Array) -> Array:
        return decision

    def held(self, free: Array) -> Array:
        return free


class _Limited(_OfNumbers):
    """Between two limits, each of which may be open."""

    low: Any
    high: Any

    def _check(self) -> None:
        name = type(self).__name__
        for end, open_end in (("low", -math.inf), ("high", math.inf)):
            value = getattr(self, end)
            is_open = value is None or (isinstance(value, float | int) and value == open_end)
            if not is_open:
                value = varying.checked(f"`{name}({end}=...)`", value)
            object.__setattr__(self, end, None if is_open else value)
        low, high = (_plain(end) for end in (self.low, self.high))
        if low is None or high is None:
            return
        # What differs from case to case may leave no room in some.
        fine = low < high if np.ndim(low) + np.ndim(high) == 0 else low <= high
        if not np.all(fine):
            raise InputError(
                f"`{name}(low=..., high=...)`: the lower limit must be below the upper one; got "
                f"{self.low!r} and {self.high!r}."
            )

    @property
    def bounded(self) -> bool:
        return self.low is not None and self.high is not None

    def inside(self, decision: Array) -> Array:
        return jnp.clip(decision, self.low, self.high)


def _plain(end: Any) -> Any:
    """A limit as far as it is known; None where it is open, or a data argument."""
    if isinstance(end, varying.PerCase):
        return end.values
    return None if isinstance(end, str) else end


@final
@dataclass(frozen=True)
class Interval(_Limited):
    """Real numbers between two limits, either of which may be open (None).

    A limit is a number, an array with one for each case of the fit, or the name of a data argument
    that has one for each case.

    Examples:
        >>> import stakes
        >>> stakes.Interval(0, "capacity")
        Interval(low=0.0, high='capacity')
    """

    low: Any = None
    high: Any = None

    is_smooth: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._check()

    def beside(self, decision: Array) -> Array:
        return self.inside(decision)[None]

    def free(self, decision: Array) -> Array:
        """Where a decision lies on a line without limits."""
        low, high = self.low, self.high
        if self.bounded:
            edge = EDGE * (self._room - low)
            decision = jnp.clip(decision, low + edge, self._room - edge)
        elif low is not None:
            decision = jnp.maximum(decision, low + EDGE * (1 + jnp.abs(low)))
        elif high is not None:
            decision = jnp.minimum(decision, high - EDGE * (1 + jnp.abs(high)))
        return jnp.asarray(self._map().inv(decision))

    def held(self, free: Array) -> Array:
        return self.inside(jnp.asarray(self._map()(free)))

    @property
    def _room(self) -> Any:
        """The upper limit; a little more in cases where both limits are the same."""
        return jnp.where(jnp.asarray(self.high) > self.low, self.high, self.low + 1.0)

    def _map(self) -> Transform:
        if self.bounded:
            return biject_to(constraints.interval(self.low, self._room))
        if self.low is not None:
            return biject_to(constraints.greater_than(self.low))
        if self.high is not None:
            return biject_to(constraints.less_than(self.high))
        return biject_to(constraints.real)


class _Stepwise:
    """Spaces without a way from one decision to the next: EM decides in them."""

    is_smooth: ClassVar[bool] = False

    def free(self, decision: Array) -> Array:
        raise InputError(f"Decisions in `{self!r}` cannot follow a gradient; use `method=EM()`.")

    def held(self, free: Array) -> Array:
        raise InputError(f"Decisions in `{self!r}` cannot follow a gradient; use `method=EM()`.")


@final
@dataclass(frozen=True)
class Integers(_Stepwise, _Limited):
    """Whole numbers, between two limits either of which may be open (None); limits are included.

    Decisions are the best whole numbers, not the best real numbers rounded.

    Examples:
        >>> import stakes
        >>> stakes.Integers(0, 120)
        Integers(low=0, high=120)
    """

    low: Any = None
    high: Any = None

    def __post_init__(self) -> None:
        self._check()
        for end in ("low", "high"):
            plain = _plain(getattr(self, end))
            if plain is not None and not np.array_equal(plain, np.round(plain)):
                rule = "a whole number, or one for each case"
                raise checks.refused(f"`Integers({end}=...)`", rule, getattr(self, end))
            if isinstance(plain, float):
                object.__setattr__(self, end, int(plain))

    @property
    def actions(self) -> tuple[float, ...] | None:  # type: ignore[override]
        """All of them, where they are few and the same for all cases."""
        ends = (self.low, self.high)
        if not all(isinstance(end, int) for end in ends) or self.high - self.low >= FEW:
            return None
        return tuple(map(float, range(self.low, self.high + 1)))

    def inside(self, decision: Array) -> Array:
        return self._between(jnp.round(decision))

    def _between(self, decision: Array) -> Array:
        """Limits of other cases come from data, and need not be whole themselves."""
        low = None if self.low is None else jnp.ceil(self.low)
        return jnp.clip(decision, low, None if self.high is None else jnp.floor(self.high))

    def beside(self, decision: Array) -> Array:
        """One of these is best where the expected cost is convex and best at this decision."""
        near = jnp.stack([jnp.floor(decision), jnp.ceil(decision)])
        return self._between(near)


@final
@dataclass(frozen=True)
class OneOf(_Stepwise):
    """One of some actions, given by their labels.

    A loss sees the label itself where labels are numbers, and otherwise the number of the action:
    0 for the first, 1 for the second, and so on.

    Examples:
        >>> import stakes
        >>> stakes.OneOf(["call", "skip"])
        OneOf(labels=('call', 'skip'))
    """

    labels: Sequence[Any]

    needs: ClassVar[tuple[varying.Need, ...]] = ()
    bounded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        where, rule = "`OneOf(labels=...)`", "a list of different labels, such as ['call', 'skip']"
        listed = checks.labels(where, {"labels": self.labels})["labels"]
        plain = tuple(each.item() if isinstance(each, np.generic) else each for each in listed)
        if not plain or len(set(plain)) != len(plain):
            raise checks.refused(where, rule, self.labels)
        object.__setattr__(self, "labels", plain)
        if self.are_numbers:
            self._check_numbers(where)

    def _check_numbers(self, where: str) -> None:
        """A loss sees them as numbers, which have to be as different there as they are here."""
        kind = jnp.result_type(float)
        with suppress(OverflowError), np.errstate(over="ignore"):
            seen = np.unique(np.array(self.actions, kind))
            if len(seen) == len(self) and np.isfinite(seen).all():
                return
        raise InputError(
            f"{where}: as numbers in {kind.name}, {some(self.labels)} are not different "
            f"and finite. Give these labels as text."
        )

    @property
    def are_numbers(self) -> bool:
        return all(isinstance(label, int | float) for label in self.labels)

    @property
    def actions(self) -> tuple[float, ...]:
        """The numbers that a loss sees."""
        return tuple(float(n) for n in (self.labels if self.are_numbers else range(len(self))))

    def check(self, columns: varying.Columns) -> None:
        """Actions are the same for all cases."""

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, columns: varying.Columns) -> "OneOf":
        return self

    def inside(self, decision: Array) -> Array:
        """The nearest of the actions."""
        actions = jnp.asarray(self.actions, decision.dtype)
        away = jnp.abs(decision[..., None] - actions)
        return actions[jnp.argmin(away, axis=-1)]

    def beside(self, decision: Array) -> Float[Array, "place *instance"]:
        below, above = (self._next(decision, side) for side in (-1, 1))
        return jnp.stack([below, above])

    def _next(self, decision: Array, side: int) -> Array:
        """The nearest action on this side of a number, or any where there is none."""
        actions = jnp.asarray(self.actions, decision.dtype)
        away = side * (actions - decision[..., None])
        return actions[jnp.argmin(jnp.where(away >= 0, away, jnp.inf), axis=-1)]

    def labelled(self, decisions: np.ndarray) -> np.ndarray:
        away = np.abs(np.asarray(decisions, float)[..., None] - np.array(self.actions))
        labels = np.empty(len(self), object)
        labels[:] = self.labels  # one by one: of a word and a number NumPy would make two words
        if self.are_numbers or all(isinstance(label, str) for label in self.labels):
            labels = np.array(self.labels)
        return np.asarray(labels[np.argmin(away, axis=-1)])

    def coded(self, where: str, decisions: Any) -> np.ndarray:
        number = dict(zip(self.labels, self.actions, strict=True))
        listed = np.asarray(decisions, object)
        strange = sorted({str(each) for each in listed.ravel() if each not in number})
        if strange:
            raise InputError(f"{where} has {some(strange)}; the actions are {some(self.labels)}.")
        return np.array([number[each] for each in listed.ravel()]).reshape(listed.shape)
