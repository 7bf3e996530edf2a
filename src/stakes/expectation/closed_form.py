"""Exact expectations: formulas, and the loss itself where the outcome is known.

`ClosedForm` passes the question on to the loss or utility, with the predicted outcome as an
argument: the loss knows which statistics it needs, such as tails for a quantile loss, and `stats`
knows these for each distribution. If either has no formula, `NoClosedForm` leads to the next best
expectation.
"""

from dataclasses import dataclass
from typing import final

import jax
import numpyro.distributions as dist

from stakes._types import Array, Distribution, Key
from stakes.errors import NoClosedForm
from stakes.expectation.predicted import Mixture, Single
from stakes.losses import AnyLoss
from stakes.protocols import Cost, Expectation, Gain, Loss, PositiveUtility, Predicted


@final
@dataclass(frozen=True)
class ClosedForm(Expectation):
    """The expectation as a formula: exact, and as cheap as evaluating the loss once.

    Examples:
        >>> import numpyro.distributions as dist, stakes
        >>> float(stakes.ClosedForm().expected(None, dist.Normal(1.0, 2.0), stakes.Squared(), 0.0))
        5.0
    """

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        """Return that no formula is known, found by tracing the term without computing it."""
        try:
            term = gain.term(self)
            jax.eval_shape(lambda: term(jax.random.key(0), outcome, decision))
        except NoClosedForm:
            return "no closed form is known for this loss or utility"
        return None

    def expected(
        self, key: Key | None, outcome: Distribution, loss: Loss, decision: Array
    ) -> Array:
        """E ℓ(y, h), by a formula of the loss."""
        return AnyLoss(loss).expected(Single(outcome), decision)

    def expected_regret(
        self, key: Key | None, outcome: Distribution, loss: Loss, decision: Array
    ) -> Array:
        """E ℓ(y, h) less its least value, by a formula of the loss."""
        return AnyLoss(loss).expected_regret(Single(outcome), decision)

    def log_expected(
        self, key: Key | None, outcome: Distribution, utility: PositiveUtility, decision: Array
    ) -> Array:
        """log E u(y, h), by a formula of the utility."""
        return utility.log_expected(Single(outcome), decision)

    def log_expected_regret(
        self, key: Key | None, outcome: Distribution, utility: PositiveUtility, decision: Array
    ) -> Array:
        """The largest log E u less that of h, by a formula of the utility."""
        return utility.log_expected_regret(Single(outcome), decision)

    @property
    def cost(self) -> Cost:
        return Cost(free=True)

    def mixture(self, outcomes: Distribution) -> Predicted:
        return Mixture(outcomes)


@final
@dataclass(frozen=True)
class Known(Expectation):
    """For an outcome that θ determines, as where a decision is about a latent itself."""

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        """Return that the outcome is not known, unless θ determines it."""
        if isinstance(outcome, dist.Delta) and not outcome.event_dim:
            return None
        return "only for outcomes that are known"

    def expected(
        self, key: Key | None, outcome: Distribution, loss: Loss, decision: Array
    ) -> Array:
        """ℓ(y, h) at the one value."""
        return loss(outcome.v, decision)

    def log_expected(
        self, key: Key | None, outcome: Distribution, utility: PositiveUtility, decision: Array
    ) -> Array:
        """log u(y, h) at the one value."""
        return utility.log(outcome.v, decision)

    @property
    def cost(self) -> Cost:
        return Cost(free=True)

    def mixture(self, outcomes: Distribution) -> Predicted:
        return Mixture(outcomes)
