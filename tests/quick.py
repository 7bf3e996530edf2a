"""For what a test compiles to run it once."""

from collections.abc import Callable
from typing import Any

import jax

QUICKLY = {"xla_backend_optimization_level": 0}
"""Options for XLA: half of its time goes into code that is a little faster."""


def quickly(function: Callable[..., Any], *arguments: Any) -> Any:
    """What it returns, compiled with little effort."""
    return jax.jit(function, compiler_options=QUICKLY)(*arguments)
