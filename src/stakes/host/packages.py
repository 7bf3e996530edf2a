"""Packages: their versions, and how to install those that only some of the work needs."""

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

NUMBERS = ("jax", "jaxlib", "numpyro", "numpy", "optax")
"""The packages that results depend on, to the last digit."""
OTHERS = ("scipy", "pandas", "xarray", "arviz-stats", "pyarrow", "formulae", "distributed")


def versions(packages: tuple[str, ...] = NUMBERS) -> dict[str, str]:
    """Return the versions of Python and of these packages; those not installed are left out."""
    from stakes import __version__

    # A checkout on the path of Python may not be installed.
    found = {"python": platform.python_version(), "stakes": __version__}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def show_versions() -> None:
    """Print what a report of a mistake has to say: versions, machine, devices and precision.

    Examples:
        >>> import stakes
        >>> stakes.show_versions()  # doctest: +ELLIPSIS
        python       3...
        stakes       ...
    """
    import jax

    from stakes.wording import text_table

    rows = list(versions((*NUMBERS, *OTHERS)).items())
    rows.append(("machine", f"{platform.system()} {platform.machine()}"))
    rows.append(("devices", ", ".join(sorted({str(each.platform) for each in jax.devices()}))))
    rows.append(("precision", "double" if jax.numpy.result_type(float) == "float64" else "single"))
    print("\n".join(text_table(rows)))


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
