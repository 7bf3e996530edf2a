"""Packages that only some of the work needs, and how to install them."""

from importlib.util import find_spec
from pathlib import Path


def missing(*packages: str) -> tuple[str, ...]:
    """Those of these packages that are not installed."""
    return tuple(name for name in packages if find_spec(name) is None)


def how_to_install(extra: str) -> str:
    """The command that installs an extra: from the checkout that is running, if it is one."""
    checkout = Path(__file__).parents[3]
    is_checkout = (checkout / "pyproject.toml").exists() and (checkout / "src" / "stakes").is_dir()
    return (
        f"pip install -e '{checkout}[{extra}]'" if is_checkout else f"pip install 'stakes[{extra}]'"
    )
