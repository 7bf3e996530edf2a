"""`stakes init`: a spec to start from."""

from pathlib import Path

from projects import invoke

from stakes.app.spec import read_job


def test_init_writes_a_spec_once(tmp_path: Path) -> None:
    assert invoke("init", tmp_path / "new").exit_code == 0
    job = read_job(tmp_path / "new" / "stakes.toml")
    assert (job.problem.outcome, job.options.steps) == ("sold", 10_000)
    assert job.rows_in(job.fit) + job.rows_in(job.held_out) == 140
    again = invoke("init", tmp_path / "new")
    assert again.exit_code == 2
    assert "already" in again.stderr


def test_init_tells_each_defect_with_row_and_column(bakery: Path) -> None:
    said = (bakery / "said.txt").read_text(encoding="utf-8")
    for told in (
        "column 'Preis': 398 of 400 values are numbers; rows 12 and 40 say 'n/a'",
        "column 'Preis': '€3,26' and similar words are read as numbers, here 3.26",
        "column 'sunshine': has no value in rows 7 and 333",
        "'Bonn ' (1 time, first in row 100) differ by spaces alone",
    ):
        assert told in said
    assert said.count("note: ") == 4
