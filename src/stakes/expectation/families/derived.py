"""Outcomes made of another: shifted and scaled, y = a + b x, or with more zeros.

A statistic of a line is that of x, moved back: P(y ≤ h) = P(x ≤ (h - a)/b) for b > 0. With zeros
added, y is zero with the chance g (the gate) and otherwise distributed as x: every expectation is E
f(y) = g f(0) + (1 - g) E f(x).
"""

import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution
from numpyro.distributions.discrete import ZeroInflatedProbs
from numpyro.distributions.transforms import AffineTransform

from stakes._types import Array
from stakes.expectation import stats
from stakes.expectation.families.guards import floats, not_zero
from stakes.expectation.predicted import Single
from stakes.expectation.special import exp_less_tangent
from stakes.expectation.stats import LocationScale

# Shifted and scaled ------------------------------------------------------------------------


@stats.line.register
def _line(outcome: dist.TransformedDistribution) -> LocationScale | None:
    """Return a transformed outcome as a line of what its last transform is applied to.

    As many transforms as are lines are taken together; what is left of them belongs to the base.
    Subclasses such as Pareto know their own statistics, and are left alone.
    """
    if type(outcome) is not dist.TransformedDistribution or outcome.event_shape:
        return None
    bent = list(outcome.transforms)
    start, slope = 0.0, 1.0
    while bent and type(bent[-1]) is AffineTransform:
        last = bent.pop()
        start, slope = start + slope * last.loc, slope * last.scale
    if len(bent) == len(outcome.transforms):
        return None
    base = stats.bare(outcome.base_dist)
    of = dist.TransformedDistribution(base, bent) if bent else base
    begin, rise = floats(start, slope)
    return LocationScale(begin, rise, of)


of_line = stats.answers(dist.TransformedDistribution, _line, object)


@of_line(stats.log_density)
def _(line: LocationScale, value: Array) -> Array:
    """NumPyro takes a slope that is traced to be positive."""
    return stats.log_density(line.of, line.back(value)) - jnp.log(jnp.abs(line.slope))


@of_line(stats.mean)
def _(line: LocationScale) -> Array:
    """a + b E x."""
    return line.start + line.slope * stats.mean(line.of)


@of_line(stats.variance)
def _(line: LocationScale) -> Array:
    """b² Var x."""
    return jnp.square(line.slope) * stats.variance(line.of)


@of_line(stats.cdf)
def _(line: LocationScale, value: Array) -> Array:
    """P(x ≤ (h - a)/b); P(x ≥ (h - a)/b) where b is negative."""
    point, of = line.back(value), Single(line.of)
    return jnp.where(line.slope > 0, of.cdf(point), 1 - of.below(point))


@of_line(stats.below)
def _(line: LocationScale, value: Array) -> Array:
    """P(x < (h - a)/b); P(x > (h - a)/b) where b is negative."""
    point, of = line.back(value), Single(line.of)
    return jnp.where(line.slope > 0, of.below(point), 1 - of.cdf(point))


@of_line(stats.tails)
def _(line: LocationScale, decision: Array, above: float, below: float) -> Array:
    """|b| times those of x; where b is negative, above and below change places."""
    point = line.back(jnp.asarray(decision))
    rising = stats.tails(line.of, point, above, below)
    falling = stats.tails(line.of, point, below, above)
    return jnp.abs(line.slope) * jnp.where(line.slope > 0, rising, falling)


@of_line(stats.least_tails)
def _(line: LocationScale, above: float, below: float) -> Array:
    """|b| times those of x, with above and below in the same places as for `tails`."""
    base = Single(line.of)
    rising, falling = base.least_tails(above, below), base.least_tails(below, above)
    return jnp.abs(line.slope) * jnp.where(line.slope > 0, rising, falling)


# More zeros --------------------------------------------------------------------------------


def _inflated(outcome: ZeroInflatedProbs) -> Distribution:
    """Return the distribution to which zeros were added, without masks and expansions."""
    return stats.bare(outcome.base_dist)


@stats.few_values.register
def _(outcome: ZeroInflatedProbs) -> int | None:
    """As many as without the zeros, which have zero among them."""
    return stats.few_values(_inflated(outcome))


@stats.mean.register
def _(outcome: ZeroInflatedProbs) -> Array:
    """(1 - g) E x."""
    return (1 - outcome.gate) * stats.mean(_inflated(outcome))


@stats.variance.register
def _(outcome: ZeroInflatedProbs) -> Array:
    """(1 - g) (Var x + g (E x)²)."""
    base, gate = _inflated(outcome), outcome.gate
    return (1 - gate) * (stats.variance(base) + gate * jnp.square(stats.mean(base)))


@stats.cdf.register
def _(outcome: ZeroInflatedProbs, value: Array) -> Array:
    """(1 - g) P(x ≤ h), and g more from zero on."""
    return outcome.gate * (value >= 0) + (1 - outcome.gate) * stats.cdf(_inflated(outcome), value)


@stats.tails.register
def _(outcome: ZeroInflatedProbs, decision: Array, above: float, below: float) -> Array:
    """g times the cost at zero, and 1 - g times the expected cost of x."""
    at_zero = jnp.maximum(-above * decision, below * decision)
    others = stats.tails(_inflated(outcome), decision, above, below)
    return outcome.gate * at_zero + (1 - outcome.gate) * others


@stats.cumulant.register
def _(outcome: ZeroInflatedProbs, t: float) -> Array:
    """log(g + (1 - g) E exp(tx)) - t (1 - g) E x.

    Where t is small it is the logarithm of one and terms that are not negative, so that nothing
    cancels.
    """
    base, gate = _inflated(outcome), outcome.gate
    spread, centre = stats.cumulant(base, t), stats.mean(base)
    zero, other = -t * (1 - gate) * centre, t * gate * centre + spread
    small = jnp.maximum(zero, other) < 1
    by_zero, by_other = (exp_less_tangent(jnp.where(small, x, 0.0)) for x in (zero, other))
    near = jnp.log1p(gate * by_zero + (1 - gate) * (by_other + jnp.where(small, spread, 0.0)))
    far = jnp.logaddexp(jnp.log(not_zero(gate)) + zero, jnp.log(not_zero(1 - gate)) + other)
    return jnp.where(small, near, far)


@stats.log_mass.register
def _(outcome: ZeroInflatedProbs, count: Array) -> Array:
    """log((1 - g) p(k)), and log(g + (1 - g) p(0)) at zero."""
    others = jnp.log1p(-outcome.gate) + stats.log_mass(_inflated(outcome), count)
    more = (count == 0) & (outcome.gate > 0)
    return jnp.where(more, jnp.logaddexp(jnp.log(not_zero(outcome.gate)), others), others)
