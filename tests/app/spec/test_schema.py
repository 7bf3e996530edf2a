"""Fields of a spec that are wrong by themselves: the path of the field, and the rule."""

from pathlib import Path

import pytest
from projects import Edit, check_mistake, drop, put

ONE, COUNT = "strictly between 0 and 1", "a whole number above zero"


BAD: dict[str, tuple[Edit, str, str]] = {
    # name: (what is wrong, the field that has to be named, what has to be said of it)
    "no ways": (put("choose.ways", []), "choose.ways", "must be a list of strategies"),
    "ways as text": (put("choose.ways", "plain"), "choose.ways", "must be a list of strategies"),
    "skip as text": (put("choose.skip", "yes"), "choose.skip", "true or false"),
    "choose as a list": (put("choose", ["plain"]), "choose", "must be a table"),
    "an unknown section": (put("modle", {}), "modle", "Did you mean 'model'?"),
    "an unknown field": (put("fit.step", 5), "fit.step", "Did you mean 'steps'?"),
    "a model that is no table": (put("model", "model.py"), "model", "a table with `python`"),
    "a seed of words": (put("seed", "three"), "seed", "a whole number from 0"),
    "a negative seed": (put("seed", -1), "seed", "a whole number from 0"),
    "a seed too large": (put("seed", 2**40), "seed", "to 4294967295"),
    "a fraction as seed": (put("seed", 1.5), "seed", "a whole number from 0"),
    "a title that is a number": (put("title", 7), "title", "a string"),
    "neither file nor example": (
        drop("model.python"),
        "model",
        "either `python`, `example` or `formula`",
    ),
    "file and example": (put("model.example", "radon"), "model", "and not both"),
    "no outcome": (drop("model.outcome"), "model.outcome", "is required"),
    "no function named": (put("model.python", "model.py"), "model.python", "'model.py:model'"),
    "no data file": (drop("data.file"), "data.file", ".csv, .parquet or .npz"),
    "columns that are a text": (put("data.columns", "x"), "data.columns", "a list of columns"),
    "a column that is a number": (put("data.columns.x", 3), "data.columns.x", "a string"),
    "an argument given twice": (
        put("data.constants", {"x": 1}),
        "data.constants.x",
        "given in `columns` already",
    ),
    "a constant that is a list": (
        put("data.constants", {"z": [1]}),
        "data.constants.z",
        "a number or a string",
    ),
    "categories that are a text": (
        put("data.categories", "kind"),
        "data.categories",
        "a list of columns",
    ),
    "groups in three columns": (
        put("data.by", ["name", "kind", "x"]),
        "data.by",
        "a column, or two, whose equal values",
    ),
    "groups, and rows in order": (put("data.ordered", True), "data.ordered", "not both"),
    "a held-out fraction of one": (
        put("data.held_out.fraction", 1.0),
        "data.held_out.fraction",
        ONE,
    ),
    "a fraction and a file held out": (
        put("data.held_out.file", "table.csv"),
        "data.held_out",
        "and not both",
    ),
    "an unknown pick": (put("data.held_out.pick", "lst"), "data.held_out.pick", "'last'"),
    "a unit that is a number": (put("loss.unit", 3), "loss.unit", 'such as "€"; got 3'),
    "a loss that is a number": (put("loss", 3), "loss", "the name of a loss, or a table"),
    "no steps": (put("fit.steps", 0), "fit.steps", COUNT),
    "half a step": (put("fit.steps", 0.5), "fit.steps", COUNT),
    "no draws": (put("fit.draws", 0), "fit.draws", COUNT),
    "a negative rate": (put("fit.learning_rate", -1), "fit.learning_rate", "above zero"),
    "a warm start of words": (put("fit.warm_start", "yes"), "fit.warm_start", "true or false"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_field_is_told_by_its_path_and_rule(name: str, project: Path) -> None:
    check_mistake(project, *BAD[name])
