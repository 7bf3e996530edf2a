"""The port: what an algorithm needs from a model and its approximation, as pure functions.

`stakes.bridge` implements it for NumPyro; tests implement it for a Gaussian whose optimum is
known in closed form.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from stakes._types import Array, Batch, Distribution, Key, Params
from stakes.varying import Need


class Draw(NamedTuple):
    """One draw θ ~ q and what it implies for the instances in the batch."""

    log_ratio: Array
    """log p(D, θ) - log q(θ), minibatches scaled up: its mean is the ELBO."""
    outcome: Distribution
    """p(y_i|θ) for each instance i in the batch."""
    weight: Array
    """How much each instance counts in the bound: its mask times the minibatch scale."""


class Instances(NamedTuple):
    """What is decided about: there is one decision for each instance."""

    shape: tuple[int, ...]
    dims: tuple[str, ...]
    """A name for each axis: the plate's, where it comes from one."""


class Subsample(NamedTuple):
    """A plate of which each step takes a part."""

    plate: str
    size: int
    batch_size: int


class NormalPair(NamedTuple):
    """Two parameters by name: the location and scale of independent normals that q consists of."""

    loc: str
    scale: str
    positive: Callable[[Array], Array]
    """From the second, which has no limits, to the scale."""
    times: Array | float = 1.0
    """How many times a minibatch counts each of its rows, for those that it leaves out."""


def normals_of(approximation: "Approximation") -> tuple[NormalPair, ...]:
    """Those that the approximation says it has."""
    normals: tuple[NormalPair, ...] = getattr(approximation, "normals", ())
    return tuple(pair._replace(times=_times(approximation, pair.loc)) for pair in normals)


def steps_of_a_pass(approximation: "Approximation", params: Params) -> int:
    """Steps in which each row with parameters of its own comes up once; 0 where none has any."""
    rows = [name for name in params if approximation.plates_of(name)]
    return max((math.ceil(float(_times(approximation, name))) for name in rows), default=0)


def _times(approximation: "Approximation", parameter: str) -> Array | float:
    plates = approximation.plates_of(parameter)
    parts = [part for part in approximation.subsamples if part.plate in plates]
    stand_for: Array | None = getattr(approximation, "times", None) if parts else None
    times = math.prod((part.size / part.batch_size for part in parts), start=1.0)
    return times if stand_for is None else times * stand_for


class Approximation(Protocol):
    """A posterior approximation q_λ(θ) and the model behind it."""

    @property
    def instances(self) -> Instances: ...

    @property
    def subsamples(self) -> tuple[Subsample, ...]: ...

    def init(self, key: Key) -> Params:
        """Variational parameters to start from."""
        ...

    def plates_of(self, parameter: str) -> dict[str, int]:
        """Axis of each subsampled plate along which this parameter has one row per member."""
        ...

    def columns(self, needs: tuple[Need, ...]) -> dict[Need, Array]:
        """What the loss or the limits of decisions ask for, of all instances."""
        ...

    def draw(self, params: Params, key: Key, batch: Batch) -> Draw:
        """One pass through guide and model. `params` holds just the rows in the batch.

        An approximation with `normals` also takes their `noise=`: standard normal numbers, by the
        names of the locations.
        """
        ...
