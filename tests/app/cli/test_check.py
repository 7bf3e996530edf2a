"""`stakes check`: mistakes that only the model shows, and what a run will take."""

import copy
import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from projects import SHORT, SPEC, Edit, both, drop, invoke, put, toml

from stakes.app import runs
from stakes.app.runs.checking import PAGE
from stakes.app.runs.solution import study_of
from stakes.app.spec import read_job
from stakes.study import Journal, Work

BAD: dict[str, tuple[Edit, str, str]] = {
    # name: (what is wrong, the field that has to be named, what has to be said of it)
    "a loss that sums": (put("loss", "model.py:summed_loss"), "loss=summed_loss", "elementwise"),
    "an estimator of a linearized loss": (put("estimator", "jensen"), "estimator=", "Exponential"),
    "an enumeration of the continuous": (
        put("expectation", "enumeration"),
        "expectation=",
        "only discrete outcomes",
    ),
    "a site that the model does not observe": (
        put("model.python", "model.py:unobserved"),
        "outcome='y'",
        "does not observe",
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


@pytest.mark.parametrize("name", BAD)
def test_a_bad_spec_is_told_by_field_and_fix(name: str, spec_file: Path) -> None:
    edit, field, fix = BAD[name]
    spec = copy.deepcopy(SHORT)
    edit(spec)
    spec_file.write_text(toml(spec))
    result = invoke("check", spec_file)
    assert result.exit_code == 2, (result.output, result.exception)
    assert field in result.stderr
    assert fix in result.stderr
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)


def test_what_jax_says_of_itself_is_left_out(spec_file: Path) -> None:
    spec_file.write_text(toml({**SHORT, "model": {"python": "model.py:branching", "outcome": "y"}}))
    said = invoke("check", spec_file).stderr
    assert "`branching` looks at the values of arrays, in `if slope > 0:`" in said
    for inner in ("JAX_TRACEBACK_FILTERING", "random_split", "site-packages", "bridge/sites.py"):
        assert inner not in said


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
    spec.write_text(toml({**SPEC, "fit": {}}))
    found = checked_to_take(spec)
    assert [site["name"] for site in found["sites"]] == ["slope", "level", "y"]
    assert (found["rows"], found["held_out"]) == (30, 10)
    assert (found["least_steps"], found["steps"]) == (5_400, 30_000)
    assert (found["folds"], len(found["ways"])) == (2, 8)


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
    begun: dict[str, float] = {}
    ended: dict[str, float] = {}

    class Times(Journal):
        def history(self, title: str, start: Any) -> Any:
            begun[title] = time.process_time()
            return start

        def watch(self, title: str, history: Any) -> None:
            ended[title] = time.process_time()

    def fit() -> None:
        study = study_of(job)
        study.employ(Work(progress=False, journal=Times()))
        runs.Solution.of(job, study)

    job = read_job(project / "spec.toml", changes=["data.held_out.refit=false"])
    job = replace(job, options=replace(job.options, steps=3_000))
    fit()
    clock = SimpleNamespace(perf_counter=time.process_time)
    monkeypatch.setattr("stakes.app.runs.checking.time", clock)
    runs.checked(job)
    estimated = runs.checked(job)
    fit()
    taken = sum(ended.values()) - sum(begun.values())
    assert estimated.least_seconds / 2 < taken < 2 * estimated.seconds
