"""Losses without a kink, for means and the like.

The best decision is the mean for `Squared`, an exponentially tilted mean for `LinEx`, a mean with
unequal weights on either side for `Expectile`, and a mean of outcomes that are cut off for `Huber`.
For the last two it solves an equation that falls in h, by Newton's method within a bracket.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from stakes import varying
from stakes._types import Array, Number
from stakes.errors import NoClosedForm
from stakes.losses.any_loss import Dial
from stakes.protocols import Predicted
from stakes.varying import CanVary, Varying

# Halvings of the range of draws, which reach the last digit in double precision, too.
HALVINGS = 50
# Steps to a zero: halvings alone, in place of Newton's method, would need nearly as many.
MOST_STEPS = 60


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
        """Var y + (E y - h)²."""
        return predicted.variance() + jnp.square(predicted.mean() - decision)

    def expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        """(E y - h)²."""
        return jnp.square(predicted.mean() - decision)

    def log_expected_utility(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        """log E exp(-(y-h)²/M)."""
        return predicted.log_kernel(decision, scale)

    def bayes_decision(self, draws: Array) -> Array:
        """The mean of the draws."""
        return jnp.mean(draws, axis=0)

    def exact_decision(self, predicted: Predicted) -> Array:
        """The mean."""
        return predicted.mean()

    def exact_utility_decision(self, predicted: Predicted, scale: Number) -> Array:
        """The decision at which that is largest: the mean of a normal outcome."""
        return predicted.best_in_log_kernel(scale)


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

    c: Varying

    convex: ClassVar[bool] = True
    numbers: ClassVar[tuple[str, ...]] = ("c",)

    def __post_init__(self) -> None:
        hint = "At zero the loss vanishes; for a symmetric loss use `Squared()`."
        self._check_numbers("c", nonzero=True, hint=hint)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        return _exp_minus_tangent(self.c * (jnp.asarray(decision) - outcome))

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        """Return exp(c (h - E y) + κ) - c (h - E y) - 1, with κ = log E exp(-c (y - E y)).

        It is the sum of regret and κ, neither of which is negative: nothing cancels if c is small.
        """
        self._check_alike()
        # Both terms are non-negative, so nothing cancels when c is small.
        return self.expected_regret(predicted, decision) + predicted.cumulant(-self.c)

    def expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        """exp(v) - v - 1, with v = c (h - E y) + κ: zero at the best decision."""
        away = self.c * (decision - predicted.mean())
        return _exp_minus_tangent(away + predicted.cumulant(-self.c))

    def log_expected_utility(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        """Unknown: exp(-exp(y)) has no expectation in closed form."""
        raise NoClosedForm("exp(-LinEx/scale) has no closed-form expectation.")

    def bayes_decision(self, draws: Array) -> Array:
        """-(1/c) log of the mean of exp(-cy) over draws."""
        log_mean = logsumexp(-self.c * draws, axis=0) - jnp.log(draws.shape[0])
        return jnp.asarray(-log_mean / self.c)

    def exact_decision(self, predicted: Predicted) -> Array:
        """-(1/c) log E exp(-cy)."""
        self._check_alike()
        return jnp.asarray(-predicted.log_mgf(-self.c) / self.c)

    def _check_alike(self) -> None:
        if not varying.is_one_number(self.c):
            raise NoClosedForm("The best decision has a formula only if c is the same for all.")

    @property
    def dial(self) -> Dial | None:
        """What the report lets a reader change: c, where it is the same for all."""
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


@final
@dataclass(frozen=True)
class Expectile(CanVary):
    """q·(y-h)² when y ≥ h, (1-q)·(h-y)² otherwise; minimised by the q-expectile.

    With q = 0.5 it is half of the squared loss.

    Examples:
        >>> import stakes
        >>> float(stakes.Expectile(0.75)(3.0, 1.0))  # short by two
        3.0
    """

    q: Varying

    convex: ClassVar[bool] = True
    numbers: ClassVar[tuple[str, ...]] = ("q",)

    def __post_init__(self) -> None:
        self._check_numbers("q", above=0, below=1)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        short = jnp.asarray(outcome) - decision
        return jnp.where(short > 0, self.q, 1 - self.q) * jnp.square(short)

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        """q E ((y-h)+)² + (1-q) E ((h-y)+)²."""
        return predicted.square_tails(decision, self.q, 1 - self.q)

    def bayes_decision(self, draws: Array) -> Array:
        """Where shortfalls and excesses, weighted, are equal on average: by bisection."""
        low, high = draws.min(axis=0), draws.max(axis=0)
        for _ in range(HALVINGS):
            middle = low + (high - low) / 2
            short = draws - middle
            weighted = jnp.where(short > 0, self.q, 1 - self.q) * short
            rising = weighted.mean(axis=0) > 0
            low, high = jnp.where(rising, middle, low), jnp.where(rising, high, middle)
        return high

    def exact_decision(self, predicted: Predicted) -> Array:
        """Where q E (y-h)+ = (1-q) E (h-y)+: on the side of the mean that costs less."""
        centre = predicted.mean()

        def pull(decision: Array) -> Array:
            short = predicted.tails(decision, 1.0, 0.0)
            return jnp.asarray(self.q * short - (1 - self.q) * (short + decision - centre))

        most = jnp.abs(2 * self.q - 1) / jnp.minimum(self.q, 1 - self.q)
        spread = predicted.tails(centre, 1.0, 0.0)
        return falls_to_zero(pull, centre, most * spread, spread)


@final
@dataclass(frozen=True)
class Huber(CanVary):
    """(h-y)²/2 up to a distance of `delta`, then on along its tangent.

    Examples:
        >>> import stakes
        >>> float(stakes.Huber(1.0)(3.0, 0.0))  # 1 * (3 - 1/2)
        2.5
    """

    delta: Varying

    convex: ClassVar[bool] = True
    numbers: ClassVar[tuple[str, ...]] = ("delta",)

    def __post_init__(self) -> None:
        self._check_numbers("delta", above=0)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        away = jnp.abs(jnp.asarray(decision) - outcome)
        near = jnp.minimum(away, self.delta)
        return near * (away - near / 2)

    def exact_decision(self, predicted: Predicted) -> Array:
        """Where y - h, cut off at a distance of δ on both sides, is zero on average.

        That is within δ of the median, which is no further from the mean than outcomes are on
        average.
        """
        centre = predicted.mean()

        def pull(decision: Array) -> Array:
            above = predicted.tails(decision - self.delta, 1.0, 0.0)
            beyond = predicted.tails(decision + self.delta, 1.0, 0.0)
            return jnp.asarray(above - beyond - self.delta)

        spread = predicted.tails(centre, 1.0, 1.0)
        scale = jnp.minimum(spread, self.delta)
        return falls_to_zero(pull, centre, spread + self.delta, scale)


class _Closer(NamedTuple):
    """Between two places lies the one that is looked for, near a third."""

    low: Array
    high: Array
    place: Array
    moved: Array
    steps: Array


def falls_to_zero(
    pull: Callable[[Array], Array], centre: Array, reach: Array, scale: Array
) -> Array:
    """Where a function that falls is zero, no further than `reach` from the centre.

    Steps of Newton's method, and halvings where these lead outside of what is still possible. A
    step of half of all digits is the last, in units of the `scale` on which the function bends:
    what a decision costs changes by the square of it. The reach may be thousands of times that.
    """
    centre, reach, scale = jnp.broadcast_arrays(centre, reach, scale)
    digit = np.finfo(centre.dtype).eps
    small = jnp.maximum(np.sqrt(digit) * scale, 2 * digit * (jnp.abs(centre) + reach))

    def unfinished(at: _Closer) -> Array:
        return jnp.any(at.moved > small) & (at.steps < MOST_STEPS)

    def closer(at: _Closer) -> _Closer:
        value, slope = jax.jvp(pull, (at.place,), (jnp.ones_like(at.place),))
        low = jnp.where(value > 0, at.place, at.low)
        high = jnp.where(value > 0, at.high, at.place)
        newton = at.place - value / slope
        inside = (newton >= low) & (newton <= high)
        place = jnp.where(inside, newton, low + (high - low) / 2)
        return _Closer(low, high, place, jnp.abs(place - at.place), at.steps + 1)

    start = _Closer(centre - reach, centre + reach, centre, reach, jnp.asarray(0))
    return jax.lax.while_loop(unfinished, closer, start).place
