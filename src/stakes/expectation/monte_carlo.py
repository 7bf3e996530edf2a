"""Draws of the outcome: reparameterised, or weighed by how likely parameters make them.

A reparameterised draw moves with the parameters, and so carries their slope; where an outcome has
none, as a discrete one, the score function of its density does.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import ndtri

from stakes import checks
from stakes._types import Array, Distribution, Float, Key
from stakes.expectation.points import ByPoints, kink
from stakes.expectation.sums import Rule
from stakes.protocols import Cost, Gain, PositiveUtility

# Of censored outcomes, what is drawn is not what the density is of.
CENSORED = (
    dist.LeftCensoredDistribution,
    dist.RightCensoredDistribution,
    dist.IntervalCensoredDistribution,
)
# Longer vectors than this are drawn as usual: there are too few draws to spread them evenly.
LONGEST = 64


@final
@dataclass(frozen=True)
class MonteCarlo(ByPoints):
    """Reparameterised draws of y, as in the paper (eq. 5); the last resort.

    Examples:
        >>> import jax, numpyro.distributions as dist, stakes
        >>> spread = stakes.MonteCarlo(draws=100_000).expected(
        ...     jax.random.key(0), dist.Normal(0.0, 1.0), stakes.Squared(), 0.0
        ... )
        >>> round(float(spread), 1)
        1.0
    """

    draws: int = 30

    def __post_init__(self) -> None:
        checks.assign(self, draws=checks.whole("`MonteCarlo(draws=...)`", self.draws))

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        if not outcome.has_rsample:
            return "its draws cannot be reparameterised, so no gradient would flow"
        return None

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        outcome, shape = drawn_shape(outcome, decision)
        points = draws_of(outcome, key, self.draws)
        points = jnp.broadcast_to(points, (self.draws, *shape, *outcome.event_shape))
        log_weights = jnp.full((self.draws, *shape), -math.log(self.draws), points.dtype)
        return Rule(points, log_weights)

    def relative_variance(
        self, key: Key | None, outcome: Distribution, utility: PositiveUtility, decision: Array
    ) -> Array:
        points, _ = self.rule(key, outcome, kink(decision))
        log_u = utility.log(points, decision)
        u = jnp.exp(log_u - log_u.max(axis=0))
        mean = u.mean(axis=0)
        variance_of_mean = jnp.square(u - mean).mean(axis=0) / max(self.draws - 1, 1)
        return variance_of_mean / jnp.square(mean)

    @property
    def cost(self) -> Cost:
        return Cost(points=self.draws, random=True)


@final
@dataclass(frozen=True)
class ScoreFunction(ByPoints):
    """Draws through which no gradient passes, for outcomes that allow nothing else.

    Their gradient is E (ℓ - mean ℓ) ∂ log p: unbiased, but noisy. A fit with it needs many draws
    and small steps, and says so before it starts.

    Examples:
        >>> import jax, numpyro.distributions as dist, stakes
        >>> def slope(rate):
        ...     return stakes.ScoreFunction(draws=100_000).expected(
        ...         jax.random.key(0), dist.Poisson(rate), stakes.Squared(), 0.0
        ...     )
        >>> round(float(jax.grad(slope)(2.0)))  # of λ + λ²
        5
    """

    draws: int = 200

    def __post_init__(self) -> None:
        draws = checks.whole("`ScoreFunction(draws=...)`", self.draws, least=2)
        checks.assign(self, draws=draws)

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        if isinstance(outcome, CENSORED):
            return "what is drawn of a censored outcome is not what its density is of"
        try:
            jax.eval_shape(lambda: self.rule(jax.random.key(0), outcome, kink(decision)))
        except NotImplementedError:
            return "it cannot be drawn"
        return None

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        outcome, shape = drawn_shape(outcome, decision)
        points = jax.lax.stop_gradient(outcome.sample(key, (self.draws,)))
        log_p = outcome.log_prob(points)
        # Weights that add up to one take the mean off; the factor takes off what that biases.
        moved = (log_p - jax.lax.stop_gradient(log_p)) * (self.draws / (self.draws - 1))
        points = jnp.broadcast_to(points, (self.draws, *shape, *outcome.event_shape))
        log_weights = jnp.broadcast_to(jax.nn.log_softmax(moved, axis=0), (self.draws, *shape))
        return Rule(points.astype(log_weights.dtype), log_weights)

    @property
    def cost(self) -> Cost:
        return Cost(points=self.draws, random=True)


def drawn_shape(outcome: Distribution, decision: Array) -> tuple[Distribution, tuple[int, ...]]:
    """The outcome with as many axes as there are instances, and their shape."""
    shape = np.broadcast_shapes(outcome.batch_shape, jnp.shape(decision))
    missing = shape[: len(shape) - len(outcome.batch_shape)]
    return outcome.expand(missing + tuple(outcome.batch_shape)), shape


# Draws that are more even than chance: for vectors, which nothing else serves --------------


@singledispatch
def draws_of(outcome: Distribution, key: Key | None, count: int) -> Array:
    """Reparameterised draws, along a leading axis."""
    return outcome.rsample(key, (count,))


@draws_of.register
def _(outcome: dist.MultivariateNormal, key: Key, count: int) -> Array:
    if outcome.event_shape[0] > LONGEST:
        return outcome.rsample(key, (count,))
    even = normal_points(key, count, outcome.shape())
    return outcome.loc + jnp.squeeze(outcome.scale_tril @ even[..., None], axis=-1)


@draws_of.register
def _(outcome: dist.Independent, key: Key, count: int) -> Array:
    base, shape = outcome.base_dist, outcome.shape()
    plain = isinstance(base, dist.Normal) and outcome.event_dim == 1 and shape[-1] <= LONGEST
    if not plain:
        return outcome.rsample(key, (count,))
    return base.loc + base.scale * normal_points(key, count, shape)


def normal_points(key: Key, count: int, shape: tuple[int, ...]) -> Float[Array, "draw *shape"]:
    """Standard normals, even in all numbers along the last axis together.

    Sobol' points, moved by a random shift for each vector, so that averages are unbiased.
    """
    points = jnp.asarray(_sobol(count, shape[-1]), jnp.result_type(float))
    points = points.reshape(count, *(1 for _ in shape[:-1]), shape[-1])
    moved = (points + jax.random.uniform(key, shape)) % 1.0
    edge = float(np.finfo(moved.dtype).eps)
    return ndtri(jnp.clip(moved, edge, 1 - edge))


@lru_cache(maxsize=32)
def _sobol(count: int, numbers: int) -> np.ndarray:
    from scipy.stats import qmc  # takes as long to import as JAX

    doublings = max(count - 1, 1).bit_length()
    points: np.ndarray = qmc.Sobol(numbers, scramble=False).random_base2(doublings)
    return points[:count]
