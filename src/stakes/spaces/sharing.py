"""One decision for several cases: what it costs them is added up before deciding."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Bool, Float
from stakes.protocols import Space
from stakes.varying import Columns, Need

REDUCTIONS = {
    "sum": jax.ops.segment_sum,
    "least": jax.ops.segment_min,
    "most": jax.ops.segment_max,
}


@final
@dataclass(frozen=True, eq=False)
class Shared:
    """A space in which all cases of a group get the same decision.

    Made for some cases: `group` has a number for each, from zero. Arrays with a value for each
    group are laid out as those with a value for each case; places of missing groups are not used.
    """

    space: Space
    group: Array
    counted: Bool[Array, "*instance"] | None = None
    """Which cases matter to the decision of their group; all for None."""

    needs: ClassVar[tuple[Need, ...]] = ()

    @property
    def actions(self) -> tuple[float, ...] | None:
        return self.space.actions

    @property
    def is_smooth(self) -> bool:
        return self.space.is_smooth

    @property
    def bounded(self) -> bool:
        return self.space.bounded

    def counting(self, weight: Float[Array, "*instance"]) -> "Shared":
        """Cases of no weight do not matter, but for groups that have no others."""
        return replace(self, counted=weight > 0)

    def at(self, columns: Columns) -> "Shared":
        return self

    def over(self, values: Array, how: str) -> Float[Array, "*instance"]:
        """The sum, or the least or largest value, over the group of each case."""
        neutral = {"sum": 0.0, "least": jnp.inf, "most": -jnp.inf}[how]
        if self.counted is not None:
            lone = self._reduced(self.counted.astype(values.dtype), "most") <= 0
            values = jnp.where(self.counted | lone, values, neutral)
        return self._reduced(values, how)

    def mean(self, values: Array) -> Float[Array, "*instance"]:
        return self.over(values, "sum") / self.over(jnp.ones_like(values), "sum")

    def _reduced(self, values: Array, how: str) -> Array:
        return self._slots(values, how)[self.group.ravel()].reshape(values.shape)

    def _slots(self, values: Array, how: str) -> Array:
        return REDUCTIONS[how](values.ravel(), self.group.ravel(), num_segments=values.size)

    def inside(self, decision: Array) -> Array:
        return self.space.inside(decision)

    def beside(self, decision: Array) -> Array:
        return self.space.beside(decision)

    def free(self, decision: Array) -> Array:
        """A number for each group."""
        count = self._slots(jnp.ones_like(decision), "sum")
        mean = self._slots(decision, "sum") / jnp.maximum(count, 1)
        return self.space.free(mean.reshape(decision.shape))

    def held(self, free: Array) -> Array:
        return self.space.held(free).ravel()[self.group.ravel()].reshape(free.shape)

    def labelled(self, decisions: np.ndarray) -> np.ndarray:
        return self.space.labelled(decisions)

    def coded(self, where: str, decisions: Any) -> np.ndarray:
        return self.space.coded(where, decisions)
