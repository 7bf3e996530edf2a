"""What commands share: options, exit codes, errors in words, output for people and machines.

Results go to standard output, all else to standard error, so that other programs can read results.
"""

import contextlib
import functools
import inspect
import json
import os
import sys
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
        help="Use another value, such as loss.newsvendor.under=4; may be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs to read.")]


class Exit(IntEnum):
    """How a command ended; one that a signal ended, with 128 + the signal's number.

    Scripts rely on these numbers. 1 is left to Python, for a mistake of ours, and 141 is what a
    shell reports for a program that a closed pipe ends.
    """

    DONE = 0
    BAD_INPUT = 2
    NUMERICAL_FAILURE = 3
    NOT_CONVERGED = 4
    PROCESS_LOST = 5
    PIPE_CLOSED = 141


def command(function: Callable[..., R]) -> Callable[..., R]:
    """Make a command of a function.

    Mistakes of the user are reported in words on standard error, never with a traceback, and the
    exit code says what went wrong. A parameter that is a NamedTuple stands for its fields: each is
    an option.

    Args:
        function: whose docstring is the help, and whose annotations are the options.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {
        name: kind
        for name, kind in hints.items()
        if isinstance(kind, type) and issubclass(kind, tuple)
    }
    options: list[inspect.Parameter] = []
    for option in inspect.signature(function).parameters.values():
        fields = groups.get(option.name)
        options += [option] if fields is None else inspect.signature(fields).parameters.values()

    @functools.wraps(function)
    def guarded(**given: object) -> R:
        for name, group in groups.items():
            given[name] = group(**{field: given.pop(field) for field in group._fields})
        with _in_words(), raised(*ENDING[1:]), _plain_warnings():
            with left_at_once():
                _prepare()
            return function(**given)

    guarded.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    guarded.__annotations__ = {option.name: option.annotation for option in options}
    return guarded


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    """Say how the command ended, and exit accordingly.

    Nothing is said where nobody reads the output any more.
    """
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


def _ending(error: Exception) -> tuple[str, int]:
    """What to say of an exception, and the exit code.

    An exception that nobody raised on purpose is a mistake of ours, and is raised again, unless it
    arose in the user's own code.
    """
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
        case ProcessLostError():
            return str(error), Exit.PROCESS_LOST
    in_user_code = user_error(error)
    if in_user_code is None:
        raise error
    return in_user_code, Exit.BAD_INPUT


def _close_pipes() -> None:
    """Let what is still to be written to a closed pipe go nowhere: Python would complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _prepare() -> None:
    """Import what takes long, and keep what JAX compiles for the commands to come.

    It is done before a command reads anything, so that Ctrl-C has no half-done work to leave
    behind.
    """
    from stakes.app import runs  # noqa: F401
    from stakes.host.compiling import keep_compiled

    keep_compiled()


def fail(message: str, code: int) -> NoReturn:
    """End the command with an error and its exit code."""
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


def say(text: str) -> None:
    """Print a line for people, on standard error."""
    typer.echo(text, err=True)


def print_json(value: object) -> None:
    """Print a result for other programs, on standard output."""
    typer.echo(json.dumps(value, indent=2, default=str, allow_nan=False))


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show each warning on a line of its own, without its place in our code."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        print(f"warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
