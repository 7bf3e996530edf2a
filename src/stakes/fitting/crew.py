"""A fit that several processes make together, each with a share of the rows.

Between chunks of steps every process has ordinary arrays: the rows of its share, and a copy of all
that belongs to no row. A chunk is one program of all processes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from stakes._types import Array, Batch, Key, Number, PyTree
from stakes.errors import NumericalError
from stakes.fitting.ascent import of_no_row, with_of_no_row
from stakes.fitting.history import History, Watch
from stakes.fitting.settings import FitSettings
from stakes.fitting.shares import NOWHERE, Keeper, Share, keep
from stakes.fitting.stages import spacing
from stakes.fitting.step import Info, ParametricStep, State
from stakes.host.programs import Program
from stakes.port import Approximation, Batches, Division
from stakes.processes import Processes, largest_of_all, own_index, spread_along, sum_of_all

APART = 1e-3
"""What all processes have should be the same in all, but for rounding on unlike machines."""


class Said(NamedTuple):
    """What processes tell each other with a chunk."""

    interrupted: Array
    due: Array
    """Whether where the fit stands is to be recorded."""
    apart: Array
    """By how much what should be the same differs between processes."""
    watched: Array


@final
class Crew:
    """The processes of one fit, as one of them sees it."""

    def __init__(
        self,
        processes: Processes,
        approximation: Approximation,
        whole: State,
        settings: FitSettings,
        steps: Callable[[ParametricStep], Callable[..., tuple[State, Info]]],
        step: ParametricStep,
        key: Key,
        due: Callable[[], bool],
    ) -> None:
        division = approximation.division
        assert division is not None
        self._processes, self._division, self._due = processes, division, due
        self._settings = settings
        self.has_own_rows = approximation.has_own_rows
        self._axes = axes_of(approximation, division.plate, whole, settings)
        self._every = spacing(self._watched(whole.variables))
        program = _together(self, steps(step))
        self._program = Program(program, donated=("state",), numbers=("parameters",))
        self._key = processes.same(jax.random.key_data(key))
        self._numbers = step.scale, step.parameters
        self._asked: Callable[[], bool] = lambda: False
        self._said: Said | None = None
        self._compiled: Any = None

    def schedule(self, key: Key) -> Batches:
        """Minibatches of the rows of this process, by their places among all."""
        index = self._processes.index
        start = int(self._division.starts[index])
        return Batches(key, (self._division.share(index),), start=start, share=index)

    def chunk(
        self, given: PyTree, state: State, numbers: np.ndarray, batches: dict[str, np.ndarray]
    ) -> tuple[State, Info]:
        same, split = self._processes.same, self._processes.split
        arguments = (
            self._given(given),
            self._key,
            jax.tree.map(self._shared, state, self._axes),
            same(np.asarray(numbers)),
            {plate: split(members, 1) for plate, members in batches.items()},
            split(np.array([[self._asked(), self._processes.speaks and self._due()]]), 0),
            *self._numbers,
        )
        compiled = self._program.prepare(*arguments)
        if compiled is not self._compiled:
            self._compiled = compiled
            self._processes.meet()
        state, info, said = self._program(*arguments)
        self._said = jax.tree.map(np.asarray, self._processes.own(said))
        self._check()
        return self._processes.own((state, info))

    def _given(self, given: Any) -> Any:
        """Data that all have; or those of each process, along a new first axis."""
        if not self.has_own_rows:
            return self._processes.same(given)
        return jax.tree.map(lambda leaf: self._processes.split(np.asarray(leaf)[None], 0), given)

    def _shared(self, leaf: Array, axis: int) -> Array:
        same, split = self._processes.same, self._processes.split
        shared: Array = same(leaf) if axis == NOWHERE else split(leaf, axis)
        return shared

    def _check(self) -> None:
        assert self._said is not None
        if self._said.apart > APART:
            raise NumericalError(
                f"What all processes have in common differs between them, by up to "
                f"{float(self._said.apart):.2g}. An optimiser that looks at all gradients at once, "
                f"such as one that clips their norm, cannot be used by several processes."
            )

    def agreed(self, asked: Callable[[], bool]) -> Callable[[], bool]:
        """Whether any process was asked to end when the last chunk began: all end together."""
        self._asked = asked
        return lambda: self._said is not None and bool(self._said.interrupted)

    def watched(self, variables: PyTree) -> np.ndarray:
        """Those of all variables that a fit by one process would watch, after the last chunk."""
        assert self._said is not None
        return np.asarray(self._said.watched, np.float64)

    def recording(self, watch: Watch | None, keeper: Keeper | None) -> Watch:
        """Record where the fit stands when that is due, which every process has to do."""

        def look(history: History) -> None:
            if self._said is None or not self._said.due:
                return
            if keeper is None:
                self.record(self.whole(history), watch)
            else:
                self.keep(history, keeper)

        return look

    def record(self, whole: History, watch: Watch | None) -> None:
        if watch is not None and self._processes.speaks:
            watch(whole)

    def keep(self, history: History, keeper: Keeper) -> None:
        """Each process keeps its rows; the first one the rest, once the rows of all are kept."""
        own = _mapped(history, self._axes, self._unfilled)
        processes = self._processes
        keep(processes, Share(processes.index, processes.count, own, self._axes), keeper)

    def cut(self, whole: History) -> History:
        """The share of this process of where a fit stands."""
        return _mapped(whole, self._axes, self._cut)

    def whole(self, history: History) -> History:
        """Where the fit stands with the rows of all processes; each of them has to ask."""
        return _mapped(history, self._axes, self._whole)

    def _cut(self, tree: PyTree, axes: PyTree) -> PyTree:
        def one(leaf: Array, axis: int) -> Array:
            index = self._processes.index
            own = leaf if axis == NOWHERE else self._division.cut(leaf, axis, index)
            return jnp.asarray(jax.device_put(np.array(own)))

        return jax.tree.map(one, tree, axes)

    def _unfilled(self, tree: PyTree, axes: PyTree) -> PyTree:
        """As many rows as there are in the share."""
        size = self._division.share(self._processes.index).size

        def one(leaf: Array, axis: int) -> Array | np.ndarray:
            own = (slice(None),) * axis + (slice(size),)
            return leaf if axis == NOWHERE else np.asarray(leaf)[own]

        return jax.tree.map(one, tree, axes)

    def _whole(self, tree: PyTree, axes: PyTree) -> PyTree:
        def one(leaf: Array, axis: int) -> Array:
            if axis == NOWHERE:
                return leaf
            return jnp.asarray(self._division.joined(self._processes.gather(leaf), axis))

        return jax.tree.map(one, tree, axes)

    def layout(self) -> tuple[PyTree, PyTree]:
        """How arguments and results of a chunk are divided."""
        same = spread_along(None)
        states = jax.tree.map(
            lambda axis: same if axis == NOWHERE else spread_along(axis), self._axes
        )
        batch = {self._division.plate: spread_along(1)}
        given = spread_along(0) if self.has_own_rows else same
        return (given, same, states, same, batch, spread_along(0)), (states, same, same)

    @property
    def mesh(self) -> Mesh:
        return self._processes.mesh

    def agreed_on(self, state: State) -> State:
        return agreed_on(self._division, self._settings, state)

    def told(self, state: State, flags: Array) -> Said:
        watched = self._watched(state.variables), self._watched(self._axes.variables)
        return told(self._division, self._axes, self._every, state, flags, watched)

    def _watched(self, variables: PyTree) -> list[Any]:
        """Those to watch; rows of a process alone are others in each chunk."""
        axes = jax.tree.leaves(self._axes.variables)
        both = zip(jax.tree.leaves(variables), axes, strict=True)
        return [leaf for leaf, axis in both if axis == NOWHERE or not self.has_own_rows]


def agreed_on(division: Division, settings: FitSettings, state: State) -> State:
    """With one memory of whole arrays in all processes, such as each step begins with."""
    optimizer, memory = settings.transformation(), state.optimizer
    common = division.mean(of_no_row(optimizer, memory))
    return state._replace(optimizer=with_of_no_row(optimizer, memory, common))


def told(
    division: Division,
    axes: State,
    every: int,
    state: State,
    flags: Array,
    watching: tuple[list[Array], list[int]] | None = None,
) -> Said:
    """What each process is told of the others, inside the program of all.

    Args:
        axes: of the rows, for each array of a state.
        every: how far apart the variables lie that are watched.
        state: of one process.
        flags: whether it was interrupted, and whether a record is due.
        watching: variables to watch, and the axis of the rows of each; all of them by default.
    """
    both = zip(jax.tree.leaves(state), jax.tree.leaves(axes), strict=True)
    common = [
        jnp.ravel(leaf)
        for leaf, axis in both
        if axis == NOWHERE and jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    values = jnp.concatenate(common)
    most, least = jnp.split(largest_of_all(jnp.concatenate([values, -values])), 2)
    leaves = watching or (jax.tree.leaves(state.variables), jax.tree.leaves(axes.variables))
    some = [_some(division, leaf, axis, every) for leaf, axis in zip(*leaves, strict=True)]
    watched = sum_of_all(jnp.concatenate([jnp.zeros(0), *some]))
    interrupted, due = largest_of_all(flags.astype(jnp.int32))
    apart = jnp.nanmax((most + least) / (1 + jnp.abs(most)), initial=0.0)
    return Said(interrupted, due, apart, watched)


def _some(division: Division, leaf: Array, axis: int, every: int) -> Array:
    """Evenly spread places in the whole array: what this process has of them, zero elsewhere."""
    if axis == NOWHERE:
        return jnp.where(own_index() == 0, jnp.ravel(leaf)[::every], 0.0)
    shape = (*leaf.shape[:axis], division.part.size, *leaf.shape[axis + 1 :])
    at: list[Any] = list(np.unravel_index(np.arange(0, np.prod(shape), every), shape))
    is_own = division.has(at[axis])
    at[axis] = jnp.where(is_own, at[axis] - division.start(), 0)
    return jnp.where(is_own, leaf[tuple(at)], 0.0)


def _together(
    crew: Crew, chunk: Callable[..., tuple[State, Info]]
) -> Callable[..., tuple[State, Info, Said]]:
    """The program of all processes: a chunk of each, and what they tell each other with it."""

    def program(
        given: Approximation,
        key: Array,
        state: State,
        numbers: Array,
        batches: Batch,
        flags: Array,
        scale: Number | None,
        parameters: tuple[Number, ...],
    ) -> tuple[State, Info, Said]:
        def own(
            given: PyTree, key: Array, state: State, numbers: Array, batches: Batch, flags: Array
        ) -> tuple[State, Info, Said]:
            given = jax.tree.map(lambda leaf: leaf[0], given) if crew.has_own_rows else given
            own_key = jax.random.wrap_key_data(key)
            after, info = chunk(given, state, own_key, numbers, batches, scale, parameters)
            after = crew.agreed_on(after)
            return after, info, crew.told(after, flags[0])

        arguments, results = crew.layout()
        divided: Any = jax.shard_map(
            own, mesh=crew.mesh, in_specs=arguments, out_specs=results, check_vma=False
        )
        said: tuple[State, Info, Said] = divided(given, key, state, numbers, batches, flags)
        return said

    return program


def axes_of(approximation: Approximation, plate: str, state: State, settings: FitSettings) -> State:
    """For each array of a state, the axis along which it has a row for each of the members."""
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
    """The optimiser moves all variables, or the parameters alone."""
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


def _mapped(history: History, axes: State, change: Callable[[PyTree, PyTree], PyTree]) -> History:
    average = history.average
    older, newer = (
        None if tree is None else change(tree, axes.variables)
        for tree in (average.older, average.newer)
    )
    return history._replace(
        state=change(history.state, axes), average=average._replace(older=older, newer=newer)
    )
