"""Values that a spec names: losses, spaces, ways and all others."""

from pathlib import Path

import pytest
from numpyro.infer.autoguide import AutoMultivariateNormal
from projects import Edit, both, check_mistake, drop, put

import stakes
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
from stakes.app.spec import job_of

ONE, COUNT = "strictly between 0 and 1", "a whole number above zero"


BAD: dict[str, tuple[Edit, str, str]] = {
    # name: (what is wrong, the field that has to be named, what has to be said of it)
    "no such way": (put("choose.ways", ["plane"]), "choose.ways.0", "Did you mean 'plain'?"),
    "a way twice": (put("choose.ways", ["plain", "plain"]), "choose.ways", "more than once"),
    "baselines alone": (
        put("choose.ways", ["same"]),
        "choose.ways",
        "add a strategy such as `Plain()`",
    ),
    "a calibration map as a way": (put("choose.ways", ["shift"]), "choose.ways.0", "'calibrated'"),
    "a map without its regressor": (
        put("choose.ways", [{"corrected": {"head": "regressor"}}]),
        "choose.ways.0.corrected.head.estimator",
        "is required by `Regressor(estimator, covariates)`",
    ),
    "an unknown map": (
        put("choose.ways", [{"corrected": {"head": "shif"}}]),
        "choose.ways.0.corrected.head",
        "Did you mean 'shift'?",
    ),
    "a loss as a way": (
        put("choose.ways", ["squared"]),
        "choose.ways.0",
        "is not the name of a strategy",
    ),
    "a way of the user's that is none": (
        put("choose.ways", ["model.py:my_loss"]),
        "choose.ways.0",
        "the protocol `Strategy`",
    ),
    "a strength of zero": (
        put("choose.ways", [{"calibrated": {"strength": 0.0}}]),
        "choose.ways.0.calibrated",
        "above 0",
    ),
    "an argument of another way": (
        put("choose.ways", [{"plain": {"strength": 1.0}}]),
        "choose.ways.0.plain.strength",
        "unknown. Available: 'guide'",
    ),
    "one fold": (put("choose.folds", 1), "choose.folds", "of at least 2; got 1"),
    "folds as text": (put("choose.folds", "five"), "choose.folds", "Available: 'forward'"),
    "no blocks": (
        put("choose.folds", {"forward": {"blocks": 0}}),
        "choose.folds.forward",
        f"`Forward(blocks=...)` must be {COUNT}",
    ),
    "folds of two kinds": (
        put("choose.folds", {"forward": {}, "random": 2}),
        "choose.folds.random",
        "is not the name of folds. Available: 'forward'",
    ),
    "blocks that are no table": (
        put("choose.folds", {"forward": 5}),
        "choose.folds.forward",
        "must be a table of arguments, `{}` for none; got 5",
    ),
    "no loss": (drop("loss"), "loss", "or `utility` instead"),
    "an unknown loss": (put("loss", {"tiltd": {"q": 0.3}}), "loss.tiltd", "Did you mean 'tilted'?"),
    "an unknown loss by its name": (put("loss", "tiltd"), "loss.tiltd", "Did you mean 'tilted'?"),
    "the class of a loss": (put("loss", "LinEx"), "loss.LinEx", "Did you mean 'lin_ex'?"),
    "a way as a loss": (put("loss", "plain"), "loss.plain", "'plain' is not the name of a loss"),
    "a misspelt unit": (put("loss.unti", "€"), "loss.unti", "Did you mean 'unit'?"),
    "a unit alone": (put("loss", {"unit": "€"}), "loss", "must be a loss: a name, or a table"),
    "two losses": (put("loss.squared", {}), "loss", "Leave out all but one"),
    "arguments that are no table": (put("loss.tilted", 0.3), "loss.tilted", "a table of arguments"),
    "a level of one": (
        put("loss.tilted.q", 1),
        "loss.tilted",
        f"`Tilted(q=...)` must be a number {ONE}",
    ),
    "a level of words": (put("loss.tilted.q", "0.3"), "loss.tilted", ONE),
    "no level": (put("loss", "tilted"), "loss.tilted.q", "is required by `Tilted(q)`"),
    "one cost of two": (
        put("loss", {"newsvendor": {"under": 2}}),
        "loss.newsvendor.over",
        "is required by `Newsvendor(under, over)`",
    ),
    "a cost of zero": (
        put("loss", {"newsvendor": {"under": 2, "over": 0}}),
        "loss.newsvendor",
        "`Newsvendor(over=...)` must be a finite number above 0",
    ),
    "a parameter of another loss": (
        put("loss.tilted.c", 1.0),
        "loss.tilted.c",
        "unknown. Available: 'q'",
    ),
    "a misspelt parameter": (
        put("loss", {"newsvendor": {"undr": 2, "over": 1}}),
        "loss.newsvendor.undr",
        "Did you mean 'under'?",
    ),
    "an asymmetry of zero": (
        put("loss", {"lin_ex": {"c": 0}}),
        "loss.lin_ex",
        "number other than zero",
    ),
    "a loss that is a number in a file": (
        put("loss", {"model.py:NUMBER": {}}),
        "loss.model.py:NUMBER",
        "`model.py:NUMBER` must be a function of (outcome, decision)",
    ),
    "a loss whose own code raises": (
        put("loss", {"model.py:Picky": {"level": 3}}),
        "loss.model.py:Picky",
        "ValueError: level 3",
    ),
    "a loss without its argument": (
        put("loss", "model.py:Picky"),
        "loss.model.py:Picky",
        "'level'",
    ),
    "a loss and a utility": (put("utility", "model.py:my_loss"), "utility", "not both"),
    "a utility that nothing computes": (
        both(drop("loss"), put("utility", {"utility": {"fn": "model.py:lines"}})),
        "utility.utility.fn",
        "Did you mean 'line'?",
    ),
    "a transform of a utility": (
        both(drop("loss"), put("utility", "model.py:my_loss"), put("transform", "linearized")),
        "transform",
        "leave it out",
    ),
    "an unknown guide": (
        put("guide", "AutoNormal"),
        "guide.AutoNormal",
        "Did you mean 'auto_normal'?",
    ),
    "a guide with arguments": (
        put("guide", {"auto_normal": {"init_scale": 1}}),
        "guide.auto_normal",
        "takes no arguments",
    ),
    "an unknown transform": (
        put("transform", "linear"),
        "transform.linear",
        "Did you mean 'linearized'?",
    ),
    "a quantile above one": (
        put("transform", {"linearized": {"quantile": 90}}),
        "transform.linearized",
        "at most 1",
    ),
    "a negative scale": (
        put("transform", {"exponential": {"scale": -7}}),
        "transform.exponential",
        "`Exponential(scale=...)`",
    ),
    "an unknown method": (put("method", "me"), "method.me", "Available: 'em', 'joint'"),
    "an M-step of the joint method": (
        put("method", {"joint": {"m_step": "bayes_decisions"}}),
        "method.joint.m_step",
        "unknown",
    ),
    "an unknown M-step": (
        put("method", {"em": {"m_step": "bayes"}}),
        "method.em.m_step",
        "Available: 'bayes_decisions'",
    ),
    "an unknown expectation": (put("expectation", "exact"), "expectation.exact", "'closed_form'"),
    "points of Monte Carlo": (
        put("expectation", {"monte_carlo": {"points": 9}}),
        "expectation.monte_carlo.points",
        "Available: 'draws'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_name_or_argument_is_told_by_its_place(name: str, project: Path) -> None:
    check_mistake(project, *BAD[name])


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


def test_spaces_and_losses_are_those_of_the_spec(calls):
    interval = problem(calls, ("x", "amount"), decision={"interval": {"high": "amount"}})
    assert interval.space == Interval(None, "amount")
    whole = problem(calls, decision={"integers": {"low": 0.0, "high": 9.0}})
    assert whole.space == Integers(0, 9)
    shared = problem(calls, ("x", "shop"), decision={"per": "shop"})
    assert shared.per == "shop"
    costly = problem(calls, ("x", "amount"), loss={"newsvendor": {"under": "amount", "over": 1}})
    assert costly.loss == Newsvendor("amount", 1.0)
    table = problem(calls, ("x", "amount"), loss={"cost_table": {"costs": "costs.csv"}})
    assert table.loss == CostTable({"call": [5, 5], "skip": [0, "amount"]})
    assert table.space == OneOf(["call", "skip"])


def test_parts_arguments_and_latents_are_those_of_the_spec(calls):
    parts = {
        "low": {"interval": {"low": 0.0}},
        "high": {"integers": {"low": 0.0, "high": "amount"}},
    }
    several = problem(
        calls,
        ("x", "amount"),
        loss={"interval_score": {"level": 0.9}},
        decision={"vector": parts},
    )
    assert several.space == Vector(low=Interval(0.0, None), high=Integers(0, "amount"))
    assert several.loss == IntervalScore(0.9)
    priced = {"python": "model.py:priced", "outcome": "y"}
    price = {"argument": "price", "interval": {"low": 1.0, "high": 6.0}, "per": "all"}
    sections = {"model": priced, "loss": "model.py:forgone", "decision": price}
    found = job_of(spec(("x", "price"), **sections), calls, where="spec")
    assert found.problem.action == "price"
    assert found.problem.space == Interval(1.0, 6.0)
    assert found.choosing is None
    about = {**priced, "outcome": "steep", "latent": True}
    latent = job_of(spec(("x", "price", "y"), model=about), calls, where="spec")
    assert latent.problem.about_latent
    assert latent.rows_in(latent.fit) == 40


LIMITED = {"argument": "x", "interval": {"low": 1.0, "high": 2.0}}


UNDECIDABLE = {
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


OWN = """
import dataclasses, jax.numpy as jnp, stakes
from stakes.study import Strategy

@dataclasses.dataclass(frozen=True)
class Power:
    power: float = 1.5

    def __call__(self, outcome, decision):
        return jnp.abs(outcome - decision) ** self.power

def scaled(factor):
    return stakes.Newsvendor(under=factor, over=1)

def worth(outcome, decision):
    return jnp.exp(-jnp.abs(outcome - decision))

def guide(x, y=None): ...

@dataclasses.dataclass(frozen=True)
class Bold(Strategy):
    boldness: float = 1.0
    bases = ()
    is_baseline = False
    description = "more than anybody would dare"

    @property
    def name(self):
        return f"bold, {self.boldness:g}"
"""


def test_every_value_is_made_by_the_constructor_that_is_named(calls):
    (calls / "own.py").write_text(OWN)
    em = {"em": {"m_step": "numerical_decisions", "every": 5}}
    ways = [
        {"plain": {"guide": "auto_multivariate_normal"}},
        {"calibrated": {"transform": {"exponential": {"quantile": 0.5}}, "strength": 2}},
        {"corrected": {"base": "nuts", "head": {"network": {"epochs": 3}}}},
        {"reweighted": {"base": "calibrated", "draws": 500}},
        {"own.py:Bold": {"boldness": 2.0}},
        "same",
    ]
    job = job_of(
        spec(
            loss={"own.py:scaled": {"factor": 4}},
            guide="own.py:guide",
            transform={"linearized": {"scale": 7, "regret": False}},
            method=em,
            expectation={"monte_carlo": {"draws": 9}},
            choose={"ways": ways, "folds": {"forward": {"blocks": 3}}},
        ),
        calls,
        where="spec",
    )
    assert job.problem.loss == Newsvendor(4, 1)
    assert job.problem.guide is not None
    assert job.options == stakes.Options(
        transform=stakes.Linearized(scale=7, regret=False),
        method=stakes.EM(m_step=stakes.NumericalDecisions(), every=5),
        expectation=stakes.MonteCarlo(9),
        steps=150,
    )
    assert job.choosing is not None
    *library, bold, same = job.choosing.ways
    assert library == [
        stakes.Plain(AutoMultivariateNormal),
        stakes.Calibrated(stakes.Exponential(quantile=0.5), strength=2),
        stakes.Corrected(stakes.NUTS(), stakes.Network(epochs=3)),
        stakes.Reweighted(stakes.Calibrated(), draws=500),
    ]
    assert (bold.name, same) == ("bold, 2", stakes.Same())
    assert job.choosing.folds == stakes.Forward(3)


@pytest.mark.parametrize(
    ("utility", "title"),
    [
        ("own.py:worth", "worth"),
        ({"own.py:worth": True, "unit": "€"}, "worth"),
        ({"utility": {"fn": "own.py:worth"}}, "worth"),
        ({"exp_utility": {"loss": "squared", "scale": 2}}, "ExpUtility(loss=Squared(), scale=2.0"),
        ({"exp_utility": {"loss": "own.py:Power", "scale": 2}}, "Power(power=1.5)"),
        ({"exp_utility": {"loss": {"own.py:Power": {"power": 3}}, "scale": 2}}, "Power(power=3)"),
    ],
)
def test_a_utility_is_a_function_or_made_of_one(utility, title, calls):
    (calls / "own.py").write_text(OWN)
    sections = spec(utility=utility, estimator="jensen")
    del sections["loss"]
    job = job_of(sections, calls, where="spec")
    assert title in job.problem.criterion.title
    assert job.options.estimator == stakes.Jensen()
    assert job.unit == ("€" if "unit" in utility else None)


@pytest.mark.parametrize("name", UNDECIDABLE)
def test_a_mistake_is_found_before_any_fit(name, calls):
    def checked():
        job = job_of(spec(**UNDECIDABLE[name]), calls, where="spec")
        job.problem.check_data(job.fit.arguments, needs_outcome=True)

    with pytest.raises(InputError):
        checked()
