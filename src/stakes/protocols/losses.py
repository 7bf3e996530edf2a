"""What a decision costs, and what a loss may know of a predicted outcome."""

from typing import Protocol

from stakes._types import Array, Float, Number


class Loss(Protocol):
    """`loss(outcome, decision)`, elementwise, never negative: smaller is better.

    Any such function will do. A loss may also have some or all of the methods of `SolvedLoss`.
    """

    def __call__(
        self, outcome: Float[Array, "*instance"], decision: Float[Array, "*instance"], /
    ) -> Float[Array, "*instance"]:
        """ℓ(y, h)."""
        ...


class Predicted(Protocol):
    """A predicted outcome, as a loss uses it; each method may raise `NoClosedForm`."""

    def mean(self) -> Float[Array, "*instance"]:
        """E y."""
        ...

    def variance(self) -> Float[Array, "*instance"]:
        """E (y - E y)²."""
        ...

    def cdf(self, value: Float[Array, "*instance"]) -> Float[Array, "*instance"]:
        """P(y ≤ value)."""
        ...

    def below(self, value: Float[Array, "*instance"]) -> Float[Array, "*instance"]:
        """P(y < value)."""
        ...

    def tails(
        self, decision: Float[Array, "*instance"], above: float, below: float
    ) -> Float[Array, "*instance"]:
        """E above·(y-h)+ + below·(h-y)+: what falling short and going over cost."""
        ...

    def square_tails(
        self, decision: Float[Array, "*instance"], above: Number, below: Number
    ) -> Float[Array, "*instance"]:
        """E above·((y-h)+)² + below·((h-y)+)²."""
        ...

    def least_tails(self, above: float, below: float) -> Float[Array, "*instance"]:
        """The least value of `tails` over all decisions."""
        ...

    def cumulant(self, t: float) -> Float[Array, "*instance"]:
        """log E exp(t (y - E y)): the log moment generating function about the mean."""
        ...

    def log_tails(
        self, decision: Float[Array, "*instance"], above: Number, below: Number
    ) -> Float[Array, "*instance"]:
        """log E exp(-above·(y-h)+ - below·(h-y)+)."""
        ...

    def log_kernel(
        self, decision: Float[Array, "*instance"], width: Number
    ) -> Float[Array, "*instance"]:
        """log E exp(-(y-h)²/width)."""
        ...

    def best_in_log_tails(self, above: Number, below: Number) -> Float[Array, "*instance"]:
        """The decision at which `log_tails` is largest."""
        ...

    def most_log_tails(self, above: Number, below: Number) -> Float[Array, "*instance"]:
        """The largest value of `log_tails` over all decisions."""
        ...

    def best_in_log_kernel(self, width: Number) -> Float[Array, "*instance"]:
        """The decision at which `log_kernel` is largest."""
        ...

    def quantile(self, level: float) -> Float[Array, "*instance"]:
        """The least value whose distribution function reaches the level."""
        ...

    def log_mgf(self, t: float) -> Float[Array, "*instance"]:
        """log E exp(t y)."""
        ...


class SolvedLoss(Loss, Protocol):
    """A loss with formulas for its expectation and its best decision.

    Each method may be left out, or raise `NoClosedForm`: the value is then found numerically.
    """

    def expected(
        self, predicted: Predicted, decision: Float[Array, "*instance"]
    ) -> Float[Array, "*instance"]:
        """E ℓ(y, h)."""
        ...

    def log_expected_utility(
        self, predicted: Predicted, decision: Float[Array, "*instance"], scale: Number
    ) -> Float[Array, "*instance"]:
        """log E exp(-ℓ(y, h)/scale)."""
        ...

    def expected_regret(
        self, predicted: Predicted, decision: Float[Array, "*instance"]
    ) -> Float[Array, "*instance"]:
        """E ℓ(y, h) less its least value over all decisions."""
        ...

    def log_utility_regret(
        self, predicted: Predicted, decision: Float[Array, "*instance"], scale: Number
    ) -> Float[Array, "*instance"]:
        """The largest log E exp(-ℓ(y, h')/scale) over all decisions h', less that of h."""
        ...

    def exact_decision(self, predicted: Predicted) -> Float[Array, "*instance"]:
        """The decision with the least expected loss."""
        ...

    def exact_utility_decision(
        self, predicted: Predicted, scale: Number
    ) -> Float[Array, "*instance"]:
        """The decision with the largest E exp(-ℓ(y, h)/scale)."""
        ...

    def bayes_decision(self, draws: Float[Array, "draw *instance"]) -> Float[Array, "*instance"]:
        """The decision with the least average loss over draws of the outcome."""
        ...
