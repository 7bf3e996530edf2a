"""The loss itself, where the outcome is known."""

from dataclasses import dataclass
from typing import final

import numpyro.distributions as dist

from stakes._types import Array, Distribution, Key
from stakes.expectation.mixture import Mixture
from stakes.protocols import Expectation, Gain, Loss, PositiveUtility, Predicted


@final
@dataclass(frozen=True)
class Known(Expectation):
    """For an outcome that θ determines, as where a decision is about a latent itself."""

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        if isinstance(outcome, dist.Delta) and not outcome.event_dim:
            return None
        return "only for outcomes that are known"

    def expected(
        self, key: Key | None, outcome: Distribution, loss: Loss, decision: Array
    ) -> Array:
        return loss(outcome.v, decision)

    def log_expected(
        self, key: Key | None, outcome: Distribution, utility: PositiveUtility, decision: Array
    ) -> Array:
        return utility.log(outcome.v, decision)

    @property
    def cheap(self) -> bool:
        return True

    def mixture(self, outcomes: Distribution) -> Predicted:
        return Mixture(outcomes)
