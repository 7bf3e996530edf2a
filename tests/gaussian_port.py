"""The port by hand, without NumPyro's handlers: Gaussian models whose optima are known."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.stats import norm

from stakes._types import Array, Batch, Key, Params
from stakes.port import Approximation, Draw, Instances, Subsample


def healthy(params: Params, key: Key) -> Array:
    """No trouble: nothing is added to what a draw computes."""
    return jnp.zeros(())


@final
@partial(
    jax.tree_util.register_dataclass,
    data_fields=["y"],
    meta_fields=["noise", "prior_mean", "prior_sd", "trouble"],
)
@dataclass(frozen=True)
class OneMean(Approximation):
    """y_i ~ N(θ, noise²) with θ ~ N(prior_mean, prior_sd²), and q(θ) = N(mean, exp(2·log_sd)).

    `trouble(params, key)` is added to the log ratio and the outcome: zero, or nan on demand.
    """

    y: Array
    noise: float = 2.0
    prior_mean: float = -1.0
    prior_sd: float = 3.0
    trouble: Callable[[Params, Key], Array] = healthy

    @property
    def instances(self) -> Instances:
        return Instances(self.y.shape, ("row",))

    @property
    def subsamples(self) -> tuple[Subsample, ...]:
        return ()

    def plates_of(self, parameter: str) -> dict[str, int]:
        return {}

    def init(self, key: Key) -> Params:
        return {"mean": jax.random.normal(key), "log_sd": jnp.zeros(())}

    def draw(self, params: Params, key: Key, batch: Batch, noise: None = None) -> Draw:
        theta_key, trouble_key = jax.random.split(key)
        mean, sd = params["mean"], jnp.exp(params["log_sd"])
        theta = mean + sd * jax.random.normal(theta_key)
        log_p = norm.logpdf(self.y, theta, self.noise).sum()
        log_p += norm.logpdf(theta, self.prior_mean, self.prior_sd)
        trouble = self.trouble(params, trouble_key)
        outcome = dist.Normal(jnp.full(self.y.shape, theta + trouble), self.noise)
        return Draw(log_p - norm.logpdf(theta, mean, sd) + trouble, outcome, jnp.ones(self.y.shape))


@final
@partial(
    jax.tree_util.register_dataclass,
    data_fields=["y"],
    meta_fields=["batch_size", "noise", "prior_sd"],
)
@dataclass(frozen=True)
class LocalMeans(Approximation):
    """y_i ~ N(θ_i, noise²) with θ_i ~ N(0, prior_sd²) and a normal q of its own for each row.

    With a `batch_size` the plate "row" comes in minibatches.
    """

    y: Array
    batch_size: int | None = None
    noise: float = 1.0
    prior_sd: float = 2.0

    @property
    def instances(self) -> Instances:
        return Instances(self.y.shape, ("row",))

    @property
    def subsamples(self) -> tuple[Subsample, ...]:
        if self.batch_size is None:
            return ()
        return (Subsample("row", len(self.y), self.batch_size),)

    def plates_of(self, parameter: str) -> dict[str, int]:
        return {} if self.batch_size is None else {"row": 0}

    def init(self, key: Key) -> Params:
        return {"mean": jax.random.normal(key, self.y.shape), "log_sd": jnp.zeros(self.y.shape)}

    def draw(self, params: Params, key: Key, batch: Batch, noise: None = None) -> Draw:
        y = self.y[batch["row"]] if batch else self.y
        upscaled = len(self.y) / len(y)
        mean, sd = params["mean"], jnp.exp(params["log_sd"])
        theta = mean + sd * jax.random.normal(key, y.shape)
        log_p = norm.logpdf(y, theta, self.noise) + norm.logpdf(theta, 0.0, self.prior_sd)
        log_ratio = upscaled * jnp.sum(log_p - norm.logpdf(theta, mean, sd))
        return Draw(log_ratio, dist.Normal(theta, self.noise), jnp.full(y.shape, upscaled))
