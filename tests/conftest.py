"""What every test shares: how hypothesis runs, a cache of compiled programs, double precision."""

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from hypothesis import settings
from jax.experimental.compilation_cache import compilation_cache

if "STAKES_CHECK_SHAPES" in os.environ:  # set by `make test-shapes`
    from jaxtyping import install_import_hook

    install_import_hook("stakes", "shapes.checked")

from stakes.host import compiling

settings.register_profile("stakes", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("stakes")

# Most of the time goes into compiling, and many tests compile the same programs; processes that a
# test starts find the cache too.
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "jax"
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(CACHE)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"
KEPT = {
    "jax_compilation_cache_dir": str(CACHE),
    "jax_compilation_cache_max_size": -1,
    "jax_persistent_cache_min_compile_time_secs": 0.05,
}
for setting, value in KEPT.items():
    jax.config.update(setting, value)

# The same programs, written by XLA's older emitters and not optimised by LLVM.
LITTLE_EFFORT = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


def pytest_configure(config: pytest.Config) -> None:
    """Ordinary tests compile with little effort, in less than half of the time.

    Slow tests, and processes that tests start, run what users run.
    """
    if are_ordinary(config):
        with pytest.MonkeyPatch.context() as for_this_process:
            for_this_process.setenv("XLA_FLAGS", LITTLE_EFFORT)
            jax.devices()  # reads them
        compiling.SMALL.clear()


def are_ordinary(config: pytest.Config) -> bool:
    return bool(config.getoption("markexpr") == "not slow")


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one file run in one process, which compiles what they share once.

    So do files of which some tests share a fixture. Of a test marked `some`, the cases that are not
    ordinary ones become slow.
    """
    cases: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("some") and not item.get_closest_marker("slow"):
            cases.setdefault((str(item.path), item.originalname), []).append(item)
    for found in cases.values():
        [count] = found[0].get_closest_marker("some").args
        ordinary = {round(i * len(found) / count) for i in range(count)}
        for i, item in enumerate(found):
            if i not in ordinary:
                item.add_marker(pytest.mark.slow)
    groups: dict[str, str] = {}
    for item in items:
        shared = {
            found.baseid
            for definitions in item._fixtureinfo.name2fixturedefs.values()
            for found in definitions
            if found.scope in ("module", "session") and found.baseid.startswith("tests")
        }
        file = item.location[0]
        groups[file] = min({file, groups.get(file, file), *shared})
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups[item.location[0]]))


@pytest.fixture(autouse=True)
def programs_of_all_tests() -> Iterator[None]:
    """Kept in one place, also after a test of `keep_compiled`, which names another one."""
    yield
    if jax.config.jax_compilation_cache_dir != str(CACHE):
        for setting, value in KEPT.items():
            jax.config.update(setting, value)
        compilation_cache.reset_cache()


@pytest.fixture
def compiled_alike(monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    """Processes that a test starts compile as its own does, and get the same bits."""
    if are_ordinary(pytestconfig):
        monkeypatch.setenv("XLA_FLAGS", LITTLE_EFFORT)


@pytest.fixture
def double_precision() -> Iterator[None]:
    """JAX in double precision for one test; compiled functions are cached by precision."""
    with jax.enable_x64(True):
        yield
