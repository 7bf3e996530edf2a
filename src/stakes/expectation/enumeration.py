"""Sums over the values of a discrete outcome.

A window of values follows the mean, from eight standard deviations below it to sixteen above, and a
heavy tail is summed in stretches beyond it, each twice as far out. In each stretch a few values
stand for all, by Clenshaw-Curtis quadrature with weights for sums rather than integrals. How far
the tail matters is judged by the expected square, so that a loss of second degree is safe.

The weights add up to one only if the values hold all of the mass; otherwise the answer is nan.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Array, Distribution, Float, Key
from stakes.errors import InputError
from stakes.expectation import stats
from stakes.expectation.points import ByPoints
from stakes.expectation.predicted import Mixture
from stakes.expectation.shifted import POINTS, Shifted
from stakes.expectation.sums import Rule, Terms, column, column_like, neglectable, normalised
from stakes.protocols import Cost, Gain

LARGEST_WINDOW = 8192
TYPICAL_WINDOW = 512
# Standard deviations below and above the mean that a window holds: counts have a light lower
# tail, and an upper tail that may fall off as slowly as a geometric one.
BELOW = 8
ABOVE = 16
# Values summed in each long stretch beyond the window.
NODES = 17
MOST_STRETCHES = 12
# Stretches of fewer values than this are summed value by value.
SHORT = 512


@final
@dataclass(frozen=True)
class Enumeration(ByPoints):
    """Sum over the values of a discrete outcome.

    Outcomes without an upper end, and binomials, are summed over a window of `points` values
    that follows the mean. A heavy tail is added in `stretches` beyond it, each as long as all that
    comes before; in a stretch a few values stand for all. By default both are sized from VI's fit.

    The result is nan where it would be wrong: where the values do not hold all of the mass, where
    the loss times the probability still matters at the last of them, or where half of the values
    in a stretch give another answer.

    Examples:
        >>> import numpyro.distributions as dist, stakes
        >>> short = stakes.Enumeration(points=64).expected(
        ...     None, dist.Poisson(2.0), lambda sold, order: (sold > order) * 1.0, 3.5
        ... )
        >>> round(float(short), 4)  # P(sold > 3)
        0.1429
    """

    points: int | None = None
    stretches: int = 0

    def __post_init__(self) -> None:
        if self.points is not None:
            checks.assign(self, points=checks.whole("`Enumeration(points=...)`", self.points))
        stretches = checks.whole("`Enumeration(stretches=...)`", self.stretches, least=0)
        checks.assign(self, stretches=stretches)

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        """Return why the outcome cannot be enumerated: it is continuous, or has no least value."""
        if not stats.is_discrete(outcome) or outcome.event_shape:
            return "only discrete outcomes can be enumerated"
        if stats.ends(outcome).lower is None and stats.few_values(outcome) is None:
            return "only discrete outcomes that have a least value can be enumerated"
        return None

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        """Return the values of the window, and the log probability that each stands for."""
        shape = np.broadcast_shapes(outcome.batch_shape, jnp.shape(decision))
        window = self._window(outcome)
        lowest = jnp.broadcast_to(self._lowest(outcome, decision), shape)
        values = lowest + column_like(lowest, window.offsets)
        legal, log_weights = stats.masses(outcome, values)
        # The rounding error in the log probabilities of large counts is nearly the same for all.
        whole = 2e-2 if values.dtype == jnp.float32 else 1e-5
        return Rule(legal, normalised(log_weights + column_like(lowest, window.log_counts), whole))

    def trusted(self, outcome: Distribution, terms: Terms) -> Array | bool:
        """Return whether the sum is as good as the expectation.

        Half of the values in stretches give nearly the same answer, and what lies beyond the window
        on either side, extrapolated by the ratio of the last two shares, matters to nobody.
        """
        if stats.few_values(outcome) is not None:
            return True
        points = terms.points
        total = jnp.sum(terms.shares, axis=0)
        window = self._window(outcome)
        change = jnp.abs(jnp.sum(column_like(total, window.change) * terms.shares, axis=0))
        below = jnp.where(
            points[0] > stats.smallest_value(outcome), _beyond(terms.shares[::-1], 1), 0.0
        )
        above = _beyond(terms.shares / column_like(total, np.exp(window.log_counts)), window.gap)
        if (largest := stats.last_value(outcome)) is not None:
            above = jnp.where(terms.weightless[-1] | (points[-1] >= largest), 0.0, above)
        return (change <= terms.coarse * total) & (
            below + above <= neglectable(total.dtype) * total
        )

    def _lowest(self, outcome: Distribution, decision: Array) -> Array:
        """Return the first value of the window.

        It holds the decision, where it can: a loss may jump or bend there.
        """
        first = stats.smallest_value(outcome)
        if self.points is None or stats.few_values(outcome) is not None:
            return first
        still = jax.lax.stop_gradient
        middle = still(stats.mean(outcome))
        sd = jnp.sqrt(still(stats.variance(outcome)))
        lowest = jnp.minimum(middle - BELOW * sd, still(decision) - 5)
        # Where the window cannot hold both the decision and the outcome, it holds the outcome.
        lowest = jnp.maximum(lowest, middle + BELOW * sd - self.points)
        if (largest := stats.last_value(outcome)) is not None:
            lowest = jnp.minimum(lowest, largest + 1.0 - self.points)
        return jnp.floor(jnp.maximum(lowest, first))

    def typical(self, outcome: Distribution) -> Array:
        """Return a count near the mean."""
        if stats.few_values(outcome) is not None:
            return stats.smallest_value(outcome)
        return jnp.floor(jax.lax.stop_gradient(stats.mean(outcome)))

    def _window(self, outcome: Distribution) -> "_Window":
        """Return the values to sum: all of few, or those of the size that was given or found."""
        size = stats.few_values(outcome)
        if size is not None:
            return _window(size, 0)
        if self.points is None:
            raise InputError(
                f"`Enumeration()` of {type(outcome).__name__} outcomes needs to know how many "
                f"values to sum over: say `Enumeration(points=...)`."
            )
        return _window(self.points, self.stretches)

    def size_for(self, outcomes: Iterable[Distribution]) -> "Enumeration":
        """Return the same with a window for these outcomes, unless its size was given."""
        return self if self.points is not None else self.widen_for(outcomes)

    @property
    def is_sized(self) -> bool:
        return self.points is not None

    def widen_for(self, outcomes: Iterable[Distribution]) -> "Enumeration":
        """With a window wide enough for these outcomes, and room for them to spread."""
        wide = self
        for stacked in outcomes:
            wide = wide._widen_for(stacked)
        return wide

    def for_steps(self) -> ByPoints:
        """Where there are many values, or may be."""
        many = self.points is not None and self.points > 2 * POINTS
        return Shifted(self) if many else self

    def mixture(self, outcomes: Distribution) -> Mixture:
        return Mixture(outcomes, self)

    @property
    def cost(self) -> Cost:
        if self.points is None:
            return Cost(points=TYPICAL_WINDOW)
        values = len(_window(self.points, self.stretches).offsets)
        return Cost(points=values, mixture=values, trial=values)

    def _widen_for(self, outcomes: Distribution) -> "Enumeration":
        """Return the same with a window that holds one more batch of outcomes.

        A window that would hold thousands of values is refused: it would take memory for each draw
        of θ.
        """
        if stats.few_values(outcomes) is not None:
            return self
        first, last = stats.smallest_value(outcomes), stats.last_value(outcomes)
        middle = jax.vmap(stats.mean)(outcomes)
        sd = jnp.sqrt(jax.vmap(stats.variance)(outcomes))
        low = jnp.maximum(middle - BELOW * sd, first)
        if last is not None:
            widest = float(jnp.max(last - first)) + 1
        else:
            widest = float(jnp.max(middle + ABOVE * sd - low)) + 20
        if not widest <= LARGEST_WINDOW:
            raise InputError(
                f"The {type(outcomes).__name__} outcome spreads over {widest:.0f} values, more "
                f"than the limit of {LARGEST_WINDOW}. Say how many to sum: "
                f"`expectation=Enumeration(points=...)`, or rescale the outcome."
            )
        points = max(self.points or 0, 32 * math.ceil(widest / 32))
        if last is not None:
            return Enumeration(points, self.stretches)
        furthest = _reach(outcomes, jnp.floor(low), sd)
        doublings = math.ceil(math.log2(max(furthest / points, 1.0)))
        # One more than it takes, so that the tail may become heavier.
        stretches = min(doublings + 1, MOST_STRETCHES) if doublings else 0
        return Enumeration(points, max(self.stretches, stretches))


def _reach(outcomes: Distribution, lowest: Array, sd: Array) -> float:
    """How far above the lowest value the tail still matters to a loss of the second degree."""
    offsets = 2.0 ** np.arange(25)

    def log_share(outcome: Distribution, lowest: Array, sd: Array) -> Array:
        """Of the values up to twice as far out, in the expected square."""
        offset = column(jnp.asarray(offsets, sd.dtype), sd.shape)
        return stats.masses(outcome, lowest + offset).log_weights + jnp.log(
            offset * (offset / sd) ** 2
        )

    shares = jax.vmap(log_share)(outcomes, *jnp.broadcast_arrays(lowest, sd))
    matters = np.asarray(shares > math.log(1e-9))
    return 2 * float(np.max(np.where(matters, column(offsets, sd.shape[1:]), 0.0)))


class _Window(NamedTuple):
    """Which values are summed, counted from the first, and for how many each stands."""

    offsets: Float[np.ndarray, "point"]
    log_counts: Float[np.ndarray, "point"]
    change: Float[np.ndarray, "point"]
    """The relative change of its count when every other value in a stretch is left out."""
    gap: float
    """Between the last two values."""


@lru_cache(maxsize=64)
def _window(points: int, stretches: int) -> _Window:
    """Return the window and its stretches, which are the same for all outcomes."""
    parts = [(np.arange(float(points)), np.ones(points), np.ones(points))]
    parts += [_stretch(points * 2**k) for k in range(stretches)]
    offsets, counts, coarse = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    gap = float(offsets[-1] - offsets[-2]) if len(offsets) > 1 else 1.0
    return _Window(offsets, np.log(counts), coarse / counts - 1, gap)


def _stretch(length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whole numbers from `length` up to twice that: values, and how many each stands for.

    The rule of Clenshaw and Curtis (A method for numerical integration on an automatic computer,
    1960), for a sum in place of an integral: the values lie as Chebyshev points do, rounded, and
    the counts make the sum of every polynomial of a degree below `NODES` right. The last array has
    the counts if only every other value is used.
    """
    if length < SHORT:
        return length + np.arange(float(length)), np.ones(length), np.ones(length)
    last = length - 1
    chebyshev = (1 - np.cos(np.linspace(0, np.pi, NODES))) / 2
    offsets = np.round(last * chebyshev)
    x = 2 * offsets / last - 1  # on [-1, 1], where Legendre polynomials live
    degree = np.arange(NODES)
    # The sum of each Legendre polynomial P over all values, by the formula of Euler and Maclaurin:
    # its integral, zero but for degree 0; the mean of P at the two ends, zero for odd degrees; and
    # a twelfth of the spacing times how much more P rises at the upper end than at the lower.
    sums = np.where(degree % 2 == 0, 1 + degree * (degree + 1) / (6 * last), 0.0)
    sums[0] = length

    def counts(x: np.ndarray) -> np.ndarray:
        """Weights of the points that give as many polynomials as there are points their sums."""
        basis = np.polynomial.legendre.legvander(x, len(x) - 1)
        return np.linalg.solve(basis.T, sums[: len(x)])

    coarse = np.zeros(NODES)
    coarse[::2] = counts(x[::2])
    return length + offsets, counts(x), coarse


def _beyond(shares: Array, gap: float) -> Array:
    """What the values after the last would add, if the shares went on as they end."""
    before, last = shares[-2], shares[-1]
    ratio = jnp.where(last < before, last / jnp.where(last < before, before, 1.0), 1.0)
    falling = 1 - ratio ** (1 / gap)
    rest = last * ratio ** (1 / gap) / jnp.where(falling > 0, falling, 1.0)
    return jnp.where(falling > 0, rest, jnp.where(last > 0, jnp.inf, 0.0))
