"""Where decisions and draws go: tables, pipes, and what must not be overwritten."""

import io
import os
import sys
from pathlib import Path

import arviz_base
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from projects import invoke

from stakes.app.runs.outputs import check_output, output
from stakes.errors import InputError
from stakes.tables import Dialect, TableFile

ROWS = [
    {"dish": ["a", 'b, "c"'], "decision": np.float32([0.1, 2])},
    {"dish": ["NA"], "decision": np.float32([np.nan])},
]


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.CSV", "out"])
def test_decisions_are_written_in_the_format_that_the_name_says(name: str, tmp_path: Path) -> None:
    with output(tmp_path / name) as add:
        for rows in ROWS:
            add(rows)
    read = pd.read_parquet if "parquet" in name else pd.read_csv
    options = {} if "parquet" in name else {"keep_default_na": False, "na_values": {"decision": ""}}
    found = read(tmp_path / name, **options)
    assert found.columns.tolist() == ["dish", "decision"]
    assert found["dish"].tolist() == ["a", 'b, "c"', "NA"]
    decisions = np.float32([0.1, 2, np.nan])
    np.testing.assert_array_equal(found["decision"].astype(np.float32), decisions)


def test_decisions_are_written_as_the_table_was(tmp_path: Path) -> None:
    with output(tmp_path / "out.csv", Dialect(";", ",", "cp1252")) as add:
        add({"town": ["Köln", "x;y"], "decision": np.float32([0.5, 2])})
    assert (tmp_path / "out.csv").read_bytes().decode("cp1252") == (
        'town;decision\nKöln;0,5\n"x;y";2\n'
    )


def test_a_mark_at_the_beginning_stays(tmp_path: Path) -> None:
    """Without it, Excel would read UTF-8 as something else."""
    (tmp_path / "in.csv").write_text("Ort;Menge\nKöln;0,5\n", encoding="utf-8-sig")
    found = TableFile(tmp_path / "in.csv")
    assert found.columns == ["Ort", "Menge"]
    with output(tmp_path / "out.csv", found.dialect) as add:
        add({"Ort": ["Köln"], "decision": np.float32([0.5])})
    assert (tmp_path / "out.csv").read_bytes() == "\ufeffOrt;decision\nKöln;0,5\n".encode()


def test_a_word_that_the_encoding_lacks_is_spelled_out(tmp_path: Path) -> None:
    with output(tmp_path / "out.csv", Dialect(";", ",", "cp1252")) as add:
        add({"decision": np.array(["≥ 5", "weniger"])})
    assert (tmp_path / "out.csv").read_text("cp1252") == "decision\n\\u2265 5\nweniger\n"


@pytest.mark.parametrize("name", ["out.npz", "out.xlsx"])
def test_a_format_that_is_not_written_is_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must be a \.csv or \.parquet file.*got '\."):
        check_output(tmp_path / name, [])


def test_parquet_without_pyarrow_is_refused_by_name(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs pyarrow: pip install .*\[parquet\]"):
        check_output(tmp_path / "out.parquet", [])


def test_what_is_read_from_is_never_written_to(tmp_path: Path) -> None:
    table, link, twin = tmp_path / "new.csv", tmp_path / "link.csv", tmp_path / "twin.csv"
    table.write_text("x\n1\n")
    link.symlink_to(table)
    os.link(table, twin)
    for target in (table, link, twin):
        with pytest.raises(InputError, match=r"would overwrite .*new\.csv"):
            check_output(target, [tmp_path / "absent", table])
    check_output(tmp_path / "other.csv", [table])
    (tmp_path / "other.csv").write_text("decided before")
    check_output(tmp_path / "other.csv", [table], overwrite=True)
    with pytest.raises(InputError, match=r"other\.csv exists already; pass `--overwrite`"):
        check_output(tmp_path / "other.csv", [table], overwrite=False)


def test_decide_refuses_its_own_files_and_prints_to_a_dash(
    finished: Path, project: Path, tmp_path: Path
) -> None:
    table = tmp_path / "new.csv"
    table.write_text("kind,name,x\noak,a,0.5\nash,b,-1\n")
    for target in (table, finished / "state.npz", project / "model.py"):
        before = target.read_bytes()
        result = invoke("decide", finished, table, "-o", target)
        assert result.exit_code == 2, result.output
        assert "would overwrite" in result.stderr
        assert target.read_bytes() == before
    assert "both print" in invoke("decide", finished, table, "-o", "-", "--json").stderr
    printed = invoke("decide", finished, table, "-o", "-")
    assert printed.exit_code == 0, printed.stderr
    decided = pd.read_csv(io.StringIO(printed.stdout))
    assert decided["name"].tolist() == ["a", "b"]
    assert decided.columns.tolist() == [
        *("kind", "name", "x", "decision", "predicted_low", "predicted_high", "expected_cost")
    ]
    assert (decided["predicted_low"] < decided["decision"]).all()
    assert (decided["decision"] < decided["predicted_high"]).all()
    assert "2 decisions" in printed.stderr
    piped = invoke("decide", finished, "-", "-o", "-", stdin=table.read_text())
    assert piped.stdout == printed.stdout
    table.write_text("kind,name,x,decision\noak,a,0.5,1\n")
    assert "called 'decision'" in invoke("decide", finished, table, "-o", "-").stderr


def test_decisions_keep_the_labels_of_fit_and_held_out_rows(finished: Path, project: Path) -> None:
    table = pd.read_csv(project / "table.csv")
    decided = pd.read_csv(finished / "decisions.csv")
    assert sorted(decided["name"]) == sorted(table["name"])
    assert decided["part"].value_counts().to_dict() == {"fit": 30, "held out": 10}
    heights = table.set_index("name")["height"][decided["name"]].to_numpy()
    np.testing.assert_allclose(decided["observed"], heights, atol=1e-5)
    assert (decided["predicted_low"] < decided["predicted_high"]).all()
    for fit in ("decision", "decision_vi", "decision_calibrated"):
        assert np.corrcoef(decided[fit], heights)[0, 1] > 0.8


def test_draws_open_with_xarray_and_carry_the_categories(finished: Path) -> None:
    with xr.open_dataset(finished / "draws.nc", engine="scipy") as draws:
        assert draws["level"].dims == ("fit", "chain", "draw", "group")
        assert [str(name) for name in draws["group"].values] == ["ash", "elm", "oak"]
        assert np.isfinite(draws["slope"]).all()


def test_draws_of_one_fit_are_a_posterior_for_arviz(finished: Path) -> None:
    with xr.open_dataset(finished / "draws.nc") as draws:
        tree = arviz_base.convert_to_datatree(draws.sel(fit="calibrated"))
        assert tree["posterior"]["level"].dims == ("chain", "draw", "group")
        assert arviz_base.extract(tree)["slope"].sizes == {"sample": 1000}
