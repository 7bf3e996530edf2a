"""Outcomes that are shifted and scaled: y = a + b x, where everything is known of x."""

import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution
from numpyro.distributions.transforms import AffineTransform

from stakes._types import Array, Number
from stakes.expectation import stats
from stakes.expectation.families.common import bare, floats
from stakes.expectation.mixture import Single
from stakes.expectation.stats import Line


@stats.line.register
def _line(outcome: dist.TransformedDistribution) -> Line | None:
    """The last transforms, as far as they are lines. Subclasses such as Pareto know their own."""
    if type(outcome) is not dist.TransformedDistribution or outcome.event_shape:
        return None
    bent = list(outcome.transforms)
    start, slope = 0.0, 1.0
    while bent and type(bent[-1]) is AffineTransform:
        last = bent.pop()
        start, slope = start + slope * last.loc, slope * last.scale
    if len(bent) == len(outcome.transforms):
        return None
    base = bare(outcome.base_dist)
    of = dist.TransformedDistribution(base, bent) if bent else base
    begin, rise = floats(start, slope)
    return Line(begin, rise, of)


def _plain(question: object, outcome: Distribution, *arguments: Number) -> Array:
    """What is known of an outcome of any type."""
    answer: Array = question.dispatch(object)(outcome, *arguments)  # type: ignore[attr-defined]
    return answer


@stats.mean.register
def _(outcome: dist.TransformedDistribution) -> Array:
    if (line := _line(outcome)) is None:
        return _plain(stats.mean, outcome)
    return line.start + line.slope * stats.mean(line.of)


@stats.variance.register
def _(outcome: dist.TransformedDistribution) -> Array:
    if (line := _line(outcome)) is None:
        return _plain(stats.variance, outcome)
    return jnp.square(line.slope) * stats.variance(line.of)


@stats.cdf.register
def _(outcome: dist.TransformedDistribution, value: Array) -> Array:
    if (line := _line(outcome)) is None:
        return _plain(stats.cdf, outcome, value)
    place, of = line.back(value), Single(line.of)
    return jnp.where(line.slope > 0, of.cdf(place), 1 - of.below(place))


@stats.below.register
def _(outcome: dist.TransformedDistribution, value: Array) -> Array:
    if (line := _line(outcome)) is None:
        return _plain(stats.below, outcome, value)
    place, of = line.back(value), Single(line.of)
    return jnp.where(line.slope > 0, of.below(place), 1 - of.cdf(place))


@stats.tails.register
def _(outcome: dist.TransformedDistribution, decision: Array, above: float, below: float) -> Array:
    if (line := _line(outcome)) is None:
        return _plain(stats.tails, outcome, decision, above, below)
    place = line.back(jnp.asarray(decision))
    rising = stats.tails(line.of, place, above, below)
    falling = stats.tails(line.of, place, below, above)
    return jnp.abs(line.slope) * jnp.where(line.slope > 0, rising, falling)


@stats.least_tails.register
def _(outcome: dist.TransformedDistribution, above: float, below: float) -> Array:
    if (line := _line(outcome)) is None:
        return _plain(stats.least_tails, outcome, above, below)
    base = Single(line.of)
    rising, falling = base.least_tails(above, below), base.least_tails(below, above)
    return jnp.abs(line.slope) * jnp.where(line.slope > 0, rising, falling)
