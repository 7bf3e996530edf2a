"""What every test shares: how hypothesis runs, and a switch to double precision."""

from collections.abc import Iterator

import jax
import pytest
from hypothesis import settings

settings.register_profile("stakes", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("stakes")


@pytest.fixture
def double_precision() -> Iterator[None]:
    """JAX in double precision for one test; compiled functions are cached by precision."""
    with jax.enable_x64(True):
        yield
