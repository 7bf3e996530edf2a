"""The random keys of a calibration, by what they are for."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from stakes._types import Key
from stakes.host.programs import Program


@Program
def _folded(key: Key) -> list[Key]:
    numbers = jnp.arange(len(Keys._fields))
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, numbers)
    return [keys[number] for number in range(len(Keys._fields))]


class Keys(NamedTuple):
    """One for each purpose; under `vmap`, with a leading axis of seeds."""

    setup: Key
    vi: Key
    calibrated: Key
    decisions: Key
    """The same for every posterior, so that their decisions differ by no luck of the draw."""
    spread: Key
    """Of outcomes that show over which values an expectation has to reach."""
    predictions: Key
    scale: Key
    """Of predicted outcomes whose losses give M."""
    posterior: Key
    parts: Key
    """Of latents that are drawn part by part."""
    nuts: Key
    left_out: Key
    """Of draws that are reweighted."""
    folds: Key
    maps: Key
    prior: Key

    @classmethod
    def of(cls, key: Key) -> "Keys":
        return cls(*_folded(key))
