"""Losses of table 1 of the paper; each carries its expectation and its Bayes decision.

A loss is called `loss(outcome, decision)`, elementwise and unreduced. Any other such
callable serves as a loss too; the ones here also provide the decision that minimises them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from stakes import checks
from stakes._types import Array, Distribution, Key, Number
from stakes.errors import NoClosedForm, name_of
from stakes.protocols import Expectation, Loss, Predicted, Trial


class Dial(NamedTuple):
    """The parameter of a loss that a reader of the report may turn."""

    kind: str
    """The loss whose decisions the page can recompute: `tilted` or `linex`."""
    parameter: float
    low: float
    high: float
    factor: float = 1.0
    """The loss is this many times the tilted or LinEx loss."""


def _tilted_dial(q: float, factor: float = 1.0) -> Dial:
    return Dial("tilted", q, min(0.02, q), max(0.98, q), factor)


@final
@dataclass(frozen=True)
class Squared:
    """(h-y)²; minimised by the mean.

    Examples:
        >>> import stakes
        >>> float(stakes.Squared()(3.0, 1.0))
        4.0
    """

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


@final
@dataclass(frozen=True)
class Absolute:
    """|h-y|; minimised by the median.

    Examples:
        >>> import stakes
        >>> float(stakes.Absolute()(3.0, 1.0))
        2.0
    """

    def __call__(self, outcome: Array, decision: Array) -> Array:
        return jnp.abs(jnp.asarray(decision) - outcome)

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        return predicted.tails(decision, 1.0, 1.0)

    def expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        return self.expected(predicted, decision) - predicted.least_tails(1.0, 1.0)

    def log_expected_utility(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        return predicted.log_tails(decision, 1 / scale, 1 / scale)

    def bayes_decision(self, draws: Array) -> Array:
        return jnp.median(draws, axis=0)

    def exact_decision(self, predicted: Predicted) -> Array:
        return predicted.quantile(0.5)

    def exact_utility_decision(self, predicted: Predicted, scale: Number) -> Array:
        return predicted.best_in_log_tails(1 / scale, 1 / scale)

    @property
    def dial(self) -> Dial:
        return _tilted_dial(0.5, factor=2.0)


@final
@dataclass(frozen=True)
class Tilted:
    """q·(y-h) when y ≥ h, (1-q)·(h-y) otherwise; minimised by the q-quantile.

    With a cost of `under` for each unit short and `over` for each unit too many, take
    q = under / (under + over).

    Examples:
        >>> import stakes
        >>> round(float(stakes.Tilted(0.2)(3.0, 1.0)), 6)  # short by two
        0.4
    """

    q: float

    def __post_init__(self) -> None:
        q = checks.number("`Tilted(q=...)`", self.q, above=0, below=1)
        object.__setattr__(self, "q", q)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        short = jnp.asarray(outcome) - decision
        return jnp.maximum(self.q * short, (self.q - 1) * short)

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        return predicted.tails(decision, self.q, 1 - self.q)

    def expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        return self.expected(predicted, decision) - predicted.least_tails(self.q, 1 - self.q)

    def log_expected_utility(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        return predicted.log_tails(decision, self.q / scale, (1 - self.q) / scale)

    def bayes_decision(self, draws: Array) -> Array:
        # The average is least at one of the draws, not at a value between two of them.
        place = max(math.ceil(round(draws.shape[0] * self.q, 6)) - 1, 0)
        return jnp.sort(draws, axis=0)[place]

    def exact_decision(self, predicted: Predicted) -> Array:
        return predicted.quantile(self.q)

    def exact_utility_decision(self, predicted: Predicted, scale: Number) -> Array:
        return predicted.best_in_log_tails(self.q / scale, (1 - self.q) / scale)

    @property
    def dial(self) -> Dial:
        return _tilted_dial(self.q)


@final
@dataclass(frozen=True)
class LinEx:
    """exp(c(h-y)) - c(h-y) - 1; minimised by -(1/c) log E exp(-cy).

    With c > 0 deciding too high costs exponentially and too low linearly; with c < 0 the reverse.
    Where the exponential would overflow, the loss continues along its tangent.

    Examples:
        >>> import stakes
        >>> round(float(stakes.LinEx(1.0)(0.0, 1.0)), 4)
        0.7183
    """

    c: float

    def __post_init__(self) -> None:
        hint = "At zero the loss vanishes; for a symmetric loss use `Squared()`."
        c = checks.number("`LinEx(c=...)`", self.c, nonzero=True, hint=hint)
        object.__setattr__(self, "c", c)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        return _exp_minus_tangent(self.c * (jnp.asarray(decision) - outcome))

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        # Both terms are non-negative, so nothing cancels when c is small.
        return self.expected_regret(predicted, decision) + predicted.cumulant(-self.c)

    def expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        away = self.c * (decision - predicted.mean())
        return _exp_minus_tangent(away + predicted.cumulant(-self.c))

    def log_expected_utility(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        raise NoClosedForm("exp(-LinEx/scale) has no closed-form expectation.")

    def bayes_decision(self, draws: Array) -> Array:
        return -(logsumexp(-self.c * draws, axis=0) - jnp.log(draws.shape[0])) / self.c

    def exact_decision(self, predicted: Predicted) -> Array:
        return -predicted.log_mgf(-self.c) / self.c

    @property
    def dial(self) -> Dial:
        return Dial("linex", self.c, *sorted((self.c / 3, self.c * 3)))


@final
@dataclass(frozen=True)
class Asked:
    """Any loss, with all methods of a `SolvedLoss`: those it lacks raise `NoClosedForm`."""

    loss: Loss

    @property
    def title(self) -> str:
        return name_of(self.loss)

    @property
    def knows_decision(self) -> bool:
        return hasattr(self.loss, "exact_decision") or hasattr(self.loss, "bayes_decision")

    @property
    def dial(self) -> Dial | None:
        """None where it has no parameter to turn."""
        dial = getattr(self.loss, "dial", None)
        return dial if isinstance(dial, Dial) else None

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        return self._answer("expected", "expectation")(predicted, decision)

    def expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        return self._answer("expected_regret", "regret")(predicted, decision)

    def log_expected_utility(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        return self._answer("log_expected_utility", "expectation")(predicted, decision, scale)

    def exact_decision(self, predicted: Predicted) -> Array:
        return self._answer("exact_decision", "decision")(predicted)

    def exact_utility_decision(self, predicted: Predicted, scale: Number) -> Array:
        return self._answer("exact_utility_decision", "decision")(predicted, scale)

    def cost(self, outcome: Array, decision: Array) -> Array:
        return self.loss(outcome, decision)

    def risk(
        self, expectation: Expectation, key: Key | None, outcome: Distribution, decision: Array
    ) -> Array:
        return expectation.expected(key, outcome, self.loss, decision)

    def averaged(self, risks: Array) -> Array:
        return risks.mean(axis=0)

    def decision(self, predicted: Predicted) -> Array:
        return self.exact_decision(predicted)

    def drawn_decision(self, draws: Callable[[], Array]) -> Array:
        return self._answer("bayes_decision", "decision")(draws())

    def trial(self, outcome: Array, decision: Array) -> Trial:
        values = jnp.asarray(self.loss(outcome, decision))
        remedy = "A loss has to be zero or more; add a constant to it."
        return Trial(f"`loss={self.title}`", values, "negative", values < 0, remedy)

    def _answer(self, question: str, what: str) -> Callable[..., Array]:
        answer: Callable[..., Array] | None = getattr(self.loss, question, None)
        if answer is None:
            raise NoClosedForm(f"`{self.title}` has no closed form for its {what}.")
        return answer


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
