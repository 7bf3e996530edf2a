"""Compiled programs, reused wherever the same is computed.

A program is known by the text that it is lowered to. Where something about it may be new it is
traced and lowered, which is quick, and compiled only if that text is new (`compiling`). Variables
that a model closes over, globals that it reads and data that it looks at may change freely, because
a change gives another text. Arrays and numbers that are arguments are not part of the text.
"""

import inspect
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.stages import Compiled

from stakes._types import Array
from stakes.host import compiling
from stakes.host.compiling import LRU, SETTINGS, Compiling, Option, setting

P = ParamSpec("P")
R = TypeVar("R")

# For so many kinds of arguments each function remembers which program serves them.
MOST_TRACED = 32
# What JAX raises where a program asks for a value that is not known while it is compiled.
TRACING_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


class CallArguments(NamedTuple):
    """What a call passes: those that are part of the program, and arrays as leaves and trees.

    Attributes:
        leaves: arrays whose memory the program may use for what it returns, and all others.
    """

    static: dict[str, Any]
    leaves: tuple[list[Any], list[Any]]
    trees: tuple[Any, Any]

    def types(self) -> tuple[tuple[jax.ShapeDtypeStruct, ...], ...]:
        """Of each array, with the device that it was put on, if any."""
        return tuple(tuple(map(_type, leaves)) for leaves in self.leaves)

    def key(self) -> Hashable:
        """What the program depends on before it is traced."""
        settings = tuple(setting(name) for name in SETTINGS)
        static = tuple(self.static.items())
        return static, kinds(static), self.trees, self.types(), settings


class Ready(NamedTuple):
    """A program, which may still be compiled, and how what it returns is put together.

    Attributes:
        program: the compiled program, or its compilation under way.
        tree: the structure of what the function returns, whose arrays come as a flat list.
    """

    program: Compiling
    tree: Any
    types: tuple[jax.ShapeDtypeStruct, ...]
    """Of what it returns."""


class Bound(NamedTuple, Generic[R]):
    """A call of a program that is traced, with its arguments.

    Attributes:
        make: makes the call.
        is_compiling: whether the call would have to wait for the compiler.
    """

    make: Callable[[], R]
    is_compiling: Callable[[], bool]

    def __call__(self) -> R:
        return self.make()


@final
class Program(Generic[P, R]):
    """A function compiled as by `jax.jit`, with programs shared by what they do.

    Called inside of another program, it is an ordinary function.

    Args:
        static: arguments that are part of the program; they need a hash.
        numbers: arguments with plain numbers. Where the function has to know them, such as to
            choose a formula by their sign, they become part of the program as well.
        donated: arguments whose memory the program may use for what it returns.
        options: for XLA; by default they depend on how much there is to compute.
        work: given the arguments by name, about how many numbers are computed; by default fifty for
            each number in arrays.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        static: Sequence[str] = (),
        numbers: Sequence[str] = (),
        donated: Sequence[str] = (),
        options: Mapping[str, Option] | None = None,
        work: Callable[[Mapping[str, Any]], int] | None = None,
    ) -> None:
        self.function = function
        self._static, self._numbers, self._donated = map(frozenset, (static, numbers, donated))
        self._options, self._work = dict(options or {}), work
        self._signature = inspect.signature(function)
        self._ready: LRU[Ready | None] = LRU(MOST_TRACED)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        given = self._given(*args, **kwargs)
        arrays = jax.tree.leaves([v for n, v in given.items() if n not in self._static])
        if setting("jax_disable_jit") or any(isinstance(x, jax.core.Tracer) for x in arrays):
            return self.function(*args, **kwargs)
        arguments, ready = self._made(given)
        return self._result(ready, arguments.leaves)

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> Compiled:
        """The compiled program for these arguments."""
        return self._made(self._given(*args, **kwargs))[1].program.result()

    def begin(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Begin to compile the program in another thread; the shapes of what it will return.

        Arguments may be such shapes themselves.
        """
        ready = self._made(self._given(*args, **kwargs), later=True)[1]
        return jax.tree.unflatten(ready.tree, ready.types)

    def bound(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R]:
        """The call with these arguments, to be made in whichever thread: it traces nothing.

        If it has to be compiled, yet another thread does that by now. What JAX is set to in this
        thread holds for the call, too.
        """
        if setting("jax_disable_jit"):
            return Bound(partial(self.function, *args, **kwargs), lambda: False)
        arguments, ready = self._made(self._given(*args, **kwargs), later=True)
        leaves = jax.tree.map(jnp.asarray, arguments.leaves)
        return Bound(partial(self._result, ready, leaves), lambda: not ready.program.done())

    def _given(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    def _result(self, ready: Ready, leaves: tuple[list[Any], list[Any]]) -> R:
        result: R = jax.tree.unflatten(ready.tree, ready.program.result()(*leaves))
        return result

    def _made(self, given: dict[str, Any], *, later: bool = False) -> tuple[CallArguments, Ready]:
        """Return the program, with numbers as arguments, or as part of it where it has to know
        them."""
        if self._numbers:
            arguments = self._arguments(given, self._static)
            ready = self._ready.get(arguments.key(), lambda: self._tried(given, arguments, later))
            if ready is not None:
                return arguments, ready
        closed = self._arguments(given, self._static | self._numbers)
        made = self._ready.get(closed.key(), lambda: self._traced(given, closed, later))
        assert made is not None
        return closed, made

    def _tried(self, given: dict[str, Any], arguments: CallArguments, later: bool) -> Ready | None:
        """Return the program with numbers as arguments; None where the function looks at one."""
        try:
            return self._traced(given, arguments, later)
        except (*TRACING_ERRORS, jax.errors.UnexpectedTracerError):
            return None

    def _traced(self, given: dict[str, Any], arguments: CallArguments, later: bool) -> Ready:
        trees: list[Any] = []

        def flat(*leaves: list[Array]) -> list[Array]:
            donated, kept = map(jax.tree.unflatten, arguments.trees, leaves)
            bound = self._signature.bind_partial()
            every = {**arguments.static, **donated, **kept}
            bound.arguments.update({name: every[name] for name in self._signature.parameters})
            returned, tree = jax.tree.flatten(self.function(*bound.args, **bound.kwargs))
            trees.append(tree)
            return returned

        flat.__name__ = getattr(self.function, "__name__", "program")
        types = arguments.types()
        # All arguments stay, used or not: programs of the same text have to take the same ones.
        lowered = jax.jit(flat, donate_argnums=0, keep_unused=True).lower(*map(list, types))
        if self._work is None:
            numbers = 50 * sum(math.prod(each.shape) for part in types for each in part)
        else:
            numbers = int(self._work(given))
        options = compiling.options_for(numbers, self._options)
        program = compiling.compiled(lowered, options, types, later=later)
        returned = tuple(map(_type, jax.tree.leaves(lowered.out_info)))
        return Ready(program, trees[0], returned)

    def _arguments(self, given: dict[str, Any], static: frozenset[str]) -> CallArguments:
        parts: list[dict[str, Any]] = [{}, {}, {}]
        for name, value in given.items():
            parts[0 if name in static else 1 if name in self._donated else 2][name] = value
        donated, kept = map(jax.tree.flatten, parts[1:])
        return CallArguments(parts[0], (donated[0], kept[0]), (donated[1], kept[1]))


def _type(leaf: Any) -> jax.ShapeDtypeStruct:
    """Return what a program has to know of an array: shape, type and the device it was put on."""
    is_placed = isinstance(leaf, jax.Array) and leaf.committed
    about: Any = jax.typeof(leaf)
    struct: Any = jax.ShapeDtypeStruct
    typed: jax.ShapeDtypeStruct = struct(
        about.shape,
        about.dtype,
        weak_type=about.weak_type,
        sharding=leaf.sharding if is_placed else None,
    )
    return typed


def kinds(value: object) -> Hashable:
    """What tells values apart that Python calls equal: 1, 1.0 and True, or 0.0 and -0.0.

    A key for what a program depends on needs this beside the value itself.
    """
    if isinstance(value, int | float | complex | np.generic):
        return type(value), repr(value)
    if isinstance(value, tuple):
        return type(value), *map(kinds, value)
    if isinstance(value, frozenset):
        return frozenset(map(kinds, value))
    if is_dataclass(value) and type(value).__eq__ is not object.__eq__:
        return type(value), *(kinds(getattr(value, f.name)) for f in fields(value) if f.compare)
    return cast(Hashable, type(value))
