"""A small project to run, and ways to run it."""

import copy
import csv
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from stakes.app.cli.app import app
from stakes.app.spec import SpecError, job_of

MODEL = """\
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist


def line(x, group, groups, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("group", groups):
        level = numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(level[group] + slope * x, 0.5), obs=y)


def unobserved(x, group, groups, y=None):
    numpyro.sample("y", dist.Normal(jnp.zeros(len(x)), 1.0))


def broken(x, group, groups, y=None):
    return undefined_name


def branching(x, group, groups, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    if slope > 0:
        numpyro.sample("y", dist.Normal(slope * x, 0.5), obs=y)


def my_loss(outcome, decision):
    return jnp.abs(outcome - decision) ** 1.5


def summed_loss(outcome, decision):
    return jnp.sum(jnp.abs(outcome - decision))


class Picky:
    def __init__(self, level):
        if level > 1:
            raise ValueError(f"level {level}")


NUMBER = 3
"""
SPEC: dict[str, Any] = {
    "title": "A line",
    "seed": 3,
    "model": {"python": "model.py:line", "outcome": "y"},
    "data": {
        "file": "table.csv",
        "outcome": "height",
        "label": "name",
        "columns": {"x": "x", "group": "kind"},
        "counts": {"groups": "kind"},
        "by": "name",
        "held_out": {"fraction": 0.25, "seed": 1},
    },
    "loss": {"newsvendor": {"under": 3, "over": 1}},
    "fit": {"steps": 300, "checkpoint_seconds": 0},
    "choose": {
        "ways": [
            "plain",
            "calibrated",
            {"calibrated": {"strength": 4}},
            "corrected",
            {"corrected": {"head": "level"}},
            {"corrected": {"head": "monotone"}},
            "same",
        ],
        "folds": 2,
        "today": "guess",
    },
}


SHORT = {name: section for name, section in SPEC.items() if name != "choose"}
SHORT |= {"loss": {"tilted": {"q": 0.3}}}
FORMULA: dict[str, Any] = {
    "model": {"formula": "loaves ~ sun + day_weekday + (1 | store)", "family": "poisson"},
    "data": {
        "file": "sales.csv",
        "label": "day",
        "columns": {"sun": "hours of sun"},
        "held_out": {"fraction": 0.25, "pick": "last"},
    },
    "loss": {"newsvendor": {"under": 3, "over": 1}},
}
Edit = Callable[[dict[str, Any]], None]


def put(path: str, value: Any) -> Edit:
    """Set a field, by its path."""

    def edit(spec: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        for name in parents:
            spec = spec.setdefault(name, {})
        spec[last] = value

    return edit


def drop(*paths: str) -> Edit:
    """Take fields out, by their paths."""

    def edit(spec: dict[str, Any]) -> None:
        for path in paths:
            *parents, last = path.split(".")
            section = spec
            for name in parents:
                section = section[name]
            del section[last]

    return edit


def both(*edits: Edit) -> Edit:
    def edit(spec: dict[str, Any]) -> None:
        for one in edits:
            one(spec)

    return edit


def check_mistake(folder: Path, edit: Edit, field: str, fix: str) -> None:
    """The edited spec is refused: its field is named, and what to do is said."""
    spec = copy.deepcopy(SHORT)
    edit(spec)
    with pytest.raises(SpecError) as refused:
        job_of(spec, folder, where="the spec")
    mistakes = refused.value.mistakes
    assert any(m.path == field and fix in m.message for m in mistakes), mistakes


def toml(table: Mapping[str, Any]) -> str:
    """Nested tables inline; strings and lists are written as JSON writes them."""

    def value(item: Any) -> str:
        if isinstance(item, Mapping):
            return "{" + ", ".join(f"{json.dumps(k)} = {value(v)}" for k, v in item.items()) + "}"
        if isinstance(item, list):
            return f"[{', '.join(map(value, item))}]"
        return json.dumps(item)

    return "".join(f"{json.dumps(k)} = {value(v)}\n" for k, v in table.items())


def write_project(folder: Path, spec: Mapping[str, Any] = SPEC) -> Path:
    """Model, table and spec; the path of the spec."""
    rng = random.Random(0)
    (folder / "model.py").write_text(MODEL)
    (folder / "table.py").write_text("name,x\n1 2\n")
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "x", "kind", "height", "note", "guess"])
        for i in range(40):
            x, kind = round(rng.gauss(0, 1), 3), rng.choice(["ash", "elm", "oak"])
            height = round(x + {"ash": -1, "elm": 0, "oak": 1}[kind] + rng.gauss(0, 0.5), 3)
            writer.writerow([f"tree {i}", x, kind, height, "-", round(x, 1)])
    path = folder / "spec.toml"
    path.write_text(toml(spec))
    return path


def invoke(*args: object, stdin: str | None = None) -> Any:
    return CliRunner().invoke(app, [str(arg) for arg in args], input=stdin)


def command(*args: object) -> list[str]:
    return [sys.executable, "-c", "from stakes_command import main; main()", *map(str, args)]


def in_process(*args: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """In a process of its own, as from a shell."""
    environment = {**os.environ, "PYTHONWARNINGS": "default"}
    return subprocess.run(
        command(*args), capture_output=True, text=True, env=environment, check=False, **options
    )


def formula_project(folder: Path, **changed: Any) -> Path:
    days = [f"2024-02-{day:02}" for day in range(1, 13)]
    stores = ["Köln, Dom", "Ulm", "Bonn"] * 4
    sales = pd.DataFrame({"day": days, "store": stores, "hours of sun": np.linspace(0, 1, 12)})
    sales["loaves"] = np.arange(12) + 3
    sales.to_csv(folder / "sales.csv", index=False)
    path = folder / "formula.toml"
    path.write_text(toml({**FORMULA, **changed}))
    return path
