"""Several numbers decided together: the parts of one decision, each in a space of its own."""

from collections import namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from keyword import iskeyword
from typing import final

import jax.numpy as jnp
import numpy as np

from stakes import checks, varying
from stakes._types import Array, Float
from stakes.errors import InputError
from stakes.protocols import Space


@final
@dataclass(frozen=True, init=False, repr=False)
class Vector(Space):
    """Several numbers decided together, each with a name and a space.

    A loss gets them as one decision: `decision.low`, or `low, high = decision`. Inside, the parts
    lie along a leading axis.

    Examples:
        >>> import stakes
        >>> stakes.Vector(low=stakes.Real(), high=stakes.Interval(0, 10))
        Vector(low=Real(), high=Interval(low=0.0, high=10.0))
    """

    names: tuple[str, ...]
    spaces: tuple[Space, ...]

    def __init__(self, **parts: Space) -> None:
        if len(parts) < 2:
            rule = "two parts or more, such as `Vector(low=Real(), high=Real())`"
            raise InputError(f"`Vector(...)` must have {rule}; got {len(parts)}.")
        for name, space in parts.items():
            is_word = name.isidentifier() and not iskeyword(name)
            if not is_word or name.startswith("_") or name in dir(tuple):
                raise InputError(f"`Vector({name}=...)`: a part cannot have this name.")
            known = "`Real()`, `Interval(low, high)`, `Integers(low, high)` or `OneOf(numbers)`"
            checks.choice(f"`Vector({name}=...)`", space, Space, known)
            if space.axes or not space.are_numbers:
                raise checks.refused(f"`Vector({name}=...)`", known, space)
        checks.assign(self, names=tuple(parts), spaces=tuple(parts.values()))

    def __repr__(self) -> str:
        parts = zip(self.names, self.spaces, strict=True)
        return f"Vector({', '.join(f'{name}={space!r}' for name, space in parts)})"

    def __len__(self) -> int:
        return len(self.names)

    @property
    def parts(self) -> tuple[Space, ...]:
        return self.spaces

    @property
    def needs(self) -> tuple[varying.Need, ...]:
        return tuple(dict.fromkeys(need for space in self.spaces for need in space.needs))

    @property
    def is_smooth(self) -> bool:
        return all(space.is_smooth for space in self.spaces)

    @property
    def is_unlimited(self) -> bool:
        return all(space.is_unlimited for space in self.spaces)

    @property
    def is_bounded(self) -> bool:
        return all(space.is_bounded for space in self.spaces)

    def at(self, columns: varying.Columns) -> "Vector":
        """Return the vector with limits of some cases in place."""
        if not self.needs:
            return self
        return varying.with_values(self, spaces=tuple(space.at(columns) for space in self.spaces))

    def check(self, columns: varying.Columns) -> None:
        """Refuse limits for some cases that the spaces would refuse for all."""
        for space in self.spaces:
            space.check(columns)

    def unpack(self, decision: Float[Array, "part *instance"]) -> tuple[Array, ...]:
        """Return a decision as a loss sees it: a named tuple of its parts.

        The type is the same for the same names, as JAX asks for.
        """
        parts: tuple[Array, ...] = decision_of(self.names)(*(decision[n] for n in range(len(self))))
        return parts

    def pack(self, decision: Iterable[Array], like: Array) -> Float[Array, "part *instance"]:
        """Return the parts as one array, each of them for all cases."""
        return jnp.stack([Space.pack(self, part, like) for part in decision])

    def inside(self, decision: Array) -> Array:
        """Return the nearest decision, part by part."""
        return self._each(lambda space, part: space.inside(part), decision)

    def beside(self, decision: Array) -> Array:
        """Return the decision itself, where every part may be any number.

        Otherwise parts are searched for one by one: rounding each by itself need not give the best.
        """
        if not self.is_unlimited:
            raise InputError("The parts of a decision are searched for one by one.")
        return decision[None]

    def to_line(self, decision: Array) -> Array:
        return self._each(lambda space, part: space.to_line(part), decision)

    def from_line(self, place: Array) -> Array:
        return self._each(lambda space, part: space.from_line(part), place)

    def _each(self, question: Callable[[Space, Array], Array], decision: Array) -> Array:
        parts = zip(self.spaces, decision, strict=True)
        return jnp.stack([question(space, part) for space, part in parts])

    def to_labels(self, decisions: np.ndarray) -> np.ndarray:
        """Return each part as users see it, along a leading axis."""
        return np.stack([s.to_labels(p) for s, p in zip(self.spaces, decisions, strict=True)])

    def from_labels(self, where: str, decisions: object) -> np.ndarray:
        """Refuse decisions that come from outside as single numbers."""
        raise InputError(f"{where} is for decisions that are single numbers, not for {self!r}.")


@lru_cache(maxsize=256)
def decision_of(names: tuple[str, ...]) -> Callable[..., tuple[Array, ...]]:
    """The type of a decision with these parts; the same for the same names, as JAX asks for."""
    return namedtuple("Decision", names)
