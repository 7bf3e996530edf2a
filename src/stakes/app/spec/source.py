"""The user's own Python, run as it stands in its file.

A file is identified by its checksum, so that a run that is opened again uses the code that it was
made with, or says that it has changed. What the user's code raises is reported with its line there.
"""

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

# Modules of the user's files begin with this, which tells exceptions in them from ours.
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
        expected: the checksums that the files must have; None for any.
        checksums: file -> its checksum, for those read so far.
    """

    folder: Path
    expected: Mapping[str, str] | None = None
    checksums: dict[str, str] = field(default_factory=dict)
    _modules: dict[Path, ModuleType] = field(default_factory=dict)

    def read(self, path: Path) -> bytes:
        """Read a file, and note its checksum.

        Raises:
            InputError: if the file cannot be read, or has changed since the run.
        """
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
        """The value that a reference stands for.

        Args:
            reference: a file, relative to the folder, and a name in it, such as `model.py:model`.
        """
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
        """The function or class that `file.py:name` stands for."""
        value = self.get(reference)
        if not callable(value):
            file, _, name = reference.rpartition(":")
            raise InputError(f"{name!r} in {file} must be a function; got {value!r}.")
        return value

    def call(self, reference: str, arguments: Mapping[str, object]) -> object:
        """Call the function or class that `file.py:name` stands for."""
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
    """The modules that were made of the user's files."""
    return [module for name, module in [*sys.modules.items()] if name.startswith(PREFIX)]


def user_error(error: BaseException) -> str | None:
    """Return where in the user's code an exception arose, and its text; None if elsewhere."""
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
    """The text of an exception, without what JAX adds about its own inner workings."""
    text = traceback.TracebackException(type(error), error, None)
    notes = text.__notes__ or []
    text.__notes__ = [note for note in notes if "JAX_TRACEBACK_FILTERING" not in note]
    return JAX_TRACE.sub("", "".join(text.format_exception_only())).strip()
