"""Bayesian decisions: variational posteriors calibrated for what a decision costs.

The public names are in `__init__.pyi`. Each is imported when it is first used, so that a command
that needs none of it, such as `stakes --help`, need not wait for JAX.
"""

from importlib import import_module
from importlib.util import find_spec

import lazy_loader

__version__ = "0.1.0"
_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """A public name, or a module of the package."""
    if name not in __all__ and find_spec(f"{__name__}.{name}") is not None:
        return import_module(f"{__name__}.{name}")
    return _public(name)
