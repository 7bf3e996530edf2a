"""Compiling with XLA: how much effort it takes, in which thread, and what is kept of it.

A lowered program is compiled, which takes longest, only if none of the same text has been before.
How much effort pays depends on how often a program runs, and on how many numbers: options for
programs that run once, for small ones and for all others are here.
"""

import hashlib
import os
import platform
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar, final

import jax
import jax.monitoring
import jax.numpy as jnp
from jax.experimental.compilation_cache import compilation_cache
from jax.experimental.layout import Layout, with_layout_constraint
from jax.stages import Compiled, Lowered

from stakes._types import Array
from stakes.errors import InputError
from stakes.host.packages import missing

T = TypeVar("T")
Option: TypeAlias = bool | int
"""The value of an option of XLA."""

# Bytes of compiled programs to keep on disk.
LARGEST_CACHE = 2**28
# Programs kept. They hold no data but what a model has made constants of.
MOST_COMPILED = 256
# Those of JAX that programs depend on.
SETTINGS = (
    "jax_default_device",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_threefry_partitionable",
)
# Options for programs that run once: they compile in a third of the time, and run as slowly.
ONCE: dict[str, Option] = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_llvm_disable_expensive_passes": True,
}
# Options for programs that compute few numbers: they compile in half of the time.
SMALL: dict[str, Option] = {
    "xla_backend_optimization_level": 1,
    "xla_cpu_use_fusion_emitters": False,
}
# Numbers that such a program computes, at most; with more, it would run several times as long.
LITTLE = 100_000
# Numbers with which a program takes longer to run once, with `ONCE`, than to compile well.
MUCH = 3 * 10**8
# Options for all others: as many numbers at once as the processor can, where XLA takes half.
WIDE: dict[str, Option] = {"xla_cpu_prefer_vector_width": 512}


def setting(name: str) -> bool | str | None:
    """Return what an option of JAX is set to."""
    value: bool | str | None = getattr(jax.config, name)
    return value


def options_for(numbers: int, options: Mapping[str, Option]) -> dict[str, Option]:
    """Return the options of XLA for a program that computes so many numbers.

    The options given hold, unless the numbers are too many.

    They are empty where the user has set one of them, or where there is no CPU, which all of them
    are about.
    """
    if numbers > MUCH or not options:
        options = SMALL if numbers <= LITTLE else WIDE
    if jax.default_backend() != "cpu" or set(options) & _said_of_xla():
        return {}
    return dict(options)


def _said_of_xla() -> set[str]:
    """Options that the user has set, which may be in a file."""
    said = os.environ.get("XLA_FLAGS", "").strip()
    if said and not said.startswith("-"):
        said = Path(said).read_text() if Path(said).is_file() else ""
    return {flag.lstrip("-").partition("=")[0] for flag in said.split()}


@final
class LRU(Generic[T]):
    """What was made for the keys that were asked for last."""

    def __init__(self, most: int) -> None:
        self._most, self._made, self._lock = most, OrderedDict[Hashable, T](), threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what was made for this key, or make it.

        What was asked for longest ago is dropped where there are too many.
        """
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

    def __init__(self, work: Callable[[], Compiled], *, later: bool) -> None:
        self._work, self._made = work, Future[Compiled]()
        if later:
            with suppress(RuntimeError):  # if the interpreter is about to end: now
                pool = ThreadPoolExecutor(1, "compiling")
                self._made = pool.submit(work)
                pool.shutdown(wait=False)
                return
        self._made.set_result(work())

    def done(self) -> bool:
        """Whether the program is compiled."""
        return self._made.done()

    def result(self) -> Compiled:
        """Once it is there. What failed beside other work is tried again by itself."""
        return self._work() if self._made.exception() else self._made.result()


# By the text of the lowered program.
COMPILED: LRU[Compiling] = LRU(MOST_COMPILED)


def compiled(
    lowered: Lowered, options: Mapping[str, Option], types: Hashable, *, later: bool = False
) -> Compiling:
    """Return a program compiled for these types; an earlier one if its text is the same."""

    def work() -> Compiled:
        given: Any = dict(options) or None
        return lowered.compile(compiler_options=given)

    text = lowered.as_text()
    if "callback" in text or "jax.const" in text:
        # What is called back is not in the text, nor are constants that JAX passes as arguments.
        return Compiling(work, later=False)
    settings = tuple(str(setting(name)) for name in SETTINGS)
    returned = str(lowered.in_avals), str(jax.tree.leaves(lowered.out_info))
    digest = hashlib.sha256(text.encode()).hexdigest()
    key = digest, returned, types, settings, tuple(sorted(options.items()))
    return COMPILED.get(key, lambda: Compiling(work, later=later))


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
    """Return the folder for compiled programs, apart for each machine that shares a home."""
    if missing("platformdirs"):
        cache = Path.home() / ".cache" / "stakes"
    else:
        from platformdirs import user_cache_path

        cache = user_cache_path("stakes")
    return cache / "jax" / platform.node()


def once(x: Array) -> Array:
    """The same, computed once and laid out in the order of its axes.

    On CPU, XLA recomputes an expression in every loop that uses it, which takes five times as long
    where that is a product with five covariates; and it carries a transposition through all that
    follows, where every loop then jumps about in memory. Where several processes have parts of an
    array, each would fetch the whole of it to lay it out.
    """
    if (
        jax.default_backend() != "cpu"
        or jax.process_count() > 1
        or not jnp.issubdtype(jnp.result_type(x), jnp.floating)
    ):
        return x
    constrained: Any = with_layout_constraint
    laid_out: Array = constrained(jnp.asarray(x), Layout(tuple(range(jnp.ndim(x)))))
    return laid_out
