"""How to install what is missing."""

from pathlib import Path

from stakes.host import packages
from stakes.host.packages import how_to_install, missing


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
