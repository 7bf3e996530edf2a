"""Versions of packages, and how to install what is missing."""

from pathlib import Path

import stakes
from stakes.host import packages
from stakes.host.packages import NUMBERS, how_to_install, missing, versions


def test_an_extra_is_installed_from_the_checkout_that_runs(monkeypatch, tmp_path: Path) -> None:
    assert missing("stakes", "no_such_package") == ("no_such_package",)
    installed = tmp_path / "lib" / "site-packages" / "stakes" / "host" / "packages.py"
    monkeypatch.setattr(packages, "__file__", str(installed))
    assert how_to_install("parquet") == "pip install 'pyarrow>=20'"
    assert how_to_install("arviz") == "pip install 'arviz-base>=0.7' 'arviz-stats[xarray]>=0.7'"
    (tmp_path / "src" / "stakes" / "host").mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(packages, "__file__", str(tmp_path / "src/stakes/host/packages.py"))
    assert how_to_install("cli") == f"pip install -e '{tmp_path}[cli]'"


def test_versions_are_those_of_what_runs(capsys) -> None:
    known = versions((*NUMBERS, "no-such-package"))
    assert list(known) == ["python", "stakes", *NUMBERS]
    assert known["stakes"] == stakes.__version__
    stakes.show_versions()
    printed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert known.items() <= printed.items()
    assert printed["devices"] == "cpu"
    assert printed["precision"] in ("single", "double")
