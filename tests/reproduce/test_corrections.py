"""The experiment on corrections in its quick form, on the shipped matrix."""

import json
from pathlib import Path

import pytest

from reproduce import EXPERIMENTS, Settings
from reproduce.corrections import COLUMNS

pytestmark = pytest.mark.slow


def test_a_network_lowers_the_test_risk_of_its_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STAKES_DATA", raising=False)
    table = EXPERIMENTS["corrections"](Settings(folder=tmp_path, quick=True))
    [row] = json.loads((tmp_path / "corrections/results.json").read_text())["rows"].values()
    print(row)
    assert row["risk"]["VI + network"] < 0.95 * row["risk"]["VI"]
    assert row["risk"]["calibrated + network"] < 0.95 * row["risk"]["calibrated"]
    assert "network" in row["chosen"]
    assert table.lines == [["squared", *(f"{row['risk'][c]:.4f}" for c in COLUMNS), row["chosen"]]]
