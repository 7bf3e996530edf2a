"""Posteriors to predict from: that of a fit, or one given as draws; and draws of all latents."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch, Key, Params
from stakes.bridge import Diagnostics, NumPyroApproximation, Predictor, Weighed
from stakes.host.programs import Program
from stakes.port import Instances, RowIndex, Subsample, params_in, sweep

FACTOR = "linear response"
"""The name of the factor among the numbers of a posterior."""


class Members(NamedTuple):
    """Whose latents to draw.

    Attributes:
        batch: members of the fit, by plate; plates that the fit does not know are left out.
        part: global latents are the same for every part, local ones are drawn again for each.
    """

    batch: Batch
    part: Array | int = 0


class Posterior(Protocol):
    """A source of draws of the latents; to JAX, a tree of arrays."""

    def latents(self, key: Key, draws: int, members: Members) -> dict[str, Array]:
        """Return latents of these members, draws along a leading axis."""
        ...

    @property
    def numbers(self) -> dict[str, Array]:
        """All numbers that it consists of: parameters or draws."""
        ...


@final
@partial(jax.tree_util.register_dataclass, data_fields=["approximation", "params"], meta_fields=[])
@dataclass(frozen=True)
class FittedPosterior:
    """The posterior that a fit found, whose draws come from the guide."""

    approximation: NumPyroApproximation
    params: Params

    @property
    def numbers(self) -> dict[str, Array]:
        """The parameters of the guide."""
        return self.params

    def latents(self, key: Key, draws: int, members: Members) -> dict[str, Array]:
        """Return draws from the guide; members of the fit have their own local parameters."""
        batch, part = members
        here = {
            each.plate: _filled(batch.get(each.plate), each.batch_size)
            for each in self.approximation.subsamples
        }
        params = params_in(self.approximation, self.params, here)
        keys = jax.random.split(key, draws)
        return jax.vmap(lambda k: self.approximation.draw_latents(params, k, here, part))(keys)

    def weigh(self, key: Key) -> Weighed:
        """One draw of the latents, with what its weight in the exact posterior is made of."""
        return self.approximation.weigh(self.params, key)


@final
@partial(
    jax.tree_util.register_dataclass,
    data_fields=["approximation", "params", "factor"],
    meta_fields=[],
)
@dataclass(frozen=True)
class LinearResponsePosterior:
    """The normals of a fit, with the covariance that the curvature of its bound implies.

    Attributes:
        approximation: one whose guide consists of independent normals, without minibatches.
        params: where plain VI has converged; the means stay where they are.
        factor: the Cholesky factor of the covariance of all locations, in the order in which JAX
            ravels the parameters.
    """

    approximation: NumPyroApproximation
    params: Params
    factor: Array

    @property
    def numbers(self) -> dict[str, Array]:
        """The parameters of the guide, and the factor."""
        return {**self.params, FACTOR: self.factor}

    def latents(self, key: Key, draws: int, members: Members) -> dict[str, Array]:
        """Draw the latents from a normal with this covariance, transformed as the guide does."""

        def draw(key: Key) -> dict[str, Array]:
            noise, site_key, _ = self._noise(key)
            return self.approximation.draw_latents(self.params, site_key, {}, noise=noise)

        return jax.vmap(draw)(jax.random.split(key, draws))

    def weigh(self, key: Key) -> Weighed:
        """One draw of the latents, with what its weight in the exact posterior is made of."""
        noise, site_key, log_ratio = self._noise(key)
        drawn = self.approximation.weigh(self.params, site_key, noise)
        return drawn._replace(log_ratio=drawn.log_ratio + log_ratio)

    def _noise(self, key: Key) -> tuple[dict[str, Array], Key, Array]:
        """Draw noise in the guide's standard deviations.

        Returns:
            The noise by name, a key for the guide, and by how much the guide's log density there is
            above that of the normal with covariances.
        """
        noise_key, site_key = jax.random.split(key)
        standard = jax.random.normal(noise_key, (len(self.factor),), self.factor.dtype)
        moved = self.factor @ standard
        above = jnp.square(standard).sum() / 2 + jnp.log(jnp.diagonal(self.factor)).sum()
        scales = {p.loc: p.positive(self.params[p.scale]) for p in self.approximation.normals}
        noise, start = {}, 0
        for name in sorted(scales):
            scale, end = scales[name], start + scales[name].size
            noise[name] = moved[start:end].reshape(scale.shape) / scale
            above -= jnp.square(noise[name]).sum() / 2 + jnp.log(scale).sum()
            start = end
        return noise, site_key, above


def _filled(members: Array | None, size: int) -> Array:
    """Return as many members as a batch of the fit has; those asked for come first."""
    if members is None:
        return jnp.arange(size)
    return jnp.pad(jnp.asarray(members), (0, size - len(members)))


@final
@partial(
    jax.tree_util.register_dataclass,
    data_fields=["samples"],
    meta_fields=[],
    # To compiled programs they mean nothing, but would have each of them compiled again.
    drop_fields=["diagnostics"],
)
@dataclass(frozen=True)
class SampledPosterior:
    """A posterior given as draws, such as those of NUTS.

    Attributes:
        diagnostics: of the chains that the draws come from; None where nothing is known of them.
    """

    samples: dict[str, Array]
    diagnostics: Diagnostics | None = None

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in self.samples.items())
        return f"SampledPosterior({shapes})"

    @property
    def numbers(self) -> dict[str, Array]:
        """The draws of each latent."""
        return self.samples

    def latents(self, key: Key, draws: int, members: Members) -> dict[str, Array]:
        """Return the draws, thinned to the number asked for."""
        have = next(iter(self.samples.values())).shape[0]
        chosen = np.linspace(0, have - 1, min(draws, have)).round().astype(int)
        return {name: values[chosen] for name, values in self.samples.items()}


def latent_draws(posterior: FittedPosterior, key: Key, draws: int) -> dict[str, np.ndarray]:
    """Return draws of every latent along a leading axis, local ones for all members."""
    fit = posterior.approximation
    return _everywhere(_latents, posterior, None, key, draws, fit.latents, fit.subsamples)


def derived_draws(
    posterior: FittedPosterior, predictor: Predictor, key: Key, draws: int
) -> dict[str, np.ndarray]:
    """Return the model's deterministic sites for the same draws of the latents.

    Args:
        posterior: what the draws come from.
        predictor: the model on the data of the fit.
        key: the same as for `latent_draws`.
        draws: how many.
    """
    trace = predictor.trace
    return _everywhere(_derived, posterior, predictor, key, draws, trace.derived, trace.subsamples)


def explained(
    posterior: FittedPosterior, predictor: Predictor, key: Key, draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return log p(y_i|θ) of what was observed, and outcomes drawn, for the draws of
    `latent_draws`.

    Both have draws along a leading axis.
    """
    trace = predictor.trace
    shapes = {"log_likelihood": trace.instances, "outcome": trace.instances}
    both = _everywhere(_explained, posterior, predictor, key, draws, shapes, trace.subsamples)
    return both["log_likelihood"], both["outcome"]


class Reading(Protocol):
    """What to read off one draw of the latents."""

    def __call__(
        self, predictor: Any, latents: dict[str, Array], keys: tuple[Key, Key], batch: Batch, /
    ) -> dict[str, Array]:
        """`keys` are one for all draws and one for this draw."""
        ...


def _latents(
    predictor: None, latents: dict[str, Array], keys: tuple[Key, Key], batch: Batch
) -> dict[str, Array]:
    """Read off the latents themselves."""
    return latents


def _derived(
    predictor: Predictor, latents: dict[str, Array], keys: tuple[Key, Key], batch: Batch
) -> dict[str, Array]:
    """Read off the model's deterministic sites."""
    return predictor.derived(latents, keys[0], batch)


def _explained(
    predictor: Predictor, latents: dict[str, Array], keys: tuple[Key, Key], batch: Batch
) -> dict[str, Array]:
    """Read off the log likelihood of what was observed, and an outcome drawn."""
    outcome, weight = predictor.predict(latents, keys[1], batch)
    log_p = outcome.log_prob(predictor.observed(latents, keys[1], batch))
    drawn = outcome.expand(weight.shape).sample(keys[1])
    return {
        "log_likelihood": jnp.broadcast_to(log_p, weight.shape),
        "outcome": jnp.asarray(drawn, weight.dtype),
    }


@partial(Program, static=("read", "draws"))
def _read_batch(
    read: Reading,
    posterior: FittedPosterior,
    predictor: Predictor | None,
    key: Key,
    batch: Batch,
    draws: int,
    part: Array | int,
) -> dict[str, Array]:
    """Return readings of one batch, draws along a leading axis."""
    latents = posterior.latents(key, draws, Members(batch, part))
    keys = jax.random.split(jax.random.fold_in(key, part), draws)
    return jax.vmap(lambda one, own: read(predictor, one, (key, own), batch))(latents, keys)


def _everywhere(
    read: Reading,
    posterior: FittedPosterior,
    predictor: Predictor | None,
    key: Key,
    draws: int,
    shapes: Mapping[str, Instances],
    subsamples: tuple[Subsample, ...],
) -> dict[str, np.ndarray]:
    """Return readings of these shapes for all members, draws along a leading axis, batch by batch.

    What differs from batch to batch, but has no plate that says whose it is, is left out.
    """
    whole: dict[str, np.ndarray] = {}
    stray: set[str] = set()
    for part, batch in enumerate(sweep(subsamples) if shapes else ()):
        readings = _read_batch(read, posterior, predictor, key, batch, draws, part)
        for name, shape in shapes.items():
            values = np.asarray(readings[name])
            if name not in whole:
                whole[name] = np.zeros((draws, *shape.shape), values.dtype)
            elif not set(batch).intersection(shape.dims):
                stray |= set() if np.array_equal(whole[name], values, equal_nan=True) else {name}
            RowIndex.of(shape, batch, leading=1).fill(whole[name], values)
    return {name: values for name, values in whole.items() if name not in stray}
