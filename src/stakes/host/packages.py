"""Packages that only some of the work needs, and how to install them."""

from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path


def missing(*packages: str) -> tuple[str, ...]:
    """Those of these packages that are not installed."""
    return tuple(name for name in packages if find_spec(name) is None)


def how_to_install(extra: str) -> str:
    """The command that installs an extra: from the checkout that is running, if it is one.

    Otherwise it names the packages, which are on an index wherever stakes came from.
    """
    checkout = Path(__file__).parents[3]
    if (checkout / "pyproject.toml").exists() and (checkout / "src" / "stakes").is_dir():
        return f"pip install -e '{checkout}[{extra}]'"
    packages = [f"'{each}'" for each in packages_of(extra)]
    return f"pip install {' '.join(packages)}"


def packages_of(extra: str) -> list[str]:
    """The packages of an extra, with the versions that will do."""
    try:
        every = requires("stakes") or []
    except PackageNotFoundError:
        every = []
    # Such as "pyarrow>=20; extra == 'parquet'".
    parted = [each.partition(";") for each in every]
    found = [name.strip() for name, _, when in parted if when.strip() == f"extra == '{extra}'"]
    return found or [f"stakes[{extra}]"]
