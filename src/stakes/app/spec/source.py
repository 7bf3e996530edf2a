"""The user's own Python: run as it stands in its file, and identified by the file's checksum."""

import hashlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import final

from stakes.errors import InputError, suggestion

# How modules that are run from here are called, which tells exceptions in them from ours.
PREFIX = "stakes_user_"
JAX_TRACE = re.compile(
    r"\nThe error occurred while tracing the function.*?(?=\nSee http|\Z)", re.DOTALL
)


@final
@dataclass(frozen=True)
class UserCode:
    """The Python files that a spec names; each is run once.

    Args:
        folder: where relative paths start from.
        expected: the checksums that the files have to have; None for any.
        checksums: file -> its checksum, for those read so far.
    """

    folder: Path
    expected: Mapping[str, str] | None = None
    checksums: dict[str, str] = field(default_factory=dict)
    _modules: dict[Path, ModuleType] = field(default_factory=dict)

    def read(self, path: Path) -> bytes:
        """The content of a file, whose checksum is noted."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}.") from None
        digest = hashlib.sha256(content).hexdigest()
        if self.expected is not None and self.expected.get(str(path)) != digest:
            raise InputError(
                f"{path} has changed since the run. Put it back as it was, run again, or say "
                f"`--allow-changed-model` if the change does not matter."
            )
        self.checksums[str(path)] = digest
        return content

    def get(self, reference: str) -> object:
        """What `file.py:name` stands for."""
        file, _, name = reference.rpartition(":")
        path = (self.folder / file).resolve()
        if path not in self._modules:
            self._modules[path] = _run(path, self.read(path))
        members = vars(self._modules[path])
        if name not in members:
            own = [n for n, v in members.items() if callable(v) and n[0] != "_"]
            raise InputError(f"{path} has no {name!r}.{suggestion(name, own)}")
        return members[name]

    def function(self, reference: str) -> Callable[..., object]:
        value = self.get(reference)
        if not callable(value):
            file, _, name = reference.rpartition(":")
            raise InputError(f"{name!r} in {file} must be a function; got {value!r}.")
        return value

    def call(self, reference: str, arguments: Mapping[str, object]) -> object:
        """What the function or class of that name makes of these arguments."""
        function = self.function(reference)
        with _errors_in_words(reference):
            return function(**arguments)


def _run(path: Path, content: bytes) -> ModuleType:
    """Run the content of a Python file: an import could run an older cached copy instead."""
    module = ModuleType(PREFIX + path.stem)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    with _errors_in_words(str(path)):
        exec(compile(content, str(path), "exec"), vars(module))
    return module


@contextmanager
def _errors_in_words(what: str) -> Iterator[None]:
    """Report what the user's code raises with its line there."""
    try:
        yield
    except Exception as error:
        raise InputError(user_error(error) or f"{what}: {type(error).__name__}: {error}") from error


def user_modules() -> list[ModuleType]:
    """The modules that were run from here."""
    return [module for name, module in [*sys.modules.items()] if name.startswith(PREFIX)]


def user_error(error: BaseException) -> str | None:
    """Where in the user's own code an exception arose, and what it says; None if elsewhere."""
    place: tuple[str, int] | None = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).startswith(PREFIX):
            place = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    if place is None:
        return None
    return f"{place[0]}, line {place[1]}: {_text_of(error)}"


def _text_of(error: BaseException) -> str:
    """What an exception says, without what JAX adds about its own inner workings."""
    text = traceback.TracebackException(type(error), error, None)
    notes = text.__notes__ or []
    text.__notes__ = [note for note in notes if "JAX_TRACEBACK_FILTERING" not in note]
    return JAX_TRACE.sub("", "".join(text.format_exception_only())).strip()
