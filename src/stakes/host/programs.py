"""Compiled programs, found again wherever the same is computed.

A program is known by what it does. Where something about it may be new it is traced, which is
quick, and compiled only if it is new (`compiling`). So what a model closes over, a global that it
reads or data that it looks at may change at will: that gives other equations. Arrays and numbers
that are arguments are no part of them.
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

from stakes.host import compiling
from stakes.host.compiling import SETTINGS, Compiling, Lately, setting

P = ParamSpec("P")
R = TypeVar("R")

MOST_TRACED = 32
"""For so many kinds of arguments each function remembers which program serves them."""
TRACING_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""What JAX raises where a program asks for a value that is not known while it is compiled."""


class Split(NamedTuple):
    """Arguments of a call by what becomes of them."""

    static: tuple[tuple[str, Any], ...]
    """Part of the program."""
    donated: dict[str, Any]
    """Arrays whose memory it may use for what it returns."""
    kept: dict[str, Any]


class Ready(NamedTuple):
    """A program, which may still be compiled, and how what it returns is put together."""

    program: Compiling
    tree: Any


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
        options: Mapping[str, Any] | None = None,
        work: Callable[[Mapping[str, Any]], int] | None = None,
    ) -> None:
        self.function = function
        self._static, self._numbers, self._donated = map(frozenset, (static, numbers, donated))
        self._options, self._work = dict(options or {}), work
        self._signature = inspect.signature(function)
        self._ready: Lately[Ready | None] = Lately(MOST_TRACED)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        every = jax.tree.leaves([v for n, v in given.items() if n not in self._static])
        if setting("jax_disable_jit") or any(isinstance(each, jax.core.Tracer) for each in every):
            return self.function(*args, **kwargs)
        split, ready = self._made(given)
        return self._result(ready, _values(split))

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The compiled program for these arguments."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self._made(bound.arguments)[1].program.result()

    def bound(self, *args: P.args, **kwargs: P.kwargs) -> Callable[[], R]:
        """The call with these arguments, to be made in whichever thread: it traces nothing.

        What JAX is set to in this thread holds for the call, too.
        """
        if setting("jax_disable_jit"):
            return partial(self.function, *args, **kwargs)
        given = self._signature.bind(*args, **kwargs)
        given.apply_defaults()
        split, ready = self._made(given.arguments, later=True)
        return partial(self._result, ready, jax.tree.map(jnp.asarray, _values(split)))

    def begin(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Compile the program for these arguments in another thread, if it has to be compiled.

        Says whether that is going on. A later call waits for it, and traces nothing again.
        """
        if setting("jax_disable_jit"):
            return False
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return not self._made(bound.arguments, later=True)[1].program.done()

    def _result(self, ready: Ready, values: tuple[list[Any], list[Any]]) -> R:
        result: R = jax.tree.unflatten(ready.tree, ready.program.result()(*values))
        return result

    def _made(self, given: Mapping[str, Any], *, later: bool = False) -> tuple[Split, Ready]:
        open_ = self._split(given, self._static)
        key = _key(open_)
        ready = self._ready.get(key, lambda: self._tried(open_, later))
        if ready is not None:
            return open_, ready
        closed = self._split(given, self._static | self._numbers)
        made = self._ready.get(_key(closed), lambda: self._traced(closed, later))
        assert made is not None
        return closed, made

    def _tried(self, split: Split, later: bool) -> Ready | None:
        """The program with numbers as arguments; None where they have to be part of it."""
        if not self._numbers:
            return self._traced(split, later)
        try:
            return self._traced(split, later)
        except (*TRACING_ERRORS, jax.errors.UnexpectedTracerError):
            return None

    def _traced(self, split: Split, later: bool) -> Ready:
        types, trees = _types(split), _trees(split)
        found: list[Any] = []

        def flat(*values: list[Any]) -> list[Any]:
            given = [jax.tree.unflatten(*each) for each in zip(trees, values, strict=True)]
            leaves, tree = jax.tree.flatten(self._called(split.static, *given))
            found.append(tree)
            return leaves

        flat.__name__ = getattr(self.function, "__name__", "program")
        # All arguments stay, used or not: programs of the same text have to take the same ones.
        jitted = jax.jit(flat, donate_argnums=0, keep_unused=True)
        traced = jitted.trace(*([_like(*each) for each in part] for part in types))
        options = compiling.options_for(self._numbers_computed(split, types), self._options)
        return Ready(compiling.compiled(traced, options, types, later=later), found[0])

    def _numbers_computed(self, split: Split, types: tuple[tuple[Any, ...], ...]) -> int:
        if self._work is None:
            shapes = [array.shape for part in types for array, _ in part]
            return 50 * sum(map(math.prod, shapes))
        return int(self._work({**dict(split.static), **split.donated, **split.kept}))

    def _called(
        self, static: tuple[tuple[str, Any], ...], donated: dict[str, Any], kept: dict[str, Any]
    ) -> R:
        every = {**dict(static), **donated, **kept}
        bound = self._signature.bind_partial()
        bound.arguments.update({name: every[name] for name in self._signature.parameters})
        return self.function(*bound.args, **bound.kwargs)

    def _split(self, given: Mapping[str, Any], static: frozenset[str]) -> Split:
        return Split(
            tuple((name, value) for name, value in given.items() if name in static),
            {name: value for name, value in given.items() if name in self._donated},
            {n: v for n, v in given.items() if n not in static and n not in self._donated},
        )


def _values(split: Split) -> tuple[list[Any], list[Any]]:
    return jax.tree.leaves(split.donated), jax.tree.leaves(split.kept)


def _trees(split: Split) -> tuple[Any, Any]:
    return jax.tree.structure(split.donated), jax.tree.structure(split.kept)


def _types(split: Split) -> tuple[tuple[Any, ...], ...]:
    """Of each array, with the devices that it was put on, if any."""
    return tuple(
        tuple((jax.typeof(each), _devices(each)) for each in part) for part in _values(split)
    )


def _devices(value: Any) -> Any:
    return value.sharding if isinstance(value, jax.Array) and value.committed else None


def _like(array: Any, devices: Any) -> Any:
    struct: Any = jax.ShapeDtypeStruct
    return struct(array.shape, array.dtype, weak_type=array.weak_type, sharding=devices)


def _key(split: Split) -> Any:
    settings = tuple(setting(name) for name in SETTINGS)
    return split.static, kinds(split.static), _trees(split), _types(split), settings


def kinds(value: Any) -> Hashable:
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
