"""One decision for several cases: what it costs them is added up before deciding.

Arrays keep the shape of the cases throughout, so that programs for shared decisions are those for
others: a value for each group lies in the first places, and the rest is not used.
"""

from dataclasses import dataclass, replace
from typing import final

import jax
import jax.numpy as jnp

from stakes._types import Array, Bool, Float, PerInstance
from stakes.protocols import Criterion, Groups

REDUCTIONS = {
    "sum": jax.ops.segment_sum,
    "least": jax.ops.segment_min,
    "most": jax.ops.segment_max,
}


@final
@dataclass(frozen=True)
class Alone(Groups):
    """Each case has a decision of its own."""


ALONE = Alone()


@final
@dataclass(frozen=True, eq=False)
class Shared(Groups):
    """All cases of a group get the same decision.

    Made for some cases: `number` has that of the group of each, from zero. Arrays with a value for
    each group are laid out as those with a value for each case; places of missing groups are not
    used.

    Attributes:
        counted: which cases matter to the decision of their group; all for None.
    """

    number: Array
    counted: Bool[Array, "*instance"] | None = None

    are_shared = True

    def counting(self, weight: PerInstance) -> "Shared":
        """Cases of no weight do not matter, but for groups that have no others."""
        return replace(self, counted=weight > 0)

    def over(self, values: Array, how: str) -> PerInstance:
        """Return the "sum", "least" or "most" value over the group of each case.

        Cases that do not count are left out, but for groups that have no others.
        """
        neutral = {"sum": 0.0, "least": jnp.inf, "most": -jnp.inf}[how]
        if self.counted is not None:
            lone = self._reduce(self.counted.astype(values.dtype), "most") <= 0
            values = jnp.where(self.counted | lone, values, neutral)
        return self._reduce(values, how)

    def mean(self, values: Array) -> PerInstance:
        """Return the mean over the cases that count in the group of each."""
        return self.over(values, "sum") / self.over(jnp.ones_like(values), "sum")

    def pool(self, criterion: Criterion, risks: Array) -> PerInstance:
        """Return the risk of a decision for its group: for a loss, the sum over its cases."""
        return criterion.pool(risks, self.over)

    def gather(self, decision: Array) -> Float[Array, "*group"]:
        """Return a decision for each group: the mean over its cases."""
        count = self._slots(jnp.ones_like(decision), "sum")
        mean = self._slots(decision, "sum") / jnp.maximum(count, 1)
        return mean.reshape(decision.shape)

    def spread(self, decision: Float[Array, "*group"]) -> PerInstance:
        """Return the decision of its group for each case."""
        return decision.ravel()[self.number.ravel()].reshape(decision.shape)

    def _reduce(self, values: Array, how: str) -> Array:
        return self._slots(values, how)[self.number.ravel()].reshape(values.shape)

    def _slots(self, values: Array, how: str) -> Array:
        return REDUCTIONS[how](values.ravel(), self.number.ravel(), num_segments=values.size)
