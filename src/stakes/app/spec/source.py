"""The user's own Python: run as it stands in its file, and identified by the file's checksum."""

import hashlib
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, final

from stakes.errors import InputError, suggestion

MARK = "__stakes_user_code__"
"""A global of every module run from here, which tells exceptions in the user's code from ours."""

JAX_TRACE = re.compile(
    r"\nThe error occurred while tracing the function.*?(?=\nSee http|\Z)", re.DOTALL
)


@final
@dataclass(frozen=True)
class Code:
    """A Python file that was run."""

    path: Path
    sha256: str
    module: ModuleType

    def get(self, name: str) -> Callable[..., Any]:
        found: object = getattr(self.module, name, None)
        if found is None:
            own = [n for n, v in vars(self.module).items() if callable(v) and n[0] != "_"]
            raise InputError(f"{self.path} has no {name!r}.{suggestion(name, own)}")
        if not callable(found):
            raise InputError(f"{name!r} in {self.path} must be a function; got {found!r}.")
        return found


def read_code(path: Path) -> tuple[bytes, str]:
    """A file's content and its checksum."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from None
    return content, hashlib.sha256(content).hexdigest()


def run_code(path: Path, content: bytes, digest: str) -> Code:
    """Run the content of a Python file: an import could run an older cached copy instead."""
    module = ModuleType(f"stakes_user_{path.stem}")
    module.__file__ = str(path)
    setattr(module, MARK, True)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        exec(compile(content, str(path), "exec"), vars(module))
    except Exception as error:
        raise InputError(user_error(error) or f"{path}: {type(error).__name__}: {error}") from error
    return Code(path, digest, module)


def user_modules() -> list[ModuleType]:
    """The modules that were run from here."""
    return [module for module in list(sys.modules.values()) if getattr(module, MARK, False)]


def user_error(error: BaseException) -> str | None:
    """Where in the user's own code an exception arose, and what it says; None if elsewhere."""
    place: tuple[str, int] | None = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get(MARK):
            place = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    if place is None:
        return None
    return f"{place[0]}, line {place[1]}: {_said(error)}"


def _said(error: BaseException) -> str:
    """What an exception says, without what JAX adds about its own inner workings."""
    notes = getattr(error, "__notes__", [])
    said = traceback.TracebackException(type(error), error, None)
    said.__notes__ = [note for note in notes if "JAX_TRACEBACK_FILTERING" not in note]
    return JAX_TRACE.sub("", "".join(said.format_exception_only())).strip()
