"""Posteriors to predict from: that of a fit, or one given as draws."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch, Key, Params
from stakes.bridge import Diagnostics, NumPyroApproximation
from stakes.port import params_in


class Members(NamedTuple):
    """Whose latents to draw."""

    batch: Batch
    """Members of the fit, by plate; plates that the fit does not know are left out."""
    part: Array | int = 0
    """Global latents are the same for every part, local ones are drawn again for each."""


class Posterior(Protocol):
    """A source of draws of the latents; to JAX, a tree of arrays."""

    def latents(self, key: Key, draws: int, members: Members) -> dict[str, Array]:
        """Latents of these members, draws along a leading axis."""
        ...

    @property
    def numbers(self) -> dict[str, Array]:
        """All numbers that it consists of: parameters or draws."""
        ...


@final
@partial(jax.tree_util.register_dataclass, data_fields=["approximation", "params"], meta_fields=[])
@dataclass(frozen=True)
class FittedPosterior:
    """The posterior that a fit found: draws come from the guide."""

    approximation: NumPyroApproximation
    params: Params

    @property
    def numbers(self) -> dict[str, Array]:
        """The parameters of the guide."""
        return self.params

    def latents(self, key: Key, draws: int, members: Members) -> dict[str, Array]:
        batch, part = members
        here = {
            each.plate: _filled(batch.get(each.plate), each.batch_size)
            for each in self.approximation.subsamples
        }
        params = params_in(self.approximation, self.params, here)
        keys = jax.random.split(key, draws)
        return jax.vmap(lambda k: self.approximation.draw_latents(params, k, here, part))(keys)


def _filled(members: Array | None, size: int) -> Array:
    """As many members as a batch of the fit has; those asked for come first."""
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
    """A posterior given as draws, such as those of NUTS."""

    samples: dict[str, Array]
    diagnostics: Diagnostics | None = None
    """Of the chains that the draws come from; None where nothing is known of them."""

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in self.samples.items())
        return f"SampledPosterior({shapes})"

    @property
    def numbers(self) -> dict[str, Array]:
        """The draws of each latent."""
        return self.samples

    def latents(self, key: Key, draws: int, members: Members) -> dict[str, Array]:
        """Thinned to the number of draws asked for."""
        have = next(iter(self.samples.values())).shape[0]
        chosen = np.linspace(0, have - 1, min(draws, have)).round().astype(int)
        return {name: values[chosen] for name, values in self.samples.items()}
