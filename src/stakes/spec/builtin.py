"""Examples that come with the library, by the names that specs and the command line use."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from stakes.errors import InputError
from stakes.spec.messages import suggestion
from stakes.utilities import Linearized

MODULES = {
    "eight-schools": "eight_schools",
    "newsvendor": "newsvendor",
    "retail": "retail",
    "radon": "radon",
}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "eight-schools": {"transform": Linearized(scale=7)},
    "newsvendor": {"steps": 2_000},
    "retail": {},
    "radon": {"draws": 10},
}
"""Arguments of `calibrate` that each example's own `solve` gives."""
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {"newsvendor": {"batch": 64}}
"""Of the model, in the fit alone."""


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
    settings: Mapping[str, Any] = field(default_factory=dict)


def example(name: str) -> Example:
    if name not in MODULES:
        raise InputError(f"there is no example {name!r}.{suggestion(name, MODULES)}")
    module = importlib.import_module(f"stakes.examples.{MODULES[name]}")
    return Example(
        path=Path(str(module.__file__)),
        problem=module.problem,
        data=lambda: {**module.data(), **ARGUMENTS.get(name, {})},
        held_out=getattr(module, "held_out", None),
        coords=getattr(module, "labels", dict)(),
        known=tuple(getattr(module, "KNOWN", ())),
        settings=SETTINGS[name],
    )
