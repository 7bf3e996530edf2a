"""Tables as people have them: what is odd is told by commands, and settled in the spec."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from projects import invoke, toml

from stakes.app.spec import SpecError, job_of, read_job

ROWS = [
    "2024-01-03;Köln ;0,5;€2,90;5",
    "2024-01-01;Köln;0,25;n/a;4",
    '2024-01-02;"Ulm; Mitte";1,0;€3,10;',
    "2024-01-04;Bonn;0,75;€3,10;7",
]
DATA: dict[str, Any] = {"file": "sales.csv", "label": ["date", "town"]}
SPEC: dict[str, Any] = {
    "model": {"formula": "sold ~ sun + price + date_weekday + (1 | town)"},
    "data": DATA,
    "loss": {"name": "tilted", "under": 3, "over": 1},
}
SETTLED = {
    "missing": "drop",
    "ordered": "date",
    "replace": {"town": {"Köln ": "Köln"}, "price": {"n/a": ""}},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = "\n".join(["date;town;sun;price;sold", *ROWS, ""])
    (tmp_path / "sales.csv").write_bytes(text.encode("cp1252"))
    return tmp_path


def test_all_that_is_odd_in_a_table_is_told_at_once(folder: Path) -> None:
    (folder / "spec.toml").write_text(toml(SPEC))
    result = invoke("check", folder / "spec.toml")
    assert result.exit_code == 2
    for told in (
        "has 3 mistakes",
        "column 'price': 3 of 4 values are numbers; row 2 says 'n/a'",
        "'Köln' (1 time, first in row 2) and 'Köln ' (1 time, first in row 1) differ by spaces",
        "column 'sold': has no value in row 3",
    ):
        assert told in result.stderr


def test_a_spec_settles_what_is_odd_in_its_table(folder: Path) -> None:
    (folder / "spec.toml").write_text(toml({**SPEC, "data": {**DATA, **SETTLED}}))
    job = read_job(folder / "spec.toml")
    assert job.fit.arguments["date"].tolist() == ["2024-01-03", "2024-01-04"]
    assert job.fit.arguments["town"].tolist() == ["Köln", "Bonn"]
    np.testing.assert_array_equal(job.fit.arguments["price"], [2.9, 3.1])
    assert job.fit.names.tolist() == ["2024-01-03, Köln", "2024-01-04, Bonn"]
    assert "sales.csv: semicolons between values, decimal commas, cp1252" in job.tables.about
    assert "town: 3 categories: 'Köln' 2, 'Ulm; Mitte' 1, 'Bonn' 1" in job.tables.about
    assert "sales.csv: rows 2 and 3 left out: a value is missing" in job.tables.notes
    assert any("'€2,90' and the like are read as numbers" in note for note in job.tables.notes)


def test_groups_of_rows_have_the_words_that_the_spec_gives_them(folder: Path) -> None:
    """Otherwise 'Köln ' and 'Köln' would count as two towns in intervals by town."""
    settled = {"missing": "drop", "by": ["town"]}
    settled["replace"] = {"town": {"Köln ": "Köln"}, "price": {"n/a": "1,00"}}
    job = job_of({**SPEC, "data": {**DATA, **settled}}, folder, where="here")
    assert job.fit.groups["town"].tolist() == ["Köln", "Köln", "Bonn"]


def test_rows_are_put_in_order_before_the_last_are_held_out(folder: Path) -> None:
    rows = [row.replace(";n/a", ";€2,00").replace("Köln ", "Köln") for row in ROWS]
    rows[2] += "6"
    text = "\n".join(["date;town;sun;price;sold", *rows, ""])
    (folder / "sales.csv").write_text(text, encoding="utf-8")
    data = {**DATA, "ordered": "date", "held_out": {"fraction": 0.25, "pick": "last"}}
    job = job_of({**SPEC, "data": data}, folder, where="here")
    assert job.fit.arguments["sold"].tolist() == [4, 6, 5]
    assert job.held_out.arguments["sold"].tolist() == [7]


def test_a_model_of_ones_own_takes_parts_of_dates(folder: Path, project: Path) -> None:
    model = (project / "model.py").read_text()
    (folder / "model.py").write_text(model)
    data = {
        **DATA,
        **SETTLED,
        "columns": {"x": "sun", "group": "date_weekday"},
        "outcome": "sold",
        "constants": {"groups": 7},
    }
    raw = {**SPEC, "model": {"python": "model.py:line", "outcome": "y"}, "data": data}
    job = job_of(raw, folder, where="here")
    assert job.fit.arguments["group"].tolist() == [0, 2, 3]  # a Monday, Wednesday and Thursday
    with pytest.raises(SpecError, match=r"data\.columns\.group: column 'date' holds dates"):
        job_of(
            {**raw, "data": {**data, "columns": {"x": "sun", "group": "date"}}}, folder, where=""
        )
