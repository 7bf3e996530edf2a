"""The normal distribution: all from Mills' ratio.

With z = (h - m)/s, E (y-h)+ = s [φ(z) - z (1 - Φ(z))]. Mills' ratio (1 - Φ(x))/φ(x) is a smooth
function that one polynomial serves, in place of the branches of `erfc`; in its terms nothing
cancels in the tails, and slopes are products of what is there already.
"""

import math
from functools import partial
from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import ndtr, ndtri

from stakes._types import Array, Number
from stakes.expectation import stats
from stakes.expectation.families.guards import floats
from stakes.expectation.special import density, mills, mills_and_slope, with_slopes
from stakes.expectation.sums import flushed_exp
from stakes.host.compiling import once

LOG_ROOT_TAU = math.log(2 * math.pi) / 2


@stats.tails.register
def _(outcome: dist.Normal, decision: Array, above: float, below: float) -> Array:
    """(above + below) s [φ(z) - z (1 - Φ(z))] + below (h - m), with z = (h - m)/s."""
    return _normal_tails(*floats(outcome.loc, outcome.scale, decision), above, below)


@stats.square_tails.register
def _(outcome: dist.Normal, decision: Array, above: Number, below: Number) -> Array:
    """Each side by Stein's identity."""
    loc, scale, decision = floats(outcome.loc, outcome.scale, decision)

    def square(gap: Array) -> Array:
        """E ((g + σ ε)+)² = σ² P(g + σ ε > 0) + g E (g + σ ε)+: by Stein's identity."""
        more = _normal_tails(gap, scale, jnp.zeros_like(gap), 1.0, 0.0)
        return jnp.square(scale) * ndtr(gap / scale) + gap * more

    # Each side by itself: one as the other taken off the whole would lose its digits.
    return above * square(loc - decision) + below * square(decision - loc)


@stats.least_tails.register
def _(outcome: dist.Normal, above: float, below: float) -> Array:
    """(above + below) s φ(z) at the quantile z of the level above/(above + below)."""
    level = above / (above + below)
    if isinstance(level, float):
        return outcome.scale * ((above + below) * NormalDist().pdf(NormalDist().inv_cdf(level)))
    return outcome.scale * ((above + below) * density(ndtri(level)))


@stats.best_in_log_kernel.register
def _(outcome: dist.Normal, width: Number) -> Array:
    """The location, by symmetry."""
    return jnp.asarray(outcome.loc)


@stats.best_in_log_tails.register
def _(outcome: dist.Normal, above: Number, below: Number) -> Array:
    """m - s δ, with the best distance δ from the decision up to the location."""
    rates = floats(above * outcome.scale, below * outcome.scale)
    return outcome.loc - outcome.scale * _best_distance(*rates)


@stats.most_log_tails.register
def _(outcome: dist.Normal, above: Number, below: Number) -> Array:
    """It does not depend on where the outcome lies."""
    rates = floats(above * outcome.scale, below * outcome.scale)
    return _log_tails(jax.lax.stop_gradient(_best_distance(*rates)), *rates)


@stats.cumulant.register
def _(outcome: dist.Normal, t: float) -> Array:
    """(ts)²/2."""
    return jnp.square(t * outcome.scale) / 2


@stats.log_kernel.register
def _(outcome: dist.Normal, decision: Array, width: Number) -> Array:
    """-log(1 + 2s²/w)/2 - (m-h)²/(w + 2s²), with w the width."""
    root = jnp.sqrt(width)
    spread = 2 * jnp.square(outcome.scale / root)
    return -jnp.log1p(spread) / 2 - jnp.square((outcome.loc - decision) / root) / (1 + spread)


@stats.log_tails.register
def _(outcome: dist.Normal, decision: Array, above: Number, below: Number) -> Array:
    """By distance and rates in units of the scale."""
    loc, scale, decision = floats(outcome.loc, outcome.scale, decision)
    return _log_tails(*floats((loc - decision) / scale, above * scale, below * scale))


@with_slopes
def _log_tails(distance: Array, above: Array, below: Array) -> tuple[Array, Array, Array, Array]:
    """log E exp(-above·z₊ - below·z₋) for z ~ Normal(distance, 1), and its derivatives.

    They take a third of the work and memory of differentiating the two polynomials.

    With x₊ = above - δ and x₋ = below + δ, of which at most one is negative, the expectation is
    φ(δ) [mills(x₊) + mills(x₋)]; a negative x is reflected and factored out. Each tail's share of
    the sum is the weight of its rate in the slope.
    """
    first = above - distance < below + distance  # the upper tail has the smaller x
    least = jnp.minimum(above - distance, below + distance)
    most = jnp.maximum(above - distance, below + distance)
    inside = least < 0
    near_mills, near_slope = mills_and_slope(jnp.abs(least))
    far_mills, far_slope = mills_and_slope(most)
    factor = once(flushed_exp(jnp.where(inside, -jnp.square(least) / 2 - LOG_ROOT_TAU, 0.0)))
    near = once(jnp.where(inside, 1 - factor * near_mills, near_mills))
    far = once(factor * far_mills)
    total = near + far
    rate = jnp.where(first, above, below)
    offset = jnp.where(inside, rate * (least - rate / 2), -jnp.square(distance) / 2 - LOG_ROOT_TAU)
    by_near = jnp.where(inside, least * near - factor, near_slope) / total
    by_far = factor * far_slope / total
    by_above, by_below = jnp.where(first, by_near, by_far), jnp.where(first, by_far, by_near)
    upper, lower = jnp.where(first, near, far), jnp.where(first, far, near)
    by_distance = (below * lower - above * upper) / total
    return offset + jnp.log(total), by_distance, by_above, by_below


def _best_distance(above: Array, below: Array) -> Array:
    """The δ at which E exp(-above·z₊ - below·z₋), z ~ Normal(δ, 1), is largest.

    It is minus a quantile for small rates and 1/above - 1/below for large ones. Two steps of
    Newton's method from a curve between the two leave an error below 1e-3, and so of 1e-6 in the
    logarithm, which is concave in δ.
    """
    total = above + below
    level = above / total
    z = ndtri(level)
    skewed = jnp.abs(level - 0.5) > 1e-3
    odds = level * (1 - level) * jnp.where(skewed, z / jnp.where(skewed, 2 * level - 1, 1.0), 1.25)
    least, most = jnp.minimum(-z, 0.0), jnp.maximum(-z, 0.0)

    def newton(distance: Array) -> Array:
        upper, lower = _any_mills(above - distance), _any_mills(below + distance)
        slope = (below * lower - above * upper) / (upper + lower)
        bend = (below**2 * lower + above**2 * upper - total) / (upper + lower) - slope**2
        return jnp.clip(distance - slope / bend, least, most)

    return newton(newton(-z / (1 + total * odds)))


def _any_mills(x: Array) -> Array:
    """The Mills ratio, also of a negative number: 1/φ(x) less that of -x."""
    inside = mills(jnp.abs(x))
    return jnp.where(x < 0, 1 / density(x) - inside, inside)


@partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def _normal_tails(loc: Array, scale: Array, decision: Array, above: float, below: float) -> Array:
    return _normal_tails_and_slopes(loc, scale, decision, above, below)[0]


@_normal_tails.defjvp
def _(above, below, primals, tangents):  # type: ignore[no-untyped-def]
    # By hand, because terms in z·φ(z) that cancel exactly on paper do not in floating point.
    loc, scale, decision = primals
    d_loc, d_scale, d_decision = tangents
    value, by_decision, by_scale = _normal_tails_and_slopes(loc, scale, decision, above, below)
    return value, by_decision * (d_decision - d_loc) + by_scale * d_scale


def _normal_tails_and_slopes(
    loc: Array, scale: Array, decision: Array, above: float, below: float
) -> tuple[Array, Array, Array]:
    """Return `tails`, and its derivatives by h (minus that by m) and by s.

    They are written out: terms in z·φ(z) that cancel exactly on paper do not in floating point.
    """
    z = (decision - loc) / scale
    phi = density(z)
    beyond = once(phi * mills(jnp.abs(z)))
    slope = jnp.where(z > 0, below, above) - (above + below) * beyond
    value = scale * ((above + below) * phi + jnp.abs(z) * slope)
    return value, jnp.where(z > 0, slope, -slope), (above + below) * phi
