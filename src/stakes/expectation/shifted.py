"""A few points, shifted at random: the expectation that a step of a stochastic fit takes."""

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Array, Distribution, Key
from stakes.errors import NoClosedForm
from stakes.expectation import stats
from stakes.expectation.points import ByPoints
from stakes.expectation.spacing import Spacing, spacing_of
from stakes.expectation.sums import Rule, column_like, normalised
from stakes.protocols import Cost, Gain, Predicted

POINTS = 12
REACH = 3.4
"""How far points go either way: to some fifteen standard deviations of a normal outcome."""
ASTRAY = math.log(3.0)
"""How far the mass of all points may be from one."""


@final
@dataclass(frozen=True)
class Shifted(ByPoints):
    """A trapezoidal rule of few points, shifted at random, where `exact` has many.

    On a line on which the mass of the outcome lies evenly (`spacing.py`), twelve points are exact
    but for kinks and jumps of the loss. The shift is another one for each instance and draw of θ,
    so that the errors at these are zero on average. Points are fixed, and gradients by the
    parameters of the outcome flow through its density: a loss may jump anywhere. Ends of the
    support that follow from θ have a point each, for slopes alone. Counts are taken in pairs, one
    pair from each of as many strata.
    """

    exact: ByPoints
    points: int = POINTS

    def __post_init__(self) -> None:
        checks.assign(self, points=checks.whole("`Shifted(points=...)`", self.points, least=2))

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        return self.exact.objection(outcome, gain, decision)

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        spacing = self.spacing(outcome)
        if spacing is None or stats.components(outcome) is not None:
            return self.exact.rule(key, outcome, decision)
        assert key is not None
        shape = np.broadcast_shapes(outcome.batch_shape, jnp.shape(decision))
        shift = jax.random.uniform(key, shape, jnp.result_type(float))
        if stats.is_discrete(outcome):
            return self._of_counts(outcome, spacing, shift)
        step = 2 * REACH / self.points
        first = np.exp(-REACH + step * np.arange(self.points))
        points, log_slope = spacing.outward(column_like(shift, first) * jnp.exp(step * shift))
        log_steps = log_slope + math.log(step)
        parts = [_weighed(outcome, points, log_steps)]
        parts += [_at(end, outcome, spacing.spread, shape) for end in _moving_ends(outcome)]
        points, log_weights = (jnp.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Rule(points, normalised(log_weights, ASTRAY))

    def _of_counts(self, outcome: Distribution, spacing: Spacing, shift: Array) -> Rule:
        """Two from each stratum, as far from its two ends; the least value is one by itself."""
        least = stats.smallest_value(outcome)
        edges = np.exp(np.linspace(-REACH, REACH, self.points))
        low = jnp.maximum(jnp.round(spacing.outward(column_like(shift, edges))[0]), least + 1)
        if (last := stats.last_value(outcome)) is not None:
            low = jnp.minimum(low, last + 1)
        start = jnp.broadcast_to(least, shift.shape)
        low = jnp.concatenate([start[None], start[None] + 1, low[1:]])
        wide = jnp.diff(low, axis=0)
        into = jnp.minimum(jnp.floor(shift * wide), wide - 1)
        counts = jnp.concatenate([low[:-1] + into, low[1:] - 1 - into])
        log_wide = jnp.log(jnp.concatenate([wide, wide])) - math.log(2)
        some = log_wide > -jnp.inf
        legal, log_masses = stats.masses(outcome, jnp.where(some, counts, least))
        log_weights = jnp.where(some, log_masses + log_wide, -jnp.inf)
        return Rule(legal, normalised(log_weights, ASTRAY))

    def for_steps(self) -> "Shifted":
        return self

    def spacing(self, outcome: Distribution) -> Spacing | None:
        try:
            return spacing_of(outcome)
        except NoClosedForm:
            return None

    def mixture(self, outcomes: Distribution) -> Predicted:
        return self.exact.mixture(outcomes)

    @property
    def cost(self) -> Cost:
        return Cost(points=self.points, trial=self.points)


class _End(NamedTuple):
    """An end of the support that may depend on θ."""

    at: Array | float
    side: Array | float
    """One for an upper end, minus one for a lower one."""


def _moving_ends(outcome: Distribution) -> list[_End]:
    """Those that are arrays, and so may follow from θ."""
    line = stats.line(outcome)
    lower, upper = stats.ends(outcome if line is None else line.of)
    ends = [_End(end, side) for end, side in ((lower, -1.0), (upper, 1.0)) if end is not None]
    if line is None:
        return [end for end in ends if isinstance(end.at, Array)]
    return [_End(line.at(jnp.asarray(end.at)), jnp.sign(line.slope) * end.side) for end in ends]


def _weighed(outcome: Distribution, points: Array, log_steps: Array) -> Rule:
    """Far out a density may be zero with an infinite slope: the middle stands in there."""
    still = jax.lax.stop_gradient
    counts = still(stats.log_density(outcome, points)) + log_steps > -80.0
    held = jnp.where(counts, points, points[len(points) // 2])
    log_weights = log_steps + stats.log_density(outcome, held)
    return Rule(held, jnp.where(counts, log_weights, -jnp.inf))


def _at(end: _End, outcome: Distribution, spread: Array, shape: tuple[int, ...]) -> Rule:
    """What the support gains and loses when its end moves, for slopes only.

    The step has next to no length, and its derivative is one.
    """
    still = jax.lax.stop_gradient
    place = jnp.broadcast_to(jnp.asarray(end.at, jnp.result_type(float)), shape)
    near = np.finfo(place.dtype).eps ** 0.75 * jnp.maximum(jnp.abs(still(place)), spread)
    length = 1e-10 * spread
    point = still(place - end.side * near)
    log_density = still(stats.log_density(outcome, point))
    moved = end.side * (place - still(place)) / length
    log_weight = jnp.where(jnp.isfinite(log_density), log_density, -jnp.inf) + jnp.log(length)
    return Rule(point[None], (log_weight + moved)[None])
