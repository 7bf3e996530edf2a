"""What one step of a fit takes and returns, and what a method has to provide."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, final

from stakes._types import Array, Batch, Float, Key, Number, Params, PyTree
from stakes.fitting.settings import FitSettings
from stakes.port import Approximation
from stakes.protocols import Gain, Objective, Space


class State(NamedTuple):
    """All that one step passes on to the next.

    Attributes:
        variables: what is optimised or decided: `params`, and `decisions` where there are any.
        taken: how many steps have been taken.
        skipped: how many steps in a row had no finite gradient.
    """

    variables: PyTree
    optimizer: PyTree
    rate: Array
    taken: Array
    skipped: Array


class Info(NamedTuple):
    """What one step reports; the bound is elbo + utility, and larger is better."""

    elbo: Array
    utility: Array
    finite: Array


class Step(Protocol):
    """One step of a fit: a pure function, of which many are compiled into one call."""

    def __call__(
        self, approximation: Approximation, state: State, key: Key, batch: Batch, /
    ) -> tuple[State, Info]:
        """The state after the step, and what the step found.

        Args:
            approximation: model and guide, with their data.
            state: as the step before left it, `variables` whole: with the rows of all members.
            key: for this step only.
            batch: plate -> the members in this minibatch; empty where no plate is subsampled.
        """
        ...


@final
@dataclass(frozen=True)
class ParametricStep:
    """A step with numbers in it, which the compiled program takes as arguments.

    Attributes:
        make: from scale and parameters to the step.
        parameters: of the loss; they become part of the program where that has to know them.
    """

    make: Callable[[Number | None, tuple[Number, ...]], Step]
    scale: Number | None
    parameters: tuple[Number, ...]

    def __call__(
        self, approximation: Approximation, state: State, key: Key, batch: Batch, /
    ) -> tuple[State, Info]:
        return self.make(self.scale, self.parameters)(approximation, state, key, batch)


class Method(Protocol):
    """How variational parameters and decisions are optimised together: a start and a step."""

    def objection(self, gain: Gain, space: Space) -> str | None:
        """Why it cannot handle this gain, or decisions in this space; None where it can."""
        ...

    def init(
        self, params: Params, decisions: Float[Array, "*instance"], settings: FitSettings
    ) -> State:
        """Where to start from; `variables` must hold `params` and `decisions`."""
        ...

    def step(self, objective: Objective, settings: FitSettings) -> Step:
        """The step that the loop repeats."""
        ...
