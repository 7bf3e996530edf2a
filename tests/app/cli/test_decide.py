"""`stakes decide`: new tables, other costs, and projects that have moved."""

import io
import shutil
from pathlib import Path

import pandas as pd
import pytest
from messy import messy_rows, write_messy
from projects import invoke


@pytest.fixture(scope="module")
def decided(bakery: Path) -> Path:
    """A short run of the spec as it is."""
    few = ("--set", "fit.steps=60", "--set", "loss.newsvendor.under=3")
    result = invoke(
        "run", bakery / "stakes.toml", "-o", bakery / "run", "--no-choose", "--no-report", *few
    )
    assert result.exit_code in (0, 4), result.output
    assert "rows 7, 12, 40 and 333 left out" in result.stderr
    return bakery / "run"


@pytest.mark.slow
@pytest.mark.filterwarnings("always::stakes.errors.StakesWarning")
def test_decisions_for_a_new_table_need_no_python(decided: Path, bakery: Path) -> None:
    """A new shop is drawn, a gap gets no decision, and sunshine of 5 for 0.5 is noticed."""
    rows = messy_rows(4, seed=1)
    for at, (town, sun) in enumerate([("Bonn", "0,5"), ("Jena", "0,5"), ("Ulm", ""), ("Ulm", "5")]):
        rows[at + 1][:3] = ["20.03.2024", town, sun]
    write_messy(bakery / "new.csv", [row[:-1] for row in rows])
    out = bakery / "out.csv"
    result = invoke("decide", decided, bakery / "new.csv", "-o", out)
    assert result.exit_code == 0, result.output
    assert "column 'sunshine': has no value in row 3" in result.stderr
    assert "3 decisions for 4 rows by calibrated, fitted to all 396 rows, in " in result.stderr
    assert "row 4 of column 'sunshine' lies far outside" in result.stderr
    found = pd.read_csv(out, sep=";", decimal=",", encoding="cp1252")
    assert found.columns.tolist() == [
        *("date", "Filiale", "sunshine", "Preis", "open", "note"),
        *("decision", "predicted_low", "predicted_high", "expected_cost"),
    ]
    assert f"{out} (as the table: semicolons between values, decimal commas" in result.stderr
    own = pd.read_csv(decided / "decisions.csv", sep=";", decimal=",", encoding="cp1252")
    assert set(own["Filiale"]) == {"Köln, Dom", "Köln, Süd", "Ulm", "Fürth", "Bonn"}
    assert own["predicted_high"].dtype.kind == "i"  # counts, and no words
    assert found["expected_cost"].dtype.kind == "f"
    assert found["Filiale"].tolist() == ["Bonn", "Jena", "Ulm", "Ulm"]
    assert found["decision"].isna().tolist() == [False, False, True, False]
    width = found["predicted_high"] - found["predicted_low"]
    assert width[1] > width[0]  # nothing is known of the new shop
    result = invoke("report", decided, "--for", bakery / "new.csv")
    assert result.exit_code == 0, result.output
    assert (
        "new.csv: no decision for row 3: a value that the model needs is missing" in result.stderr
    )
    page = (decided / "report.html").read_text("utf-8")
    assert "for 3 rows of new.csv, without 1 row that lacks a value." in page


@pytest.mark.slow
def test_other_costs_are_tried_without_another_run(decided: Path, bakery: Path) -> None:
    table = bakery / "again.csv"
    write_messy(table, [row[:-1] for row in messy_rows(6)])
    found = {}
    for under in (1, 3, 20):
        tried = ("--way", "plain VI", "--set", f"loss.newsvendor.under={under}")
        result = invoke("decide", decided, table, "-o", "-", *tried)
        assert result.exit_code == 0, result.output
        found[under] = pd.read_csv(io.StringIO(result.stdout), sep=";", decimal=",")
    assert (found[20]["decision"] > found[3]["decision"]).all()
    assert (found[3]["decision"] > found[1]["decision"]).all()
    own = invoke("decide", decided, table, "-o", "-", "--way", "plain VI")
    pd.testing.assert_frame_equal(
        pd.read_csv(io.StringIO(own.stdout), sep=";", decimal=","), found[3]
    )
    refused = invoke("decide", decided, table, "-o", "-", "--set", "fit.steps=9")
    assert "`--set fit.steps=9`: the fits depend on it" in refused.stderr


@pytest.mark.slow
def test_a_project_that_has_moved_is_found(finished: Path, project: Path, tmp_path: Path) -> None:
    moved, run, table = tmp_path / "moved", tmp_path / "run", tmp_path / "new.csv"
    moved.mkdir()
    shutil.copytree(finished, run)
    shutil.copy(project / "model.py", moved)
    table.write_text("kind,name,x\noak,a,0.5\n")
    model = project / "model.py"
    model.rename(project / "away.py")
    try:
        assert invoke("decide", run, table, "-o", "-").exit_code == 2
        for where in (moved, moved / "model.py"):
            result = invoke("decide", run, table, "-o", "-", "--model", where)
            assert result.exit_code == 0, result.output
        assert (
            "calls it 'model.py'"
            in invoke("decide", run, table, "-o", "-", "--model", table).stderr
        )
        (moved / "model.py").write_text((moved / "model.py").read_text() + "\n# a remark\n")
        changed = invoke("decide", run, table, "-o", "-", "--model", moved)
        assert "has changed since the run" in changed.stderr
    finally:
        (project / "away.py").rename(model)
