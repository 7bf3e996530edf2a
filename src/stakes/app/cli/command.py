"""What commands share: options, exit codes, errors in words, output for people and machines."""

import contextlib
import functools
import inspect
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar, get_type_hints

import typer

from stakes.host.interrupts import ENDING, left_at_once, raised, signal_of

R = TypeVar("R")
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="RUN", help="The folder to make; runs/NAME by default."),
]
NoReport = Annotated[
    bool, typer.Option("--no-report", help="Leave report.html to a later `stakes report`.")
]
NoChoose = Annotated[
    bool,
    typer.Option("--no-choose", help="Fit plain and calibrated VI alone; decide by the latter."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Use another value, such as fit.steps=9000; may be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs to read.")]

# Words in what JAX says when it cannot reach another process.
OF_OTHERS = (
    "unavailable",
    "deadline_exceeded",
    "aborted",
    "gloo",
    "barrier",
    "coordination service",
    "connection",
)


class Exit(IntEnum):
    """How a command ended; one that a signal ended, with 128 + the signal's number."""

    DONE = 0
    BAD_INPUT = 2
    NUMERICAL_FAILURE = 3
    NOT_CONVERGED = 4
    PROCESS_LOST = 5
    PIPE_CLOSED = 141


def command(function: Callable[..., R]) -> Callable[..., R]:
    """Report a user's mistake in words on standard error, never with a traceback.

    A parameter that is a NamedTuple stands for its fields: each is an option.
    """
    hints = get_type_hints(function, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if _is_group(kind)}
    options: list[inspect.Parameter] = []
    for option in inspect.signature(function).parameters.values():
        fields = groups.get(option.name)
        options += [option] if fields is None else inspect.signature(fields).parameters.values()

    @functools.wraps(function)
    def guarded(**given: object) -> R:
        for name, group in groups.items():
            given[name] = group(**{field: given.pop(field) for field in group._fields})
        with _not_waited_for(), _in_words(), raised(*ENDING[1:]), _plain_warnings():
            with left_at_once():
                _prepare()
            return function(**given)

    guarded.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    guarded.__annotations__ = {option.name: option.annotation for option in options}
    return guarded


def _is_group(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple)


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    """Say how the command ended, and exit accordingly."""
    try:
        try:
            yield
        except Exception as error:
            fail(*_ending(error))
    except BrokenPipeError:
        _close_pipes()
        raise typer.Exit(Exit.PIPE_CLOSED) from None
    except KeyboardInterrupt as error:
        fail("Interrupted.", 128 + signal_of(error))


@contextlib.contextmanager
def _not_waited_for() -> Iterator[None]:
    """However a process of several ends before its work is done, it ends at once.

    JAX would wait for the others, which wait for this one.
    """
    try:
        yield
    except BaseException as error:
        if not _is_joined():
            raise
        code = 1
        if isinstance(error, typer.Exit):
            code = error.exit_code
        else:
            traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _is_joined() -> bool:
    if "jax" not in sys.modules:
        return False
    import jax

    return bool(jax.distributed.is_initialized())


def _ending(error: Exception) -> tuple[str, int]:
    """What to say of an exception, and the exit code; raised again if it is our mistake."""
    import jax

    from stakes.app.spec import user_error
    from stakes.errors import (
        InputError,
        Interrupted,
        NumericalError,
        ProcessLostError,
        StorageError,
    )

    match error:
        case InputError() | StorageError():
            return str(error), Exit.BAD_INPUT
        case NumericalError():
            return str(error), Exit.NUMERICAL_FAILURE
        case Interrupted():
            return str(error), 128 + error.signum
        case jax.errors.JaxRuntimeError() if _is_of_others(error):
            return f"Another process was lost: {str(error).splitlines()[0]}", Exit.PROCESS_LOST
        case ProcessLostError():
            return str(error), Exit.PROCESS_LOST
    in_user_code = user_error(error)
    if in_user_code is None:
        raise error
    return in_user_code, Exit.BAD_INPUT


def _is_of_others(error: Exception) -> bool:
    """Whether JAX complains that it cannot reach another process."""
    message = str(error).casefold()
    return _is_joined() and any(word in message for word in OF_OTHERS)


def _close_pipes() -> None:
    """What is still to be written to a closed pipe goes nowhere, or Python would complain of it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _prepare() -> None:
    """Import what takes long, and keep what JAX compiles for the commands to come."""
    from stakes.app import runs  # noqa: F401
    from stakes.host.compiling import keep_compiled

    keep_compiled()


def fail(message: str, code: int) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


def say(text: str) -> None:
    """A line for people, on standard error; only results go to standard output."""
    typer.echo(text, err=True)


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, default=str, allow_nan=False))


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        print(f"warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
