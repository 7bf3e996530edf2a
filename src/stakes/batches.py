"""Which members of the subsampled plates each step sees."""

import jax
import numpy as np

from stakes.approximation import Subsample
from stakes.typing import Key


class Batches:
    """Which members of each subsampled plate each step sees: by epoch, without replacement.

    A pure function of the key and the step, so that a fit can go on from anywhere.
    """

    def __init__(self, key: Key, subsamples: tuple[Subsample, ...]) -> None:
        self._seed = [int(word) for word in np.asarray(jax.random.key_data(key)).ravel()]
        self._subsamples = subsamples
        self._orders: dict[tuple[str, int], np.ndarray] = {}

    def take(self, start: int, count: int) -> dict[str, np.ndarray]:
        """Plate -> (step, member) for `count` steps from `start`."""
        return {
            part.plate: np.stack([self._batch(i, part, t) for t in range(start, start + count)])
            for i, part in enumerate(self._subsamples)
        }

    def _batch(self, index: int, part: Subsample, step: int) -> np.ndarray:
        per_epoch = -(-part.size // part.batch_size)
        epoch, position = divmod(step, per_epoch)
        order = self._order(index, part, epoch)
        return order[position * part.batch_size : (position + 1) * part.batch_size]

    def _order(self, index: int, part: Subsample, epoch: int) -> np.ndarray:
        if (part.plate, epoch) not in self._orders:
            self._orders = {k: v for k, v in self._orders.items() if k[0] != part.plate}
            rng = np.random.Generator(np.random.Philox(seed=[*self._seed, index, epoch]))
            order = rng.permutation(part.size).astype(np.int32)
            # The last batch is filled up with members it does not hold yet.
            self._orders[part.plate, epoch] = np.concatenate(
                [order, order[: -part.size % part.batch_size]]
            )
        return self._orders[part.plate, epoch]
