"""Bad specs and command lines: exit code 2, the field and the fix by name, no traceback."""

import copy
import json
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from projects import SPEC as PROJECT
from projects import in_process, invoke, toml

from stakes.app.runs import packing
from stakes.app.runs.checking import PAGE
from stakes.app.runs.manifest import Refit
from stakes.app.spec import SpecError, job_of, read_job
from stakes.errors import InputError, OutOfRangeError

SPEC = {k: v for k, v in PROJECT.items() if k != "choose"}
SPEC |= {"loss": {"tilted": {"q": 0.3}}}
Edit = Callable[[dict[str, Any]], None]


def put(path: str, value: Any) -> Edit:
    """Set a field, by its path."""

    def edit(spec: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        for name in parents:
            spec = spec.setdefault(name, {})
        spec[last] = value

    return edit


def drop(*paths: str) -> Edit:
    def edit(spec: dict[str, Any]) -> None:
        for path in paths:
            *parents, last = path.split(".")
            section = spec
            for name in parents:
                section = section[name]
            del section[last]

    return edit


def both(*edits: Edit) -> Edit:
    def edit(spec: dict[str, Any]) -> None:
        for each in edits:
            each(spec)

    return edit


ONE, COUNT = "strictly between 0 and 1", "a whole number above zero"
BAD: dict[str, tuple[Edit, str, str]] = {
    # name: (what is wrong, the field that has to be named, what has to be said of it)
    "no such way": (put("choose.ways", ["plane"]), "choose.ways.0", "Did you mean 'plain'?"),
    "no ways": (put("choose.ways", []), "choose.ways", "must be a list of ways"),
    "ways as text": (put("choose.ways", "plain"), "choose.ways", "must be a list of ways"),
    "a way twice": (put("choose.ways", ["plain", "plain"]), "choose.ways", "more than once"),
    "baselines alone": (put("choose.ways", ["same"]), "choose.ways", "add a way such as `Plain()`"),
    "a calibration map as a way": (put("choose.ways", ["shift"]), "choose.ways.0", "'calibrated'"),
    "a map without its regressor": (
        put("choose.ways", [{"corrected": {"head": "regressor"}}]),
        "choose.ways.0.corrected.head.estimator",
        "is required by `Regressor(estimator, covariates)`",
    ),
    "an unknown map": (
        put("choose.ways", [{"corrected": {"head": "shif"}}]),
        "choose.ways.0.corrected.head",
        "Did you mean 'shift'?",
    ),
    "a loss as a way": (
        put("choose.ways", ["squared"]),
        "choose.ways.0",
        "is not the name of a way",
    ),
    "a way of the user's that is none": (
        put("choose.ways", ["model.py:my_loss"]),
        "choose.ways.0",
        "the protocol `Way`",
    ),
    "a strength of zero": (
        put("choose.ways", [{"calibrated": {"strength": 0.0}}]),
        "choose.ways.0.calibrated",
        "above 0",
    ),
    "an argument of another way": (
        put("choose.ways", [{"plain": {"strength": 1.0}}]),
        "choose.ways.0.plain.strength",
        "unknown. Available: 'guide'",
    ),
    "one fold": (put("choose.folds", 1), "choose.folds", "of at least 2; got 1"),
    "folds as text": (put("choose.folds", "five"), "choose.folds", "Available: 'forward'"),
    "no blocks": (
        put("choose.folds", {"forward": {"blocks": 0}}),
        "choose.folds.forward",
        f"`Forward(blocks=...)` must be {COUNT}",
    ),
    "folds of two kinds": (
        put("choose.folds", {"forward": {}, "random": 2}),
        "choose.folds.random",
        "is not the name of folds. Available: 'forward'",
    ),
    "blocks that are no table": (
        put("choose.folds", {"forward": 5}),
        "choose.folds.forward",
        "must be a table of arguments, `{}` for none; got 5",
    ),
    "groups that are not there": (put("choose.by", "kinds"), "choose.by", "Did you mean 'kind'?"),
    "decisions as words": (put("choose.today", "note"), "choose.today", "must hold numbers"),
    "decisions that are not there": (put("choose.today", "was"), "choose.today", "no column 'was'"),
    "skip as text": (put("choose.skip", "yes"), "choose.skip", "true or false"),
    "choose as a list": (put("choose", ["plain"]), "choose", "must be a table"),
    "an unknown section": (put("modle", {}), "modle", "Did you mean 'model'?"),
    "an unknown field": (put("fit.step", 5), "fit.step", "Did you mean 'steps'?"),
    "no model": (drop("model"), "model", "is required"),
    "a model that is no table": (put("model", "model.py"), "model", "a table with `python`"),
    "a seed of words": (put("seed", "three"), "seed", "a whole number from 0"),
    "a negative seed": (put("seed", -1), "seed", "a whole number from 0"),
    "a seed too large": (put("seed", 2**40), "seed", "to 4294967295"),
    "a fraction as seed": (put("seed", 1.5), "seed", "a whole number from 0"),
    "a title that is a number": (put("title", 7), "title", "a string"),
    "neither file nor example": (
        drop("model.python"),
        "model",
        "either `python`, `example` or `formula`",
    ),
    "file and example": (put("model.example", "radon"), "model", "and not both"),
    "no outcome": (drop("model.outcome"), "model.outcome", "is required"),
    "no function named": (put("model.python", "model.py"), "model.python", "'model.py:model'"),
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
    "no data file": (drop("data.file"), "data.file", ".csv, .parquet or .npz"),
    "a data file that is not there": (
        put("data.file", "tables.csv"),
        "data.file",
        "tables.csv: No such file",
    ),
    "a data file of another kind": (put("data.file", "model.py"), "data.file", ".csv, .parquet"),
    "columns that are a text": (put("data.columns", "x"), "data.columns", "a list of columns"),
    "a column that is a number": (put("data.columns.x", 3), "data.columns.x", "a string"),
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
    "an argument without a column": (drop("data.columns.x"), "`columns`", "needs 'x'"),
    "an argument given twice": (
        put("data.constants", {"x": 1}),
        "data.constants.x",
        "given in `columns` already",
    ),
    "a constant that is a list": (
        put("data.constants", {"z": [1]}),
        "data.constants.z",
        "a number or a string",
    ),
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
    "categories that are a text": (
        put("data.categories", "kind"),
        "data.categories",
        "a list of columns",
    ),
    "a category column not there": (
        put("data.categories", ["knd"]),
        "data.categories.0",
        "Did you mean 'kind'?",
    ),
    "groups in a column not there": (put("data.by", "nam"), "data.by.0", "Did you mean 'name'?"),
    "groups in three columns": (
        put("data.by", ["name", "kind", "x"]),
        "data.by",
        "a column, or two, whose equal values",
    ),
    "groups, and rows in order": (put("data.ordered", True), "data.ordered", "not both"),
    "a held-out fraction of one": (
        put("data.held_out.fraction", 1.0),
        "data.held_out.fraction",
        ONE,
    ),
    "a held-out fraction of nothing": (
        put("data.held_out.fraction", 0.001),
        "data",
        "leaves no rows on one side",
    ),
    "a fraction and a file held out": (
        put("data.held_out.file", "table.csv"),
        "data.held_out",
        "and not both",
    ),
    "a held-out file not there": (
        put("data.held_out", {"file": "no.csv"}),
        "data.held_out.file",
        "No such file",
    ),
    "an unknown pick": (put("data.held_out.pick", "lst"), "data.held_out.pick", "'last'"),
    "no loss": (drop("loss"), "loss", "or `utility` instead"),
    "an unknown loss": (put("loss", {"tiltd": {"q": 0.3}}), "loss.tiltd", "Did you mean 'tilted'?"),
    "an unknown loss by its name": (put("loss", "tiltd"), "loss", "Did you mean 'tilted'?"),
    "the class of a loss": (put("loss", "LinEx"), "loss", "Did you mean 'lin_ex'?"),
    "a way as a loss": (put("loss", "plain"), "loss", "'plain' is not the name of a loss"),
    "a misspelt unit": (put("loss.unti", "€"), "loss.unti", "Did you mean 'unit'?"),
    "a unit alone": (put("loss", {"unit": "€"}), "loss", "must be a loss: a name, or a table"),
    "a unit that is a number": (put("loss.unit", 3), "loss.unit", 'such as "€"; got 3'),
    "two losses": (put("loss.squared", {}), "loss", "Leave out all but one"),
    "a loss that is a number": (put("loss", 3), "loss", "the name of a loss, or a table"),
    "arguments that are no table": (put("loss.tilted", 0.3), "loss.tilted", "a table of arguments"),
    "a level of one": (
        put("loss.tilted.q", 1),
        "loss.tilted",
        f"`Tilted(q=...)` must be a number {ONE}",
    ),
    "a level of words": (put("loss.tilted.q", "0.3"), "loss.tilted", ONE),
    "no level": (put("loss", "tilted"), "loss.tilted.q", "is required by `Tilted(q)`"),
    "one cost of two": (
        put("loss", {"newsvendor": {"under": 2}}),
        "loss.newsvendor.over",
        "is required by `Newsvendor(under, over)`",
    ),
    "a cost of zero": (
        put("loss", {"newsvendor": {"under": 2, "over": 0}}),
        "loss.newsvendor",
        "`Newsvendor(over=...)` must be a finite number above 0",
    ),
    "a parameter of another loss": (
        put("loss.tilted.c", 1.0),
        "loss.tilted.c",
        "unknown. Available: 'q'",
    ),
    "a misspelt parameter": (
        put("loss", {"newsvendor": {"undr": 2, "over": 1}}),
        "loss.newsvendor.undr",
        "Did you mean 'under'?",
    ),
    "an asymmetry of zero": (
        put("loss", {"lin_ex": {"c": 0}}),
        "loss.lin_ex",
        "number other than zero",
    ),
    "a loss that sums": (put("loss", "model.py:summed_loss"), "loss=summed_loss", "elementwise"),
    "a loss that is a number in a file": (
        put("loss", {"model.py:NUMBER": {}}),
        "loss.model.py:NUMBER",
        "`model.py:NUMBER` must be a function of (outcome, decision)",
    ),
    "a loss whose own code raises": (
        put("loss", {"model.py:Picky": {"level": 3}}),
        "model.py, line",
        "ValueError: level 3",
    ),
    "a loss without its argument": (put("loss", "model.py:Picky"), "loss", "'level'"),
    "a loss and a utility": (put("utility", "model.py:my_loss"), "utility", "not both"),
    "a utility that nothing computes": (
        both(drop("loss"), put("utility", {"utility": {"fn": "model.py:lines"}})),
        "utility.utility.fn",
        "Did you mean 'line'?",
    ),
    "a transform of a utility": (
        both(drop("loss"), put("utility", "model.py:my_loss"), put("transform", "linearized")),
        "transform",
        "leave it out",
    ),
    "an unknown guide": (put("guide", "AutoNormal"), "guide", "Did you mean 'auto_normal'?"),
    "a guide with arguments": (
        put("guide", {"auto_normal": {"init_scale": 1}}),
        "guide.auto_normal",
        "takes no arguments",
    ),
    "an unknown transform": (put("transform", "linear"), "transform", "Did you mean 'linearized'?"),
    "a quantile above one": (
        put("transform", {"linearized": {"quantile": 90}}),
        "transform.linearized",
        "at most 1",
    ),
    "a negative scale": (
        put("transform", {"exponential": {"scale": -7}}),
        "transform.exponential",
        "`Exponential(scale=...)`",
    ),
    "an unknown method": (put("method", "me"), "method", "Available: 'em', 'joint'"),
    "an M-step of the joint method": (
        put("method", {"joint": {"m_step": "bayes_decisions"}}),
        "method.joint.m_step",
        "unknown",
    ),
    "an unknown M-step": (
        put("method", {"em": {"m_step": "bayes"}}),
        "method.em.m_step",
        "Available: 'bayes_decisions'",
    ),
    "an estimator of a linearized loss": (put("estimator", "jensen"), "estimator=", "Exponential"),
    "an unknown expectation": (put("expectation", "exact"), "expectation", "'closed_form'"),
    "points of Monte Carlo": (
        put("expectation", {"monte_carlo": {"points": 9}}),
        "expectation.monte_carlo.points",
        "Available: 'draws'",
    ),
    "an enumeration of the continuous": (
        put("expectation", "enumeration"),
        "expectation=",
        "only discrete outcomes",
    ),
    "no steps": (put("fit.steps", 0), "fit.steps", COUNT),
    "half a step": (put("fit.steps", 0.5), "fit.steps", COUNT),
    "no draws": (put("fit.draws", 0), "fit.draws", COUNT),
    "a negative rate": (put("fit.learning_rate", -1), "fit.learning_rate", "above zero"),
    "a warm start of words": (put("fit.warm_start", "yes"), "fit.warm_start", "true or false"),
    "a site that the model does not observe": (
        put("model.python", "model.py:unobserved"),
        "outcome='y'",
        "does not observe",
    ),
    "outcomes that are numbers as categories": (
        put("data.categories", ["height"]),
        "data.categories",
        "would be renumbered",
    ),
    "an argument without a value": (
        drop("data.counts"),
        "`line` needs 'groups'",
        '`counts = { groups = "kind" }`',
    ),
    "a plate with fewer members than categories": (
        both(
            drop("data.counts"),
            put("data.constants", {"groups": 2}),
            put("data.columns", {"x": "x", "group": "kind"}),
        ),
        "column 'kind': 'oak' (2)",
        "is not among the 2 members",
    ),
    "a model that raises": (
        put("model.python", "model.py:broken"),
        "model.py, line",
        "undefined_name",
    ),
}


@pytest.fixture
def spec_file(project: Path) -> Path:
    (project / "table.py").write_text("name,x\n1 2\n")
    return project / "bad.toml"


@pytest.mark.parametrize("name", BAD)
def test_a_bad_spec_is_told_by_field_and_fix(name: str, spec_file: Path) -> None:
    edit, field, fix = BAD[name]
    spec = copy.deepcopy(SPEC)
    edit(spec)
    spec_file.write_text(toml(spec))
    result = invoke("check", spec_file)
    assert result.exit_code == 2, (result.output, result.exception)
    assert field in result.stderr
    assert fix in result.stderr
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)


def test_what_jax_says_of_itself_is_left_out(spec_file: Path) -> None:
    spec_file.write_text(toml({**SPEC, "model": {"python": "model.py:branching", "outcome": "y"}}))
    said = invoke("check", spec_file).stderr
    assert "`branching` looks at the values of arrays, in `if slope > 0:`" in said
    for inner in ("JAX_TRACEBACK_FILTERING", "random_split", "site-packages", "bridge/sites.py"):
        assert inner not in said


def test_a_run_that_would_clamp_an_index_is_not_begun(spec_file: Path, tmp_path: Path) -> None:
    spec = copy.deepcopy(SPEC)
    del spec["data"]["counts"]
    spec["data"]["constants"] = {"groups": 2}
    spec_file.write_text(toml(spec))
    result = invoke("run", spec_file, "-o", tmp_path / "run")
    assert result.exit_code == 2
    assert "is not among the 2 members" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_number_beyond_its_plate_is_told_with_its_row(project: Path) -> None:
    from stakes.app.runs.indices import columns_named

    job = read_job(project / "spec.toml")
    told = r"column 'kind', row 12: \(7\) is not among the 3"
    with pytest.raises(InputError, match=told), columns_named(job, first_row=10):
        raise OutOfRangeError("", argument="group", value=7, row=1, size=3)


def test_words_can_be_outcomes(project: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_bytes((project / "model.py").read_bytes())
    (tmp_path / "table.csv").write_text("name,kind,x,height\na,b,1,yes\nb,c,2,no\n")
    spec = copy.deepcopy(SPEC)
    spec["data"]["categories"] = ["height"]
    del spec["data"]["held_out"]
    (tmp_path / "spec.toml").write_text(toml(spec))
    assert read_job(tmp_path / "spec.toml").fit.arguments["y"].tolist() == [1, 0]


@pytest.mark.parametrize(("typed", "said"), [("demo", "`--steps`"), ("run a.toml", "under [fit]")])
def test_advice_is_in_terms_of_what_was_typed(typed: str, said: str, finished: Path) -> None:
    from stakes.app.runs import RunFolder, unsettled

    manifest = RunFolder(finished).manifest().model_copy(update={"command": f"stakes {typed}"})
    assert said in unsettled(manifest)


def test_a_decimal_comma_in_a_spec_is_told(tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text("[loss]\nunder = 2,60  # each\nover = 1\n")
    with pytest.raises(InputError, match=r"Write 2\.60, with a point"):
        read_job(spec)


def test_all_mistakes_are_told_at_once(spec_file: Path) -> None:
    spec = copy.deepcopy(SPEC)
    wrong = {
        "seed": -1,
        "model.python": "model.py:lines",
        "data.columns.x": "xx",
        "data.label": "nam",
        "loss.q": 2.0,
        "fit.step": 5,
    }
    for path, value in wrong.items():
        put(path, value)(spec)
    spec_file.write_text(toml(spec))
    with pytest.raises(SpecError) as caught:
        read_job(spec_file)
    assert sorted(mistake.path for mistake in caught.value.mistakes) == sorted(wrong)


COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "no such command": (("fly",), "fly"),
    "no spec": (("run",), "SPEC.toml"),
    "a spec that is not there": (("run", "no.toml"), "stakes init"),
    "a folder as spec": (("check", "."), "Is a directory"),
    "an unknown option": (("run", "no.toml", "--fast"), "--fast"),
    "a run that is not there": (("resume", "no-run"), "stakes run SPEC.toml"),
    "a folder that is no run": (("report", "."), "no manifest.json"),
    "no table": (("decide", "no-run"), "NEW.csv"),
    "no output": (("decide", "no-run", "new.csv"), "--out"),
    "nothing to compare": (("compare",), "RUN..."),
    "runs that are not there": (("compare", "no-run", "none"), "no-run is not a run folder"),
    "an unknown demo": (("demo", "nine-schools"), "Did you mean 'eight-schools'?"),
    "a negative seed": (("demo", "--seed", "-1"), "--seed"),
    "no steps": (("demo", "--steps", "0"), "--steps"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_bad_command_line_is_told(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    args, said = COMMANDS[name]
    result = invoke(*args)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["seed = ", "\x00", "[model]\n[model]\n"])
def test_what_is_no_toml_is_told_with_its_place(content: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(content)
    result = invoke("run", tmp_path / "bad.toml")
    assert result.exit_code == 2
    assert "is not TOML" in result.stderr
    assert "(at " in result.stderr


def test_a_bad_spec_ends_a_process_with_two_and_no_traceback(spec_file: Path) -> None:
    spec_file.write_text(toml({**SPEC, "sead": 1}))
    result = in_process("run", spec_file)
    assert result.returncode == 2
    assert "sead: unknown. Did you mean 'seed'?" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


# What is right ------------------------------------------------------------------------------


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
    spec = copy.deepcopy(SPEC)
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
    spec = copy.deepcopy(SPEC)
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
        *("calibrated, strength 16", "plain VI, corrected by shift", "the same for all"),
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
    by = toml({**SPEC, "choose": {"by": "kind"}})
    (project / "by.toml").write_text(by)
    groups = read_job(project / "by.toml")
    assert sorted(set(groups.choosing.by.tolist())) == [0, 1, 2]
    assert len(groups.choosing.by) == groups.rows_in(groups.fit)


def checked_to_take(spec: Path) -> dict[str, Any]:
    """What `check` says of a spec whose fits end when they have converged."""
    result = invoke("check", spec, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.splitlines() == [  # one need not wait without a word
        "tracing the model",
        "compiling both fits and timing some of their steps",
    ]
    found = json.loads(result.stdout)
    assert found["expectation"] == "ClosedForm()"
    assert found["rows"] + found["held_out"] == found["refit"]
    assert 0 < found["least_seconds"] < found["seconds"]
    assert 0 < found["least_choice_seconds"] < found["choice_seconds"]
    assert found["deciding_seconds"] > PAGE
    return found


def test_check_says_what_a_run_will_do(project: Path) -> None:
    spec = project / "to-the-end.toml"
    spec.write_text(toml({**PROJECT, "fit": {}}))
    found = checked_to_take(spec)
    assert [site["name"] for site in found["sites"]] == ["slope", "level", "y"]
    assert (found["rows"], found["held_out"]) == (30, 10)
    assert (found["least_steps"], found["steps"]) == (5_400, 30_000)
    assert (found["folds"], len(found["ways"])) == (2, 8)


def test_init_writes_a_spec_once(tmp_path: Path) -> None:
    assert invoke("init", tmp_path / "new").exit_code == 0
    job = read_job(tmp_path / "new" / "stakes.toml")
    assert (job.problem.outcome, job.options.steps) == ("sold", 10_000)
    assert job.rows_in(job.fit) + job.rows_in(job.held_out) == 140
    again = invoke("init", tmp_path / "new")
    assert again.exit_code == 2
    assert "already" in again.stderr


@pytest.mark.slow
def test_init_writes_a_spec_that_checks(tmp_path: Path) -> None:
    assert invoke("init", tmp_path / "new").exit_code == 0
    found = checked_to_take(tmp_path / "new" / "stakes.toml")
    assert [site["name"] for site in found["sites"]][-1] == "sold"
    assert found["rows"] + found["held_out"] == 140
    assert (found["least_steps"], found["steps"]) == (5_400, 10_000)
    assert (found["folds"], len(found["ways"])) == (5, 7)


@pytest.mark.slow
def test_check_estimates_the_time_that_the_fits_take(project: Path, monkeypatch) -> None:
    """Within a factor of two, in processor time, which other work on the machine does not alter.

    What is compiled once serves both, so that it has to be there before.
    """
    from stakes.app.runs import checked
    from stakes.app.runs.results import result_of

    begun: dict[str, float] = {}
    ended: dict[str, float] = {}

    class Times:
        def history(self, title: str, start: Any) -> Any:
            begun[title] = time.process_time()
            return start

        def watch(self, title: str, history: Any) -> None:
            ended[title] = time.process_time()

        def decisions(self, shape: Any) -> None: ...

        def keep_decisions(self, decisions: Any) -> None: ...

    job = read_job(project / "spec.toml", changes=["data.held_out.refit=false"])
    job = replace(job, options=replace(job.options, steps=3_000))
    result_of(job, Times(), progress=False)  # type: ignore[arg-type]
    clock = SimpleNamespace(perf_counter=time.process_time)
    monkeypatch.setattr("stakes.app.runs.checking.time", clock)
    checked(job)
    estimated = checked(job)
    result_of(job, Times(), progress=False)  # type: ignore[arg-type]
    taken = sum(ended.values()) - sum(begun.values())
    assert estimated.least_seconds / 2 < taken < 2 * estimated.seconds


def test_the_version_is_printed() -> None:
    assert invoke("--version").output == f"stakes {version('stakes')}\n"


@pytest.mark.parametrize(
    "name",
    ["demo", "init", "check", "run", "resume", "decide", "compare", "report"],
)
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = invoke(name, "--help")
    assert result.exit_code == 0
    assert f"Example: stakes {name}" in result.output


def test_compare_shows_runs_side_by_side(finished: Path) -> None:
    shown = invoke("compare", finished, finished)
    assert shown.exit_code == 0, shown.stderr
    assert shown.output.count("held out") >= 2
    assert "\x1b" not in shown.output
    rows = json.loads(invoke("compare", finished, "--json").stdout)
    assert rows[0]["instances"] == 10


FORMULA: dict[str, Any] = {
    "model": {"formula": "loaves ~ sun + day_weekday + (1 | store)", "family": "poisson"},
    "data": {
        "file": "sales.csv",
        "label": "day",
        "columns": {"sun": "hours of sun"},
        "held_out": {"fraction": 0.25, "pick": "last"},
    },
    "loss": {"newsvendor": {"under": 3, "over": 1}},
}


def formula_project(folder: Path, **changed: Any) -> Path:
    days = [f"2024-02-{day:02}" for day in range(1, 13)]
    stores = ["Köln, Dom", "Ulm", "Bonn"] * 4
    sales = pd.DataFrame({"day": days, "store": stores, "hours of sun": np.linspace(0, 1, 12)})
    sales["loaves"] = np.arange(12) + 3
    sales.to_csv(folder / "sales.csv", index=False)
    path = folder / "formula.toml"
    path.write_text(toml({**FORMULA, **changed}))
    return path


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
    tables = packing.unpacked(packing.packed(job.tables))
    again = job_of(job.raw, job.folder, tables, {}, where="The spec")
    assert again.problem.model.source() == job.problem.model.source()
    pd.testing.assert_frame_equal(again.data(again.fit.arguments), job.data(job.fit.arguments))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": {"formula": "loaves ~ sum(sun)"}}, r"model\.formula: .*'sum' is no function"),
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


UNFILLED = "loss.newsvendor.under and loss.newsvendor.over"


@pytest.mark.parametrize(
    ("loss", "fields"),
    [
        ({"newsvendor": {"under": 1, "over": 1}}, UNFILLED),
        ({"newsvendor": {"under": 1, "over": 1}, "unit": "€"}, UNFILLED),
        ({"cost_table": {"costs": {"yes": [1, 0], "no": [0, 1]}}}, "loss.cost_table.costs"),
        ({"newsvendor": {"under": 3, "over": 1}}, None),
        ("squared", None),
    ],
)
def test_costs_that_nobody_has_filled_in_are_noted_by_field(
    loss: dict[str, Any], fields: str | None, tmp_path: Path
) -> None:
    said = read_job(formula_project(tmp_path, loss=loss)).notes
    assert [note.partition(":")[0] for note in said] == ([] if fields is None else [fields])


@pytest.mark.parametrize(
    ("refit", "said"),
    [
        (Refit(rows=12, ways=[], latents={}), "decisions about new rows rest on a fit to all 12"),
        (None, "the same fits decide about new rows."),
    ],
)
def test_a_run_says_how_it_was_judged_and_on_how_many_rows_decisions_rest(
    refit: Refit | None, said: str, tmp_path: Path
) -> None:
    from stakes.app.cli.ending import _held_out

    run: Any = SimpleNamespace(job=read_job(formula_project(tmp_path)))
    manifest: Any = SimpleNamespace(refit=refit, choice=None)
    told = _held_out(run, manifest)
    assert told.startswith(f"Judged on 3 rows held out that no fit had seen; {said}")
    manifest.choice = SimpleNamespace(outcomes=9)
    assert _held_out(run, manifest).startswith("Judged on 9 outcomes in folds and 3 rows held out")
    run.job = replace(run.job, tables=replace(run.job.tables, held_out=None))
    assert _held_out(run, manifest) == ""
