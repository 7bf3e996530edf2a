"""Runs: their files, resuming after a kill, decisions in another process, damage told apart."""

import io
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import arviz_base
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from projects import SPEC, command, in_process, invoke, toml, write_project

from stakes.app import runs
from stakes.app.runs import RunFolder, sealed
from stakes.app.runs.journal import FileJournal
from stakes.app.runs.opening import changed_run
from stakes.app.runs.reporting import read_asked
from stakes.app.spec import read_job
from stakes.errors import InputError, Interrupted, NumericalError, StorageError
from stakes.host.interrupts import Signalled
from tests.cluster import two_workers

READ = {"manifest.json", "data.npz", "state.npz", "choice.npz", "refit.npz"}
FILES = READ | {"decisions.csv", "draws.nc", "log.txt"}


# What a run leaves behind -------------------------------------------------------------------


def test_a_run_folder_holds_its_files_and_no_code(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert names == FILES


def test_the_manifest_says_what_the_run_was_made_of(finished: Path) -> None:
    manifest = json.loads((finished / "manifest.json").read_text())
    assert manifest["status"] == "done"
    assert manifest["seed"] == SPEC["seed"]
    assert manifest["spec"] == SPEC
    assert {"jax", "numpyro", "python", "stakes"} <= set(manifest["versions"])
    assert [Path(each["path"]).name for each in manifest["code"]] == ["model.py"]
    assert [Path(each["path"]).name for each in manifest["data"]] == ["table.csv"]
    fits = {"VI", "calibrated", "VI, all rows", "calibrated, all rows"}
    assert set(manifest["timings"]) == {*fits, "choice", "total"}
    assert set(manifest["ending"]["stopped"]) == fits
    assert set(manifest["files"]) >= FILES - {"manifest.json"}
    assert set(manifest["ending"]["risk"]) == {"VI", "LCVI"}


def test_decisions_keep_the_labels_of_fit_and_held_out_rows(finished: Path, project: Path) -> None:
    table = pd.read_csv(project / "table.csv")
    decided = pd.read_csv(finished / "decisions.csv")
    assert sorted(decided["name"]) == sorted(table["name"])
    assert decided["part"].value_counts().to_dict() == {"fit": 30, "held out": 10}
    heights = table.set_index("name")["height"][decided["name"]].to_numpy()
    np.testing.assert_allclose(decided["observed"], heights, atol=1e-5)
    assert (decided["predicted_low"] < decided["predicted_high"]).all()
    for fit in ("decision", "decision_vi", "decision_calibrated"):
        assert np.corrcoef(decided[fit], heights)[0, 1] > 0.8


def test_rows_belong_together_as_the_spec_says(finished: Path) -> None:
    """Of the fit and of the rows held out, in this process and in a later one."""
    from stakes.app.runs.results import held_out_cases

    ending = json.loads((finished / "manifest.json").read_text())["ending"]
    assert ", clustered by name" in ending["verdict"]
    run = runs.reopen(finished)
    assert run.job.fit.groups["name"].tolist() == run.job.fit.names.tolist()
    result = runs.restore(run)
    assert result.by.tolist() == run.job.fit.names.tolist()
    assert held_out_cases(result, run.job).by.tolist() == run.job.held_out.names.tolist()


def test_draws_open_with_xarray_and_carry_the_categories(finished: Path) -> None:
    with xr.open_dataset(finished / "draws.nc", engine="scipy") as draws:
        assert draws["level"].dims == ("fit", "chain", "draw", "group")
        assert [str(name) for name in draws["group"].values] == ["ash", "elm", "oak"]
        assert np.isfinite(draws["slope"]).all()


def test_draws_of_one_fit_are_a_posterior_for_arviz(finished: Path) -> None:
    with xr.open_dataset(finished / "draws.nc") as draws:
        tree = arviz_base.convert_to_datatree(draws.sel(fit="calibrated"))
        assert tree["posterior"]["level"].dims == ("chain", "draw", "group")
        assert arviz_base.extract(tree)["slope"].sizes == {"sample": 1000}


def test_report_and_decisions_show_the_same_intervals_and_decisions(finished: Path) -> None:
    from stakes.app.runs.reporting import report_rows
    from stakes.report.decision_table import decision_table

    run = runs.reopen(finished)
    solution = runs.restore(run)
    shown = decision_table(report_rows(solution, solution.held_out()))
    table = pd.read_csv(finished / "decisions.csv")
    columns = {
        "low": "predicted_low",
        "high": "predicted_high",
        "calibrated": "decision_calibrated",
        "chosen": "decision",
    }
    for name, column in columns.items():
        for part in ("fit", "held out"):
            written, rows = table.query("part == @part")[column], np.array(shown.parts) == part
            np.testing.assert_allclose(getattr(shown, name)[rows], written, rtol=1e-6)


def test_a_report_for_new_rows_shows_what_decide_writes(finished: Path, tmp_path: Path) -> None:
    """Means over the same draws, although `decide` pads three rows to four."""
    from stakes.app.runs.reporting import asked_rows

    table, out = tmp_path / "new.csv", tmp_path / "out.csv"
    table.write_text("kind,name,x\noak,a,0.5\nash,b,-1\noak,c,0.1\n")
    assert invoke("decide", finished, table, "-o", out).exit_code == 0
    run = runs.reopen(finished).to_decide()
    rows = asked_rows(runs.restore(run), read_asked(run.job, table))
    assert rows.basis.startswith("These decisions come from a fit to all 40 rows.")
    written = pd.read_csv(out)
    np.testing.assert_allclose(rows.decisions, written["decision"], rtol=1e-6)
    np.testing.assert_allclose(rows.ranges[:, 0], written["predicted_low"], rtol=1e-6)
    np.testing.assert_allclose(rows.ranges[:, -1], written["predicted_high"], rtol=1e-6)
    np.testing.assert_allclose(rows.costs, written["expected_cost"], rtol=1e-3)  # four digits


@pytest.mark.filterwarnings("default::stakes.StakesWarning")
def test_a_report_tells_of_rows_far_outside_what_the_fit_has_seen(
    copied: Path, tmp_path: Path
) -> None:
    table = tmp_path / "new.csv"
    table.write_text("kind,name,x\noak,a,0.5\nash,b,55\n")
    result = invoke("report", copied, "--for", table)
    assert result.exit_code == 0, result.output
    far = "row 2 of column 'x' lies far outside what the fit has seen"
    assert f"warning: {table}: {far}" in result.stderr
    page = (copied / "report.html").read_text("utf-8")
    assert far in page.replace("&#39;", "'")
    assert "That is within what chance allows." not in page


def test_states_are_plain_numpy_archives_without_pickle(finished: Path) -> None:
    with np.load(finished / "state.npz", allow_pickle=False) as archive:
        assert {name.split("/")[0] for name in archive.files} == {"VI", "calibrated", "decisions"}
        assert len(archive["VI/elbo"]) == SPEC["fit"]["steps"]


# Decisions later ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def new_rows(project: Path) -> Path:
    path = project / "new.csv"
    path.write_text('kind,name,x\noak,NA,0.5\nash,"b, ""c""",-1\nelm,3,2e-1\n')
    return path


@pytest.mark.usefixtures("compiled_alike")
def test_another_process_decides_the_same(finished: Path, new_rows: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here.csv", tmp_path / "there.csv"
    assert invoke("decide", finished, new_rows, "-o", here).exit_code == 0
    other = in_process("decide", finished, new_rows, "-o", there, "--json")
    assert other.returncode == 0, other.stderr
    assert json.loads(other.stdout)["rows"] == 3
    assert here.read_bytes() == there.read_bytes()
    assert pd.read_csv(here, keep_default_na=False)["name"].tolist() == ["NA", 'b, "c"', "3"]


def test_known_rows_get_the_decisions_of_the_run(finished: Path, project: Path, tmp_path) -> None:
    """Of the fit without the rows held out, for a way that was not fitted to all of them."""
    way = "calibrated, strength 4"
    decided = pd.read_csv(finished / "decisions.csv").query("part == 'fit'")
    table = pd.read_csv(project / "table.csv").set_index("name").loc[decided["name"]]
    table.reset_index().to_csv(tmp_path / "fit.csv", index=False)
    out = tmp_path / "o.csv"
    result = invoke("decide", finished, tmp_path / "fit.csv", "-o", out, "--known", "--way", way)
    assert result.exit_code == 0, result.stderr
    run = runs.reopen(finished)
    fits = runs.restore(run)
    again = runs.ways_of(run, fits).decide(fits.on_fit, way)
    np.testing.assert_allclose(pd.read_csv(out)["decision"], again.values, rtol=1e-6)


def test_new_rows_may_have_words_of_their_own(finished: Path, new_rows: Path, tmp_path) -> None:
    """What they stand for is said without another run; the way that was chosen decides."""
    table, out = tmp_path / "new.csv", tmp_path / "out.csv"
    table.write_text(new_rows.read_text().replace("oak", "Eiche"))
    assert invoke("decide", finished, table, "-o", out).exit_code == 2
    meant = ("--set", 'data.replace.kind."Eiche"="oak"')
    decided = invoke("decide", finished, table, "-o", out, *meant)
    assert decided.exit_code == 0, decided.stderr
    plain = invoke("decide", finished, new_rows, "-o", tmp_path / "plain.csv")
    assert plain.exit_code == 0, plain.stderr
    assert out.read_text().replace("Eiche", "oak") == (tmp_path / "plain.csv").read_text()
    run = changed_run(runs.reopen(finished).to_decide(), meant[1:])
    asked = read_asked(run.job, table)._replace(changes=meant[1:])
    assert asked.arguments["group"][0] == run.job.fit.vocabulary["kind"].index("oak")
    assert asked.options == f'--for {table} --set \'data.replace.kind."Eiche"="oak"\''
    with pytest.raises(InputError, match="that went into the fits"):
        changed_run(run, ["data.categories=['kind']"])


# Rows held out, and then fitted, too --------------------------------------------------------


def test_new_rows_are_decided_about_by_a_fit_to_all_rows(
    finished: Path, project: Path, new_rows: Path, tmp_path: Path
) -> None:
    """With the numbers of a run that has held nothing out; what judges has not seen them."""
    (tmp_path / "model.py").write_text((project / "model.py").read_text())
    (tmp_path / "table.csv").write_text((project / "table.csv").read_text())
    data = {name: said for name, said in SPEC["data"].items() if name != "held_out"}
    (tmp_path / "spec.toml").write_text(toml({**SPEC, "data": data}))
    whole = tmp_path / "whole"
    done = invoke("run", tmp_path / "spec.toml", "-o", whole, "--no-report", "--no-choose")
    assert done.exit_code in (0, 4), done.output
    assert "Judged on" not in done.stderr
    outs = [tmp_path / "here.csv", tmp_path / "there.csv"]
    for run, out in zip((finished, whole), outs, strict=True):
        decided = invoke("decide", run, new_rows, "-o", out, "--way", "calibrated")
        assert decided.exit_code == 0, decided.stderr
        assert "3 decisions by calibrated, fitted to all 40 rows, in " in decided.stderr
        assert decided.stderr.startswith("reading back the fits to all 40 rows\n")
        assert decided.stdout == ""
    assert outs[0].read_bytes() == outs[1].read_bytes()
    here, there = (RunFolder(run).manifest() for run in (finished, whole))
    assert (here.refit.rows, there.refit) == (40, None)
    assert (here.ending.held_out, here.ending.instances) == (True, 10)
    own = pd.read_csv(finished / "decisions.csv")
    same = pd.read_csv(whole / "decisions.csv").set_index("name").loc[own["name"]]
    assert (own["decision_vi"].to_numpy() != same["decision_vi"].to_numpy()).all()


def test_a_way_that_was_not_fitted_to_all_rows_says_so(
    finished: Path, new_rows: Path, tmp_path: Path
) -> None:
    manifest = RunFolder(finished).manifest()
    ways = [way for way in manifest.refit.ways if way not in ("plain VI", "calibrated")]
    assert {*ways, "plain VI", "calibrated"} >= {manifest.choice.way, "the same for all"}
    way = next(row.name for row in manifest.choice.ways if row.name not in manifest.refit.ways)
    decided = invoke("decide", finished, new_rows, "-o", tmp_path / "o.csv", "--way", way)
    assert f"by {way}, fitted to 30 rows, without the 10 held out" in decided.stderr


@pytest.mark.slow
def test_every_way_can_be_fitted_to_all_rows(finished: Path) -> None:
    """Whichever is chosen; one that corrects another learns from rows left out in turn."""
    from stakes.app.runs.choosing import refitted

    run = runs.reopen(finished).to_decide()
    result = runs.restore(run)
    for name in ("calibrated, strength 4", "plain VI, corrected by shift"):
        arrays = refitted(run.job, result, name, progress=False)
        assert {path.partition("/")[0] for path in arrays} == {name, "the same for all"}
        ways = replace(runs.ways_of(run, result), arrays=arrays)
        assert np.isfinite(ways.found(result.on_fit, name)).all()
    judged = runs.ways_of(runs.reopen(finished), runs.restore(runs.reopen(finished)))
    assert (arrays["the same for all/value"] != judged.arrays["the same for all/value"]).all()


def test_rows_may_stay_held_out(project: Path, new_rows: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    few = ("--no-choose", "--no-report", "--set", "data.held_out.refit=false")
    done = invoke("run", project / "spec.toml", "-o", run, *few, "--set", "fit.steps=100")
    assert done.exit_code in (0, 4), done.output
    assert (
        "10 rows held out that no fit had seen; the same fits decide about new rows." in done.stderr
    )
    assert not (run / "refit.npz").exists()
    decided = invoke("decide", run, new_rows, "-o", tmp_path / "o.csv")
    assert "by calibrated, fitted to 30 rows, without the 10 held out" in decided.stderr


def test_a_fit_to_all_rows_that_is_cut_short_is_resumed(
    finished: Path, project: Path, tmp_path: Path, monkeypatch
) -> None:
    """With the same numbers, bit for bit, as without the interruption."""
    original = FileJournal.watch

    def cut(self: FileJournal, title: str, history: Any) -> None:
        original(self, title, history)
        if self._path.name == "refit.npz" and len(history.elbo) == 200:
            raise Interrupted("Ended.", signal.SIGTERM)

    job = read_job(project / "spec.toml", choose=False)
    run = runs.begin(job, tmp_path / "run", command="stakes run")
    with monkeypatch.context() as patched:
        patched.setattr(FileJournal, "watch", cut)
        with pytest.raises(Interrupted):
            runs.carry_out(run, report=False, progress=False)
    assert RunFolder(tmp_path / "run").manifest().status == "interrupted"
    runs.carry_out(runs.reopen(tmp_path / "run"), report=False, progress=False)
    for name in ("state.npz", "refit.npz"):
        here, there = (sealed.load(path / name) for path in (tmp_path / "run", finished))
        for array in (each for each in there if not each.endswith("/seconds")):
            np.testing.assert_array_equal(here[array], there[array])


@pytest.mark.filterwarnings("default::stakes.StakesWarning")
def test_a_fit_to_all_rows_that_fails_leaves_what_was_judged(
    project: Path, new_rows: Path, tmp_path: Path, monkeypatch
) -> None:
    from stakes.app.runs import working

    def failing(job: Any, journal: FileJournal, **options: Any) -> Any:
        if journal._path.name == "refit.npz":
            raise NumericalError("No step was finite.")
        return result_of(job, journal, **options)

    result_of, run = working.result_of, tmp_path / "run"
    monkeypatch.setattr(working, "result_of", failing)
    few = ("--no-choose", "--no-report", "--set", "fit.steps=100")
    done = invoke("run", project / "spec.toml", "-o", run, *few)
    assert done.exit_code == 3, done.output
    assert "fit to all 40 rows failed: No step was finite." in done.stderr
    assert "the same fits decide about new rows" in done.stderr
    manifest = RunFolder(run).manifest()
    assert (manifest.status, manifest.refit, manifest.ending.converged) == ("done", None, False)
    assert manifest.ending.held_out
    assert manifest.ending.risk
    decided = invoke("decide", run, new_rows, "-o", tmp_path / "o.csv")
    assert "fitted to 30 rows, without the 10 held out" in decided.stderr


def test_a_calibrated_fit_that_cannot_be_chosen_is_not_made(tmp_path: Path) -> None:
    spec = {**SPEC, "choose": {"ways": ["plain", "same"], "folds": 2}}
    result = invoke("run", write_project(tmp_path, spec), "-o", tmp_path / "run")
    assert result.exit_code == 4, result.output
    assert "A fit looks step by step for what suits the data best" in result.stderr
    assert "VI: reached the step limit" in result.stderr
    assert "`steps = 30000` under [fit]" in result.stderr
    assert "Better by: in per cent of the cost of plain VI." in result.stdout
    manifest = RunFolder(tmp_path / "run").manifest()
    assert manifest.ending is not None
    assert list(manifest.ending.stopped) == ["VI", "VI, all rows"]
    assert list(manifest.ending.risk) == ["VI"]
    assert manifest.refit is not None
    assert manifest.refit.ways == ["plain VI", "the same for all"]
    assert "decision_calibrated" not in pd.read_csv(tmp_path / "run" / "decisions.csv")
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "and was not fitted." in page
    assert "What the model has learned" in page
    assert "What calibration cost" not in page
    assert "Where M lies" not in page
    assert "about height for" in page
    table = tmp_path / "new.csv"
    table.write_text("kind,name,x\noak,a,0.5\n")
    assert invoke("decide", tmp_path / "run", table, "-o", "-").exit_code == 0
    assert "`--way`" in invoke("decide", tmp_path / "run", table, "-o", "-", "--way", "NUTS").stderr


# The choice among ways ----------------------------------------------------------------------


def test_the_choice_is_recorded_in_the_unit_of_the_costs(finished: Path) -> None:
    found = RunFolder(finished).manifest().choice
    assert found is not None
    assert [row.name for row in found.ways] == [
        "plain VI",
        "calibrated",
        "calibrated, strength 4",
        "plain VI, corrected by shift",
        "plain VI, corrected by level",
        "plain VI, corrected by monotone",
        "the same for all",
        "what is done today",
    ]
    assert found.way in found.verdict
    assert {each.than for each in found.saved} >= {"the same for all", "what is done today"}
    costs = sealed.load(finished / "choice.npz")
    guessed = pd.read_csv(finished / "decisions.csv").query("part == 'fit'")
    short = guessed["observed"] - guessed["decision_today"]
    cost = np.where(short > 0, 3 * short, -short).mean()
    assert found.row("what is done today").risk == pytest.approx(cost, rel=1e-4)
    for row in found.ways:
        assert row.risk == pytest.approx(costs[f"costs of {row.name}"].mean(), rel=1e-5)


def test_every_way_of_the_table_decides_in_another_process(
    finished: Path, new_rows: Path, tmp_path: Path
) -> None:
    """As in the run itself, from what was kept."""
    run = runs.reopen(finished)
    result = runs.restore(run)
    ways, decided = runs.ways_of(run, result), pd.read_csv(finished / "decisions.csv")
    own = decided.query("part == 'fit'")
    for name, column in {
        None: "decision",
        "plain VI": "decision_vi",
        "calibrated": "decision_calibrated",
        "what is done today": "decision_today",
    }.items():
        found = ways.decide(result.on_fit, name).values
        np.testing.assert_allclose(found, own[column], rtol=1e-6)
    spread = {}
    for name in ways.names[:-1]:
        out = tmp_path / "out.csv"
        result_of = invoke("decide", finished, new_rows, "-o", out, "--way", name, "--overwrite")
        assert result_of.exit_code == 0, result_of.stderr
        spread[name] = pd.read_csv(out)["decision"].std()
    assert spread.pop("the same for all") == 0
    assert min(spread.values()) > 0.1
    for name, said in {
        "what is done today": "known for the rows of the run alone",
        "plain": "'plain VI', 'calibrated'",
    }.items():
        refused = invoke("decide", finished, new_rows, "-o", tmp_path / "x.csv", "--way", name)
        assert refused.exit_code == 2
        assert said in refused.stderr
    assert not (tmp_path / "x.csv").exists()


def test_a_run_of_the_two_fits_alone_is_read_and_followed(
    copied: Path, new_rows: Path, tmp_path: Path
) -> None:
    """As older versions left them."""
    from stakes.app.runs import manifest

    original = RunFolder(copied).manifest()
    sums = {
        name: digest
        for name, digest in original.files.items()
        if name not in ("choice.npz", "refit.npz")
    }
    older = {"format": 3, "choice": None, "refit": None, "files": sums}
    manifest.save(copied, original.model_copy(update=older))
    (copied / "choice.npz").unlink()
    outs = []
    for way in ([], ["--way", "calibrated"], ["--way", "plain VI"]):
        outs.append(tmp_path / f"{len(outs)}.csv")
        result = invoke("decide", copied, new_rows, "-o", outs[-1], *way)
        assert result.exit_code == 0, result.stderr
    assert outs[0].read_bytes() == outs[1].read_bytes() != outs[2].read_bytes()


def test_a_choice_that_is_cut_short_begins_anew(copied: Path, monkeypatch) -> None:
    def killed(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    before = RunFolder(copied).manifest().choice
    RunFolder(copied).update(status="running", choice=None)
    with monkeypatch.context() as patched:
        patched.setattr("stakes.app.runs.working.chosen_for", killed)
        with pytest.raises(Interrupted, match=r"Ended by SIGTERM.*stakes resume"):
            runs.carry_out(runs.reopen(copied), report=False, progress=False)
    assert RunFolder(copied).manifest().status == "interrupted"
    arrays = sealed.load(copied / "choice.npz")
    monkeypatch.setattr("stakes.app.runs.working.chosen_for", lambda *_, **__: (before, arrays))
    manifest, _ = runs.carry_out(runs.reopen(copied), report=False, progress=False)
    assert (manifest.status, manifest.choice) == ("done", before)


@pytest.mark.parametrize("when", ["before the choice", "in the report"])
def test_a_signal_after_the_fits_ends_the_run(copied: Path, monkeypatch, when: str) -> None:
    from stakes.app.runs import working

    original = working.result_of

    def signalled(job: Any, *given: object, **named: object) -> object:
        result = original(job, *given, **named)
        if job.held_out is None:  # the last of the fits
            os.kill(os.getpid(), signal.SIGTERM)
        return result

    def killed(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
        raise AssertionError

    before = RunFolder(copied).manifest().choice
    early = when == "before the choice"
    RunFolder(copied).update(status="running", **({"choice": None} if early else {}))
    with monkeypatch.context() as patched:
        if early:
            patched.setattr(working, "result_of", signalled)
            patched.setattr(working, "chosen_for", None)
        else:
            patched.setattr(working, "write_report", killed)
        with pytest.raises(Interrupted, match=r"Ended by SIGTERM.*stakes resume"):
            runs.carry_out(runs.reopen(copied), report=True, progress=False)
    assert RunFolder(copied).manifest().status == "interrupted"
    assert "interrupted: Ended by SIGTERM" in (copied / "log.txt").read_text().splitlines()[-1]
    if not early:
        assert f" {working.WRITING}\n" in (copied / "log.txt").read_text()
        manifest, _ = runs.carry_out(runs.reopen(copied), report=False, progress=False)
        assert (manifest.status, manifest.choice) == ("done", before)


def test_heads_come_back_from_plain_numbers() -> None:
    from stakes.study.strategies.keeping import _head, _head_numbers

    from stakes.study import LEVELS, Identity, MapInputs
    from stakes.study.strategies.maps import LevelMap, Line, Offsets
    from stakes.study.strategies.network import FOLDS, Correction, Units

    rng = np.random.default_rng(0)
    decisions = rng.normal(size=7)
    shown = MapInputs(decisions, np.sort(rng.normal(size=(7, len(LEVELS))), axis=1))
    features = len(LEVELS) + 3
    layers = [
        (rng.normal(size=(FOLDS, *size)), rng.normal(size=(FOLDS, size[1])))
        for size in ((features, 4), (4, 4), (4, 1))
    ]
    units = Units(0.1, rng.normal(size=features), np.abs(rng.normal(size=features)))
    for head in (
        Identity(),
        Line(1.0, 0.5, 0.9),
        LevelMap(0.3),
        Offsets(np.array([-1.0, 1.0]), np.array([0.1, 0.2])),
        Correction(units, layers, 0.5),
    ):
        numbers = _head_numbers(head)
        assert not any(array.dtype.hasobject for array in numbers.values())
        np.testing.assert_array_equal(_head(numbers).decide(shown), head.decide(shown))


def test_rows_in_parts_are_decided_as_in_one(finished, project, tmp_path, monkeypatch) -> None:
    """All parts have the same shape and the same draws: a row's part does not matter."""
    from stakes.app.runs import deciding

    monkeypatch.setattr(deciding, "CHUNK", 4)
    table = pd.read_csv(project / "table.csv").head(38)  # the last part has two rows
    answers = []
    for name, rows in {"all": table, "backwards": table[::-1]}.items():
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
        out = tmp_path / f"{name}-out.csv"
        assert invoke("decide", finished, tmp_path / f"{name}.csv", "-o", out).exit_code == 0
        answers.append(pd.read_csv(out).set_index("name")["decision"])
    assert len(answers[0]) == len(table)
    np.testing.assert_array_equal(answers[0], answers[1][answers[0].index])


def test_a_changed_model_is_refused_unless_allowed(
    copied: Path, project: Path, new_rows: Path, tmp_path: Path
) -> None:
    model, out = project / "model.py", tmp_path / "out.csv"
    before = model.read_text()
    try:
        model.write_text(before + "\n# a remark\n")
        refused = invoke("decide", copied, new_rows, "-o", out)
        assert refused.exit_code == 2
        assert "model.py has changed" in refused.stderr
        assert "--allow-changed-model" in refused.stderr
        assert not out.exists()
        allowed = invoke("decide", copied, new_rows, "-o", out, "--allow-changed-model")
        assert allowed.exit_code == 0, allowed.stderr
    finally:
        model.write_text(before)


def test_a_renamed_site_is_refused_even_if_a_changed_model_is_allowed(
    copied: Path, project: Path, new_rows: Path, tmp_path: Path
) -> None:
    """By position, `slope` would be decided with the parameters of `level`."""
    model, out = project / "model.py", tmp_path / "out.csv"
    before = model.read_text()
    try:
        model.write_text(before.replace('"slope"', '"a_slope"'))
        refused = invoke("decide", copied, new_rows, "-o", out, "--allow-changed-model")
    finally:
        model.write_text(before)
    assert refused.exit_code == 2, refused.output
    for name in ("slope_auto_loc", "a_slope_auto_loc"):
        assert f"'{name} float32[]'" in refused.stderr
    assert not out.exists()


def test_latents_are_told_apart_where_the_guide_has_no_names_for_them(finished: Path) -> None:
    run = runs.reopen(str(finished))
    assert run.manifest.latents == {"slope": [], "level": [3]}
    other = run.manifest.model_copy(update={"latents": {"tilt": [], "level": [3]}})
    with pytest.raises(InputError, match=r"'tilt' \[\], 'level' \[3\]; the model now has 'slope'"):
        runs.restore(replace(run, manifest=other))


def test_a_run_is_reopened_by_its_path_only() -> None:
    with pytest.raises(InputError, match="must be the path of a file or folder; got 3"):
        runs.reopen(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("kind,name\noak,a\n", "has no column 'x'"),
        ("kind,name,X\noak,a,1\n", "Did you mean 'X'?"),
        ("kind,name,x\noak,a,\n", "column 'x': has no value in row 1"),
        ("kind,name,x\noak,a,1\noka,b,1\n", "row 2: 'oka' was not in the data of the fit. Did you"),
        ("kind,name,x\noak,a,high\n", "must hold numbers"),
        ("kind,name,x\noka,a,1\noak,b,\n", "has 2 faults"),
        ("kind,name,x\noak,a,1,2\n", "row 1 has 4 values"),
        ("kind,name,x\n", "no rows"),
        ("", "cannot read"),
    ],
)
def test_rows_that_do_not_fit_are_told_and_nothing_is_written(
    content: str, said: str, finished: Path, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text(content)
    result = invoke("decide", finished, tmp_path / "rows.csv", "-o", tmp_path / "out.csv")
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


@pytest.mark.slow
def test_a_report_opens_with_the_rows_that_are_asked_about(copied: Path, new_rows: Path) -> None:
    said = invoke("report", copied, "--for", new_rows)
    assert said.exit_code == 0, said.output
    page = (copied / "report.html").read_text("utf-8")
    assert "Decisions for 3 rows of new.csv." in page
    assert f"stakes report {copied} --for {new_rows}" in page
    data = re.search(r'id="report-data">(.*?)</script>', page)
    assert data is not None
    columns = {
        each["title"]: each["values"] for each in json.loads(data[1])["decisions"]["columns"]
    }
    assert columns["Rows"][:4] == ["new", "new", "new", "held out"]
    assert columns["kind"][:3] == ["oak", "ash", "elm"]
    assert columns["name"][:3] == ["NA", 'b, "c"', "3"]
    decided = invoke("decide", copied, new_rows, "-o", "-").stdout
    table = pd.read_csv(io.StringIO(decided), keep_default_na=False)
    np.testing.assert_allclose(columns["Decision"][:3], table["decision"], atol=1e-3)
    assert invoke("report", copied, "--for", copied / "none.csv").exit_code == 2


def test_a_report_is_written_later_and_again(copied: Path) -> None:
    first = invoke("report", copied)
    assert first.exit_code == 0, first.stderr
    page = copied / "report.html"
    written = page.read_text()
    assert "A line" in written
    assert "stakes report" in written
    page.write_text("altered")
    assert invoke("report", copied, "--json").exit_code == 0
    assert len(page.read_text()) == len(written)
    assert RunFolder(copied).verified().files.keys() > {"report.html"}


# Interruption and kills ---------------------------------------------------------------------


def same_numbers(one: Path, other: Path) -> bool:
    return all(
        (one / name).read_bytes() == (other / name).read_bytes()
        for name in ("decisions.csv", "draws.nc", "data.npz")
    )


def until(condition, process: "subprocess.Popen[bytes]") -> None:
    while not condition() and process.poll() is None:
        time.sleep(0.01)


def started(*args: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command(*args), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


ENDINGS: dict[str, tuple[BaseException, str, str]] = {
    "an error of ours": (RuntimeError("a slip"), "failed", "a slip"),
    "an error without words": (MemoryError(), "failed", "MemoryError"),
    "a mistake in the input": (InputError("a negative loss"), "failed", "a negative loss"),
    "a full disk": (StorageError("the disk is full"), "failed", "the disk is full"),
    "a numerical failure": (NumericalError("no gradient"), "failed", "no gradient"),
    "a signal": (Interrupted("saved", signal.SIGTERM), "interrupted", "saved"),
    "a second signal": (Signalled(signal.SIGTERM), "interrupted", "ended by SIGTERM"),
    "Ctrl-C": (KeyboardInterrupt(), "interrupted", "KeyboardInterrupt"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_every_ending_of_a_run_is_recorded_with_its_reason(
    name: str, copied: Path, monkeypatch
) -> None:
    error, status, reason = ENDINGS[name]

    def ended(*_: object, **__: object) -> None:
        assert RunFolder(copied).manifest().status == "running"
        raise error

    run = runs.reopen(copied)
    monkeypatch.setattr("stakes.app.runs.working.result_of", ended)
    with pytest.raises(type(error)):
        runs.carry_out(run, report=False, progress=False)
    found = RunFolder(copied).manifest()
    assert (found.status, found.reason) == (status, reason)
    assert f"{status}: {reason}" in (copied / "log.txt").read_text()
    with pytest.raises(InputError, match=f"not finished \\({status}: {reason}"):
        runs.restore(runs.reopen(copied))


def test_a_run_without_what_a_report_needs_says_so_and_goes_on(tmp_path, monkeypatch) -> None:
    from stakes.app.runs.reporting import write_report
    from stakes.errors import StakesWarning

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    given: Any = (tmp_path / "report.html", None, None, None)
    with pytest.warns(
        StakesWarning, match="No report was written. The report needs matplotlib: pip"
    ):
        write_report(*given)
    with pytest.raises(InputError, match="needs matplotlib"):
        write_report(*given, required=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_taken_is_told_with_what_is_in_it(
    finished: Path, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "note").touch()
    for folder, said in {finished: "holds a finished run.", tmp_path: "is no run."}.items():
        result = invoke("run", project / "spec.toml", "-o", folder)
        assert result.exit_code == 2
        assert said in result.stderr
        assert "resume" not in result.stderr


@pytest.mark.slow
def test_a_killed_run_is_resumed_and_ends_with_the_same_numbers(
    finished: Path, project: Path, tmp_path: Path
) -> None:
    run = tmp_path / "killed"
    state = run / "state.npz"
    process = started("run", project / "spec.toml", "-o", run, "--no-report")
    until(state.exists, process)
    process.kill()
    process.wait()
    assert RunFolder(run).manifest().status == "running"
    kept = state.read_bytes()
    process = started("resume", run, "--no-report")
    until(lambda: state.read_bytes() != kept, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 143
    assert RunFolder(run).manifest().status == "interrupted"
    last = in_process("resume", run, "--no-report", "--json")
    assert last.returncode in (0, 4), last.stderr
    assert json.loads(last.stdout)["status"] == "done"
    assert same_numbers(run, finished)
    again = invoke("resume", run)
    assert "finished already" in again.stderr


@pytest.mark.slow
def test_forty_kills_at_random_moments_change_nothing(
    finished: Path, project: Path, tmp_path: Path
) -> None:
    rng, kills, number = random.Random(0), 0, 0
    while kills < 40:
        run, number = tmp_path / f"run-{number}", number + 1
        process = started("run", project / "spec.toml", "-o", run, "--no-report")
        until(run.exists, process)
        patience = 8.0
        while (code := ended(process, rng.uniform(0, patience))) is None:
            process.kill()
            process.wait()
            kills += 1
            if (run / "state.npz").exists():
                sealed.load(run / "state.npz")
            process = started("resume", run, "--no-report")
            patience *= 1.5  # a machine with other work to do has to come to an end as well
        assert code in (0, 4)
        assert same_numbers(run, finished)


def ended(process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


# Damage -------------------------------------------------------------------------------------

MUTABLE = ("manifest.json", "data.npz", "state.npz", "choice.npz")


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A flipped bit, a piece cut off, a piece doubled, or something else altogether."""
    how = rng.randrange(5)
    place = rng.randrange(len(content))
    if how <= 1:
        return (
            content[:place]
            + bytes([content[place] ^ (1 << rng.randrange(8))])
            + content[place + 1 :]
        )
    if how == 2:
        return content[:place]
    if how == 3:
        return content[:place] + content[place : place + 9] + content[place:]
    return rng.choice(
        [b"", b"[]", b"null", b"{}", b"PK\x03\x04", rng.randbytes(64), b'{"format": 2}']
    )


def attack(run: Path, count: int, seed: int) -> None:
    from stakes.app.runs import reopen

    rng = random.Random(seed)
    for number in range(count):
        name = MUTABLE[number % len(MUTABLE)]
        before = (run / name).read_bytes()
        (run / name).write_bytes(mutated(before, rng))
        with pytest.raises((InputError, StorageError)) as caught:
            reopen(run)
        assert str(run) in str(caught.value)
        (run / name).write_bytes(before)
    reopen(run)


def test_every_alteration_of_what_a_run_is_read_from_is_found(copied: Path) -> None:
    attack(copied, 300, seed=1)


def test_what_a_run_only_writes_may_be_edited_or_deleted(copied: Path) -> None:
    """A spreadsheet that opens decisions.csv and saves it writes other bytes."""
    from stakes.app.runs import reopen

    (copied / "decisions.csv").write_bytes(b"date;decision\r\n")
    (copied / "log.txt").write_text("my notes")
    (copied / "draws.nc").unlink()
    assert reopen(copied).manifest.status == "done"
    assert invoke("compare", copied).exit_code == 0


@pytest.mark.slow
def test_every_one_of_two_thousand_alterations_is_found(copied: Path) -> None:
    attack(copied, 2000, seed=2)


def test_sealed_manifests_with_wrong_types_are_refused(copied: Path) -> None:
    """Someone who can compute a checksum is told what does not fit, and runs no code."""
    import hashlib

    from stakes.app.runs.manifest import UNSEALED

    path = copied / "manifest.json"
    whole = json.loads(path.read_text())
    wrong = [1, "text", None, [], {}, -1.5, True, ["a"], {"a": 1}]
    for field in whole:
        if field in ("sha256", "spec", "ending", "reason", "choice", "refit"):
            continue
        for value in wrong:
            if type(value) is type(whole[field]) and field != "format":
                continue
            text = json.dumps({**whole, field: value, "sha256": UNSEALED}, indent=2) + "\n"
            path.write_text(text.replace(UNSEALED, hashlib.sha256(text.encode()).hexdigest()))
            with pytest.raises(StorageError, match=r"manifest\.json"):
                RunFolder(copied).verified()


def test_code_inside_a_run_folder_is_never_run(copied: Path) -> None:
    from stakes.app.runs import manifest, reopen
    from stakes.app.runs.manifest import SourceFile

    trap = copied / "model.py"
    trap.write_text(f"open({str(copied / 'sprung')!r}, 'w')\n")
    import hashlib

    digest = hashlib.sha256(trap.read_bytes()).hexdigest()
    original = RunFolder(copied).manifest()
    changed = original.model_copy(
        update={"folder": str(copied), "code": [SourceFile(path=str(trap), sha256=digest)]}
    )
    manifest.save(copied, changed)
    with pytest.raises(StorageError, match="never carries"):
        reopen(copied)
    assert not (copied / "sprung").exists()


def test_a_full_disk_is_told_and_leaves_the_older_state(copied: Path) -> None:
    before = (copied / "state.npz").read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
        with pytest.raises(StorageError, match=r"Cannot write .*state\.npz"):
            sealed.save(copied / "state.npz", {"a": np.zeros(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (copied / "state.npz").read_bytes() == before
    assert not list(copied.glob(".*"))


def test_a_folder_that_cannot_be_written_is_told(project: Path) -> None:
    result = invoke("run", project / "spec.toml", "-o", "/proc/stakes/run")
    assert result.exit_code == 2
    assert "Cannot make the run folder /proc/stakes/run" in result.stderr


def test_two_processes_do_not_work_on_one_run(copied: Path) -> None:
    folder = RunFolder(copied)
    with (
        folder.log(),
        pytest.raises(InputError, match="Another process"),
        folder.log(),
    ):
        pass


# Size ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_million_rows_stream_through_decide(finished: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, kinds = 1_000_000, np.array(["ash", "elm", "oak"])
    table = pd.DataFrame(
        {
            "name": np.arange(rows),
            "x": rng.normal(size=rows).round(4),
            "kind": kinds[rng.integers(0, 3, rows)],
        }
    )
    table.to_csv(tmp_path / "rows.csv", index=False)
    out = tmp_path / "out.csv"
    process = subprocess.Popen(command("decide", finished, tmp_path / "rows.csv", "-o", out))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert usage.ru_maxrss * 1024 < 4e9
    decided = pd.read_csv(out)
    assert (decided["name"].to_numpy() == np.arange(rows)).all()
    assert np.isfinite(decided["decision"]).all()


# On a cluster, and on all cores ---------------------------------------------------------------


@pytest.mark.slow
def test_a_run_on_a_cluster_has_the_same_choice_bit_for_bit(
    finished: Path, project: Path, tmp_path: Path
) -> None:
    """The workers have never seen model.py."""
    with two_workers() as client:
        address, run = client.scheduler_info()["address"], tmp_path / "run"
        result = invoke("run", project / "spec.toml", "-o", run, "--no-report", "--dask", address)
    assert result.exit_code in (0, 4), result.output
    assert (run / "decisions.csv").read_bytes() == (finished / "decisions.csv").read_bytes()
    here, there = (sealed.load(folder / "choice.npz") for folder in (finished, run))
    assert here.keys() == there.keys()
    for name, values in here.items():
        np.testing.assert_array_equal(there[name], values)


def test_a_scheduler_that_does_not_answer_is_told_before_a_folder_is_made(
    project: Path, tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    given = ("run", project / "spec.toml", "-o", tmp_path / "run", "--dask", "not an address")
    result = invoke(*given)
    assert result.exit_code == 2
    assert "no scheduler answers there" in result.output
    assert not (tmp_path / "run").exists()


def test_several_threads_decide_what_one_does(
    finished: Path, new_rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Part by part, in the order of the file."""
    from stakes.app.runs import deciding

    head, *rows = new_rows.read_text().splitlines()
    rows = [f"{rows[i % 2 * 2].rsplit(',', 1)[0]},{i / 64}" for i in range(64)]
    (tmp_path / "rows.csv").write_text("\n".join([head, *rows, ""]))
    monkeypatch.setattr(deciding, "CHUNK", 4)
    on_all_cores, found = deciding.on_all_cores, {}
    for cores in (1, 4):
        monkeypatch.setattr(deciding, "on_all_cores", partial(on_all_cores, cores=cores))
        out = tmp_path / f"{cores}.csv"
        result = invoke("decide", finished, tmp_path / "rows.csv", "-o", out)
        assert result.exit_code == 0, result.output
        found[cores] = out.read_bytes()
    assert found[1] == found[4]
    np.testing.assert_allclose(pd.read_csv(out)["x"], np.arange(64) / 64)
