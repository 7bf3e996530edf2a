"""Examples that come with the library, by the names that specs and the command line use."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from stakes.errors import InputError, suggestion

MODULES = {
    "eight-schools": "eight_schools",
    "newsvendor": "newsvendor",
    "retail": "retail",
    "radon": "radon",
    "bank": "bank",
    "remediation": "remediation",
    "portions": "portions",
    "pricing": "pricing",
    "promises": "promises",
}


@final
@dataclass(frozen=True, eq=False)
class Example:
    """What an example's module offers; all but problem and data may be absent."""

    path: Path
    problem: Callable[[], Any]
    data: Callable[[], Mapping[str, Any]]
    held_out: Callable[[], Mapping[str, Any]] | None
    coords: Mapping[str, Any] = field(default_factory=dict)
    known: tuple[str, ...] = ()
    fitted_with: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `Options`."""
    folds: Any = None
    """To choose among ways by, where not any rows will do."""


def example(name: str) -> Example:
    if name not in MODULES:
        raise InputError(f"there is no example {name!r}.{suggestion(name, MODULES)}")
    module = importlib.import_module(f"stakes.examples.{MODULES[name]}")
    return Example(
        path=Path(str(module.__file__)),
        problem=module.problem,
        data=getattr(module, "fit_data", module.data),
        held_out=getattr(module, "held_out", None),
        coords=getattr(module, "labels", dict)(),
        known=tuple(getattr(module, "KNOWN", ())),
        fitted_with=getattr(module, "FITTED_WITH", {}),
        folds=getattr(module, "FOLDS", None),
    )
