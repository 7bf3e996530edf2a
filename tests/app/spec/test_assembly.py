"""Sections of a spec that do not fit together, or what they name."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from projects import SHORT, Edit, both, check_mistake, drop, formula_project, put, toml

from stakes.app.runs import folder
from stakes.app.spec import SpecError, job_of, read_job

BAD: dict[str, tuple[Edit, str, str]] = {
    # name: (what is wrong, the field that has to be named, what has to be said of it)
    "groups that are not there": (put("choose.by", "kinds"), "choose.by", "Did you mean 'kind'?"),
    "decisions as words": (put("choose.today", "note"), "choose.today", "must hold numbers"),
    "decisions that are not there": (put("choose.today", "was"), "choose.today", "no column 'was'"),
    "no model": (drop("model"), "model", "is required"),
    "a model file that is not there": (
        put("model.python", "modle.py:line"),
        "model.python",
        "modle.py: No such file",
    ),
    "a function that is not there": (
        put("model.python", "model.py:lines"),
        "model.python",
        "Did you mean 'line'?",
    ),
    "a function that is a number": (
        put("model.python", "model.py:NUMBER"),
        "model.python",
        "must be a function",
    ),
    "a model file that is no Python": (
        put("model.python", "table.py:line"),
        "model.python",
        "SyntaxError",
    ),
    "an example that is not there": (
        both(drop("model", "data", "loss"), put("model", {"example": "eight-school"})),
        "model.example",
        "Did you mean 'eight-schools'?",
    ),
    "data for an example": (
        both(drop("model"), put("model", {"example": "eight-schools"})),
        "data",
        "the example has its own",
    ),
    "an outcome that is no argument": (
        put("model.outcome", "yy"),
        "model.outcome",
        "Did you mean 'y'?",
    ),
    "no data": (drop("data"), "data", "`file` and `columns`"),
    "a data file that is not there": (
        put("data.file", "tables.csv"),
        "data.file",
        "tables.csv: No such file",
    ),
    "a data file of another kind": (put("data.file", "model.py"), "data.file", ".csv, .parquet"),
    "a column that is not there": (
        put("data.columns.x", "xx"),
        "data.columns.x",
        "Did you mean 'x'?",
    ),
    "an argument that is not there": (
        put("data.columns.grup", "kind"),
        "data.columns.grup",
        "Did you mean 'group'?",
    ),
    "an argument without a column": (drop("data.columns.x"), "data", "needs 'x'. Name its column"),
    "an outcome column not there": (
        put("data.outcome", "hight"),
        "data.outcome",
        "Did you mean 'height'?",
    ),
    "a label column not there": (put("data.label", "nam"), "data.label", "Did you mean 'name'?"),
    "an outcome of words": (put("data.outcome", "note"), "data.outcome", "data.categories"),
    "a count of a column of numbers": (
        put("data.counts.groups", "x"),
        "data.counts.groups",
        "has no categories",
    ),
    "a category column not there": (
        put("data.categories", ["knd"]),
        "data.categories.0",
        "Did you mean 'kind'?",
    ),
    "groups in a column not there": (put("data.by", "nam"), "data.by.0", "Did you mean 'name'?"),
    "a held-out fraction of nothing": (
        put("data.held_out.fraction", 0.001),
        "data",
        "leaves no rows to fit or none to judge",
    ),
    "a held-out file not there": (
        put("data.held_out", {"file": "no.csv"}),
        "data.held_out.file",
        "No such file",
    ),
    "outcomes that are numbers as categories": (
        put("data.categories", ["height"]),
        "data.categories",
        "would be renumbered",
    ),
    "an argument without a value": (
        drop("data.counts"),
        "data",
        '`counts = { groups = "kind" }`',
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_told_by_field_and_fix(name: str, project: Path) -> None:
    check_mistake(project, *BAD[name])


def test_what_a_spec_says_of_the_fit_wins_over_its_example(tmp_path: Path) -> None:
    own = {"model": {"example": "newsvendor"}}
    examples = [own, {**own, "fit": {"draws": 7}}, {"model": {"example": "eight-schools"}}]
    found = [job_of(raw, tmp_path, where="here").options for raw in examples]
    assert [options.draws for options in found] == [10, 7, None]
    assert [options.transform and options.transform.scale for options in found] == [None, None, 7]


def test_ways_and_folds_of_a_spec_are_values(project: Path, tmp_path: Path) -> None:
    import stakes

    own = {"model": {"example": "newsvendor"}}
    shop = job_of(own, tmp_path, where="here")
    assert shop.choosing.folds == stakes.Forward()
    assert [way.name for way in shop.choosing.ways] == [
        *("plain VI", "calibrated, strength 0.25", "calibrated", "calibrated, strength 4"),
        *("calibrated, strength 16", "plain VI, corrected by shift", "one decision for all"),
    ]
    said = {
        "folds": {"forward": {"blocks": 3, "start": 0.6}},
        "ways": ["nuts", {"corrected": {"base": "plain", "head": {"network": {"epochs": 5}}}}],
        "by": "day",
    }
    other = job_of({**own, "choose": said}, tmp_path, where="here").choosing
    assert (other.folds, other.by) == (stakes.Forward(3, 0.6), "day")
    assert [way.name for way in other.ways] == ["NUTS", "plain VI, corrected by network"]
    assert job_of({**own, "choose": {"skip": True}}, tmp_path, where="here").choosing is None
    assert read_job(project / "spec.toml", choose=False).choosing is None
    by = toml({**SHORT, "choose": {"by": "kind"}})
    (project / "by.toml").write_text(by)
    groups = read_job(project / "by.toml")
    assert sorted(set(groups.choosing.by.tolist())) == [0, 1, 2]
    assert len(groups.choosing.by) == groups.rows_in(groups.fit)


def test_a_formula_is_a_model_for_the_columns_that_it_names(tmp_path: Path) -> None:
    job = read_job(formula_project(tmp_path))
    data = job.data(job.fit.arguments)
    assert job.problem.outcome == "loaves"
    assert set(data.columns) == {"sun", "day", "store", "loaves"}
    assert (job.rows_in(job.fit), data.index[0]) == (9, 1)
    arguments = job.problem.model.read_table(data, needs_outcome=True).arguments
    assert arguments["design"][:, 1].tolist() == data["day"].dt.day_of_week.tolist()


def test_the_model_of_a_formula_is_the_same_in_a_run_that_is_opened_again(tmp_path: Path) -> None:
    job = read_job(formula_project(tmp_path))
    (tmp_path / "sales.csv").unlink()  # the run has its data
    tables = folder.unpacked(folder.packed(job.tables))
    again = job_of(job.raw, job.folder, tables, {}, where="The spec")
    assert again.problem.model.source() == job.problem.model.source()
    pd.testing.assert_frame_equal(again.data(again.fit.arguments), job.data(job.fit.arguments))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"model": {"formula": "loaves ~ sum(sun)"}},
            r"model\.formula: .*formulas have no function 'sum'",
        ),
        (
            {"model": {"formula": "loaves ~ __import__('os')"}},
            r"model\.formula: .*'_' has no place",
        ),
        ({"model": {"formula": "loaves ~ rain"}}, r"model\.formula: .*no column 'rain'"),
        ({"model": {"formula": "loaves ~ store_weekday"}}, r"row 1: 'Köln, Dom' is no date"),
        (
            {"model": {"formula": "loaves ~ sun", "family": "posson"}},
            r"family=...\)` must be one of",
        ),
        (
            {"model": {"formula": "loaves ~ sun", "outcome": "y"}},
            r"model\.outcome: .* leave it out",
        ),
        (
            {"model": {"example": "radon", "family": "normal"}},
            r"model\.family: does not go with `example`",
        ),
        ({"model": {"formula": "loaves ~ sun", "python": "m.py:f"}}, r"or `formula`, and not both"),
        (
            {"data": {"file": "sales.csv", "columns": {"sun": "hours of sun", "rain": "day"}}},
            r"data\.columns\.rain: the formula does not name it",
        ),
    ],
)
def test_a_mistake_in_a_formula_is_told_with_its_field(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=message):
        read_job(formula_project(tmp_path, **changed))
