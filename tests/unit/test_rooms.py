"""The folders of the package: python can be started in any of them."""

import subprocess
import sys
from pathlib import Path

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
