"""Tables as people have them: what is odd is told by commands, and settled in the spec."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from projects import SHORT, invoke, toml

from stakes.app.spec import Job, SpecError, job_of, job_on_all_rows, read_job

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
    "loss": {"newsvendor": {"under": 3, "over": 1}},
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
    assert any("'€2,90' and similar words are read as numbers" in note for note in job.tables.notes)


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


BY_SUN = {**SPEC, "model": {"formula": "sold ~ sun"}}


def write_days(folder: Path, days: list[str]) -> None:
    rows = [f"{day};Ulm;{i / 8};2.5;{i}" for i, day in enumerate(days)]
    (folder / "sales.csv").write_text("\n".join(["date;town;sun;price;sold", *rows, ""]))


@pytest.mark.parametrize(
    ("days", "fitted"),
    [
        ([1, 1, 1, 2, 2, 2, 3, 3], 6),
        ([1, 1, 1, 1, 1, 1, 1, 2], 7),
        ([1, 1, 2, 2, 2, 2, 2, 2], 2),
    ],
)
def test_rows_of_one_day_are_held_out_together(folder: Path, days: list[int], fitted: int) -> None:
    """A quarter of eight rows would begin at the seventh."""
    write_days(folder, [f"2024-01-0{day}" for day in days])
    data = {**DATA, "ordered": "date", "held_out": {"fraction": 0.25, "pick": "last"}}
    job = job_of({**BY_SUN, "data": data}, folder, where="here")
    assert job.rows_in(job.fit) == fitted
    assert not {*job.fit.labels[:, 0]} & {*job.held_out.labels[:, 0]}


def test_hours_of_a_day_are_held_out_together_unless_there_is_one_day_alone(folder: Path) -> None:
    data = {**DATA, "ordered": "date", "held_out": {"fraction": 0.25, "pick": "last"}}
    spec = {**BY_SUN, "data": data}
    write_days(folder, [f"2024-01-0{1 + i // 5} 0{i}:00" for i in range(8)])
    assert job_of(spec, folder, where="here").held_out.arguments["sold"].tolist() == [5, 6, 7]
    write_days(folder, [f"2024-01-01 0{i}:00" for i in range(8)])
    assert job_of(spec, folder, where="here").held_out.arguments["sold"].tolist() == [6, 7]
    write_days(folder, ["2024-01-01"] * 8)
    with pytest.raises(SpecError, match="none of them is the last"):
        job_of(spec, folder, where="here")


@pytest.mark.parametrize("pick", ["last", "random"])
def test_a_job_on_all_rows_has_the_table_as_it_was(folder: Path, pick: str) -> None:
    write_days(folder, [f"2024-01-0{day}" for day in [1, 2, 2, 3, 4, 4, 5, 5]])
    held_out = {"fraction": 0.3, "pick": pick}
    data = {**DATA, "ordered": "date", "held_out": held_out}
    choose = {"by": "town", "today": "sun", "folds": {"forward": {"blocks": 2}}}
    job = job_of({**BY_SUN, "data": data, "choose": choose}, folder, where="here")
    whole, every = job_on_all_rows(job), job_of({**BY_SUN, "data": DATA}, folder, where="here")
    assert whole.held_out is None
    assert whole.choosing.folds.together.tolist() == [0, 1, 1, 2, 3, 3, 4, 4]
    for name, values in every.fit.arguments.items():
        np.testing.assert_array_equal(whole.fit.arguments[name], values)
    np.testing.assert_array_equal(whole.fit.labels, every.fit.labels)
    np.testing.assert_array_equal(whole.fit.beside["today"], every.fit.arguments["sun"])
    assert str(whole.problem.model) == str(every.problem.model)  # priors scaled to all rows
    data["held_out"] = {**held_out, "refit": False}
    assert job_on_all_rows(job_of({**BY_SUN, "data": data}, folder, where="here")) is None


def of_arrays(folder: Path, held_out: dict[str, object], **arrays: object) -> Job:
    """A job whose table has an argument that is not by row: the places of its curve."""
    (folder / "curve.py").write_text(
        "import numpyro, numpyro.distributions as dist\n"
        "def model(x, at, y=None):\n"
        "    slope = numpyro.sample('slope', dist.Normal(0, 1))\n"
        "    with numpyro.plate('row', len(x)):\n"
        "        numpyro.sample('y', dist.Normal(slope * x + at.sum(), 1), obs=y)\n"
    )
    table = {"x": np.arange(10.0), "y": np.ones(10) + np.arange(10), "at": np.arange(3.0)}
    np.savez(folder / "table.npz", **{**table, **arrays})
    spec = {
        "model": {"python": "curve.py:model", "outcome": "y"},
        "data": {"file": "table.npz", "columns": ["x", "at", "y"], "held_out": held_out},
        "loss": "squared",
    }
    return job_of(spec, folder, where="here")


def test_only_what_is_by_row_is_joined_and_what_may_be_either_is_said(folder: Path) -> None:
    job = of_arrays(folder, {"fraction": 0.5})
    whole = job_on_all_rows(job)
    assert whole.fit.arguments["x"].tolist() == list(range(10))
    assert whole.fit.arguments["at"].tolist() == [0, 1, 2]
    # As long as either half: by row, or the same for all?
    unclear = of_arrays(folder, {"fraction": 0.5}, at=np.arange(5.0))
    assert job_on_all_rows(unclear) is None
    assert "without them" in unclear.notes[-1]


def test_a_file_held_out_may_not_differ_in_what_is_not_by_row(folder: Path) -> None:
    other = {"x": np.arange(4.0), "y": np.arange(4.0), "at": np.arange(3.0)}
    np.savez(folder / "later.npz", **other)
    job = of_arrays(folder, {"file": "later.npz"})
    assert len(job_on_all_rows(job).fit.arguments["x"]) == 14
    np.savez(folder / "later.npz", **{**other, "at": np.arange(3.0) + 100})
    job = of_arrays(folder, {"file": "later.npz"})
    assert job_on_all_rows(job) is None
    assert "without them" in job.notes[-1]


def test_groups_of_a_file_held_out_have_the_codes_of_the_fit(folder: Path) -> None:
    write_days(folder, ["2024-01-01", "2024-01-02"])
    text = (folder / "sales.csv").read_text()
    (folder / "later.csv").write_text(text.replace("Ulm", "Bonn", 1))
    data = {**DATA, "held_out": {"file": "later.csv"}}
    job = job_of({**BY_SUN, "data": data, "choose": {"by": "town"}}, folder, where="here")
    assert job_on_all_rows(job).fit.beside["by"].tolist() == [1, 1, 0, 1]


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


def test_words_can_be_outcomes(project: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_bytes((project / "model.py").read_bytes())
    (tmp_path / "table.csv").write_text("name,kind,x,height\na,b,1,yes\nb,c,2,no\n")
    spec = copy.deepcopy(SHORT)
    spec["data"]["categories"] = ["height"]
    del spec["data"]["held_out"]
    (tmp_path / "spec.toml").write_text(toml(spec))
    assert read_job(tmp_path / "spec.toml").fit.arguments["y"].tolist() == [1, 0]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_tables_of_all_kinds_give_the_same_arguments(
    suffix: str, project: Path, tmp_path: Path
) -> None:
    table = pd.read_csv(project / "table.csv")
    for name in ("model.py", "table.csv"):
        (tmp_path / name).write_bytes((project / name).read_bytes())
    file = tmp_path / f"table{suffix}"
    if suffix == ".parquet":
        table.to_parquet(file)
    if suffix == ".npz":
        columns = {str(name): table[name].to_numpy() for name in table}
        texts = {n: np.array(v, dtype=str) for n, v in columns.items() if v.dtype.kind not in "if"}
        np.savez(file, **{**columns, **texts})
    spec = copy.deepcopy(SHORT)
    spec["data"]["file"] = file.name
    (tmp_path / "spec.toml").write_text(toml(spec))
    job, plain = read_job(tmp_path / "spec.toml"), read_job(project / "spec.toml")
    assert job.fit.vocabulary == {"kind": ["ash", "elm", "oak"]}
    for name, values in plain.fit.arguments.items():
        np.testing.assert_array_equal(job.fit.arguments[name], values)
    assert job.fit.labels is not None
    assert job.fit.labels.tolist() == plain.fit.labels.tolist()
    assert set(job.fit.names).isdisjoint(job.held_out.names)


def test_numbers_can_be_categories_and_costs_give_the_level(project: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_bytes((project / "model.py").read_bytes())
    rows = ["a,10,1.0,2", "b,9,0.5,1", "NA,10,0.1,0"]
    (tmp_path / "table.csv").write_text("name,kind,x,height\n" + "\n".join(rows) + "\n")
    spec = copy.deepcopy(SHORT)
    spec["data"] |= {"categories": ["kind"]}
    del spec["data"]["held_out"]
    spec["loss"] = {"newsvendor": {"under": 4, "over": 1}}
    (tmp_path / "spec.toml").write_text(toml(spec))
    job = read_job(tmp_path / "spec.toml")
    assert job.fit.vocabulary["kind"] == ["10", "9"]
    assert job.fit.arguments["group"].tolist() == [0, 1, 0]
    assert job.fit.arguments["groups"] == 2
    assert job.fit.names.tolist() == ["a", "b", "NA"]
    assert (job.problem.loss.under, job.problem.loss.over) == (4.0, 1.0)
