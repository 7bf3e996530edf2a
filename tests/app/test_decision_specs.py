"""Spaces, shared decisions and tables of costs in a spec, and a run that chooses among actions."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from stakes import (
    CostTable,
    InputError,
    Integers,
    Interval,
    IntervalScore,
    Newsvendor,
    OneOf,
    Vector,
)
from stakes.app.cli.app import app
from stakes.app.spec import job_of

MODEL = """
import jax.numpy as jnp, numpyro, numpyro.distributions as dist

def priced(x, price, y=None):
    level = numpyro.sample("level", dist.Normal(0, 1))
    slope = numpyro.sample("slope", dist.LogNormal(0, 0.5))
    numpyro.deterministic("steep", slope * jnp.ones(1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=level + x - slope * jnp.log(price)), obs=y)

def forgone(sold, price):
    return 20 - price * sold

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
        "price": rng.uniform(1, 4, 40).round(2),
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
        "loss": "squared",
        "fit": {"steps": 150},
        **sections,
    }


def problem(folder, columns=("x",), **sections):
    return job_of(spec(columns, **sections), folder, where="spec").problem


def test_spaces_and_losses_are_those_of_the_spec(project):
    interval = problem(project, ("x", "amount"), decision={"interval": {"high": "amount"}})
    assert interval.space == Interval(None, "amount")
    whole = problem(project, decision={"integers": {"low": 0.0, "high": 9.0}})
    assert whole.space == Integers(0, 9)
    shared = problem(project, ("x", "shop"), decision={"per": "shop"})
    assert shared.per == "shop"
    costly = problem(project, ("x", "amount"), loss={"newsvendor": {"under": "amount", "over": 1}})
    assert costly.loss == Newsvendor("amount", 1.0)
    table = problem(project, ("x", "amount"), loss={"cost_table": {"costs": "costs.csv"}})
    assert table.loss == CostTable({"call": [5, 5], "skip": [0, "amount"]})
    assert table.space == OneOf(["call", "skip"])


def test_parts_arguments_and_latents_are_those_of_the_spec(project):
    parts = {
        "low": {"interval": {"low": 0.0}},
        "high": {"integers": {"low": 0.0, "high": "amount"}},
    }
    several = problem(
        project,
        ("x", "amount"),
        loss={"interval_score": {"level": 0.9}},
        decision={"vector": parts},
    )
    assert several.space == Vector(low=Interval(0.0, None), high=Integers(0, "amount"))
    assert several.loss == IntervalScore(0.9)
    priced = {"python": "model.py:priced", "outcome": "y"}
    price = {"argument": "price", "interval": {"low": 1.0, "high": 6.0}, "per": "all"}
    sections = {"model": priced, "loss": "model.py:forgone", "decision": price}
    found = job_of(spec(("x", "price"), **sections), project, where="spec")
    assert found.problem.action == "price"
    assert found.problem.space == Interval(1.0, 6.0)
    assert found.choosing is None
    about = {**priced, "outcome": "steep", "latent": True}
    latent = job_of(spec(("x", "price", "y"), model=about), project, where="spec")
    assert latent.problem.about_latent
    assert latent.rows_in(latent.fit) == 40


LIMITED = {"argument": "x", "interval": {"low": 1.0, "high": 2.0}}
BAD = {
    "one part": {"decision": {"vector": {"low": "real"}}},
    "parts and a space": {"decision": {"integers": {}, "vector": {"low": "real", "high": "real"}}},
    "a part without its labels": {"decision": {"vector": {"low": "one_of", "high": "real"}}},
    "parts within parts": {
        "decision": {"vector": {"low": {"vector": {"a": "real", "b": "real"}}, "high": "real"}}
    },
    "parts of a loss of numbers": {"decision": {"vector": {"low": "real", "high": "real"}}},
    "an interval without a level": {"loss": "interval_score"},
    "an interval of words": {"loss": {"interval_score": {"level": "most"}}},
    "an argument that the model lacks": {"decision": {**LIMITED, "argument": "price"}},
    "an argument without limits": {"decision": {"argument": "x"}},
    "ways to what nothing can judge": {"decision": LIMITED, "choose": {"ways": ["plain"]}},
    "a latent that is observed": {
        "model": {"python": "model.py:model", "outcome": "y", "latent": True}
    },
    "a latent of an example": {"model": {"example": "radon", "latent": True}},
    "limits of a space without": {"decision": {"real": {"low": 1.0}}},
    "actions for numbers": {"decision": {"integers": {"labels": ["a"]}}},
    "no actions": {"decision": "one_of"},
    "limits that cross": {"decision": {"interval": {"low": 3.0, "high": 1.0}}},
    "half a unit": {"decision": {"integers": {"low": 0.5}}},
    "an unknown space": {"decision": "cube"},
    "a table without costs": {"loss": "cost_table"},
    "a table that is not there": {"loss": {"cost_table": {"costs": "none.csv"}}},
    "a cost that the data lack": {"loss": {"cost_table": {"costs": "costs.csv"}}},
    "one class": {"loss": {"cost_table": {"costs": {"a": [1.0], "b": [2.0]}}}},
    "half a newsvendor": {"loss": {"newsvendor": {"under": 3.0}}},
    "a parameter of another loss": {"loss": {"huber": {"delta": 1.0, "q": 0.5}}},
    "whole numbers by gradients": {"decision": "integers", "method": {"em": {"every": 0}}},
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
        '[loss]\ncost_table = { costs = "costs.csv" }\n[fit]\nsteps = 150\n'
        '[choose]\nways = ["plain", "same"]\nfolds = 2\n'
    )
    CliRunner().invoke(app, ["run", "spec.toml", "-o", "run"])
    decided = pd.read_csv("run/decisions.csv")
    assert set(decided["decision"]) <= {"call", "skip"}
    page = (project / "run/report.html").read_text()
    latest = decided.tail(7)  # which the page opens with
    assert f"{(latest['decision'] == 'call').sum()} × call" in page
    said = CliRunner().invoke(app, ["decide", "run", "calls.csv", "-o", "new.csv"])
    assert said.exit_code == 0, said.output
    assert pd.read_csv("new.csv")["decision"].isin(["call", "skip"]).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("default::stakes.StakesWarning")
def test_a_run_sets_a_price_and_says_what_others_would_bring(project, monkeypatch):
    monkeypatch.chdir(project)
    (project / "spec.toml").write_text(
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
    page = (project / "run/report.html").read_text()
    assert "What if the price were different?" in page
    new = pd.read_csv("calls.csv").drop(columns=["price", "y"])
    new.to_csv("new.csv", index=False)
    said = CliRunner().invoke(app, ["decide", "run", "new.csv", "-o", "decided.csv"])
    assert said.exit_code == 0, said.output
    assert pd.read_csv("decided.csv")["decision"].between(1, 6).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("default::stakes.StakesWarning")
def test_a_run_decides_about_parts_and_writes_a_column_for_each(project, monkeypatch):
    monkeypatch.chdir(project)
    (project / "spec.toml").write_text(
        '[model]\nformula = "amount ~ x"\n[data]\nfile = "calls.csv"\nlabel = "who"\n'
        "[loss]\ninterval_score = { level = 0.8 }\n[fit]\nsteps = 150\n"
        '[choose]\nways = ["plain", "same"]\nfolds = 2\n'
    )
    said = CliRunner().invoke(app, ["run", "spec.toml", "-o", "run"])
    decided = pd.read_csv("run/decisions.csv")
    assert (decided["decision_low"] < decided["decision_high"]).all(), said.output
    assert not (project / "run/report.html").exists()
    assert CliRunner().invoke(app, ["decide", "run", "calls.csv", "-o", "d.csv"]).exit_code == 0
    assert (pd.read_csv("d.csv")["decision_low"] < pd.read_csv("d.csv")["decision_high"]).all()
