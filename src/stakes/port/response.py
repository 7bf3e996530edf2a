"""Outcomes that depend on the decision: what each decision would lead to."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeGuard, final

import jax

from stakes._types import Array, Distribution, Float, Key


@final
@partial(jax.tree_util.register_dataclass, data_fields=["latents", "key"], meta_fields=["predict"])
@dataclass(frozen=True)
class Response:
    """p(y|θ, h) as a function of the decision h, for one θ; for several along a leading axis."""

    latents: dict[str, Array]
    key: Key
    predict: Callable[[dict[str, Array], Key, Array], Distribution]

    def at(self, decision: Float[Array, "*instance"]) -> Distribution:
        return self.predict(self.latents, self.key, decision)


Outcome: TypeAlias = Distribution | Response
"""What may come of a decision: a distribution, or one for each decision."""


def responds(outcome: Outcome) -> TypeGuard[Response]:
    """Whether an outcome depends on the decision."""
    return isinstance(outcome, Response)


def outcome_at(outcome: Outcome, decision: Float[Array, "*instance"]) -> Distribution:
    """p(y|θ, h), whether it depends on the decision or does not."""
    return outcome.at(decision) if responds(outcome) else outcome
