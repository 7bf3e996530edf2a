"""Decisions about rows of a file, by a finished run."""

import json
import os
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from projects import SPEC, command, in_process, invoke, toml

from stakes.app import runs
from stakes.app.runs import RunFolder, deciding
from stakes.app.runs.opening import changed_run
from stakes.app.runs.reporting import read_asked
from stakes.errors import InputError


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
    solution = runs.restore(run)
    again = solution.labels(solution.result.on_fit, way)
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
    with pytest.raises(InputError, match="the fits depend on it"):
        changed_run(run, ["data.categories=['kind']"])


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
    chosen = RunFolder(finished).manifest().choice.way
    decided = invoke("decide", finished, new_rows, "-o", tmp_path / "chosen.csv")
    assert f"3 decisions by {chosen}, fitted to all 40 rows, in " in decided.stderr
    outs = [tmp_path / "here.csv", tmp_path / "there.csv"]
    for run, out in zip((finished, whole), outs, strict=True):
        decided = invoke("decide", run, new_rows, "-o", out, "--way", "plain VI")
        assert decided.exit_code == 0, decided.stderr
        assert "3 decisions by plain VI, fitted to all 40 rows, in " in decided.stderr
        assert decided.stderr.startswith("reading back the fits to all 40 rows\n")
        assert decided.stdout == ""
    assert outs[0].read_bytes() == outs[1].read_bytes()
    here, there = (RunFolder(run).manifest() for run in (finished, whole))
    assert (here.refit.rows, there.refit) == (40, None)
    assert (here.ending.held_out, here.ending.cases) == (True, 10)
    own = pd.read_csv(finished / "decisions.csv")
    same = pd.read_csv(whole / "decisions.csv").set_index("name").loc[own["name"]]
    assert (own["decision_vi"].to_numpy() != same["decision_vi"].to_numpy()).all()


def test_a_way_that_was_not_fitted_to_all_rows_says_so(
    finished: Path, new_rows: Path, tmp_path: Path
) -> None:
    manifest = RunFolder(finished).manifest()
    ways = [way for way in manifest.refit.ways if way not in ("plain VI", "calibrated")]
    assert {*ways, "plain VI", "calibrated"} >= {manifest.choice.way, "one decision for all"}
    way = next(row.name for row in manifest.choice.ways if row.name not in manifest.refit.ways)
    decided = invoke("decide", finished, new_rows, "-o", tmp_path / "o.csv", "--way", way)
    assert f"by {way}, fitted to 30 rows, without the 10 held out" in decided.stderr


def test_rows_in_parts_are_decided_as_in_one(finished, project, tmp_path, monkeypatch) -> None:
    """All parts have the same shape and the same draws: a row's part does not matter."""
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


def test_several_threads_decide_what_one_does(
    finished: Path, new_rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Part by part, in the order of the file."""
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


def test_the_expected_cost_is_that_of_the_predicted_outcomes(finished: Path, tmp_path) -> None:
    """In the unit of `under` and `over`: 3 for each unit short, 1 for each too many."""
    from scipy.stats import norm

    table, out = tmp_path / "new.csv", tmp_path / "out.csv"
    table.write_text("kind,name,x\noak,a,0.5\nash,b,-1\n")
    run = runs.reopen(finished)
    result = runs.restore(run).result
    runs.decide_file(run, table, out, way="plain VI")
    decided = pd.read_csv(out)
    vi = result.posterior(result.vi, draws=4000).isel(chain=0)
    for row, level in ((0, "oak"), (1, "ash")):
        mean = (vi["level"].sel(group=level) + vi["slope"] * [0.5, -1][row]).values
        h, scale = decided["decision"][row], 0.5
        z = (h - mean) / scale
        over = scale * (z * norm.cdf(z) + norm.pdf(z))
        short = over - (h - mean)
        assert decided["expected_cost"][row] == pytest.approx((3 * short + over).mean(), rel=0.1)
