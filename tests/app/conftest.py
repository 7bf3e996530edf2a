"""A small project, and one run of it that the tests of the command line share."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from messy import messy_rows, write_messy
from projects import invoke, write_project

CALLS = """
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


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    write_project(folder)
    return folder


@pytest.fixture(scope="session")
def finished(project: Path) -> Path:
    """A run that was left alone. Tests that alter it work on a copy."""
    run = project / "finished"
    result = invoke("run", project / "spec.toml", "-o", run, "--no-report")
    assert result.exit_code in (0, 4), result.output
    return run


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture(scope="session")
def new_rows(project: Path) -> Path:
    """A table of rows to decide about, whose names need care."""
    path = project / "new.csv"
    path.write_text('kind,name,x\noak,NA,0.5\nash,"b, ""c""",-1\nelm,3,2e-1\n')
    return path


@pytest.fixture
def spec_file(project: Path) -> Path:
    return project / "bad.toml"


@pytest.fixture(scope="session")
def bakery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table as a German Excel saves it, and what `init` says of it."""
    folder = tmp_path_factory.mktemp("bakery")
    write_messy(folder / "brote.csv", messy_rows())
    result = invoke("init", folder, "--table", folder / "brote.csv", "--outcome", "Anzahl Brote")
    assert result.exit_code == 0, result.output
    (folder / "said.txt").write_text(result.stderr, encoding="utf-8")
    return folder


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """A table of calls, two models of who buys, and what calls cost."""
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
    (tmp_path / "model.py").write_text(CALLS)
    (tmp_path / "costs.csv").write_text(COSTS)
    return tmp_path
