"""Runs from their first step to their last file, and whatever ends them."""

import io
import json
import os
import random
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from projects import SPEC, command, in_process, invoke, write_project

from stakes.app import runs
from stakes.app.runs import RunFolder, execution
from stakes.app.runs.opening import ALL
from stakes.app.runs.solution import take_part
from stakes.app.spec import job_of, job_on_all_rows, read_job
from stakes.errors import InputError, Interrupted, NumericalError, StorageError
from stakes.host.interrupts import Signalled
from stakes.host.trees import load_arrays, save_arrays
from stakes.study import FileJournal, Given, Same, Summary, below
from tests.cluster import two_workers


@pytest.mark.parametrize("name", ["calibrated, strength 4", "plain VI, corrected by shift"])
def test_every_way_can_be_fitted_to_all_rows(name: str, copied: Path, new_rows: Path) -> None:
    """Whichever is chosen; one that corrects another learns from rows left out in turn."""
    before = load_arrays(copied / "choice.npz")
    judged = {path: array for path, array in before.items() if not path.startswith(ALL)}
    save_arrays(copied / "choice.npz", judged)
    chosen = replace(RunFolder(copied).manifest().choice, way=name)
    RunFolder(copied).update(status="running", choice=chosen, refit=None)
    manifest, _ = runs.carry_out(runs.reopen(copied), report=False, progress=False)
    assert {name, "plain VI", "one decision for all"} <= set(manifest.refit.ways)
    arrays = load_arrays(copied / "choice.npz")
    for path, array in judged.items():
        np.testing.assert_array_equal(arrays[path], array)
    whole = {path.split("/")[1] for path in arrays if path.startswith(ALL)}
    assert whole == {name, "one decision for all"}
    for way in whole:
        refitted, own = below(f"{ALL}{way}/", arrays), below(f"{way}/", judged)
        assert refitted.keys() == own.keys()
        assert any((refitted[n] != own[n]).any() for n in own)
    decided = invoke("decide", copied, new_rows, "-o", "-", "--way", name)
    assert decided.exit_code == 0, decided.stderr
    assert f"by {name}, fitted to all 40 rows" in decided.stderr
    assert np.isfinite(pd.read_csv(io.StringIO(decided.stdout))["decision"]).all()


def test_a_run_may_choose_what_is_done_today(
    copied: Path, project: Path, new_rows: Path, tmp_path: Path
) -> None:
    """Its decisions are known for the rows held out, too; about new rows another way decides."""
    judged = load_arrays(copied / "choice.npz")
    own = {path: array for path, array in judged.items() if not path.startswith(ALL)}
    save_arrays(copied / "choice.npz", own)
    chosen = replace(RunFolder(copied).manifest().choice, way="today's decisions")
    RunFolder(copied).update(status="running", choice=chosen, refit=None)
    manifest, _ = runs.carry_out(runs.reopen(copied), report=True, progress=False)
    assert manifest.status == "done"
    assert "report.html" in manifest.files
    decided = pd.read_csv(copied / "decisions.csv")
    table = pd.read_csv(project / "table.csv").set_index("name")["guess"]
    assert set(decided["part"]) == {"fit", "held out"}
    for column in ("decision", "decision_today"):
        np.testing.assert_allclose(decided[column], table[decided["name"]], rtol=1e-6)
    refused = invoke("decide", copied, new_rows, "-o", tmp_path / "out.csv")
    assert refused.exit_code == 2
    assert "known for the rows of the run alone" in refused.stderr
    assert "--way 'plain VI'" in refused.stderr
    assert invoke("decide", copied, new_rows, "-o", "-", "--way", "plain VI").exit_code == 0


KINDS: dict[str, dict[str, Any]] = {
    "counts by a formula": {
        "model": {"formula": "sold ~ sun + (1 | store)", "family": "poisson"},
        "data": {"held_out": {"file": "later.csv"}},
        "loss": {"newsvendor": {"under": 3, "over": 1}},
        "choose": {"ways": ["plain", "calibrated", "corrected", "same"], "today": "ordered"},
    },
    "rows in order of days": {
        "model": {"formula": "sold ~ sun + (1 | store)", "family": "poisson"},
        "data": {"ordered": "day", "held_out": {"fraction": 0.25, "pick": "last"}},
        "loss": {"tilted": {"q": 0.7}},
        "choose": {"ways": ["plain", "corrected", "same"], "folds": {"forward": {"blocks": 3}}},
    },
    "actions by a table of costs": {
        "model": {"formula": "hit ~ sun", "family": "bernoulli"},
        "data": {"held_out": {"fraction": 0.25}},
        "loss": {"cost_table": {"costs": {"yes": [1, 0], "no": [0, 2]}}},
        "choose": {"ways": ["plain", "calibrated", "same"]},
    },
    "groups in whole numbers": {
        "model": {"formula": "sold ~ sun", "family": "negative binomial"},
        "data": {"by": "store", "held_out": {"fraction": 0.25}},
        "loss": {"absolute": {}},
        "decision": {"integers": {"low": 0, "high": 40}},
        "choose": {"ways": ["plain", {"nuts": {"draws": 20, "warmup": 20}}, "same"], "by": "store"},
    },
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::stakes.StakesWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_ends_well_whichever_strategy_it_chooses(kind: str, tmp_path: Path) -> None:
    rng, run = np.random.default_rng(0), tmp_path / "run"
    days = pd.date_range("2024-01-01", periods=30).repeat(2).strftime("%Y-%m-%d")
    rows = pd.DataFrame({"day": days, "store": ["a", "b"] * 30, "sun": rng.random(60).round(2)})
    rows = rows.assign(sold=rng.poisson(8 + 4 * rows["sun"]), hit=rng.integers(0, 2, 60))
    rows["ordered"] = rows["sold"] + rng.integers(-1, 2, 60)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows[:20].to_csv(tmp_path / "later.csv", index=False)
    rows[["day", "store", "sun"]][:5].to_csv(tmp_path / "new.csv", index=False)
    spec: dict[str, Any] = {"fit": {"steps": 40}, **KINDS[kind]}
    spec["data"] = {"file": "rows.csv", "label": ["day", "store"], **spec["data"]}
    spec["choose"] = {"folds": 2, **spec["choose"]}
    begun = runs.begin(job_of(spec, tmp_path, where=kind), run, command="stakes run")
    first, _ = runs.carry_out(begun, report=True, progress=False)
    for line in first.choice.ways:
        chosen = replace(first.choice, way=line.name)
        RunFolder(run).update(status="running", choice=chosen, refit=None)
        manifest, _ = runs.carry_out(runs.reopen(run), report=True, progress=False)
        assert manifest.status == "done"
        asked = invoke("decide", run, tmp_path / "new.csv", "-o", tmp_path / "o.csv", "--overwrite")
        assert asked.exit_code == (2 if line.name == Given.name else 0), asked.stderr


COUNTING = """

_demand = demand

@functools.wraps(_demand)
def demand(*args, **named):
    with open({calls!r}, "a") as calls:
        calls.write("x")
    return _demand(*args, **named)
"""


@pytest.mark.slow
def test_a_run_calls_the_model_a_few_times(tmp_path: Path) -> None:
    """Which is traced once for the rows of each study; seven ways and five folds need no more."""
    calls, project = tmp_path / "calls", tmp_path / "new"
    assert invoke("init", project).exit_code == 0
    model = project / "model.py"
    counting = COUNTING.format(calls=str(calls))
    model.write_text("import functools\n" + model.read_text() + counting)
    few = ("--no-report", "--set", "fit.steps=200")
    done = invoke("run", project / "stakes.toml", "-o", tmp_path / "run", *few)
    assert done.exit_code in (0, 4), done.output
    assert RunFolder(tmp_path / "run").manifest().refit is not None
    assert 0 < len(calls.read_text()) <= 20


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
    project: Path, new_rows: Path, tmp_path: Path, monkeypatch
) -> None:
    """With the same numbers, bit for bit, as without it, and as where no rows are held out."""
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
    whole = runs.begin(job_on_all_rows(job), tmp_path / "whole", command="stakes run")
    runs.carry_out(whole, report=False, progress=False)
    here, there = load_arrays(tmp_path / "run/refit.npz"), load_arrays(whole.folder / "state.npz")
    assert {array.split("/")[0] for array in there} == {"VI", "calibrated", "decisions"}
    assert here.keys() == there.keys()
    for array in (each for each in there if not each.endswith("/seconds")):
        np.testing.assert_array_equal(here[array], there[array])
    decided = invoke("decide", tmp_path / "run", new_rows, "-o", tmp_path / "o.csv")
    assert "3 decisions by calibrated, fitted to all 40 rows" in decided.stderr


@pytest.mark.filterwarnings("default::stakes.StakesWarning")
def test_a_fit_to_all_rows_that_fails_leaves_what_was_judged(
    project: Path, new_rows: Path, tmp_path: Path, monkeypatch
) -> None:
    original, folder = execution._fitted, tmp_path / "run"

    def failing(run: runs.Run, *given: Any, **options: Any) -> runs.Solution:
        if run.refit:
            raise NumericalError("No step was finite.")
        return original(run, *given, **options)

    monkeypatch.setattr(execution, "_fitted", failing)
    few = ("--no-choose", "--no-report", "--set", "fit.steps=100")
    done = invoke("run", project / "spec.toml", "-o", folder, *few)
    assert done.exit_code == 3, done.output
    assert "fit to all 40 rows failed: No step was finite." in done.stderr
    assert "the same fits decide about new rows" in done.stderr
    manifest = RunFolder(folder).manifest()
    assert (manifest.status, manifest.refit, manifest.ending.converged) == ("done", None, False)
    assert manifest.ending.held_out
    assert manifest.ending.risk
    decided = invoke("decide", folder, new_rows, "-o", tmp_path / "o.csv")
    assert "fitted to 30 rows, without the 10 held out" in decided.stderr


def test_a_calibrated_fit_that_cannot_be_chosen_is_not_made(tmp_path: Path) -> None:
    spec = {**SPEC, "choose": {"ways": ["plain", "same"], "folds": 2}}
    result = invoke("run", write_project(tmp_path, spec), "-o", tmp_path / "run")
    assert result.exit_code == 4, result.output
    assert "A fit stopped before it had found the best parameters" in result.stderr
    assert "VI: reached the step limit" in result.stderr
    assert "`steps = 30000` under [fit]" in result.stderr
    assert "better than plain VI, in per cent of its cost." in result.stdout
    manifest = RunFolder(tmp_path / "run").manifest()
    assert manifest.ending is not None
    assert list(manifest.ending.stopped) == ["VI", "VI, all rows"]
    assert list(manifest.ending.risk) == ["VI"]
    assert manifest.refit is not None
    assert manifest.refit.ways == ["plain VI", "one decision for all"]
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
        "one decision for all",
        "today's decisions",
    ]
    assert found.way in found.verdict
    assert {each.than for each in found.saved} >= {"one decision for all", "today's decisions"}
    guessed = pd.read_csv(finished / "decisions.csv").query("part == 'fit'")
    cost = newsvendor_cost(guessed["observed"], guessed["decision_today"])
    assert found.line("today's decisions").risk == pytest.approx(cost.mean(), rel=1e-4)
    plain = found.line("plain VI").risk
    for line in found.ways:
        assert line.better_by == pytest.approx((plain - line.risk) / plain, abs=1e-9)
    for saved in found.saved:
        assert saved.each == pytest.approx(found.line(saved.than).risk - found.line().risk)


def newsvendor_cost(observed: Any, decision: Any) -> Any:
    """In the unit of the spec: 3 for each unit short, 1 for each too many."""
    short = observed - decision
    return np.where(short > 0, 3 * short, -short)


def test_risks_are_mean_costs_on_rows_left_out(finished: Path) -> None:
    """Of a way whose fits take no time, found again."""
    run, found = runs.reopen(finished), RunFolder(finished).manifest().choice
    assert found is not None
    take_part(run.study, run.job)
    outcomes, decisions = run.study.seen.outcomes, np.zeros(30)
    for mask, judged in zip(run.study.splits.masks, run.study.splits.judged, strict=True):
        assert not (mask.seen & judged).any()
        fitted = run.study.fitted(Same(), mask)
        decisions[judged] = fitted.decide(run.study.cases(mask))[judged]
    costs = newsvendor_cost(outcomes, decisions)
    assert found.line("one decision for all").risk == pytest.approx(costs.mean(), rel=1e-5)
    assert found.outcomes == len(costs)


def test_what_decides_is_kept_as_plain_numbers(finished: Path) -> None:
    """Of every way but the two fits, which have a file of their own, and of all rows."""
    manifest, arrays = RunFolder(finished).manifest(), load_arrays(finished / "choice.npz")
    assert manifest.choice is not None
    assert manifest.refit is not None
    own = {path.split("/")[0] for path in arrays if not path.startswith(ALL)}
    nothing = {"plain VI", "calibrated", "today's decisions"}
    assert own == {line.name for line in manifest.choice.ways} - nothing
    whole = {path.split("/")[1] for path in arrays if path.startswith(ALL)}
    assert whole == set(manifest.refit.ways) - nothing


def test_a_choice_that_is_cut_short_begins_anew(copied: Path, monkeypatch) -> None:
    def killed(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    before = RunFolder(copied).manifest()
    kept = load_arrays(copied / "choice.npz")
    RunFolder(copied).update(status="running", choice=None, refit=None)
    with monkeypatch.context() as patched:
        patched.setattr(execution, "chosen_among", killed)
        with pytest.raises(Interrupted, match=r"Ended by SIGTERM.*stakes resume"):
            runs.carry_out(runs.reopen(copied), report=False, progress=False)
    assert RunFolder(copied).manifest().status == "interrupted"
    manifest, _ = runs.carry_out(runs.reopen(copied), report=False, progress=False)
    assert manifest.status == "done"
    assert untimed(manifest.choice) == untimed(before.choice)
    assert manifest.refit == before.refit
    again = load_arrays(copied / "choice.npz")
    assert again.keys() == kept.keys()
    for name, array in kept.items():
        np.testing.assert_array_equal(again[name], array)


def untimed(summary: Summary) -> Summary:
    """A choice without what its fits took."""
    return replace(summary, ways=[replace(line, seconds=0.0) for line in summary.ways])


MOMENTS = ["before the choice", "before the fit to all rows is kept", "in the report"]


@pytest.mark.some(1)
@pytest.mark.parametrize("when", MOMENTS)
def test_a_signal_after_the_fits_ends_the_run(copied: Path, monkeypatch, when: str) -> None:
    """With all that was done before kept, so that resuming it ends as it would have."""
    original = execution._fitted

    def signalled(run: runs.Run, *given: Any, **options: Any) -> runs.Solution:
        solution = original(run, *given, **options)
        if run.refit is (when != "before the choice"):
            os.kill(os.getpid(), signal.SIGTERM)
        return solution

    def killed(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
        raise AssertionError

    before = RunFolder(copied).manifest()
    undone = {"before the choice": {"choice": None, "refit": None}, "in the report": {}}
    RunFolder(copied).update(status="running", **undone.get(when, {"refit": None}))
    with monkeypatch.context() as patched:
        if when == "in the report":
            patched.setattr(execution, "write_report", killed)
        else:
            patched.setattr(execution, "_fitted", signalled)
            patched.setattr(execution, "chosen_among", None)
        with pytest.raises(Interrupted, match=r"Ended by SIGTERM.*stakes resume"):
            runs.carry_out(runs.reopen(copied), report=True, progress=False)
    after, log = RunFolder(copied).manifest(), (copied / "log.txt").read_text()
    assert after.status == "interrupted"
    assert after.choice == (None if when == "before the choice" else before.choice)
    assert "interrupted: Ended by SIGTERM" in log.splitlines()[-1]
    if when == "in the report":
        assert f" {execution.WRITING}\n" in log
    if when != "before the choice":
        manifest, _ = runs.carry_out(runs.reopen(copied), report=False, progress=False)
        assert (manifest.status, manifest.choice) == ("done", before.choice)
        assert manifest.refit == before.refit


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
    monkeypatch.setattr(execution, "_fitted", ended)
    with pytest.raises(type(error)):
        runs.carry_out(run, report=False, progress=False)
    found = RunFolder(copied).manifest()
    assert (found.status, found.reason) == (status, reason)
    assert f"{status}: {reason}" in (copied / "log.txt").read_text()
    with pytest.raises(InputError, match=f"not finished \\({status}: {reason}"):
        runs.restore(runs.reopen(copied))


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
                load_arrays(run / "state.npz")
            process = started("resume", run, "--no-report")
            patience *= 1.5  # a machine with other work to do has to come to an end as well
        assert code in (0, 4)
        assert same_numbers(run, finished)


def ended(process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


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
    here, there = (load_arrays(folder / "choice.npz") for folder in (finished, run))
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
