"""Spaces, shared decisions and tables of costs in a spec, and a run that chooses among actions."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from stakes import CostTable, InputError, Integers, Interval, Newsvendor, OneOf
from stakes.app.cli.app import app
from stakes.app.spec import job_of

MODEL = """
import numpyro, numpyro.distributions as dist

def model(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=slope * x), obs=y)
"""
COSTS = "action,no,yes\ncall,5,5\nskip,0,amount\n"


@pytest.fixture
def project(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    table = {
        "who": [f"c{i}" for i in range(40)],
        "x": x.round(3),
        "amount": rng.uniform(5, 40, 40).round(1),
        "shop": np.arange(40) % 4,
        "y": (rng.uniform(size=40) < 1 / (1 + np.exp(-2 * x))).astype(int),
    }
    pd.DataFrame(table).to_csv(tmp_path / "calls.csv", index=False)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "costs.csv").write_text(COSTS)
    return tmp_path


def spec(columns=("x",), **sections):
    return {
        "model": {"python": "model.py:model", "outcome": "y"},
        "data": {"file": "calls.csv", "columns": list(columns), "label": "who"},
        "loss": {"name": "squared"},
        "fit": {"steps": 150},
        **sections,
    }


def problem(folder, columns=("x",), **sections):
    return job_of(spec(columns, **sections), folder, where="spec").problem


def test_spaces_and_losses_are_those_of_the_spec(project):
    interval = problem(project, ("x", "amount"), decision={"space": "interval", "high": "amount"})
    assert interval.space == Interval(None, "amount")
    whole = problem(project, decision={"space": "whole", "low": 0.0, "high": 9.0})
    assert whole.space == Integers(0, 9)
    shared = problem(project, ("x", "shop"), decision={"per": "shop"})
    assert shared.per == "shop"
    costly = problem(
        project, ("x", "amount"), loss={"name": "newsvendor", "under": "amount", "over": 1.0}
    )
    assert costly.loss == Newsvendor("amount", 1.0)
    table = problem(project, ("x", "amount"), loss={"name": "table", "file": "costs.csv"})
    assert table.loss == CostTable({"call": [5, 5], "skip": [0, "amount"]})
    assert table.space == OneOf(["call", "skip"])


BAD = {
    "limits of a space without": {"decision": {"low": 1.0}},
    "actions for numbers": {"decision": {"space": "whole", "actions": ["a"]}},
    "no actions": {"decision": {"space": "actions"}},
    "limits that cross": {"decision": {"space": "interval", "low": 3.0, "high": 1.0}},
    "half a unit": {"decision": {"space": "whole", "low": 0.5}},
    "an unknown space": {"decision": {"space": "cube"}},
    "a table without costs": {"loss": {"name": "table"}},
    "a table twice": {"loss": {"name": "table", "file": "costs.csv", "costs": {"a": [1.0, 2.0]}}},
    "a table that is not there": {"loss": {"name": "table", "file": "none.csv"}},
    "a cost that the data lack": {"loss": {"name": "table", "file": "costs.csv"}},
    "one class": {"loss": {"name": "table", "costs": {"a": [1.0], "b": [2.0]}}},
    "half a newsvendor": {"loss": {"name": "newsvendor", "under": 3.0}},
    "a parameter of another loss": {"loss": {"name": "huber", "delta": 1.0, "q": 0.5}},
    "whole numbers by gradients": {
        "decision": {"space": "whole"},
        "method": {"name": "em", "every": 0},
    },
}


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_found_before_any_fit(name, project):
    def checked():
        job = job_of(spec(**BAD[name]), project, where="spec")
        job.problem.check_data(job.fit.arguments, needs_outcome=True)

    with pytest.raises(InputError):
        checked()


@pytest.mark.slow
def test_a_run_decides_among_actions_and_says_how_often_each(project, monkeypatch):
    monkeypatch.chdir(project)
    (project / "spec.toml").write_text(
        '[model]\npython = "model.py:model"\noutcome = "y"\n'
        '[data]\nfile = "calls.csv"\ncolumns = ["x", "amount"]\nlabel = "who"\n'
        '[loss]\nname = "table"\nfile = "costs.csv"\n[fit]\nsteps = 150\n'
        '[choose]\nways = ["plain", "same"]\nfolds = 2\n'
    )
    CliRunner().invoke(app, ["run", "spec.toml", "-o", "run"])
    decided = pd.read_csv("run/decisions.csv")
    assert set(decided["decision"]) <= {"call", "skip"}
    page = (project / "run/report.html").read_text()
    assert f"{(decided['decision'] == 'call').sum()} × call" in page
    said = CliRunner().invoke(app, ["decide", "run", "calls.csv", "-o", "-"])
    assert "c0," in said.stdout
    assert said.stdout.splitlines()[1].split(",")[1] in {"call", "skip"}
