"""A mixture over draws of θ as one table: its density, at places that follow its mass."""

import jax
import jax.numpy as jnp

from stakes._types import Array, Distribution, Float
from stakes.expectation import stats
from stakes.expectation.sums import Rule

BEYOND = 16
"""Places on either side of all draws, out to half of their range."""
ASTRAY = 0.1
"""How far the mass of all points may be from one."""


def pooled(outcomes: Distribution, drawn: Float[Array, "draw *instance"], most: int) -> Rule:
    """Points and log weights of a continuous outcome, stacked over draws of θ.

    The points are quantiles of what was drawn, and each stands for the way to its neighbours: a
    trapezoidal rule, good to a thousandth or so, for hundreds of components at the price of one.
    Where it is not, as with a density that is infinite at an end or has very heavy tails, the
    weights do not add up to one before they are made to. They are nan there.
    """
    levels = jnp.linspace(0, 1, most - 2 * BEYOND)
    inner = jnp.quantile(drawn, levels, axis=0)
    out = jnp.arange(1, BEYOND + 1) / (2 * BEYOND)
    further = out.reshape(-1, *(1 for _ in inner.shape[1:])) * (inner[-1] - inner[0])
    points = jnp.concatenate([inner[0] - further[::-1], inner, inner[-1] + further])

    def add(so_far: Array, outcome: Distribution) -> tuple[Array, None]:
        log_density = _log_density(outcome, points, inner[len(inner) // 2])
        return jnp.logaddexp(so_far, log_density), None

    nothing = jnp.full_like(points, -jnp.inf)
    log_density, _ = jax.lax.scan(add, nothing, jax.tree.map(jnp.asarray, outcomes))
    # No point stands for what lies beyond the ends of all supports.
    held = log_density > -jnp.inf
    least = jnp.min(jnp.where(held, points, jnp.inf), axis=0)
    ends = jnp.clip(points, least, jnp.max(jnp.where(held, points, -jnp.inf), axis=0))
    gaps = jnp.pad(jnp.diff(ends, axis=0), ((1, 1), *((0, 0) for _ in inner.shape[1:])))
    log_weights = log_density + jnp.log((gaps[1:] + gaps[:-1]) / 2)
    total = jax.nn.logsumexp(log_weights, axis=0)
    mass = jnp.exp(total - jnp.log(len(jax.tree.leaves(outcomes)[0])))
    return Rule(points, jnp.where(jnp.abs(mass - 1) < ASTRAY, log_weights - total, jnp.nan))


def _log_density(outcome: Distribution, points: Array, middle: Array) -> Array:
    """Of all points, also those at which there is nothing; the middle stands in for these."""
    if (line := stats.line(outcome)) is not None:  # its own support is not to be asked
        behind = _log_density(line.of, line.back(points), line.back(middle))
        return behind - jnp.log(jnp.abs(line.slope))
    inside = outcome.support(points)
    held = jnp.where(inside, points, middle)
    return jnp.where(inside, outcome.log_prob(held), -jnp.inf)
