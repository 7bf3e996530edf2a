"""The package: its names, its folders, and how little it imports."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import stakes

SOURCE = Path(stakes.__file__).parent


def test_no_module_has_the_name_of_one_of_pythons_own() -> None:
    """Python started in its folder would take it for that one."""
    modules = [p for p in SOURCE.rglob("*") if p.suffix == ".py" or (p / "__init__.py").exists()]
    assert len(modules) > 80
    taken = [p for p in modules if p.stem in sys.stdlib_module_names]
    assert taken == []


def test_python_started_in_the_package_imports_it() -> None:
    program = "import typing, statistics, html, stakes; print(stakes.Tilted(0.2))"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=SOURCE, capture_output=True, text=True, check=True
    )
    assert run.stdout == "Tilted(q=0.2)\n"


def test_all_names_are_there() -> None:
    assert [name for name in stakes.__all__ if not hasattr(stakes, name)] == []
    assert stakes.Interval is stakes.spaces.Interval
    assert {*stakes.__all__} <= {*dir(stakes)}
    assert stakes.study.__name__ == "stakes.study"
    with pytest.raises(AttributeError, match="nothing"):
        stakes.nothing  # noqa: B018


def test_importing_the_package_imports_no_jax_and_tells_the_version() -> None:
    program = "import sys, stakes; print(stakes.__version__, 'jax' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == f"{stakes.__version__} False\n"


def test_decisions_do_not_wait_for_what_only_fits_need() -> None:
    program = "import sys, stakes; stakes.calibrate; print('optax' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "False\n"


def test_the_version_is_the_same_everywhere() -> None:
    root = SOURCE.parents[1]
    cited = re.search(r"^version: (.*)$", (root / "CITATION.cff").read_text("utf-8"), re.M)
    assert cited is not None
    assert cited[1] == stakes.__version__
    headings = re.findall(r"^## (.*)$", (root / "CHANGELOG.md").read_text("utf-8"), re.M)
    released = [heading for heading in headings if heading != "Unreleased"]
    assert re.fullmatch(rf"{re.escape(stakes.__version__)} \(\d{{4}}-\d\d-\d\d\)", released[0])


def test_help_and_version_do_not_wait_for_jax() -> None:
    program = (
        "import sys, stakes_command\n"
        "sys.argv = ['stakes', sys.argv[1]]\n"
        "try: stakes_command.main()\n"
        "except SystemExit: pass\n"
        "print('jax' in sys.modules)"
    )
    for option, shown in (("--help", "Exit codes"), ("--version", "stakes ")):
        run = subprocess.run(
            [sys.executable, "-c", program, option], capture_output=True, text=True, check=True
        )
        assert shown in run.stdout
        assert run.stdout.endswith("False\n")
