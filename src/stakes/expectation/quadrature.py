"""Double-exponential quadrature over a continuous outcome."""

from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from stakes import checks
from stakes._types import Array, Distribution, Key
from stakes.errors import InputError
from stakes.expectation import stats
from stakes.expectation.points import ByPoints, column_like
from stakes.expectation.sums import Rule
from stakes.protocols import Gain


@final
@dataclass(frozen=True)
class Quadrature(ByPoints):
    """Double-exponential quadrature over y for a continuous one-dimensional outcome.

    The line is split at the decision, where a piecewise loss has its kink, and at the outcome's
    median; points crowd double-exponentially at both, so that narrow outcomes, narrow utilities
    and decisions far in the tail are all resolved. `points` is the number in each of the three
    pieces: by default 81 in single and 201 in double precision.

    Examples:
        >>> import numpyro.distributions as dist, stakes
        >>> late = stakes.Quadrature().expected(
        ...     None, dist.Exponential(1.0), lambda time, promise: (time > promise) * 1.0, 2.0
        ... )
        >>> round(float(late), 4)  # exp(-2)
        0.1353
    """

    points: int | None = None

    def __post_init__(self) -> None:
        if self.points is not None:
            points = checks.whole("`Quadrature(points=...)`", self.points, least=3)
            object.__setattr__(self, "points", points)

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        if stats.is_discrete(outcome) or not self._has_quantiles(outcome, decision):
            return "quadrature takes continuous outcomes that have an `icdf`"
        return None

    def _has_quantiles(self, outcome: Distribution, decision: Array) -> bool:
        try:
            jax.eval_shape(lambda: self.rule(None, outcome, decision))
        except (NotImplementedError, InputError):
            return False
        return not outcome.event_shape

    @property
    def held(self) -> int:
        return 3 * self._size(jnp.result_type(float))

    def _size(self, dtype: np.dtype) -> int:
        """Points in each piece."""
        return self.points or (81 if dtype == jnp.float32 else 201)

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        shape = np.broadcast_shapes(outcome.batch_shape, jnp.shape(decision))
        still = jax.lax.stop_gradient
        frozen = still(outcome)
        median, spread = (jnp.broadcast_to(x, shape) for x in _middle_and_spread(frozen))
        # Points move with ends that depend on parameters; everything else is fixed.
        lower, upper = _ends(outcome)
        median = jnp.clip(median, still(lower), still(upper))
        kink = jnp.clip(still(decision), lower, upper)
        left, right = jnp.minimum(kink, median), jnp.maximum(kink, median)
        size = self._size(median.dtype)
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


def _between(low: Array, high: Array, points: int) -> Rule:
    """Tanh-sinh rule on [low, high]: offsets are measured from the nearer end."""
    t, step = np.linspace(-3.2, 3.2, points, retstep=True)
    x = np.pi * np.sinh(t)
    near_low, near_high = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x))
    log_slope = np.log(np.pi * np.cosh(t) * near_low * near_high * step)
    width = high - low
    cast = partial(column_like, width)
    y = jnp.where(cast(t) < 0, low + width * cast(near_low), high - width * cast(near_high))
    some = width > 0
    log_width = jnp.where(some, jnp.log(jnp.where(some, width, 1.0)), -jnp.inf)
    return Rule(y, log_width + cast(log_slope))


def _outward(start: Array, spread: Array, end: Array, sign: float, points: int) -> Rule:
    """Tanh-sinh up to a finite end, exp-sinh towards an infinite one."""
    t, step = np.linspace(-3.3, 3.3, points, retstep=True)
    log_reach = np.pi / 2 * np.sinh(t)
    log_slope = np.log(np.pi / 2 * np.cosh(t) * step)
    cast = partial(column_like, start)
    y = start + sign * spread * cast(np.exp(log_reach))
    open_end = Rule(y, jnp.log(spread) + cast(log_reach + log_slope))
    finite = jnp.isfinite(end)
    safe_end = jnp.where(finite, end, start)
    closed = _between(jnp.minimum(start, safe_end), jnp.maximum(start, safe_end), points)
    return Rule(*(jnp.where(finite, *pair) for pair in zip(closed, open_end, strict=True)))


def _middle_and_spread(outcome: Distribution) -> tuple[Array, Array]:
    """Median and interquartile range, or rough substitutes where NumPyro lacks a dependency."""
    try:
        return outcome.icdf(0.5), outcome.icdf(0.75) - outcome.icdf(0.25)
    except ImportError:  # an optional dependency of NumPyro
        sd = jnp.sqrt(stats.variance(outcome))
        return outcome.mean, jnp.where(jnp.isfinite(sd), sd, getattr(outcome, "scale", 1.0))


def _ends(outcome: Distribution) -> tuple[Array, Array]:
    """The ends of the support, infinite where it has none."""
    support = outcome.support
    lower = getattr(support, "lower_bound", None)
    upper = getattr(support, "upper_bound", None)
    if lower is None and upper is None and support is not constraints.real:
        raise InputError(
            f"Quadrature cannot find the ends of the support {support} of "
            f"{type(outcome).__name__}; use `expectation=MonteCarlo(...)`."
        )
    dtype = jnp.result_type(float)
    return (
        jnp.asarray(-jnp.inf if lower is None else lower, dtype),
        jnp.asarray(jnp.inf if upper is None else upper, dtype),
    )


def _into_open(points: Array, lower: Array, upper: Array) -> Array:
    """Points moved off the ends of the support, where a density may be infinite or undefined."""
    lower, upper = jax.lax.stop_gradient((lower, upper))
    tiny = np.finfo(points.dtype).tiny
    lowest = jnp.where(lower == 0, tiny, jnp.nextafter(lower, jnp.inf))
    highest = jnp.nextafter(upper, -jnp.inf)
    # The shift is not differentiated: a point at an end moves with it.
    return points + jax.lax.stop_gradient(jnp.clip(points, lowest, highest) - points)
