"""What a report says of new rows."""

from pathlib import Path

import numpy as np
import pytest
from messy import messy_rows, write_messy

from stakes.app.runs import reporting
from stakes.app.runs.reporting import read_asked
from stakes.app.spec import read_job
from stakes.errors import InputError, StakesWarning


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
    assert asked.names == [f"{row[0]}, {row[1]}" for row in kept]
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
