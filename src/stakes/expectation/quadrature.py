"""Double-exponential quadrature over a continuous outcome.

Tanh-sinh towards an end and exp-sinh towards infinity, after Takahasi and Mori, Double exponential
formulas for numerical integration (1974): y = g(t) with t evenly spaced, and g so steep that the
density at the last points is nothing. The trapezoidal rule in t then converges exponentially, also
where the density is infinite at an end.

The points are fixed under differentiation: slopes reach parameters through the log density at each
point. Only at the decision, where a loss may jump, slopes come from points next to it.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from stakes import checks
from stakes._types import Array, Distribution, Float, Key
from stakes.errors import InputError
from stakes.expectation import stats
from stakes.expectation.points import ByPoints, PointTable, kink, pooled_rule
from stakes.expectation.shifted import Shifted
from stakes.expectation.spacing import rough_place
from stakes.expectation.sums import Rule, Terms, column_like, neglectable, normalised
from stakes.protocols import Cost, Gain

# How far t goes either way: towards an open end, points reach out to exp(21) times the spread.
REACH = 3.3
# The logarithm of how far they go at most, where the tail is heavy: squares do not overflow.
FURTHEST = {"float32": 41.0, "float64": 345.0}
# Beyond so many times the spread from the middle, the line is not split at the decision.
FAR = 1e4
# The power of t by which they then move out: those near the middle stay where they are.
LATE = 10


@final
@dataclass(frozen=True)
class Quadrature(ByPoints):
    """Double-exponential quadrature over y for a continuous one-dimensional outcome.

    The line is split at the decision, where a piecewise loss has its kink or jump, and in the
    middle of the outcome; points crowd double-exponentially at both, so that narrow outcomes,
    narrow utilities and decisions far in the tail are all resolved. Where the density grows without
    bound towards an end of the support, points crowd there as much as it takes; where a tail is
    heavy, they reach further out. `points` is the number in each of the three pieces: by default
    81 in single and 201 in double precision.

    The result is nan where it would be wrong: where the points do not hold all of the mass, where
    those furthest out still matter (an infinite expectation, for one), or where every second point
    gives another answer, off by more than a hundredth.

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
            checks.assign(self, points=points)

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        """Return that the outcome is not continuous, or has no quantiles to place points by."""
        is_number = not outcome.event_shape and not stats.is_discrete(outcome)
        is_number = is_number and stats.line_of_counts(outcome) is None
        if not is_number or not self._has_quantiles(outcome, decision):
            return "quadrature takes continuous outcomes that have an `icdf`"
        return None

    def _has_quantiles(self, outcome: Distribution, decision: Array) -> bool:
        try:
            jax.eval_shape(lambda: self.rule(None, outcome, kink(decision)))
        except (NotImplementedError, InputError):
            return False
        return True

    def for_steps(self) -> Shifted:
        return Shifted(self)

    @property
    def cost(self) -> Cost:
        values = 3 * self._size(jnp.result_type(float)) + 4
        return Cost(points=values, trial=values)

    def pool(self, outcomes: Distribution, drawn: Array, most: int) -> PointTable:
        """Return a table of values of the whole mixture: see `pooled_rule`."""
        return PointTable.of(self, pooled_rule(outcomes, drawn, most))

    def _size(self, dtype: np.dtype) -> int:
        """Points in each piece."""
        return self.points or (81 if dtype == jnp.float32 else 201)

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        """Points in ascending order, or descending where the outcome falls with another."""
        if (line := stats.line(outcome)) is not None:
            points, log_weights = self.rule(key, line.of, line.back(jnp.asarray(decision)))
            return Rule(line.at(points), log_weights)
        shape = np.broadcast_shapes(outcome.batch_shape, jnp.shape(decision))
        still = jax.lax.stop_gradient
        dtype = jnp.result_type(float)
        middle, spread = (
            jnp.broadcast_to(x, shape).astype(dtype) for x in _middle_and_spread(still(outcome))
        )
        decision = jnp.broadcast_to(jnp.asarray(decision, dtype), shape)
        ends = _ends(outcome)
        kink = _kink(still(decision), middle, spread, ends)
        left, right = jnp.minimum(kink, middle), jnp.maximum(kink, middle)
        size = self._size(dtype)
        below = _outward(outcome, left, middle, spread, ends.lower, -1, size)
        above = _outward(outcome, right, middle, spread, ends.upper, +1, size)
        pieces = [
            below,
            _between(left, right, size),
            _at_jump(decision, middle, spread, ends),
            above,
        ]
        points, log_steps, log_growth = (
            jnp.concatenate(arrays) for arrays in zip(*pieces, strict=True)
        )
        # Far out a density may be zero with an infinite slope: the middle stands in there.
        counts = stats.log_density(still(outcome), still(points)) + still(log_steps) > -1e5
        points = jnp.where(counts, points, middle)
        log_weights = log_steps + stats.log_density(outcome, points) + log_growth
        whole = 1e-2 if dtype == jnp.float32 else 1e-5
        return Rule(points, normalised(jnp.where(counts, log_weights, -jnp.inf), whole))

    def typical(self, outcome: Distribution) -> Array:
        """Return the middle of the outcome."""
        if (line := stats.line(outcome)) is not None:
            return line.at(self.typical(line.of))
        return _middle_and_spread(jax.lax.stop_gradient(outcome))[0]

    def trusted(self, outcome: Distribution, terms: Terms) -> Array:
        """Return whether the sum is as good as the integral.

        Every other point gives nearly the same answer, and the shares at the points furthest out
        fall off fast enough that what lies beyond them does not matter.
        """
        if (line := stats.line(outcome)) is not None:
            cost = terms.size
            moved = None if cost is None else lambda points: cost(line.at(points))
            return self.trusted(line.of, terms._replace(points=line.back(terms.points), size=moved))
        size = self._size(terms.shares.dtype)
        every_other = np.where(np.arange(size) % 2 == 0, 1.0, -1.0)
        signs = np.concatenate([every_other, every_other, np.zeros(4), every_other])
        total = jnp.sum(terms.shares, axis=0)
        change = jnp.abs(jnp.sum(column_like(total, signs) * terms.shares, axis=0))
        below, above = terms.part(None, size), terms.part(-size, None)
        outside = below.beyond(-1) + above.beyond(+1)
        fine = (change <= terms.coarse * total) & (outside <= neglectable(total.dtype) * total)

        def log_density(value: Array) -> Array:
            inside = outcome.support(value)
            held = jnp.where(inside, value, self.typical(outcome))
            return jnp.where(inside, stats.log_density(outcome, held), -jnp.inf)

        return fine & ~(below.diverge(-1, log_density) | above.diverge(+1, log_density))


class _Ends(NamedTuple):
    """The ends of the support; None where it has none."""

    lower: Array | None
    upper: Array | None


class _Segment(NamedTuple):
    """Points, the logarithm of how much of the line each stands for, and a correction."""

    points: Float[Array, "point *instance"]
    log_steps: Float[Array, "point *instance"]
    log_growth: Float[Array, "point *instance"]
    """How much the density still grows from there to the point meant, too near to an end."""


def _between(low: Array, high: Array, points: int) -> _Segment:
    """Tanh-sinh rule on [low, high]: offsets are measured from the nearer end."""
    t, step = np.linspace(-3.2, 3.2, points, retstep=True)
    x = np.pi * np.sinh(t)
    near_low, near_high = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x))
    log_slope = np.log(np.pi * np.cosh(t) * near_low * near_high * step)
    width = high - low
    cast = partial(column_like, width)
    y = jnp.where(cast(t) < 0, low + width * cast(near_low), high - width * cast(near_high))
    return _Segment(y, _log(width) + cast(log_slope), jnp.zeros_like(y))


def _at_jump(decision: Array, middle: Array, spread: Array, ends: _Ends) -> _Segment:
    """Next to either side of the decision: what it moves across when it moves, for slopes only.

    A loss may jump there. The steps have next to no length, and its derivative is one; points twice
    as far out take back what a loss that does not jump changes by.
    """
    at = jax.lax.stop_gradient(decision)
    eps = np.finfo(at.dtype).eps
    near = jnp.maximum(32 * eps * jnp.abs(at), eps**0.75 * spread)
    length = 1e-10 * spread
    cast = partial(column_like, at)
    inside = _inside(at, ends, 2 * near)
    points = jnp.where(inside, at + cast(np.array([-2.0, -1.0, 1.0, 2.0])) * near, middle)
    moved = cast(np.array([-1.0, 2.0, -2.0, 1.0])) * ((decision - at) / length)
    log_steps = jnp.where(inside, jnp.log(length), -jnp.inf) + moved
    return _Segment(points, log_steps, jnp.zeros_like(points))


def _outward(
    outcome: Distribution,
    start: Array,
    middle: Array,
    spread: Array,
    end: Array | None,
    sign: int,
    points: int,
) -> _Segment:
    """Return points from a place outwards: to an end of the support, or to infinity.

    Args:
        outcome: whose density decides how far to go.
        start: where the first point lies.
        middle: of the outcome, where there is mass.
        spread: its quartiles' distance.
        end: of the support on this side; None where it has none.
        sign: 1 for upwards, -1 for downwards.
        points: how many.
    """
    if end is not None:
        return _to_end(outcome, start, middle, end, sign, points)
    return _to_infinity(jax.lax.stop_gradient(outcome), start, spread, sign, points)


def _to_infinity(
    outcome: Distribution, start: Array, spread: Array, sign: int, points: int
) -> _Segment:
    """Exp-sinh; further out where the tail is heavy.

    The power by which the density falls is found from two probes far out. Where it leaves too much
    for a loss of second degree beyond the usual last point, points move out as far as their squares
    do not overflow.
    """
    t, step = np.linspace(-REACH, REACH, points, retstep=True)
    t = t[::sign]
    cast = partial(column_like, start)
    log_near = np.pi / 2 * np.sinh(t)
    near_slope = np.pi / 2 * np.cosh(t)
    late = (1 + t / REACH) / 2  # from 0 at the start to 1 at the last point
    further = FURTHEST[start.dtype.name] - log_near.max()
    log_far = log_near + further * late**LATE
    far_slope = near_slope + further * LATE * late ** (LATE - 1) / (2 * REACH)
    probes = np.exp(log_near.max() - np.array([2.0, 1.0]))
    inner, outer = outcome.log_prob(start + sign * spread * cast(probes))
    power = inner - outer - 1  # p(y) falls as y to the minus 1 + power
    # A loss of degree two, or else one, or else zero, leaves this of the power.
    rest = power - jnp.clip(jnp.ceil(power) - 1, 0.0, 2.0)
    heavy = (outer > -1e4) & (rest * log_near.max() < -np.log(neglectable(start.dtype) / 10))
    # One or zero, as an exponential: anything else XLA would compute anew for each point.
    far = jnp.exp(jnp.where(heavy, 0.0, -jnp.inf))
    step_near = log_near + np.log(near_slope * step)
    step_far = log_far + np.log(far_slope * step)
    y = start + sign * spread * (
        cast(np.exp(log_near)) + far * cast(np.exp(log_far) - np.exp(log_near))
    )
    log_steps = cast(step_near) + far * cast(step_far - step_near)
    return _Segment(y, jnp.log(spread) + log_steps, jnp.zeros_like(y))


def _to_end(
    outcome: Distribution, start: Array, middle: Array, end: Array, sign: int, points: int
) -> _Segment:
    """Tanh-sinh in a power of the distance to the end, in which the density is bounded.

    No number may be near enough to the end: the density goes on as a power of the distance there.
    """
    t, step = np.linspace(-3.2, 3.2, points, retstep=True)
    t = t[::-sign]  # the end is at minus infinity
    x = np.pi * np.sinh(t)
    cast = partial(column_like, start)
    still = jax.lax.stop_gradient
    nearest = _nearest(still(end))
    slope = _steepness(outcome, middle, end, nearest, sign)
    power = jnp.clip(1 + still(slope), 1e-3, 1.0)
    width = sign * (end - start)
    log_part = -cast(np.logaddexp(0, -x)) / power  # of the width
    log_distance = _log(width) + log_part
    distance = jnp.maximum(jnp.exp(log_distance), nearest)
    from_start = -width * jnp.expm1(log_part)
    y = jnp.where(log_part < -np.log(2), end - sign * distance, start + sign * from_start)
    log_steps = log_distance - jnp.log(power)
    log_steps += cast(-np.logaddexp(0, x) + np.log(np.pi * np.cosh(t) * step))
    missing = jnp.minimum(still(log_distance) - jnp.log(nearest), 0.0)
    missing = jnp.where(jnp.isfinite(missing), missing, 0.0)
    return _Segment(y, log_steps, slope * missing)


def _steepness(
    outcome: Distribution, middle: Array, end: Array, nearest: Array, sign: int
) -> Array:
    """d log p / d log distance at an end where the density grows without bound; zero elsewhere."""
    still = jax.lax.stop_gradient
    offsets = column_like(middle, np.array([1.0, 4.0])) * nearest
    y = end - sign * offsets
    distances = jnp.log(still(sign * (end - y)))
    run = distances[1] - distances[0]

    def rise(outcome: Distribution, y: Array) -> Array:
        near, far = stats.log_density(outcome, y)
        return (far - near) / run

    slope = rise(still(outcome), still(y))
    singular = jnp.isfinite(slope) & (slope < 0)
    # Elsewhere the density may have no finite slope in its parameters so near to the end.
    return jnp.where(singular, rise(outcome, jnp.where(singular, y, middle)), 0.0)


def _nearest(end: Array) -> Array:
    """Return how near to the end a number still has a distance to it that is accurate."""
    info = np.finfo(end.dtype)
    return info.eps**0.75 * jnp.abs(end) + 1e3 * info.tiny


def _log(width: Array) -> Array:
    """The logarithm, minus infinity at zero, without a slope of nan there."""
    some = width > 0
    return jnp.where(some, jnp.log(jnp.where(some, width, 1.0)), -jnp.inf)


def _kink(decision: Array, middle: Array, spread: Array, ends: _Ends) -> Array:
    """Return the decision; if it lies beyond an end of the support, a place near to that end.

    The line is split there, so that no piece has a kink inside.
    """
    lower, upper = jax.lax.stop_gradient(ends)
    if lower is not None:
        decision = jnp.where(decision > lower, decision, lower + 0.03 * (middle - lower))
    if upper is not None:
        decision = jnp.where(decision < upper, decision, upper - 0.03 * (upper - middle))
    # Between places further apart than this, too few points would be left for the middle.
    return jnp.clip(decision, middle - FAR * spread, middle + FAR * spread)


def _inside(value: Array, ends: _Ends, room: Array | float) -> Array:
    """Whether a value lies within the support, with room to either end."""
    inside = jnp.ones(value.shape, bool)
    if ends.lower is not None:
        inside &= value - room > jax.lax.stop_gradient(ends.lower)
    if ends.upper is not None:
        inside &= value + room < jax.lax.stop_gradient(ends.upper)
    return inside


def _middle_and_spread(outcome: Distribution) -> tuple[Array, Array]:
    """Return where the mass lies, and over which range: the quartiles, or rough substitutes.

    Neither has to be exact: points reach out double-exponentially from there.
    """
    try:
        middle, spread = outcome.icdf(0.5), outcome.icdf(0.75) - outcome.icdf(0.25)
    except (ImportError, NotImplementedError):  # the first, for an optional dependency of NumPyro
        middle, spread = rough_place(outcome)
    location = stats.parameter(outcome, "loc")
    if outcome.support is constraints.real and location is not None:
        return location, spread  # where the density may have a kink
    return middle, spread


def _ends(outcome: Distribution) -> _Ends:
    """Return the ends of the support; refuse a support of which they are not known."""
    support = outcome.support
    lower, upper = stats.ends(outcome)
    if lower is None and upper is None and support is not constraints.real:
        raise InputError(
            f"Quadrature cannot find the ends of the support {support} of "
            f"{type(outcome).__name__}; use `expectation=MonteCarlo(...)`."
        )
    dtype = jnp.result_type(float)
    return _Ends(*(None if end is None else jnp.asarray(end, dtype) for end in (lower, upper)))
