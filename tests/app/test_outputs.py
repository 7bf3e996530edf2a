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

ROWS = [(["a", 'b, "c"'], np.float32([0.1, 2])), (["NA"], np.float32([-3]))]


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.CSV", "out"])
def test_decisions_are_written_in_the_format_that_the_name_says(name: str, tmp_path: Path) -> None:
    with output(tmp_path / name, "dish") as add:
        for labels, decisions in ROWS:
            add(labels, decisions)
    read = pd.read_parquet if "parquet" in name else pd.read_csv
    found = read(tmp_path / name, **({} if "parquet" in name else {"keep_default_na": False}))
    assert found.columns.tolist() == ["dish", "decision"]
    assert found["dish"].tolist() == ["a", 'b, "c"', "NA"]
    np.testing.assert_array_equal(found["decision"].astype(np.float32), np.float32([0.1, 2, -3]))


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
    assert pd.read_csv(io.StringIO(printed.stdout))["name"].tolist() == ["a", "b"]
    assert "2 decisions" in printed.stderr


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
