"""Rows of another table, as cases of the model of a run."""

from pathlib import Path

from projects import invoke


def test_doubts_are_told_with_the_decisions(finished: Path, tmp_path: Path) -> None:
    table, out = tmp_path / "new.csv", tmp_path / "out.csv"
    table.write_text("kind,name,x\noak,a,0.5\nash,b,55\n")
    result = invoke("decide", finished, table, "-o", out)
    assert result.exit_code == 0, result.stderr
    assert "warning: row 2 of column 'x' lies far outside what the fit has seen" in result.stderr
    assert "row 2 has 55" in result.stderr
    assert "warning: Do not rely on the decisions of this run yet." in result.stderr
    again = invoke("decide", finished, table, "-o", out)
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr
    assert invoke("decide", finished, table, "-o", out, "--overwrite").exit_code == 0
