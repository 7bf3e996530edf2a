"""The report of a run, with rows of the run and with new ones."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from messy import messy_rows, write_messy
from projects import invoke

from stakes.app import runs
from stakes.app.runs import reporting
from stakes.app.runs.reporting import asked_rows, read_asked, report_rows, write_report
from stakes.app.spec import read_job
from stakes.errors import InputError, StakesWarning
from stakes.report.decision_table import decision_table


def test_a_report_leaves_out_rows_that_lack_a_value(bakery: Path, tmp_path: Path) -> None:
    job, table = read_job(bakery / "stakes.toml"), tmp_path / "new.csv"
    header, *rows = [row[:-1] for row in messy_rows(8)]  # row 7 has no sunshine
    write_messy(table, [header, *rows])
    with pytest.warns(
        StakesWarning, match="no decision for row 7: a value that the model needs is missing"
    ):
        asked = read_asked(job, table)
    assert asked.where == "new.csv, without 1 row that lacks a value"
    kept = [row for row in rows if row[2]]
    assert [asked.part.names[row] for row in asked.kept] == [f"{row[0]}, {row[1]}" for row in kept]
    assert list(asked.labels["Filiale"]) == [row[1] for row in kept]
    sun = [float(row[2].replace(",", ".")) for row in kept]
    np.testing.assert_allclose(asked.arguments["sunshine"], sun)
    write_messy(table, [header, rows[6]])
    with pytest.raises(InputError, match="missing in row 1"):
        read_asked(job, table)


def test_a_report_says_where_it_ends_in_a_long_table(
    bakery: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, table = read_job(bakery / "stakes.toml"), tmp_path / "new.csv"
    header, *rows = [row[:-1] for row in messy_rows(8)]
    write_messy(table, [header, *rows[:6]])
    monkeypatch.setattr(reporting, "MOST_ROWS", 6)
    assert not any("more than" in doubt for doubt in read_asked(job, table).doubts)
    monkeypatch.setattr(reporting, "MOST_ROWS", 5)
    with pytest.warns(StakesWarning, match=r"more than 5 rows. The page is about the first 5"):
        asked = read_asked(job, table)
    assert len(asked.kept) == 5
    assert any("more than 5 rows" in doubt for doubt in asked.doubts)


def test_report_and_decisions_show_the_same_intervals_and_decisions(finished: Path) -> None:
    run = runs.reopen(finished)
    solution = runs.restore(run)
    shown = decision_table(report_rows(solution))
    table = pd.read_csv(finished / "decisions.csv")
    columns = {
        "low": "predicted_low",
        "high": "predicted_high",
        "calibrated": "decision_calibrated",
        "chosen": "decision",
    }
    for name, column in columns.items():
        for part in ("fit", "held out"):
            written, rows = table.query("part == @part")[column], np.array(shown.parts) == part
            np.testing.assert_allclose(getattr(shown, name)[rows], written, rtol=1e-6)


def test_a_report_for_new_rows_shows_what_decide_writes(finished: Path, tmp_path: Path) -> None:
    """Means over the same draws, although `decide` pads three rows to four."""
    table, out = tmp_path / "new.csv", tmp_path / "out.csv"
    table.write_text("kind,name,x\noak,a,0.5\nash,b,-1\noak,c,0.1\n")
    assert invoke("decide", finished, table, "-o", out).exit_code == 0
    run = runs.reopen(finished).to_decide()
    rows = asked_rows(runs.restore(run), read_asked(run.job, table))
    assert rows.basis.startswith("These decisions come from a fit to all 40 rows.")
    written = pd.read_csv(out)
    np.testing.assert_allclose(rows.decisions, written["decision"], rtol=1e-6)
    np.testing.assert_allclose(rows.ranges[:, 0], written["predicted_low"], rtol=1e-6)
    np.testing.assert_allclose(rows.ranges[:, -1], written["predicted_high"], rtol=1e-6)
    np.testing.assert_allclose(rows.costs, written["expected_cost"], rtol=1e-3)  # four digits


@pytest.mark.filterwarnings("default::stakes.StakesWarning")
def test_a_report_tells_of_rows_far_outside_what_the_fit_has_seen(
    copied: Path, tmp_path: Path
) -> None:
    table = tmp_path / "new.csv"
    table.write_text("kind,name,x\noak,a,0.5\nash,b,55\n")
    result = invoke("report", copied, "--for", table)
    assert result.exit_code == 0, result.output
    far = "row 2 of column 'x' lies far outside what the fit has seen"
    assert f"warning: {table}: {far}" in result.stderr
    page = (copied / "report.html").read_text("utf-8")
    assert far in page.replace("&#39;", "'")
    assert "That is within what chance allows." not in page


@pytest.mark.slow
def test_a_report_opens_with_the_rows_that_are_asked_about(copied: Path, new_rows: Path) -> None:
    said = invoke("report", copied, "--for", new_rows)
    assert said.exit_code == 0, said.output
    page = (copied / "report.html").read_text("utf-8")
    assert "for 3 rows of new.csv." in page
    assert f"stakes report {copied} --for {new_rows}" in page
    data = re.search(r'id="report-data">(.*?)</script>', page)
    assert data is not None
    columns = {
        each["title"]: each["values"] for each in json.loads(data[1])["decisions"]["columns"]
    }
    assert columns["Rows"][:4] == ["new", "new", "new", "held out"]
    assert columns["kind"][:3] == ["oak", "ash", "elm"]
    assert columns["name"][:3] == ["NA", 'b, "c"', "3"]
    decided = invoke("decide", copied, new_rows, "-o", "-").stdout
    table = pd.read_csv(io.StringIO(decided), keep_default_na=False)
    np.testing.assert_allclose(columns["Decision"][:3], table["decision"], atol=1e-3)
    assert invoke("report", copied, "--for", copied / "none.csv").exit_code == 2


def test_a_run_without_what_a_report_needs_says_so_and_goes_on(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    given: Any = (tmp_path / "report.html", None, None)
    with pytest.warns(
        StakesWarning, match="No report was written. The report needs matplotlib: pip"
    ):
        write_report(*given)
    with pytest.raises(InputError, match="needs matplotlib"):
        write_report(*given, required=True)
    assert list(tmp_path.iterdir()) == []
