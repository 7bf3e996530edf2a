"""The study of a run, and what decides."""

import json
from pathlib import Path

import pytest

from stakes.app import runs
from stakes.app.runs.solution import columns_named
from stakes.app.spec import job_of, read_job
from stakes.errors import InputError, OutOfRangeError


def test_rows_belong_together_as_the_spec_says(finished: Path) -> None:
    """Of the fit and of the rows held out, in this process and in a later one."""
    ending = json.loads((finished / "manifest.json").read_text())["ending"]
    assert "interval: clustered by name" in ending["setting"]
    run = runs.reopen(finished)
    assert run.job.fit.groups["name"].tolist() == run.job.fit.names.tolist()
    solution = runs.restore(run)
    assert solution.result.by.tolist() == run.job.fit.names.tolist()
    assert solution.held_out.by.tolist() == run.job.held_out.names.tolist()


def test_a_number_beyond_its_plate_is_told_with_its_row(project: Path) -> None:
    job = read_job(project / "spec.toml")
    told = r"column 'kind', row 12: \(7\) is not among the 3"
    with pytest.raises(InputError, match=told), columns_named(job, first_row=10):
        raise OutOfRangeError("", argument="group", value=7, row=1, size=3)


def test_todays_decisions_about_rows_held_out_are_checked_before_the_fits(
    project: Path, tmp_path: Path
) -> None:
    job = read_job(project / "spec.toml", changes=["data.held_out.refit=false"])
    labels = sorted(set(job.fit.beside["today"].tolist()))
    assert not set(job.held_out.beside["today"].tolist()) <= set(labels)
    changed = {"decision": {"one_of": {"labels": labels}}, "choose": {"ways": ["plain", "same"]}}
    changed["choose"] |= {"today": "guess", "folds": 2}
    spec = job_of({**job.raw, **changed}, job.folder, where="the spec")
    with pytest.raises(InputError, match=r"`choose.today` has .*; the actions are"):
        runs.begin(spec, tmp_path / "run", command="stakes run")
