"""The matrix of the experiments, and the plans of their fits."""

from pathlib import Path

import numpy as np
import pytest

from reproduce import losses, matrix
from stakes import InputError, Linearized


def test_results_of_another_file_of_the_same_name_are_not_mixed_in() -> None:
    y, test = np.array([[1.0, 5.0]]), np.array([[True, False]])
    digests = {
        matrix.Matrix("Last.fm", y * factor, test ^ flip, ["r"], ["a", "b"]).digest
        for factor in (1.0, 3.0)
        for flip in (True, False)
    }
    assert len(digests) == 4


def test_the_fits_of_an_effort_have_its_draws() -> None:
    y, test = np.ones((6, 4)), np.tile([True, False], (6, 2))
    small = matrix.Matrix("", y, test, ["r"] * 6, ["c"] * 4)
    asked = matrix.problem(matrix.LOSSES["squared"])
    for effort in (losses.EFFORT, matrix.THOROUGH):
        found = matrix.plan(small, asked, Linearized(scale=1.0), effort, steps=10).settings
        assert (found.draws, found.independent) == (effort.draws, effort.independent)


def test_without_last_fm_the_table_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAKES_DATA", raising=False)
    found = matrix.load(None, quick=False)
    assert found.y.shape == (1000, 100)
    assert "not Last.fm" in found.note
    assert 0.49 < found.test.mean() < 0.51


def test_a_path_that_holds_no_matrix_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path}.*--data"):
        matrix.load(tmp_path, quick=True)


def test_the_risk_is_over_held_out_entries_alone() -> None:
    y, test = np.array([[1.0, 5.0]]), np.array([[True, False]])
    found = matrix.Matrix("", y, test, ["r"], ["a", "b"])
    assert found.risk(matrix.LOSSES["squared"], np.array([[3.0, 100.0]])) == pytest.approx(4.0)
