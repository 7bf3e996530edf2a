"""What a run was made with."""

import platform
from importlib import metadata
from typing import Literal

import jax.numpy as jnp

PACKAGES = ("stakes", "jax", "jaxlib", "numpyro", "numpy", "optax")


def versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES},
    }


def precision() -> Literal["single", "double"]:
    return "double" if jnp.result_type(float) == jnp.float64 else "single"
