"""Tables of a spec as arguments of the model."""

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from projects import SHORT, toml

from stakes.app.spec import read_job


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
