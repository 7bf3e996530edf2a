"""The losses of table 1 of the paper, and the newsvendor's.

A loss is called `loss(outcome, decision)`, elementwise and unreduced. Any other such
callable serves as a loss too; the ones here also provide the decision that minimises them.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from stakes import varying
from stakes._types import Array, Number
from stakes.errors import NoClosedForm
from stakes.losses.any_loss import Dial
from stakes.protocols import Predicted
from stakes.varying import CanVary


@final
@dataclass(frozen=True)
class Squared:
    """(h-y)²; minimised by the mean.

    Examples:
        >>> import stakes
        >>> float(stakes.Squared()(3.0, 1.0))
        4.0
    """

    convex: ClassVar[bool] = True

    def __call__(self, outcome: Array, decision: Array) -> Array:
        return jnp.square(jnp.asarray(decision) - outcome)

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        return predicted.variance() + jnp.square(predicted.mean() - decision)

    def expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        return jnp.square(predicted.mean() - decision)

    def log_expected_utility(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        return predicted.log_kernel(decision, scale)

    def bayes_decision(self, draws: Array) -> Array:
        return jnp.mean(draws, axis=0)

    def exact_decision(self, predicted: Predicted) -> Array:
        return predicted.mean()

    def exact_utility_decision(self, predicted: Predicted, scale: Number) -> Array:
        return predicted.best_in_log_kernel(scale)


class TwoSided(CanVary):
    """What losses share that grow linearly: by `above` as the outcome exceeds the decision."""

    convex: ClassVar[bool] = True

    @property
    @abstractmethod
    def above(self) -> Any: ...

    @property
    @abstractmethod
    def below(self) -> Any: ...

    @property
    def level(self) -> Any:
        """Of the quantile that is the best decision."""
        return self.above / (self.above + self.below)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        short = jnp.asarray(outcome) - decision
        return jnp.maximum(self.above * short, -self.below * short)

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        if self._is_the_same_for_all:
            return predicted.tails(decision, self.above, self.below)
        short, over = predicted.tails(decision, 1.0, 0.0), predicted.tails(decision, 0.0, 1.0)
        return jnp.asarray(self.above * short + self.below * over)

    def expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        if not self._is_the_same_for_all:
            raise NoClosedForm("The least loss has a formula only if costs are the same for all.")
        return self.expected(predicted, decision) - predicted.least_tails(self.above, self.below)

    def log_expected_utility(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        return predicted.log_tails(decision, self.above / scale, self.below / scale)

    def log_utility_regret(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        most = predicted.most_log_tails(self.above / scale, self.below / scale)
        return most - self.log_expected_utility(predicted, decision, scale)

    def bayes_decision(self, draws: Array) -> Array:
        # The average is least at one of the draws, not at a value between two of them.
        if isinstance(self.level, float):
            place = max(math.ceil(round(draws.shape[0] * self.level, 6)) - 1, 0)
            return jnp.sort(draws, axis=0)[place]
        first = jnp.maximum(jnp.ceil(draws.shape[0] * self.level - 1e-6) - 1, 0)
        places = jnp.broadcast_to(first.astype(int), draws.shape[1:])[None]
        return jnp.take_along_axis(jnp.sort(draws, axis=0), places, axis=0)[0]

    def exact_decision(self, predicted: Predicted) -> Array:
        return predicted.quantile(self.level)

    def exact_utility_decision(self, predicted: Predicted, scale: Number) -> Array:
        return predicted.best_in_log_tails(self.above / scale, self.below / scale)

    @property
    def dial(self) -> Dial | None:
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
        return jnp.median(draws, axis=0)


@final
@dataclass(frozen=True)
class Tilted(TwoSided):
    """q·(y-h) when y ≥ h, (1-q)·(h-y) otherwise; minimised by the q-quantile.

    For a cost of each unit short and another of each unit too many, `Newsvendor(under, over)` says
    the same in the units of those costs. `q` may be an array with one level for each case, or the
    name of a data argument.

    Examples:
        >>> import stakes
        >>> round(float(stakes.Tilted(0.2)(3.0, 1.0)), 6)  # short by two
        0.4
    """

    q: Any

    numbers: ClassVar[tuple[str, ...]] = ("q",)

    def __post_init__(self) -> None:
        q = varying.checked("`Tilted(q=...)`", self.q, above=0, below=1)
        object.__setattr__(self, "q", q)

    @property
    def above(self) -> Any:
        return self.q

    @property
    def below(self) -> Any:
        return 1 - self.q

    @property
    def level(self) -> Any:
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

    under: Any
    over: Any

    numbers: ClassVar[tuple[str, ...]] = ("under", "over")

    def __post_init__(self) -> None:
        for name in ("under", "over"):
            value = varying.checked(f"`Newsvendor({name}=...)`", getattr(self, name), above=0)
            object.__setattr__(self, name, value)

    @property
    def above(self) -> Any:
        return self.under

    @property
    def below(self) -> Any:
        return self.over


@final
@dataclass(frozen=True)
class LinEx(CanVary):
    """exp(c(h-y)) - c(h-y) - 1; minimised by -(1/c) log E exp(-cy).

    With c > 0 deciding too high costs exponentially and too low linearly; with c < 0 the reverse.
    Where the exponential would overflow, the loss continues along its tangent.

    Examples:
        >>> import stakes
        >>> round(float(stakes.LinEx(1.0)(0.0, 1.0)), 4)
        0.7183
    """

    c: Any

    convex: ClassVar[bool] = True
    numbers: ClassVar[tuple[str, ...]] = ("c",)

    def __post_init__(self) -> None:
        hint = "At zero the loss vanishes; for a symmetric loss use `Squared()`."
        c = varying.checked("`LinEx(c=...)`", self.c, nonzero=True, hint=hint)
        object.__setattr__(self, "c", c)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        return _exp_minus_tangent(self.c * (jnp.asarray(decision) - outcome))

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        self._check_alike()
        # Both terms are non-negative, so nothing cancels when c is small.
        return self.expected_regret(predicted, decision) + predicted.cumulant(-self.c)

    def expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        away = self.c * (decision - predicted.mean())
        return _exp_minus_tangent(away + predicted.cumulant(-self.c))

    def log_expected_utility(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        raise NoClosedForm("exp(-LinEx/scale) has no closed-form expectation.")

    def bayes_decision(self, draws: Array) -> Array:
        found: Array = logsumexp(-self.c * draws, axis=0) - jnp.log(draws.shape[0])
        return jnp.asarray(-found / self.c)

    def exact_decision(self, predicted: Predicted) -> Array:
        self._check_alike()
        return jnp.asarray(-predicted.log_mgf(-self.c) / self.c)

    def _check_alike(self) -> None:
        if not varying.is_one_number(self.c):
            raise NoClosedForm("The best decision has a formula only if c is the same for all.")

    @property
    def dial(self) -> Dial | None:
        if not isinstance(self.c, float):
            return None
        return Dial("linex", (self.c,))


def _exp_minus_tangent(x: Array) -> Array:
    """exp(x) - x - 1, without cancellation near zero and without overflow."""
    x = jnp.asarray(x, dtype=jnp.result_type(float, x))
    largest = 0.75 * np.log(np.finfo(x.dtype).max)
    small = jnp.abs(x) < 0.5
    near = jnp.where(small, x, 0.0)
    series = jnp.polyval(
        jnp.array(
            [1 / 3628800, 1 / 362880, 1 / 40320, 1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2],
            x.dtype,
        ),
        near,
    )
    capped = jnp.where(small, 1.0, jnp.minimum(x, largest))
    beyond = np.exp(largest) * jnp.maximum(x - largest, 0.0)
    return jnp.where(small, near**2 * series, jnp.expm1(capped) - x + beyond)
