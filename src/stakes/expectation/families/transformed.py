"""Outcomes that are shifted and scaled: y = a + b x, where everything is known of x."""

from functools import reduce
from typing import NamedTuple

import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution
from numpyro.distributions.transforms import AffineTransform

from stakes._types import Array, Number
from stakes.expectation import stats
from stakes.expectation.families.common import bare, floats
from stakes.expectation.mixture import Single


class Line(NamedTuple):
    """a + b x."""

    start: Array
    slope: Array
    of: Distribution

    def back(self, value: Array) -> Array:
        """From y to x."""
        return (value - self.start) / self.slope


def _line(outcome: dist.TransformedDistribution) -> Line | None:
    """None where it is bent as well."""
    if outcome.event_shape or not all(type(t) is AffineTransform for t in outcome.transforms):
        return None
    line = reduce(
        lambda line, t: (t.loc + t.scale * line[0], t.scale * line[1]),
        outcome.transforms,
        (0.0, 1.0),
    )
    start, slope = floats(*line)
    return Line(start, slope, bare(outcome.base_dist))


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
    place = line.back(value)
    return jnp.where(line.slope > 0, stats.cdf(line.of, place), 1 - stats.below(line.of, place))


@stats.below.register
def _(outcome: dist.TransformedDistribution, value: Array) -> Array:
    if (line := _line(outcome)) is None:
        return _plain(stats.below, outcome, value)
    place = line.back(value)
    return jnp.where(line.slope > 0, stats.below(line.of, place), 1 - stats.cdf(line.of, place))


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
