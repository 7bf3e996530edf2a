"""A fit that several processes make together: one program, with arrays that all of them share.

Each process has the rows of its share, and a copy of all that belongs to no row. What a step adds
up over the rows of a minibatch, XLA adds up over the processes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch, Key, Number, PyTree
from stakes.fitting.history import History
from stakes.fitting.settings import FitSettings
from stakes.fitting.stages import MOST_WATCHED
from stakes.fitting.step import Info, ParametricStep, State
from stakes.host.programs import Program
from stakes.port import Approximation, Batches, Division
from stakes.processes import NOWHERE, Processes, own_part


@final
@dataclass(frozen=True, eq=False)
class Crew:
    """The processes of one fit, as one of them sees it.

    Attributes:
        division: of the rows.
        axes: for each array of a state, the axis along which it has a row for each member.
    """

    division: Division
    axes: State

    @property
    def processes(self) -> Processes:
        return self.division.processes

    def schedule(self, key: Key) -> Batches:
        """Return minibatches of the rows of this process, by their places among all."""
        index = self.processes.index
        start = int(self.division.starts[index])
        return Batches(key, (self.division.own,), start=start, share=index)

    def chunks(
        self, step: ParametricStep, steps: Callable[..., tuple[State, Info]], key: Key
    ) -> Callable[..., Callable[[], tuple[State, Info]]]:
        """Return what binds calls that take chunks of steps, each as one program of all."""
        shared = self.processes.shared
        layout = jax.tree.map(self.processes.sharding, self.axes)
        laid_out: Any = jax.lax.with_sharding_constraint

        def together(
            given: PyTree,
            state: State,
            words: Array,
            numbers: Array,
            batches: Batch,
            scale: Number | None,
            parameters: tuple[Number, ...],
        ) -> tuple[State, Info]:
            # Each process has read its part of a stream's rows; all get them, once for all steps.
            whole = self.division.everywhere(given)
            own_key = jax.random.wrap_key_data(words)
            after, info = steps(whole, state, own_key, numbers, batches, scale, parameters)
            return laid_out(after, layout), info

        program = Program(together, donated=("state",), numbers=("parameters",))
        words = shared(jax.random.key_data(key))

        def bound(
            given: PyTree, state: State, numbers: np.ndarray, batches: Batch
        ) -> Callable[[], tuple[State, Info]]:
            arguments = (
                given,
                jax.tree.map(shared, state, self.axes),
                words,
                shared(numbers),
                {plate: shared(members, 1) for plate, members in batches.items()},
                step.scale,
                step.parameters,
            )
            program.prepare(*arguments)
            self.processes.arrive()
            return partial(program, *arguments)

        return bound

    def look(self, variables: PyTree, *, rows: bool = True) -> np.ndarray:
        """Return some of the variables, the same in every process and as one process would.

        Args:
            rows: whether to look at those of rows, which may be other rows in each chunk.
        """
        both = zip(jax.tree.leaves(variables), jax.tree.leaves(self.axes.variables), strict=True)
        seen = [(np.asarray(own_part(leaf)), axis) for leaf, axis in both]
        seen = [(leaf, axis) for leaf, axis in seen if rows or axis == NOWHERE]
        every = -(-sum(math.prod(self._shape(*each)) for each in seen) // MOST_WATCHED) or 1
        found: np.ndarray = self.processes.gather(
            np.concatenate([np.zeros(0), *(self._some(*each, every) for each in seen)])
        ).sum(0)
        return found

    def _shape(self, leaf: np.ndarray, axis: int) -> tuple[int, ...]:
        """The shape of an array with the rows of all processes."""
        size = self.division.part.size
        return tuple(size if i == axis else n for i, n in enumerate(leaf.shape))

    def _some(self, own: np.ndarray, axis: int, every: int) -> np.ndarray:
        """Places in the whole array, evenly spread: what this process has of them, or else zero."""
        if axis == NOWHERE:
            common = own.reshape(-1)[::every]
            return common if self.processes.speaks else np.zeros_like(common)
        shape, index = self._shape(own, axis), self.processes.index
        at = list(np.unravel_index(np.arange(0, math.prod(shape), every), shape))
        start, end = self.division.starts[index : index + 2]
        is_own = (at[axis] >= start) & (at[axis] < end)
        at[axis] = np.where(is_own, at[axis] - start, 0)
        return np.where(is_own, own[tuple(at)], 0.0)

    def cut(self, whole: History) -> History:
        """Return where a fit stands as arrays that all processes share."""

        def shared(leaf: Array, axis: int) -> Array:
            own = leaf if axis == NOWHERE else self.division.cut(leaf, axis)
            return self.processes.shared(own, axis)

        return self._mapped(whole, shared)

    def whole(self, history: History) -> History:
        """Return where the fit stands with all rows; each process has to ask."""

        def joined(leaf: Array, axis: int) -> Array:
            own = np.asarray(own_part(leaf))
            if axis != NOWHERE:
                own = self.division.joined(self.processes.gather(own), axis)
            whole: Array = jax.device_put(own)
            return whole

        return self._mapped(history, joined)

    def _mapped(self, history: History, change: Callable[[Array, int], Array]) -> History:
        average, axes = history.average, self.axes.variables
        older, newer = (
            None if tree is None else jax.tree.map(change, tree, axes)
            for tree in (average.older, average.newer)
        )
        return history._replace(
            state=jax.tree.map(change, history.state, self.axes),
            average=average._replace(older=older, newer=newer),
        )


def axes_of(approximation: Approximation, plate: str, state: State, settings: FitSettings) -> State:
    """Return, for each array of a state, the axis along which it has a row for each member."""
    variables = state.variables
    params = {
        name: approximation.plates_of(name).get(plate, NOWHERE) for name in variables["params"]
    }
    axes: dict[str, Any] = {
        "params": {
            n: jax.tree.map(lambda _, a=params[n]: a, variables["params"][n]) for n in params
        }
    }
    if "decisions" in variables:
        dims = approximation.instances.dims
        leading = jnp.ndim(variables["decisions"]) - len(dims)
        axes["decisions"] = leading + dims.index(plate) if plate in dims else NOWHERE
    beside: Any = NOWHERE
    return State(axes, _of_optimizer(settings, state, axes), beside, beside, beside)


def _of_optimizer(settings: FitSettings, state: State, axes: dict[str, Any]) -> PyTree:
    """Return the axes of an optimiser that moves all variables, or the parameters alone."""
    import optax

    for trained in (axes, axes["params"]):
        try:
            return optax.tree_map_params(
                settings.transformation(),
                lambda _, axis: axis,
                state.optimizer,
                trained,
                transform_non_params=lambda _: NOWHERE,
            )
        except (ValueError, TypeError, KeyError):
            continue
    raise AssertionError("An optimiser's state that belongs to no variables.")
