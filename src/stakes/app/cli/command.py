"""What all commands share: exit codes, errors in words, tables for people and JSON for machines."""

import contextlib
import functools
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, NoReturn, ParamSpec, TypeVar

import typer

P = ParamSpec("P")
R = TypeVar("R")

LARGEST_CACHE = 2**28
"""Bytes of compiled programs to keep."""


class Exit(IntEnum):
    """How a command ended; an interrupted one ends with 128 + the signal's number."""

    DONE = 0
    BAD_INPUT = 2
    NUMERICAL_FAILURE = 3
    NOT_CONVERGED = 4


def command(function: Callable[P, R]) -> Callable[P, R]:
    """A user's mistake is reported in words on standard error, never with a traceback."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        from stakes.app.spec import user_error
        from stakes.errors import InputError, Interrupted, NumericalError, StorageError

        _keep_compiled()
        with _plain_warnings():
            try:
                return function(*args, **kwargs)
            except (InputError, StorageError) as error:
                fail(str(error), Exit.BAD_INPUT)
            except NumericalError as error:
                fail(str(error), Exit.NUMERICAL_FAILURE)
            except Interrupted as error:
                fail(str(error), 128 + error.signum)
            except KeyboardInterrupt:
                fail("Interrupted.", 130)
            except Exception as error:
                in_user_code = user_error(error)
                if in_user_code is None:
                    raise
                fail(in_user_code, Exit.BAD_INPUT)

    return guarded


def _keep_compiled() -> None:
    """Keep what JAX compiles for one command, so that the next need not compile it again."""
    import platform

    import jax
    from platformdirs import user_cache_path

    config: Any = jax.config
    folder = user_cache_path("stakes") / "jax" / platform.node()  # a home may be shared
    if config.jax_compilation_cache_dir is None:
        config.update("jax_compilation_cache_dir", str(folder))
        config.update("jax_compilation_cache_max_size", LARGEST_CACHE)
        config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def fail(message: str, code: int) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


def say(text: str) -> None:
    """A line for people, on standard error; only results go to standard output."""
    typer.echo(text, err=True)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, default=str, allow_nan=False))


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        print(f"warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
