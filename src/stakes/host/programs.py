"""Compiled programs, kept for as long as they may be of use again.

A program is known by what it does. Where something about it may be new it is traced, which is
quick. It is lowered only if no program of the same equations has been before, and compiled, which
takes longest, only if none of the same text has. So what a model closes over, a global that it
reads or data that it looks at may change at will: that gives other equations. Arrays and numbers
that are arguments are no part of them.
"""

import hashlib
import inspect
import math
import os
import platform
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast, final

import jax
import jax.monitoring
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from stakes.errors import InputError
from stakes.host.packages import missing
from stakes.host.traced import key_of

P = ParamSpec("P")
R = TypeVar("R")

LARGEST_CACHE = 2**28
"""Bytes of compiled programs to keep on disk."""
MOST_TRACED = 32
"""For so many kinds of arguments each function remembers which program serves them."""
MOST_COMPILED = 256
"""Programs kept. They hold no data but what a model has made constants of."""
SETTINGS = (
    "jax_default_device",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_threefry_partitionable",
)
"""Those of JAX that programs depend on."""
ONCE = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Options for programs that run once: quick to compile."""
SMALL = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}
"""Options for programs of few numbers: they compile in half of the time, and run as fast."""
FEW = 2000
"""Numbers in the arguments of such a program, at most."""
WIDE = {"xla_cpu_prefer_vector_width": 512}
"""Options for all others: as many numbers at once as the processor can, where XLA takes half."""
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

    program: "Compiling"
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
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        static: Sequence[str] = (),
        numbers: Sequence[str] = (),
        donated: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.function = function
        self._static, self._numbers, self._donated = map(frozenset, (static, numbers, donated))
        self._options = dict(options or {})
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
        values = (jax.tree.leaves(split.donated), jax.tree.leaves(split.kept))
        result: R = jax.tree.unflatten(ready.tree, ready.program.result()(*values))
        return result

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The compiled program for these arguments."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self._made(bound.arguments)[1].program.result()

    def begin(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Compile the program for these arguments in another thread, if it has to be compiled.

        Says whether that is going on. A later call waits for it, and traces nothing again.
        """
        if setting("jax_disable_jit"):
            return False
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return not self._made(bound.arguments, later=True)[1].program.done()

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
        options = self._options or _options_for(types)
        return Ready(compiled(traced, options, types, later=later), found[0])

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


def _trees(split: Split) -> tuple[Any, Any]:
    return jax.tree.structure(split.donated), jax.tree.structure(split.kept)


def _types(split: Split) -> tuple[tuple[Any, ...], ...]:
    """Of each array, with the devices that it was put on, if any."""
    parts = (jax.tree.leaves(split.donated), jax.tree.leaves(split.kept))
    return tuple(tuple((jax.typeof(each), _devices(each)) for each in part) for part in parts)


def _numbers_in(types: tuple[tuple[Any, ...], ...]) -> int:
    return sum(math.prod(array.shape) for part in types for array, _ in part)


def _options_for(types: tuple[tuple[Any, ...], ...]) -> dict[str, Any]:
    """For arguments of these types; none where the user has set one of them."""
    options: dict[str, Any] = SMALL if _numbers_in(types) <= FEW else WIDE
    return {} if set(options) & _said_of_xla() else options


def _said_of_xla() -> set[str]:
    """Options that the user has set."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    return {flag.lstrip("-").partition("=")[0] for flag in flags}


def _devices(value: Any) -> Any:
    return value.sharding if isinstance(value, jax.Array) and value.committed else None


def _like(array: Any, devices: Any) -> Any:
    struct: Any = jax.ShapeDtypeStruct
    return struct(array.shape, array.dtype, weak_type=array.weak_type, sharding=devices)


def setting(name: str) -> Any:
    """Of JAX."""
    return getattr(jax.config, name)


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


T = TypeVar("T")


@final
class Lately(Generic[T]):
    """What was made for the keys that were asked for last."""

    def __init__(self, most: int) -> None:
        self._most, self._made, self._lock = most, OrderedDict[Any, T](), threading.Lock()

    def get(self, key: Any, make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        made = make()
        with self._lock:
            self._made[key] = made
            while len(self._made) > self._most:
                self._made.popitem(last=False)
        return made

    def __len__(self) -> int:
        return len(self._made)


@final
class Compiling:
    """A program that is compiled by `work`: now, or later in another thread."""

    def __init__(self, work: Callable[[], Any], *, later: bool) -> None:
        self._made = Future[Any]()
        self._failed: Callable[[], Any] | None = None
        if not later:
            self._made.set_result(work())
            return
        try:
            # No daemon: the interpreter must not end in the middle of XLA.
            threading.Thread(target=self._run, args=(work,), name="compiling").start()
        except RuntimeError:  # the interpreter is about to end
            self._run(work)

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._made.set_result(work())
        except BaseException as error:
            self._failed = work
            self._made.set_exception(error)

    def done(self) -> bool:
        return self._made.done()

    def result(self) -> Any:
        """Once it is there. What failed beside other work is tried again by itself."""
        if self._made.exception() is not None and self._failed is not None:
            return self._failed()
        return self._made.result()


COMPILED: Lately[Compiling] = Lately(MOST_COMPILED)
"""By the text of the lowered program."""
TRACED: Lately[Compiling] = Lately(MOST_COMPILED)
"""The same ones by their equations."""


def compiled(
    traced: Any, options: Mapping[str, Any], types: Any, *, later: bool = False
) -> Compiling:
    """The traced program for arguments of these types; one that was compiled before, if any."""
    settings = tuple(str(setting(name)) for name in SETTINGS)
    around = types, settings, tuple(sorted(options.items()))

    def by_text() -> Compiling:
        lowered = traced.lower()

        def work() -> Any:
            return lowered.compile(compiler_options=dict(options) or None)

        text = lowered.as_text()
        if "callback" in text:  # what is called back is not in the text
            return Compiling(work, later=False)
        found = str(lowered.in_avals), str(jax.tree.leaves(lowered.out_info))
        digest = hashlib.sha256(text.encode()).hexdigest()
        return COMPILED.get((digest, found, *around), lambda: Compiling(work, later=later))

    equations = key_of(traced)
    return by_text() if equations is None else TRACED.get((equations, *around), by_text)


def keep_compiled(folder: str | os.PathLike[str] | None = None) -> None:
    """Keep compiled programs in a folder, where later processes find them again.

    Most of the time of a first fit goes into compiling, which the programs of an earlier process
    save. The folder is JAX's own compilation cache and may be shared by all your programs. It is
    kept below 256 MB, for which JAX needs the package filelock. As with any cache of programs,
    others should not be able to write to it.

    By default, `folder` is the one that the command line uses, in your cache folder, unless JAX is
    already set to use another.

    Examples:
        >>> import tempfile, stakes
        >>> stakes.keep_compiled(tempfile.mkdtemp())  # such as "~/.cache/stakes"
    """
    config: Any = jax.config
    if folder is None and config.jax_compilation_cache_dir is not None:
        return
    given: Any = _users_folder() if folder is None else folder
    path = Path(given).expanduser() if isinstance(given, str | os.PathLike) else None
    if not str(given) or path is None or (path.exists() and not path.is_dir()):
        raise InputError(f"`keep_compiled(folder)` must be the path of a folder; got {folder!r}.")
    config.update("jax_compilation_cache_dir", str(path))
    if find_spec("filelock") is not None:
        config.update("jax_compilation_cache_max_size", LARGEST_CACHE)
    config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    # JAX looks at these once, when it compiles for the first time.
    compilation_cache.reset_cache()


def _users_folder() -> Path:
    """For this machine, since several may share a home."""
    if missing("platformdirs"):
        cache = Path.home() / ".cache" / "stakes"
    else:
        from platformdirs import user_cache_path

        cache = user_cache_path("stakes")
    return cache / "jax" / platform.node()


@contextmanager
def compilations() -> Iterator[list[str]]:
    """The names of all programs that JAX compiles meanwhile, or takes from a cache on disk."""
    names: list[str] = []

    def listen(event: str, duration_secs: float, **about: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(str(about.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield names
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
