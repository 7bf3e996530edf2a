"""The random keys of a calibration, by what they are for."""

from typing import NamedTuple

import jax

from stakes._types import Key


class Keys(NamedTuple):
    """One for each purpose; under `vmap`, with a leading axis of seeds."""

    setup: Key
    vi: Key
    calibrated: Key
    evaluation: Key

    @classmethod
    def of(cls, key: Key) -> "Keys":
        return cls(*jax.random.split(key, 4))

    @classmethod
    def of_each(cls, keys: Key) -> "Keys":
        return jax.vmap(cls.of)(keys)
