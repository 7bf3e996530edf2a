"""`stakes run` for every kind of decision, and for indices beyond an array."""

import copy
from pathlib import Path

import pandas as pd
import pytest
from projects import SHORT, invoke, toml
from typer.testing import CliRunner

from stakes.app.cli.app import app


def test_a_run_that_would_clamp_an_index_is_not_begun(spec_file: Path, tmp_path: Path) -> None:
    spec = copy.deepcopy(SHORT)
    del spec["data"]["counts"]
    spec["data"]["constants"] = {"groups": 2}
    spec_file.write_text(toml(spec))
    result = invoke("run", spec_file, "-o", tmp_path / "run")
    assert result.exit_code == 2
    assert "is not among the 2 members" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_run_decides_among_actions_and_says_how_often_each(calls, monkeypatch):
    monkeypatch.chdir(calls)
    (calls / "spec.toml").write_text(
        '[model]\npython = "model.py:model"\noutcome = "y"\n'
        '[data]\nfile = "calls.csv"\ncolumns = ["x", "amount"]\nlabel = "who"\n'
        '[loss]\ncost_table = { costs = "costs.csv" }\n[fit]\nsteps = 150\n'
        '[choose]\nways = ["plain", "same"]\nfolds = 2\n'
    )
    CliRunner().invoke(app, ["run", "spec.toml", "-o", "run"])
    decided = pd.read_csv("run/decisions.csv")
    assert set(decided["decision"]) <= {"call", "skip"}
    page = (calls / "run/report.html").read_text()
    latest = decided.tail(7)  # which the page opens with
    assert f"{(latest['decision'] == 'call').sum()} × call" in page
    said = CliRunner().invoke(app, ["decide", "run", "calls.csv", "-o", "new.csv"])
    assert said.exit_code == 0, said.output
    assert pd.read_csv("new.csv")["decision"].isin(["call", "skip"]).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("default::stakes.StakesWarning")
def test_a_run_sets_a_price_and_says_what_others_would_bring(calls, monkeypatch):
    monkeypatch.chdir(calls)
    (calls / "spec.toml").write_text(
        '[model]\npython = "model.py:priced"\noutcome = "y"\n'
        '[data]\nfile = "calls.csv"\ncolumns = ["x", "price"]\nlabel = "who"\n'
        '[loss]\n"model.py:forgone" = true\n'
        '[decision]\nargument = "price"\ninterval = { low = 1.0, high = 6.0 }\n'
        'per = "all"\n[fit]\nsteps = 150\n[transform]\nlinearized = { regret = false }\n'
    )
    CliRunner().invoke(app, ["run", "spec.toml", "-o", "run"])
    decided = pd.read_csv("run/decisions.csv")
    assert decided["decision"].nunique() == 1
    assert "predicted_low" not in decided
    page = (calls / "run/report.html").read_text()
    assert "What if the price were different?" in page
    new = pd.read_csv("calls.csv").drop(columns=["price", "y"])
    new.to_csv("new.csv", index=False)
    said = CliRunner().invoke(app, ["decide", "run", "new.csv", "-o", "decided.csv"])
    assert said.exit_code == 0, said.output
    assert pd.read_csv("decided.csv")["decision"].between(1, 6).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("default::stakes.StakesWarning")
def test_a_run_decides_about_parts_and_writes_a_column_for_each(calls, monkeypatch):
    monkeypatch.chdir(calls)
    (calls / "spec.toml").write_text(
        '[model]\nformula = "amount ~ x"\n[data]\nfile = "calls.csv"\nlabel = "who"\n'
        "[loss]\ninterval_score = { level = 0.8 }\n[fit]\nsteps = 150\n"
        '[choose]\nways = ["plain", "same"]\nfolds = 2\n'
    )
    said = CliRunner().invoke(app, ["run", "spec.toml", "-o", "run"])
    decided = pd.read_csv("run/decisions.csv")
    assert (decided["decision_low"] < decided["decision_high"]).all(), said.output
    assert not (calls / "run/report.html").exists()
    assert CliRunner().invoke(app, ["decide", "run", "calls.csv", "-o", "d.csv"]).exit_code == 0
    assert (pd.read_csv("d.csv")["decision_low"] < pd.read_csv("d.csv")["decision_high"]).all()


FIXED = """
import dataclasses, numpy as np
from stakes.study import Diagnosis, Strategy

@dataclasses.dataclass(frozen=True)
class Fixed(Strategy):
    value: float
    bases = ()
    is_baseline = False
    description = "one decision that somebody made up"

    @property
    def name(self):
        return f"always {self.value:g}"

    def check(self, study): ...

    def fit(self, study, mask):
        return Always(self.value)

    def restore(self, study, arrays):
        return Always(float(arrays["value"]))

@dataclasses.dataclass(frozen=True)
class Always:
    value: float
    seconds = 0.0
    diagnosis = Diagnosis()
    posterior = None

    def decide(self, cases):
        return np.full(cases.instances.shape, self.value)

    def predict(self, cases):
        return None

    def arrays(self):
        return {"value": np.array(self.value)}
"""


@pytest.mark.slow
def test_a_strategy_of_the_users_own_is_compared_kept_and_decides(
    project: Path, tmp_path: Path
) -> None:
    for name in ("model.py", "table.csv"):
        (tmp_path / name).write_bytes((project / name).read_bytes())
    (tmp_path / "own.py").write_text(FIXED)
    ways = ["plain", {"own.py:Fixed": {"value": 0.25}}, {"reweighted": {"draws": 300}}]
    spec = {**SHORT, "fit": {"steps": 300}, "choose": {"ways": ways, "folds": 2}}
    (tmp_path / "spec.toml").write_text(toml(spec))
    run = tmp_path / "run"
    result = invoke("run", tmp_path / "spec.toml", "-o", run, "--no-report")
    assert result.exit_code in (0, 4), result.output
    assert "always 0.25" in result.stdout
    assert "plain VI, reweighted" in result.stdout
    (tmp_path / "new.csv").write_text("name,x,kind\na,0.5,oak\nb,0.1,elm\n")
    new = ("decide", run, tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    result = invoke(*new, "--way", "always 0.25")
    assert result.exit_code == 0, result.output
    assert pd.read_csv(tmp_path / "out.csv")["decision"].tolist() == [0.25, 0.25]
