"""How a run says what came of it, and several side by side."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from projects import formula_project, invoke

from stakes.app.runs.manifest import Refit
from stakes.app.spec import read_job


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
    from stakes.app.cli.results import _held_out

    run: Any = SimpleNamespace(job=read_job(formula_project(tmp_path)))
    manifest: Any = SimpleNamespace(refit=refit, choice=None)
    told = _held_out(run, manifest)
    assert told.startswith(f"Judged on 3 rows held out that no fit had seen; {said}")
    manifest.choice = SimpleNamespace(outcomes=9)
    assert _held_out(run, manifest).startswith("Judged on 9 outcomes in folds and 3 rows held out")
    run.job = replace(run.job, tables=replace(run.job.tables, held_out=None))
    assert _held_out(run, manifest) == ""


def test_compare_shows_runs_side_by_side(finished: Path) -> None:
    shown = invoke("compare", finished, finished)
    assert shown.exit_code == 0, shown.stderr
    assert shown.output.count("held out") >= 2
    assert "\x1b" not in shown.output
    rows = json.loads(invoke("compare", finished, "--json").stdout)
    assert rows[0]["cases"] == 10
