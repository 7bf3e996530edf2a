"""What a decision costs, and what a loss may know of a predicted outcome."""

from typing import Protocol

from stakes._types import Array, Float, Number, PerInstance


class Loss(Protocol):
    """`loss(outcome, decision)`, elementwise, never negative: smaller is better.

    Any such function will do. A loss may also have some or all of the methods of `SolvedLoss`.
    """

    def __call__(self, outcome: PerInstance, decision: PerInstance, /) -> PerInstance:
        """ℓ(y, h)."""


class Predicted(Protocol):
    """A predicted outcome, as a loss uses it; each method may raise `NoClosedForm`."""

    def mean(self) -> PerInstance:
        """E y."""

    def variance(self) -> PerInstance:
        """E (y - E y)²."""

    def cdf(self, value: PerInstance) -> PerInstance:
        """P(y ≤ value)."""

    def below(self, value: PerInstance) -> PerInstance:
        """P(y < value)."""

    def tails(self, decision: PerInstance, above: float, below: float) -> PerInstance:
        """E above·(y-h)+ + below·(h-y)+: what falling short and going over cost."""

    def square_tails(self, decision: PerInstance, above: Number, below: Number) -> PerInstance:
        """E above·((y-h)+)² + below·((h-y)+)²."""

    def least_tails(self, above: float, below: float) -> PerInstance:
        """The least value of `tails` over all decisions."""

    def cumulant(self, t: float) -> PerInstance:
        """log E exp(t (y - E y)): the log moment generating function about the mean."""

    def log_tails(self, decision: PerInstance, above: Number, below: Number) -> PerInstance:
        """log E exp(-above·(y-h)+ - below·(h-y)+)."""

    def log_kernel(self, decision: PerInstance, width: Number) -> PerInstance:
        """log E exp(-(y-h)²/width)."""

    def best_in_log_tails(self, above: Number, below: Number) -> PerInstance:
        """The decision at which `log_tails` is largest."""

    def most_log_tails(self, above: Number, below: Number) -> PerInstance:
        """The largest value of `log_tails` over all decisions."""

    def best_in_log_kernel(self, width: Number) -> PerInstance:
        """The decision at which `log_kernel` is largest."""

    def quantile(self, level: float) -> PerInstance:
        """The least value whose distribution function reaches the level."""

    def log_mgf(self, t: float) -> PerInstance:
        """log E exp(t y)."""


class SolvedLoss(Loss, Protocol):
    """A loss with formulas for its expectation and its best decision.

    Each method may be left out, or raise `NoClosedForm`: the value is then found numerically.
    """

    def expected(self, predicted: Predicted, decision: PerInstance) -> PerInstance:
        """E ℓ(y, h)."""

    def log_expected_utility(
        self, predicted: Predicted, decision: PerInstance, scale: Number
    ) -> PerInstance:
        """log E exp(-ℓ(y, h)/scale)."""

    def expected_regret(self, predicted: Predicted, decision: PerInstance) -> PerInstance:
        """E ℓ(y, h) less its least value over all decisions."""

    def log_utility_regret(
        self, predicted: Predicted, decision: PerInstance, scale: Number
    ) -> PerInstance:
        """The largest log E exp(-ℓ(y, h')/scale) over all decisions h', less that of h."""

    def exact_decision(self, predicted: Predicted) -> PerInstance:
        """The decision with the least expected loss."""

    def exact_utility_decision(self, predicted: Predicted, scale: Number) -> PerInstance:
        """The decision with the largest E exp(-ℓ(y, h)/scale)."""

    def bayes_decision(self, draws: Float[Array, "draw *instance"]) -> PerInstance:
        """The decision with the least average loss over draws of the outcome."""
