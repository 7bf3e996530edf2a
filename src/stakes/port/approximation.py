"""The port: what an algorithm needs from a model and its approximation, as pure functions.

`stakes.bridge` implements it for NumPyro; tests implement it for a Gaussian whose optimum is
known in closed form.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeGuard, final

import jax

from stakes._types import Array, Batch, Distribution, Float, Key, Params
from stakes.varying import Need

if TYPE_CHECKING:
    from stakes.port.division import Division


@final
@partial(jax.tree_util.register_dataclass, data_fields=["latents", "key"], meta_fields=["predict"])
@dataclass(frozen=True)
class Response:
    """p(y|θ, h) as a function of the decision h, for one θ; for several along a leading axis."""

    latents: dict[str, Array]
    key: Key
    predict: Callable[[dict[str, Array], Key, Array], Distribution]

    def at(self, decision: Float[Array, "*instance"]) -> Distribution:
        return self.predict(self.latents, self.key, decision)


# What may come of a decision: a distribution, or one for each decision.
Outcome: TypeAlias = Distribution | Response


def responds(outcome: Outcome) -> TypeGuard[Response]:
    """Whether an outcome depends on the decision."""
    return isinstance(outcome, Response)


def outcome_at(outcome: Outcome, decision: Float[Array, "*instance"]) -> Distribution:
    """p(y|θ, h), whether it depends on the decision or does not."""
    return outcome.at(decision) if responds(outcome) else outcome


class Draw(NamedTuple):
    """One draw θ ~ q and what it implies for the instances in the batch.

    Attributes:
        log_ratio: log p(D, θ) - log q(θ), minibatches scaled up: its mean is the ELBO.
        outcome: p(y_i|θ) for each instance i in the batch.
        weight: how much each instance counts in the bound: its mask times the minibatch scale.
    """

    log_ratio: Array
    outcome: Outcome
    weight: Array


class Instances(NamedTuple):
    """What is decided about: there is one decision for each instance.

    Attributes:
        dims: a name for each axis: the plate's, where it comes from one.
    """

    shape: tuple[int, ...]
    dims: tuple[str, ...]


class Subsample(NamedTuple):
    """A plate of which each step takes a part."""

    plate: str
    size: int
    batch_size: int


class NormalPair(NamedTuple):
    """Two parameters by name: the location and scale of independent normals that q consists of.

    Attributes:
        positive: from the second, which has no limits, to the scale.
        times: how many times a minibatch counts each of its rows, for those that it leaves out.
    """

    loc: str
    scale: str
    positive: Callable[[Array], Array]
    times: Array | float = 1.0


class Approximation(Protocol):
    """A posterior approximation q_λ(θ) and the model behind it.

    An implementation that inherits from it need not say what it does not have.
    """

    @property
    def instances(self) -> Instances: ...

    @property
    def subsamples(self) -> tuple[Subsample, ...]: ...

    @property
    def normals(self) -> tuple[NormalPair, ...]:
        """The normals that q consists of; none where it is of another kind."""
        return ()

    @property
    def times(self) -> Array | None:
        """How many rows each row in minibatches stands for, where these are a sample of more."""
        return None

    @property
    def division(self) -> "Division | None":
        """How the rows are divided among processes; None where one process has them all."""
        return None

    def init(self, key: Key) -> Params:
        """Variational parameters to start from."""
        ...

    def plates_of(self, parameter: str) -> dict[str, int]:
        """Axis of each subsampled plate along which this parameter has one row per member."""
        ...

    def columns(self, needs: tuple[Need, ...]) -> dict[Need, Array]:
        """What the loss or the limits of decisions ask for, of all instances."""
        ...

    def draw(
        self, params: Params, key: Key, batch: Batch, noise: Mapping[str, Array] | None = None
    ) -> Draw:
        """One pass through guide and model. `params` holds just the rows in the batch.

        `noise` has standard normal numbers for `normals`, by the names of their locations.
        """
        ...


def normals_of(approximation: Approximation) -> tuple[NormalPair, ...]:
    """The normals of an approximation, with how many times a minibatch counts their rows."""
    return tuple(
        pair._replace(times=_times(approximation, pair.loc)) for pair in approximation.normals
    )


def steps_of_a_pass(approximation: Approximation, params: Params) -> int:
    """Steps in which each row with parameters of its own comes up once; 0 where none has any."""
    rows = [name for name in params if approximation.plates_of(name)]
    return max((math.ceil(float(_times(approximation, name))) for name in rows), default=0)


def _times(approximation: Approximation, parameter: str) -> Array | float:
    plates = approximation.plates_of(parameter)
    parts = [part for part in approximation.subsamples if part.plate in plates]
    times = math.prod((part.size / part.batch_size for part in parts), start=1.0)
    return times if not parts or approximation.times is None else times * approximation.times
