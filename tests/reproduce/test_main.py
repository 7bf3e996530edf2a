"""The experiments from the command line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from reproduce import EXPERIMENTS, PaperTable, Settings
from reproduce.__main__ import app


@pytest.mark.slow
def test_every_experiment_runs_and_leaves_its_table_and_figures(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["all", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for name in EXPERIMENTS:
        assert (tmp_path / name / "results.json").exists()
        assert (tmp_path / name / "table.md").exists()
        assert list((tmp_path / name).glob("*.svg"))
        assert list((tmp_path / name).glob("*.png"))
    assert "much too short" in (tmp_path / "summary.md").read_text()
    again = CliRunner().invoke(app, ["all", "--quick", "--out", str(tmp_path)])
    assert again.stdout == result.stdout


def test_an_interrupted_experiment_says_how_to_resume_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(settings: Settings) -> PaperTable:
        raise KeyboardInterrupt

    monkeypatch.setitem(EXPERIMENTS, "losses", interrupted)
    result = CliRunner().invoke(app, ["losses", "--out", str(tmp_path)])
    assert result.exit_code == 130
    assert "the same command resumes from there" in result.stderr
