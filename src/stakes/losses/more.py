"""Losses beyond those of the paper."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import varying
from stakes._types import Array
from stakes.losses.basic import Tilted
from stakes.protocols import Predicted
from stakes.spaces import Real, Vector
from stakes.varying import CanVary

HALVINGS = 50
MOST_STEPS = 60


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

    q: Any

    convex: ClassVar[bool] = True
    numbers: ClassVar[tuple[str, ...]] = ("q",)

    def __post_init__(self) -> None:
        q = varying.checked("`Expectile(q=...)`", self.q, above=0, below=1)
        object.__setattr__(self, "q", q)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        short = jnp.asarray(outcome) - decision
        return jnp.where(short > 0, self.q, 1 - self.q) * jnp.square(short)

    def expected(self, predicted: Predicted, decision: Array) -> Array:
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

    delta: Any

    convex: ClassVar[bool] = True
    numbers: ClassVar[tuple[str, ...]] = ("delta",)

    def __post_init__(self) -> None:
        delta = varying.checked("`Huber(delta=...)`", self.delta, above=0)
        object.__setattr__(self, "delta", delta)

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


@final
@dataclass(frozen=True)
class ZeroOne(CanVary):
    """One where the outcome is further than `width` from the decision, and nothing otherwise.

    With a width of zero, the default, it counts wrong classes.

    Examples:
        >>> import stakes
        >>> float(stakes.ZeroOne(width=0.5)(3.2, 3.0)), float(stakes.ZeroOne()(1, 0))
        (0.0, 1.0)
    """

    width: Any = 0.0

    def __post_init__(self) -> None:
        width = varying.checked("`ZeroOne(width=...)`", self.width, least=0)
        object.__setattr__(self, "width", width)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        missed = jnp.abs(jnp.asarray(decision) - outcome) > self.width
        return jnp.asarray(missed, jnp.result_type(float))

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        low, high = decision - self.width, decision + self.width
        held: Array = predicted.cdf(high) - predicted.below(low)
        return 1 - held


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

    level: Any

    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        level = varying.checked("`IntervalScore(level=...)`", self.level, above=0, below=1)
        object.__setattr__(self, "level", level)

    @property
    def space(self) -> Vector:
        return Vector(low=Real(), high=Real())

    @property
    def _factor(self) -> Any:
        return 2 / (1 - self.level)

    @property
    def _ends(self) -> tuple[Tilted, Tilted]:
        """The losses of the lower and the upper end."""
        below = (1 - self.level) / 2
        return _tilted(below), _tilted(1 - below)

    def __call__(self, outcome: Array, decision: tuple[Array, Array]) -> Array:
        low, high = decision
        outcome = jnp.asarray(outcome)
        outside = jnp.maximum(low - outcome, 0.0) + jnp.maximum(outcome - high, 0.0)
        return jnp.asarray(high - low + self._factor * outside)

    def expected(self, predicted: Predicted, decision: tuple[Array, Array]) -> Array:
        ends = zip(self._ends, decision, strict=True)
        total = sum(loss.expected(predicted, part) for loss, part in ends)
        return jnp.asarray(self._factor * total)

    def expected_regret(self, predicted: Predicted, decision: tuple[Array, Array]) -> Array:
        ends = zip(self._ends, decision, strict=True)
        total = sum(loss.expected_regret(predicted, part) for loss, part in ends)
        return jnp.asarray(self._factor * total)

    def bayes_decision(self, draws: Array) -> tuple[Array, ...]:
        return tuple(loss.bayes_decision(draws) for loss in self._ends)

    def exact_decision(self, predicted: Predicted) -> tuple[Array, ...]:
        return tuple(loss.exact_decision(predicted) for loss in self._ends)


def _tilted(q: Any) -> Tilted:
    """Also for levels of some cases, which are traced."""
    loss = object.__new__(Tilted)
    object.__setattr__(loss, "q", q)
    return loss
