"""Points and weights: every inner expectation that is not in closed form is such a rule.

`rule(key, outcome, decision)` returns points y_k and log weights so that
E g(y) ≈ Σ_k exp(log_weight_k) g(y_k), elementwise over instances. Gradients reach the outcome's
parameters through the weights (enumeration, quadrature: the points stand still) or through the
points (Monte Carlo: the points are reparameterised draws).
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import Distribution, constraints

from stakes.errors import InputError
from stakes.expectation import statistics
from stakes.expectation.sums import log_sum_exp
from stakes.typing import Array, Key

LARGEST_WINDOW = 8192
BELOW, ABOVE = 8, 16
"""Standard deviations on either side of the mean that a window holds: counts have a light lower
tail, and an upper one that may fall off as slowly as a geometric one."""


class Rule(NamedTuple):
    """Points of shape (point, *instance) and their log weights."""

    points: Array
    log_weights: Array


@final
@dataclass(frozen=True)
class Enumeration:
    """Sum over the values of a discrete outcome.

    Outcomes without an upper end, and binomials, are summed over a window of `points` values
    that follows the mean; by default the window is sized from VI's fit. Where the
    window does not hold nearly all of the mass the result is nan, never a silent wrong sum.

    >>> import stakes
    >>> stakes.Enumeration(points=64)
    Enumeration(points=64)
    """

    points: int | None = None
    exact = True

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        shape = np.broadcast_shapes(outcome.batch_shape, jnp.shape(decision))
        values = self._values(outcome, decision, shape)
        legal, log_weights = log_mass(outcome, values)
        # Rounding in the log probabilities of large counts is the same for all of them, nearly.
        held_mass = log_sum_exp(log_weights)
        held = (jax.lax.stop_gradient(held_mass) > math.log(0.98)) & self._reaches(outcome, values)
        return Rule(legal, jnp.where(held, log_weights - held_mass, jnp.nan))

    def _reaches(self, outcome: Distribution, values: Array) -> Array:
        """Whether the window spans four standard deviations either way, or all values there are."""
        if _few_values(outcome) is not None:
            return jnp.ones((), bool)
        middle, reach = statistics.mean(outcome), 4 * jnp.sqrt(statistics.variance(outcome))
        low, high = jnp.maximum(middle - reach, 0.0), middle + reach
        if isinstance(outcome, dist.BinomialProbs | dist.BinomialLogits):
            high = jnp.minimum(high, outcome.total_count)
        spans = (values[0] <= jnp.ceil(low)) & (values[-1] >= jnp.floor(high))
        return jax.lax.stop_gradient(spans)

    def _values(self, outcome: Distribution, decision: Array, shape: tuple[int, ...]) -> Array:
        dtype = jnp.result_type(float)
        size = _few_values(outcome)
        if size is not None:
            return jnp.broadcast_to(_column(jnp.arange(size, dtype=dtype), shape), (size, *shape))
        if self.points is None:
            raise InputError(
                f"`Enumeration()` of {type(outcome).__name__} outcomes needs to know over how many "
                f"values: say `Enumeration(points=...)`."
            )
        middle = jax.lax.stop_gradient(statistics.mean(outcome))
        sd = jnp.sqrt(jax.lax.stop_gradient(statistics.variance(outcome)))
        lowest = jnp.minimum(middle - BELOW * sd, jax.lax.stop_gradient(decision) - 5)
        # Where the window cannot hold both the decision and the outcome, the outcome has it.
        lowest = jnp.maximum(lowest, middle + BELOW * sd - self.points)
        if isinstance(outcome, dist.BinomialProbs | dist.BinomialLogits):
            lowest = jnp.minimum(lowest, outcome.total_count + 1.0 - self.points)
        lowest = jnp.floor(jnp.maximum(lowest, 0.0))
        return jnp.broadcast_to(lowest, shape) + _column(
            jnp.arange(self.points, dtype=dtype), shape
        )

    def widened(self, outcomes: Distribution) -> "Enumeration":
        """With a window wide enough for these (stacked) outcomes, and room for them to spread."""
        if _few_values(outcomes) is not None:
            return self
        if isinstance(outcomes, dist.BinomialProbs | dist.BinomialLogits):
            widest = float(jnp.max(outcomes.total_count)) + 1
        else:
            middle = jax.vmap(statistics.mean)(outcomes)
            sd = jnp.sqrt(jax.vmap(statistics.variance)(outcomes))
            low = jnp.maximum(middle - BELOW * sd, 0.0)
            widest = float(jnp.max(middle + ABOVE * sd - low)) + 20
        if not widest <= LARGEST_WINDOW:
            raise InputError(
                f"The {type(outcomes).__name__} outcome spreads over {widest:.0f} values, more "
                f"than {LARGEST_WINDOW} to enumerate. Say how many to sum: "
                f"`expectation=Enumeration(points=...)`, or rescale the outcome."
            )
        return Enumeration(points=max(self.points or 0, 32 * math.ceil(widest / 32)))


@final
@dataclass(frozen=True)
class Quadrature:
    """Double-exponential quadrature over y for a continuous one-dimensional outcome.

    The line is split at the decision, where a piecewise loss has its kink, and at the outcome's
    median; points crowd double-exponentially at both, so that narrow outcomes, narrow utilities
    and decisions far in the tail are all resolved. `points` counts those of each of the three
    pieces: by default 81 in single and 201 in double precision.

    >>> import stakes
    >>> stakes.Quadrature(points=41)
    Quadrature(points=41)
    """

    points: int | None = None
    exact = True

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        shape = np.broadcast_shapes(outcome.batch_shape, jnp.shape(decision))
        still = jax.lax.stop_gradient
        frozen = still(outcome)
        median, spread = (jnp.broadcast_to(x, shape) for x in _middle_and_spread(frozen))
        # Ends that depend on parameters take the points along; everything else stands still.
        lower, upper = _ends(outcome)
        median = jnp.clip(median, still(lower), still(upper))
        kink = jnp.clip(still(decision), lower, upper)
        left, right = jnp.minimum(kink, median), jnp.maximum(kink, median)
        size = self.points or (81 if median.dtype == jnp.float32 else 201)
        pieces = [
            _outward(left, spread, lower, -1.0, size),
            _between(left, right, size),
            _outward(right, spread, upper, +1.0, size),
        ]
        points = jnp.concatenate([piece.points for piece in pieces])
        log_steps = jnp.concatenate([piece.log_weights for piece in pieces])
        points = _into_open(points, lower, upper)
        # Far out a density may be zero with an infinite slope: the median stands in there.
        counts = still(jnp.isfinite(log_steps) & (frozen.log_prob(still(points)) > -1e5))
        points = jnp.where(counts, points, median)
        return Rule(points, jnp.where(counts, log_steps + outcome.log_prob(points), -jnp.inf))


@final
@dataclass(frozen=True)
class MonteCarlo:
    """Reparameterised draws of y, the paper's own way (eq. 5); the last resort.

    >>> import stakes
    >>> stakes.MonteCarlo(draws=100)
    MonteCarlo(draws=100)
    """

    draws: int = 30
    exact = False

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise InputError(f"`MonteCarlo(draws=...)` must be at least 1; got {self.draws}.")

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        shape = np.broadcast_shapes(outcome.batch_shape, jnp.shape(decision))
        missing = shape[: len(shape) - len(outcome.batch_shape)]
        points = outcome.expand(missing + tuple(outcome.batch_shape)).rsample(key, (self.draws,))
        points = jnp.broadcast_to(points, (self.draws, *shape))
        return Rule(points, jnp.full_like(points, -math.log(self.draws)))


def log_mass(outcome: Distribution, values: Array) -> Rule:
    """Log probability of counts, -inf where there is none, with a legal stand-in for those."""
    inside = outcome.support(values) & (values >= 0)
    legal = jnp.where(inside, values, jnp.floor(jax.lax.stop_gradient(_middle(outcome))))
    return Rule(legal, jnp.where(inside, outcome.log_prob(_as_outcome(outcome, legal)), -jnp.inf))


def _few_values(outcome: Distribution) -> int | None:
    """How many values the outcome can take, where its type says so; they are 0, 1, ..."""
    if isinstance(outcome, dist.BernoulliProbs | dist.BernoulliLogits):
        return 2
    if isinstance(outcome, dist.CategoricalProbs):
        return int(outcome.probs.shape[-1])
    if isinstance(outcome, dist.CategoricalLogits):
        return int(outcome.logits.shape[-1])
    return None


def _middle(outcome: Distribution) -> Array:
    return jnp.zeros(()) if _few_values(outcome) is not None else statistics.mean(outcome)


def _as_outcome(outcome: Distribution, values: Array) -> Array:
    categorical = isinstance(outcome, dist.CategoricalProbs | dist.CategoricalLogits)
    return values.astype(int) if categorical else values


def _column(values: Array, shape: tuple[int, ...]) -> Array:
    return values.reshape(-1, *(1 for _ in shape))


def _column_like(array: Array, values: np.ndarray) -> Array:
    return _column(jnp.asarray(values, array.dtype), array.shape)


def _between(low: Array, high: Array, points: int) -> Rule:
    """Tanh-sinh rule on [low, high]: offsets are measured from the nearer end."""
    t, step = np.linspace(-3.2, 3.2, points, retstep=True)
    x = np.pi * np.sinh(t)
    near_low, near_high = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x))
    log_slope = np.log(np.pi * np.cosh(t) * near_low * near_high * step)
    width = high - low
    cast = partial(_column_like, width)
    y = jnp.where(cast(t) < 0, low + width * cast(near_low), high - width * cast(near_high))
    some = width > 0
    log_width = jnp.where(some, jnp.log(jnp.where(some, width, 1.0)), -jnp.inf)
    return Rule(y, log_width + cast(log_slope))


def _outward(start: Array, spread: Array, end: Array, sign: float, points: int) -> Rule:
    """Tanh-sinh up to a finite end, exp-sinh towards an infinite one."""
    t, step = np.linspace(-3.3, 3.3, points, retstep=True)
    log_reach = np.pi / 2 * np.sinh(t)
    log_slope = np.log(np.pi / 2 * np.cosh(t) * step)
    cast = partial(_column_like, start)
    y = start + sign * spread * cast(np.exp(log_reach))
    open_end = Rule(y, jnp.log(spread) + cast(log_reach + log_slope))
    finite = jnp.isfinite(end)
    safe_end = jnp.where(finite, end, start)
    closed = _between(jnp.minimum(start, safe_end), jnp.maximum(start, safe_end), points)
    return Rule(*(jnp.where(finite, *pair) for pair in zip(closed, open_end, strict=True)))


def _middle_and_spread(outcome: Distribution) -> tuple[Array, Array]:
    """Median and interquartile range; roughly, where NumPyro has no inverse of its own for them."""
    try:
        return outcome.icdf(0.5), outcome.icdf(0.75) - outcome.icdf(0.25)
    except ImportError:  # an optional dependency of NumPyro
        sd = jnp.sqrt(statistics.variance(outcome))
        return outcome.mean, jnp.where(jnp.isfinite(sd), sd, getattr(outcome, "scale", 1.0))


def _ends(outcome: Distribution) -> tuple[Array, Array]:
    """The ends of the support, infinite where it has none."""
    support = outcome.support
    lower = getattr(support, "lower_bound", None)
    upper = getattr(support, "upper_bound", None)
    if lower is None and upper is None and support is not constraints.real:
        raise InputError(
            f"Quadrature does not know the ends of the support {support} of "
            f"{type(outcome).__name__}; use `expectation=MonteCarlo(...)`."
        )
    dtype = jnp.result_type(float)
    return (
        jnp.asarray(-jnp.inf if lower is None else lower, dtype),
        jnp.asarray(jnp.inf if upper is None else upper, dtype),
    )


def _into_open(points: Array, lower: Array, upper: Array) -> Array:
    """Off the ends of the support, where a density may be infinite or undefined."""
    lower, upper = jax.lax.stop_gradient((lower, upper))
    tiny = np.finfo(points.dtype).tiny
    lowest = jnp.where(lower == 0, tiny, jnp.nextafter(lower, jnp.inf))
    highest = jnp.nextafter(upper, -jnp.inf)
    # The shift is not differentiated: a point at an end moves with it.
    return points + jax.lax.stop_gradient(jnp.clip(points, lowest, highest) - points)
