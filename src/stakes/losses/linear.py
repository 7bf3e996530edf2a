"""Losses that grow linearly: those of quantiles, and of intervals between two of them.

ℓ(y, h) = a (y-h)+ + b (h-y)+ is least on average at the quantile with the level a/(a+b). Its
expectation is a sum of two tails, which are known for most distributions; the utility exp(-ℓ/M) has
exponential tails, known for the normal and for a few others.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import jax.numpy as jnp

from stakes import varying
from stakes._types import Array, Number
from stakes.errors import NoClosedForm
from stakes.losses.any_loss import Dial
from stakes.protocols import Predicted
from stakes.spaces import Real, Vector
from stakes.varying import CanVary, Varying, with_values


class TwoSided(CanVary):
    """What losses share that grow linearly: by `above` as the outcome exceeds the decision."""

    convex: ClassVar[bool] = True

    @property
    @abstractmethod
    def above(self) -> Varying:
        """What each unit costs by which the outcome exceeds the decision."""

    @property
    @abstractmethod
    def below(self) -> Varying:
        """What each unit costs by which the decision exceeds the outcome."""

    @property
    def level(self) -> Varying:
        """The level of the quantile that is the best decision."""
        return self.above / (self.above + self.below)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        short = jnp.asarray(outcome) - decision
        return jnp.maximum(self.above * short, -self.below * short)

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        """above E (y-h)+ + below E (h-y)+."""
        if self._is_the_same_for_all:
            return predicted.tails(decision, self.above, self.below)
        short, over = predicted.tails(decision, 1.0, 0.0), predicted.tails(decision, 0.0, 1.0)
        return jnp.asarray(self.above * short + self.below * over)

    def expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        """The expected loss, less that at the quantile."""
        if not self._is_the_same_for_all:
            raise NoClosedForm("The least loss has a formula only if costs are the same for all.")
        return self.expected(predicted, decision) - predicted.least_tails(self.above, self.below)

    def log_expected_utility(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        """log E exp(-ℓ/M), by exponential tails."""
        return predicted.log_tails(decision, self.above / scale, self.below / scale)

    def log_utility_regret(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        """Its largest value over all decisions, less that of h."""
        most = predicted.most_log_tails(self.above / scale, self.below / scale)
        return most - self.log_expected_utility(predicted, decision, scale)

    def bayes_decision(self, draws: Array) -> Array:
        """The draw at the level: the average is least at one of the draws, not between two."""
        # The average is least at one of the draws, not at a value between two of them.
        if isinstance(self.level, float):
            place = max(math.ceil(round(draws.shape[0] * self.level, 6)) - 1, 0)
            return jnp.sort(draws, axis=0)[place]
        first = jnp.maximum(jnp.ceil(draws.shape[0] * self.level - 1e-6) - 1, 0)
        places = jnp.broadcast_to(first.astype(int), draws.shape[1:])[None]
        return jnp.take_along_axis(jnp.sort(draws, axis=0), places, axis=0)[0]

    def exact_decision(self, predicted: Predicted) -> Array:
        """The quantile at the level."""
        return predicted.quantile(self.level)

    def exact_utility_decision(self, predicted: Predicted, scale: Number) -> Array:
        """The decision at which the exponential tails are largest."""
        return predicted.best_in_log_tails(self.above / scale, self.below / scale)

    @property
    def dial(self) -> Dial | None:
        """What the report lets a reader change: both costs, where they are the same for all."""
        if not self._is_the_same_for_all:
            return None
        return Dial("costs", (self.above, self.below))

    @property
    def _is_the_same_for_all(self) -> bool:
        return all(varying.is_one_number(side) for side in (self.above, self.below))


@final
@dataclass(frozen=True)
class Absolute(TwoSided):
    """|h-y|; minimised by the median.

    Examples:
        >>> import stakes
        >>> float(stakes.Absolute()(3.0, 1.0))
        2.0
    """

    above = below = 1.0

    def bayes_decision(self, draws: Array) -> Array:
        """The median of the draws, between the two in the middle of an even number."""
        return jnp.median(draws, axis=0)


@final
@dataclass(frozen=True)
class Tilted(TwoSided):
    """q·(y-h) when y ≥ h, (1-q)·(h-y) otherwise; minimised by the q-quantile.

    `Newsvendor(under, over)` is the same loss in terms of two costs, for each unit short and for
    each unit too many. `q` may be an array with one level for each case, or the name of a data
    argument.

    Examples:
        >>> import stakes
        >>> round(float(stakes.Tilted(0.2)(3.0, 1.0)), 6)  # short by two
        0.4
    """

    q: Varying

    numbers: ClassVar[tuple[str, ...]] = ("q",)

    def __post_init__(self) -> None:
        self._check_numbers("q", above=0, below=1)

    @property
    def above(self) -> Varying:
        return self.q

    @property
    def below(self) -> Varying:
        return 1 - self.q

    @property
    def level(self) -> Varying:
        return self.q


@final
@dataclass(frozen=True)
class Newsvendor(TwoSided):
    """`under` for each unit short, `over` for each unit too many.

    The best decision is the quantile at the level under / (under + over). Either cost may be an
    array with one for each case, or the name of a data argument such as a price.

    Examples:
        >>> import stakes
        >>> float(stakes.Newsvendor(under=3.0, over=1.0)(10.0, 8.0))  # two short
        6.0
    """

    under: Varying
    over: Varying

    numbers: ClassVar[tuple[str, ...]] = ("under", "over")

    def __post_init__(self) -> None:
        self._check_numbers("under", "over", above=0)

    @property
    def above(self) -> Varying:
        return self.under

    @property
    def below(self) -> Varying:
        return self.over


# A loss whose level is replaced by those of some cases.
MEDIAN = Tilted(0.5)


@final
@dataclass(frozen=True)
class IntervalScore(CanVary):
    """high - low, and 2/α for each unit by which the outcome lies outside, with α = 1 - level.

    For an interval that should contain the outcome with probability `level`; the decision is a
    `Vector(low=Real(), high=Real())`. The best one lies between the quantiles at α/2 and 1 - α/2
    (Gneiting and Raftery, 2007): it is 2/α times the tilted losses of its two ends.

    Examples:
        >>> import stakes
        >>> float(stakes.IntervalScore(0.9)(5.0, (1.0, 4.0)))  # one above an interval of three
        23.0
    """

    level: Varying

    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._check_numbers("level", above=0, below=1)

    @property
    def space(self) -> Vector:
        """Two numbers, `low` and `high`."""
        return Vector(low=Real(), high=Real())

    @property
    def _factor(self) -> Varying:
        return 2 / (1 - self.level)

    @property
    def _ends(self) -> tuple[Tilted, Tilted]:
        """The losses of the lower and the upper end."""
        below = (1 - self.level) / 2
        # Levels of some cases are traced, which a check could not look at.
        return with_values(MEDIAN, q=below), with_values(MEDIAN, q=1 - below)

    def __call__(self, outcome: Array, decision: tuple[Array, Array]) -> Array:
        low, high = decision
        outcome = jnp.asarray(outcome)
        outside = jnp.maximum(low - outcome, 0.0) + jnp.maximum(outcome - high, 0.0)
        return jnp.asarray(high - low + self._factor * outside)

    def expected(self, predicted: Predicted, decision: tuple[Array, Array]) -> Array:
        """2/α times the expected tilted losses of the two ends."""
        ends = zip(self._ends, decision, strict=True)
        total = sum(loss.expected(predicted, part) for loss, part in ends)
        return jnp.asarray(self._factor * total)

    def expected_regret(self, predicted: Predicted, decision: tuple[Array, Array]) -> Array:
        """2/α times the regrets of the two ends."""
        ends = zip(self._ends, decision, strict=True)
        total = sum(loss.expected_regret(predicted, part) for loss, part in ends)
        return jnp.asarray(self._factor * total)

    def bayes_decision(self, draws: Array) -> tuple[Array, ...]:
        """The draws at the levels α/2 and 1 - α/2."""
        return tuple(loss.bayes_decision(draws) for loss in self._ends)

    def exact_decision(self, predicted: Predicted) -> tuple[Array, ...]:
        """The quantiles at the levels α/2 and 1 - α/2."""
        return tuple(loss.exact_decision(predicted) for loss in self._ends)
