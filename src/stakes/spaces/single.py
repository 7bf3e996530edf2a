"""Where decisions may lie: any number, an interval, whole numbers, or one of some actions."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, final

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.transforms import Transform

from stakes import checks, varying
from stakes._types import Array, Float
from stakes.errors import InputError, some
from stakes.protocols import Space
from stakes.varying import Varying

# Whole numbers are tried one by one where there are at most this many.
FEW = 64
# How far from its limits, as a part of the interval, a decision starts to follow gradients: at a
# limit the map to the line is infinite.
EDGE = 1e-3


@final
@dataclass(frozen=True)
class Real(Space):
    """Any real number: the default.

    Examples:
        >>> import stakes
        >>> stakes.Real()
        Real()
    """

    is_smooth = True
    is_unlimited = True

    def inside(self, decision: Array) -> Array:
        return decision

    def beside(self, decision: Array) -> Array:
        return decision[None]

    def to_line(self, decision: Array) -> Array:
        return decision

    def from_line(self, place: Array) -> Array:
        return place


class _Limited(varying.CanVary, Space):
    """Between two limits, each of which may be open."""

    low: Varying
    high: Varying

    def _check(self) -> None:
        name = type(self).__name__
        for end, open_end in (("low", -math.inf), ("high", math.inf)):
            value = getattr(self, end)
            is_open = value is None or (isinstance(value, float | int) and value == open_end)
            if not is_open:
                value = varying.number(f"`{name}({end}=...)`", value)
            checks.assign(self, **{end: None if is_open else value})
        low, high = self.low, self.high
        if not _is_stated(low) or not _is_stated(high):
            return
        # What differs from case to case may leave no room in some.
        in_order = np.less if np.ndim(low) + np.ndim(high) == 0 else np.less_equal
        if not np.all(in_order(low, high)):
            raise InputError(
                f"`{name}(low=..., high=...)`: the lower limit must be below the upper one; got "
                f"{self.low!r} and {self.high!r}."
            )

    @property
    def is_bounded(self) -> bool:
        return self.low is not None and self.high is not None

    def inside(self, decision: Array) -> Array:
        return jnp.clip(decision, self.low, self.high)


def _is_stated(end: object) -> bool:
    """Whether a limit is known already: not open, nor found in a data argument."""
    return end is not None and not isinstance(end, str)


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

    low: Varying = None
    high: Varying = None

    is_smooth = True

    def __post_init__(self) -> None:
        self._check()

    def beside(self, decision: Array) -> Array:
        return self.inside(decision)[None]

    def to_line(self, decision: Array) -> Array:
        """Map decisions to a line without limits.

        A decision at a limit starts a little inside: the map would be infinite there.
        """
        low, high = self.low, self.high
        if self.is_bounded:
            edge = EDGE * (self._room - low)
            decision = jnp.clip(decision, low + edge, self._room - edge)
        elif low is not None:
            decision = jnp.maximum(decision, low + EDGE * (1 + jnp.abs(low)))
        elif high is not None:
            decision = jnp.minimum(decision, high - EDGE * (1 + jnp.abs(high)))
        return jnp.asarray(self._map().inv(decision))

    def from_line(self, place: Array) -> Array:
        """Map places on that line to decisions."""
        return self.inside(jnp.asarray(self._map()(place)))

    @property
    def _room(self) -> Any:
        """The upper limit; a little more in cases where both limits are the same."""
        return jnp.where(jnp.asarray(self.high) > self.low, self.high, self.low + 1.0)

    def _map(self) -> Transform:
        """Return NumPyro's bijection from the real line to the interval."""
        if self.is_bounded:
            return biject_to(constraints.interval(self.low, self._room))
        if self.low is not None:
            return biject_to(constraints.greater_than(self.low))
        if self.high is not None:
            return biject_to(constraints.less_than(self.high))
        return biject_to(constraints.real)


@final
@dataclass(frozen=True)
class Integers(_Limited):
    """Whole numbers, between two limits either of which may be open (None); limits are included.

    Decisions are the best whole numbers, not the best real numbers rounded.

    Examples:
        >>> import stakes
        >>> stakes.Integers(0, 120)
        Integers(low=0, high=120)
    """

    low: Varying = None
    high: Varying = None

    is_whole = True

    def __post_init__(self) -> None:
        self._check()
        for end in ("low", "high"):
            limit = getattr(self, end)
            if _is_stated(limit) and not np.array_equal(limit, np.round(limit)):
                rule = "a whole number, or one for each case"
                raise checks.refused(f"`Integers({end}=...)`", rule, limit)
            if isinstance(limit, float):
                checks.assign(self, **{end: int(limit)})

    @property
    def actions(self) -> tuple[float, ...] | None:
        """All of them, where they are few and the same for all cases."""
        ends = (self.low, self.high)
        if not all(isinstance(end, int) for end in ends) or self.high - self.low >= FEW:
            return None
        return tuple(map(float, range(self.low, self.high + 1)))

    def inside(self, decision: Array) -> Array:
        """Return the nearest whole number within the limits."""
        return self._between(jnp.round(decision))

    def _between(self, decision: Array) -> Array:
        """Limits of other cases come from data, and need not be whole themselves."""
        low = None if self.low is None else jnp.ceil(self.low)
        return jnp.clip(decision, low, None if self.high is None else jnp.floor(self.high))

    def beside(self, decision: Array) -> Array:
        """Return both whole neighbours: one is best if a convex expected cost is least here."""
        near = jnp.stack([jnp.floor(decision), jnp.ceil(decision)])
        return self._between(near)


@final
@dataclass(frozen=True)
class OneOf(Space):
    """One of some actions, given by their labels.

    If the labels are numbers, a loss gets the label itself. Otherwise it gets the number of the
    action: 0 for the first, 1 for the second, and so on.

    Examples:
        >>> import stakes
        >>> stakes.OneOf(["call", "skip"])
        OneOf(labels=('call', 'skip'))
    """

    labels: Sequence[Any] = field()

    is_bounded = True

    def __post_init__(self) -> None:
        where, rule = "`OneOf(labels=...)`", "a list of different labels, such as ['call', 'skip']"
        listed = checks.labels(where, {"labels": self.labels})["labels"]
        plain = tuple(item.item() if isinstance(item, np.generic) else item for item in listed)
        if not plain or len(set(plain)) != len(plain):
            raise checks.refused(where, rule, self.labels)
        checks.assign(self, labels=plain)
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
            f"{where}: {some(self.labels)} have to be different and finite as numbers in "
            f"{kind.name}, and are not. Give these labels as text."
        )

    @property
    def are_numbers(self) -> bool:
        """Whether all labels are numbers, which a loss then sees."""
        return all(isinstance(label, int | float) for label in self.labels)

    @property
    def actions(self) -> tuple[float, ...]:
        """The numbers that a loss sees."""
        return tuple(float(n) for n in (self.labels if self.are_numbers else range(len(self))))

    def __len__(self) -> int:
        return len(self.labels)

    def inside(self, decision: Array) -> Array:
        """The nearest of the actions."""
        actions = jnp.asarray(self.actions, decision.dtype)
        away = jnp.abs(decision[..., None] - actions)
        return actions[jnp.argmin(away, axis=-1)]

    def beside(self, decision: Array) -> Float[Array, "place *instance"]:
        """Return the nearest actions on either side of a number."""
        below, above = (self._next(decision, side) for side in (-1, 1))
        return jnp.stack([below, above])

    def _next(self, decision: Array, side: int) -> Array:
        """The nearest action on this side of a number, or any where there is none."""
        actions = jnp.asarray(self.actions, decision.dtype)
        away = side * (actions - decision[..., None])
        return actions[jnp.argmin(jnp.where(away >= 0, away, jnp.inf), axis=-1)]

    def to_labels(self, decisions: np.ndarray) -> np.ndarray:
        """Return the labels of the nearest actions.

        An array of words or numbers where all labels are alike, and of objects otherwise.
        """
        away = np.abs(np.asarray(decisions, float)[..., None] - np.array(self.actions))
        labels = np.empty(len(self), object)
        labels[:] = self.labels  # one by one: of a word and a number NumPy would make two words
        if self.are_numbers or all(isinstance(label, str) for label in self.labels):
            labels = np.array(self.labels)
        return np.asarray(labels[np.argmin(away, axis=-1)])

    def from_labels(self, where: str, decisions: object) -> np.ndarray:
        """Return the numbers of actions; refuse labels that are not among them.

        Args:
            where: the argument that has the labels, for the message.
            decisions: labels, in any shape.
        """
        number = dict(zip(self.labels, self.actions, strict=True))
        listed = np.asarray(decisions, object)
        strange = sorted({str(label) for label in listed.ravel() if label not in number})
        if strange:
            raise InputError(f"{where} has {some(strange)}; the actions are {some(self.labels)}.")
        return np.array([number[label] for label in listed.ravel()]).reshape(listed.shape)
