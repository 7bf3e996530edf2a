"""Where decisions and results go: tables, pipes, and what must not be overwritten."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from projects import command, invoke

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
    with pytest.raises(InputError, match=r"other\.csv exists already; say `--overwrite`"):
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


def test_the_expected_cost_is_that_of_the_predicted_outcomes(finished: Path, tmp_path) -> None:
    """In the unit of `under` and `over`: 3 for each unit short, 1 for each too many."""
    from scipy.stats import norm

    from stakes.app import runs

    table, out = tmp_path / "new.csv", tmp_path / "out.csv"
    table.write_text("kind,name,x\noak,a,0.5\nash,b,-1\n")
    run = runs.reopen(finished)
    result = runs.restore(run)
    runs.decide_file(run, table, out, way="plain VI")
    decided = pd.read_csv(out)
    vi = result.posterior(result.vi, draws=4000).isel(chain=0)
    for row, level in ((0, "oak"), (1, "ash")):
        mean = (vi["level"].sel(group=level) + vi["slope"] * [0.5, -1][row]).values
        h, scale = decided["decision"][row], 0.5
        z = (h - mean) / scale
        over = scale * (z * norm.cdf(z) + norm.pdf(z))
        short = over - (h - mean)
        assert decided["expected_cost"][row] == pytest.approx((3 * short + over).mean(), rel=0.1)


def test_doubts_are_told_with_the_decisions(finished: Path, tmp_path: Path) -> None:
    table, out = tmp_path / "new.csv", tmp_path / "out.csv"
    table.write_text("kind,name,x\noak,a,0.5\nash,b,55\n")
    result = invoke("decide", finished, table, "-o", out)
    assert result.exit_code == 0, result.stderr
    assert "warning: row 2 of column 'x' lies far outside what the fit has seen" in result.stderr
    assert "row 2 has 55" in result.stderr
    assert "warning: The decisions of this run are not to be relied on yet." in result.stderr
    again = invoke("decide", finished, table, "-o", out)
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr
    assert invoke("decide", finished, table, "-o", out, "--overwrite").exit_code == 0


def test_ranges_that_hold_too_few_outcomes_are_a_doubt(finished: Path) -> None:
    from stakes.app.runs import RunFolder
    from stakes.app.runs.manifest import doubts_about

    manifest = RunFolder(finished).manifest()
    assert manifest.ending is not None
    assert manifest.choice is not None
    ending = manifest.ending.model_copy(update={"converged": True})

    def told(share: float) -> list[str]:
        rows = [row.model_copy(update={"coverage_90": share}) for row in manifest.choice.ways]
        choice = manifest.choice.model_copy(update={"ways": rows, "outcomes": 100})
        update = {"choice": choice, "ending": ending}
        return doubts_about(manifest.model_copy(update=update), choice.way)

    assert [len(told(share)) for share in (0.95, 0.85, 0.52)] == [0, 0, 1]
    assert "held 52 % of 100 outcomes" in told(0.52)[0]


def test_a_closed_pipe_ends_a_command_quietly(finished: Path) -> None:
    process = subprocess.Popen(
        command("compare", finished), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 128 + signal.SIGPIPE


@pytest.mark.parametrize("seconds", [0.3, 1.0])
def test_ctrl_c_while_importing_ends_without_a_traceback(seconds: float) -> None:
    # Whoever runs the tests may have told them to ignore Ctrl-C.
    heeded = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heeded}; from stakes_command import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "check", "no.toml"], stderr=subprocess.PIPE
    )
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert b"Traceback" not in said
    assert process.returncode in (130, -signal.SIGINT, 2)  # 2 if it was faster than that
