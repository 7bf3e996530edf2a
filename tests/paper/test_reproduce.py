"""All experiments at their smallest, from the command line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from stakes.app.cli.app import app
from stakes.paper import EXPERIMENTS

pytestmark = pytest.mark.slow


def test_every_experiment_runs_and_leaves_its_table_and_figures(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["reproduce", "all", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for name in EXPERIMENTS:
        assert (tmp_path / name / "results.json").exists()
        assert (tmp_path / name / "table.md").exists()
        assert list((tmp_path / name).glob("*.svg"))
        assert list((tmp_path / name).glob("*.png"))
    assert "much too short" in (tmp_path / "summary.md").read_text()
    again = CliRunner().invoke(app, ["reproduce", "all", "--quick", "--out", str(tmp_path)])
    assert again.stdout == result.stdout
