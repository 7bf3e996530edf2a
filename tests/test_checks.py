"""Malformed calls of everything public: each is refused, by an error that names the argument.

The calls are generated. Each has valid arguments, of which one at a time is replaced by every value
that is not legal for it. None of them gets as far as a fit, or as compiling anything.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pandas as pd
import pytest

import stakes
from examples import matrix_factorization, radon, retail
from reproduce import seeds
from reproduce.lastfm import lastfm
from stakes import expectation, fitting, plot, report, study
from stakes.app import runs, spec
from stakes.demos import newsvendor
from stakes.sklearn import DecisionRegressor
from stakes.study import LEVELS, Identity, MapInputs, Network
from stakes.study.options import Keys
from stakes.study.strategies.maps import Level, Monotone, Regressor, Shift

KEY = jax.random.key(0)
DATA = {"x": np.arange(4.0), "y": np.ones(4)}

VALUES: dict[str, Any] = {
    "None": None,
    "text": "VI",
    "number as text": "0.5",
    "bytes": b"1",
    "complex": 1j,
    "list": [1],
    "empty list": [],
    "tuple": (0.5, 0.5),
    "array": np.array([1.0, 2.0]),
    "JAX array": jnp.ones(3),
    "array of text": np.array("one"),
    "array of a truth value": np.array(True),
    "nan": float("nan"),
    "nan of NumPy": np.float32("nan"),
    "nan of JAX": jnp.array(jnp.nan),
    "inf": float("inf"),
    "-inf": -np.inf,
    "-1": -1,
    "0": 0,
    "-0.5": np.float64(-0.5),
    "1.5": 1.5,
    "True": True,
    "False": False,
    "truth value of NumPy": np.bool_(True),
    "too large": 10**400,
    "dict": {"row": 1},
    "set": {1},
    "class": stakes.Tilted,
    "type": int,
    "module": np,
    "object": object(),
    "function of none": lambda: 0,
    "function of five": lambda a, b, c, d, e: 0,
    "key": KEY,
    "loss": stakes.Absolute(),
    "utility": stakes.Utility(lambda outcome, decision: outcome * 0 + 1),
    "distribution": dist.Normal(0.0, 1.0),
}
BY_TYPE = {"True", "False", "truth value of NumPy"}
WORDS = {"text", "number as text"}
CALLABLE = {"function of none", "function of five", "loss", "utility", "distribution"}
MANY = {"list", "tuple", "array", "JAX array"}
LEGAL: dict[str, set[str]] = {
    "share": set(),
    "positive": {"1.5"},
    "positive, or many": {"1.5", "array", "JAX array"},
    "not negative": {"1.5", "0"},
    "not zero": {"1.5", "-1", "-0.5"},
    "share, may vary": {"tuple", "text"},
    "positive, may vary": {"1.5", "text", *MANY},
    "not negative, may vary": {"1.5", "0", "text", *MANY},
    "not zero, may vary": {"1.5", "-1", "-0.5", "text", *MANY},
    "open above": {"1.5", "0", "-1", "-0.5", "text", "inf", "None", *MANY},
    "open below": {"1.5", "0", "-1", "-0.5", "text", "-inf", "None", *MANY},
    "whole, open below": {"0", "-1", "text", "-inf", "None", *MANY} - {"tuple"},
    "whole, open above": {"0", "-1", "text", "inf", "None", *MANY} - {"tuple"},
    "one edge": {"list"},
    "actions": {"list", "array", "set"},
    "count": set(),
    "index": {"0"},
    "flag": BY_TYPE,
    "text": WORDS,
    "path": WORDS,
    "names": {"empty list", *WORDS},
    "numbers": {"list", "tuple", "array", "JAX array"},
    "positive numbers": {"list", "tuple", "array", "JAX array"},
    "labels": set(),
    "numbers or a name": {"list", "tuple", "array", "JAX array", *WORDS},
    "sequence": {"list", "tuple", "array", "JAX array"},
    "mapping": {"dict"},
    # Whatever can be called with an outcome and a decision may be a loss.
    "loss": {"loss", "utility", "distribution"},
    "guide": CALLABLE,
    "model": set(),
    "function of none": {"function of none", "distribution"},
    "function of one": {"distribution"},
    "function of three": {"distribution"},
    "key": {"key"},
    "utility": {"utility"},
    "distribution": {"distribution"},
    "own": set(),
}
"""What an argument is -> the values that it may have."""
LEGAL |= {f"{kind} or None": legal | {"None"} for kind, legal in LEGAL.items()}
TRACED = "traced"
"""Arrays inside a compiled program, and what is passed on as it is: not checked."""


@dataclass(frozen=True)
class Call:
    """A public function, valid arguments for it, and what each of them is."""

    function: Callable[..., Any]
    arguments: Callable[[], dict[str, Any]]
    kinds: Mapping[str, str]
    named: Mapping[str, str] = field(default_factory=dict)
    """What a message calls an argument, where that is another name."""
    works: bool = True
    """Whether the valid call is quick enough to be made as well."""

    def malformed(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        valid = self.arguments()
        for argument, kind in self.kinds.items():
            for name in VALUES.keys() - (VALUES.keys() if kind == TRACED else LEGAL[kind]):
                yield argument, name, {**valid, argument: VALUES[name]}


def model(x: Any, y: Any = None) -> None:
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)


def guide(x: Any, y: Any = None) -> None:
    numpyro.sample("slope", dist.Normal(numpyro.param("loc", 0.0), 0.1))


def _no_fit(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("A fit was started before the mistake was found.")


REFUSES = optax.GradientTransformation(_no_fit, _no_fit)
PROBLEM = stakes.Problem(model, outcome="y", loss=stakes.Tilted(0.2), guide=guide)
UTILITY = stakes.ExpUtility(stakes.Squared(), scale=2.0)


@cache
def plan() -> study.Plan:
    return study.prepare(KEY, PROBLEM, DATA, stakes.Options(transform=stakes.Linearized(scale=1)))


@cache
def fit() -> stakes.Fit:
    """Where a fit would start."""
    return stakes.Fit(**fields_of_fit())


def fields_of_fit() -> dict[str, Any]:
    return {
        "variables": {"params": plan().approximation.start},
        "elbo": np.zeros(3),
        "utility": np.zeros(3),
        "reason": stakes.Stop.CONVERGED,
        "skipped": 0,
        "seconds": 1.0,
        "step_seconds": 0.1,
    }


@cache
def result() -> stakes.Calibration:
    return stakes.Calibration(plan=plan(), keys=Keys.of(KEY), vi=fit(), calibrated=fit())


@cache
def plain_fits() -> seeds.PlainFits:
    approximation = plan().approximation
    return seeds.PlainFits(KEY[None], approximation, [approximation.start], [fit()])


@cache
def job() -> spec.Job:
    return spec.job_of({"model": {"example": "eight-schools"}}, Path(), where="spec")


@cache
def run() -> runs.Run:
    return runs.Run(runs.RunFolder(Path("run")), runs.Manifest.model_construct(), job())


def fields(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}


def no_choice() -> stakes.Choice:
    """Of no ways, so that none has the name that is asked for."""
    made = object.__new__(stakes.Choice)
    object.__setattr__(made, "scores", ())
    return made


class Mean:
    """A regressor."""

    def fit(self, X: Any, y: Any) -> None:  # noqa: N803
        self.mean = np.mean(y)

    def predict(self, X: Any) -> Any:  # noqa: N803
        return np.full(len(X), self.mean)


HEAD_DATA = {"inputs": MapInputs(np.ones(5), np.ones((5, len(LEVELS)))), "outcomes": np.ones(5)}
OPTIONS = {
    "transform": "own or None",
    "method": "own or None",
    "expectation": "own or None",
    "estimator": "own or None",
    "steps": "count",
    "draws": "count or None",
    "optimizer": "own or None",
    "independent": "flag",
    "all_steps": "flag",
    "warm_start": "flag",
}
CASES = {"new": "names", "known": "names", "coords": "labels or None"}
FITTED = {"key": "key", "problem": "own", "data": "own", "coords": "labels or None"}


def of_result(method: str, kinds: Mapping[str, str], **arguments: Any) -> Call:
    def called(**given: Any) -> Any:
        return getattr(result(), method)(**given)

    valid = {"data": DATA} if "data" in kinds else {}
    named = {"held_out": "data"}
    called.__wrapped__ = getattr(stakes.Calibration, method)  # type: ignore[attr-defined]
    return Call(called, lambda: {**valid, **arguments}, kinds, named, works=False)


CALLS: dict[str, Call] = {
    "Tilted": Call(stakes.Tilted, lambda: {"q": 0.2}, {"q": "share, may vary"}),
    "LinEx": Call(stakes.LinEx, lambda: {"c": -1}, {"c": "not zero, may vary"}),
    "Newsvendor": Call(
        stakes.Newsvendor,
        lambda: {"under": 3, "over": 1},
        dict.fromkeys(("under", "over"), "positive, may vary"),
    ),
    "Expectile": Call(stakes.Expectile, lambda: {"q": 0.2}, {"q": "share, may vary"}),
    "Huber": Call(stakes.Huber, lambda: {"delta": 1}, {"delta": "positive, may vary"}),
    "ZeroOne": Call(stakes.ZeroOne, lambda: {"width": 1}, {"width": "not negative, may vary"}),
    "IntervalScore": Call(
        stakes.IntervalScore, lambda: {"level": 0.9}, {"level": "share, may vary"}
    ),
    "Vector": Call(
        stakes.Vector,
        lambda: {"parts": stakes.Real(), "others": stakes.Real()},
        {"parts": "own"},
    ),
    "CostTable": Call(
        stakes.CostTable,
        lambda: {"costs": {"call": [5, 1], "skip": [0, 20]}, "bins": None},
        {"costs": "own", "bins": "one edge or None"},
    ),
    "Interval": Call(stakes.Interval, dict, {"low": "open below", "high": "open above"}),
    "Integers": Call(
        stakes.Integers, dict, {"low": "whole, open below", "high": "whole, open above"}
    ),
    "OneOf": Call(stakes.OneOf, lambda: {"labels": ["call", "skip"]}, {"labels": "actions"}),
    "Utility": Call(
        stakes.Utility,
        lambda: {"fn": stakes.Squared(), "infimum": 0, "regret": True},
        {"fn": "loss", "infimum": "not negative", "regret": "flag"},
    ),
    "ExpUtility": Call(
        stakes.ExpUtility,
        lambda: {"loss": stakes.Squared(), "scale": 1.0, "regret": True},
        {"loss": "loss", "scale": "positive, or many", "regret": "flag"},
    ),
    **{
        transform.__name__: Call(
            transform,
            lambda: {"quantile": 0.9, "scale": None, "regret": True},
            {"quantile": "share", "scale": "positive or None", "regret": "flag"},
        )
        for transform in (stakes.Linearized, stakes.Exponential)
    },
    **{
        f"{transform}(...)": Call(
            transform,
            lambda: {"loss": stakes.Squared(), "scale": 1.0},
            {"loss": "loss", "scale": "positive, or many"},
        )
        for transform in (stakes.Linearized(), stakes.Exponential())
    },
    "Linearized.at": Call(stakes.Linearized().at, lambda: {"scale": 1}, {"scale": "positive"}),
    "Linearized.fitted": Call(
        stakes.Linearized().fitted, lambda: {"losses": np.ones(3)}, {"losses": "numbers"}
    ),
    **{
        f"{estimator}.term": Call(
            estimator.term,
            lambda: {"utility": UTILITY, "expectation": stakes.ClosedForm()},
            {"utility": "utility", "expectation": "own"},
        )
        for estimator in (stakes.Nested(), stakes.Jensen(), stakes.Taylor())
    },
    "MonteCarlo": Call(stakes.MonteCarlo, lambda: {"draws": 3}, {"draws": "count"}),
    "Enumeration": Call(
        stakes.Enumeration,
        lambda: {"points": 64, "stretches": 0},
        {"points": "count or None", "stretches": "index"},
    ),
    "Quadrature": Call(stakes.Quadrature, lambda: {"points": 64}, {"points": "count or None"}),
    "Componentwise": Call(
        stakes.Componentwise,
        lambda: {"count": 2, "by": stakes.Quadrature()},
        {"count": "count", "by": "own"},
    ),
    "ScoreFunction": Call(stakes.ScoreFunction, lambda: {"draws": 3}, {"draws": "count"}),
    "EM": Call(
        stakes.EM,
        lambda: {"m_step": stakes.BayesDecisions(), "draws": 3, "every": 2},
        {"m_step": "own or None", "draws": "count or None", "every": "count"},
    ),
    "keep_compiled": Call(
        stakes.keep_compiled,
        lambda: {"folder": "programs"},
        {"folder": "path or None"},
        works=False,
    ),
    "natural_gradient": Call(
        stakes.natural_gradient,
        lambda: {"rate": 0.1, "adam": 0.1},
        {"rate": "share", "adam": "positive"},
    ),
    "Options": Call(stakes.Options, dict, OPTIONS),
    "FitSettings": Call(
        fitting.FitSettings,
        dict,
        {
            "steps": "count",
            "draws": "count",
            "independent": "flag",
            "optimizer": "own or None",
            "chunk": "count",
            "patience": "count",
            "all_steps": "flag",
            "sweep": "index",
            "progress": "flag",
        },
    ),
    "Problem": Call(
        stakes.Problem,
        lambda: {"model": model, "outcome": "y", "loss": stakes.Squared()},
        {
            "model": "guide",
            "outcome": "text",
            "loss": "loss",
            "utility": "own or None",
            "guide": "guide or None",
            "decision": "own or None",
            "per": "text or None",
            "together": "flag",
            "observed": "own or None",
        },
        named={"model": "model|argument"},
    ),
    "Problem of a utility": Call(
        stakes.Problem,
        lambda: {"model": model, "outcome": "y", "utility": UTILITY},
        {"loss": "own or None", "utility": "utility"},
    ),
    "CalibratedELBO": Call(
        stakes.CalibratedELBO,
        lambda: {"problem": PROBLEM, "scale": 1.0},
        {
            "problem": "own",
            "scale": "positive",
            "transform": "own or None",
            "expectation": "own or None",
            "estimator": "own or None",
            "draws": "count",
            "decisions": "numbers or None",
        },
    ),
    "formula": Call(
        stakes.formula,
        lambda: {"text": "y ~ x", "data": pd.DataFrame({"x": [1.0, 2.0], "y": [0.0, 1.0]})},
        {
            "text": "own",
            "data": "own",
            "family": "own",
            "link": "own or None",
            "priors": "own or None",
        },
    ),
    "calibrate": Call(
        stakes.calibrate,
        lambda: {"key": KEY, "problem": PROBLEM, "data": DATA, "optimizer": REFUSES},
        {**FITTED, **OPTIONS, "progress": "flag", "journal": "own or None", "on": "own or None"},
        works=False,
    ),
    "calibrate with options": Call(
        stakes.calibrate,
        lambda: {"key": KEY, "problem": PROBLEM, "data": DATA},
        {"options": "own or None"},
        works=False,
    ),
    "Study": Call(
        study.Study,
        lambda: {"key": KEY, "problem": PROBLEM, "data": DATA, "options": stakes.Options()},
        {**FITTED, "options": "own", "folds": TRACED, "by": TRACED, "work": TRACED},
        works=False,
    ),
    "Work": Call(
        study.Work,
        dict,
        {
            "progress": "flag",
            "journal": "own or None",
            "client": TRACED,
            "processes": TRACED,
            "before": TRACED,
        },
    ),
    "prepare": Call(
        study.prepare,
        lambda: {"key": KEY, "problem": PROBLEM, "data": DATA, "options": stakes.Options()},
        {**FITTED, "options": "own", "progress": "flag", "approximation": "own or None"},
        works=False,
    ),
    "Fit": Call(
        stakes.Fit,
        fields_of_fit,
        {
            "variables": "own",
            "elbo": "own",
            "utility": "own",
            "reason": "own",
            "skipped": "index",
            "seconds": "not negative",
            "step_seconds": TRACED,
        },
    ),
    "Calibration": Call(
        stakes.Calibration,
        lambda: fields(result()),
        {
            "plan": "own",
            "keys": "own",
            "vi": "own",
            "calibrated": "own",
            "by": TRACED,
            "beyond": TRACED,
            "home": TRACED,
        },
    ),
    "Comparison": Call(
        stakes.Comparison,
        lambda: {
            "costs": {"VI": np.ones(3), "LCVI": np.zeros(3)},
            "gain": False,
            "setting": "",
            "held_out": False,
            "notes": (),
        },
        {
            "costs": "own",
            "gain": "flag",
            "setting": "text",
            "held_out": "flag",
            "notes": "names",
            "nuts": "own or None",
            "dependence": "own",
            "base": "text",
            "widening": "positive or None",
        },
    ),
    "Clustered": Call(
        study.Clustered,
        lambda: {"groups": ["a", "b", "a"], "name": "shop"},
        {"groups": "sequence", "name": "text"},
    ),
    "Ordered": Call(stakes.Ordered, dict, {"together": "sequence or None"}),
    "Crossed": Call(
        study.Crossed,
        lambda: {"groups": ([0, 0, 1], ["a", "b", "a"]), "names": ("user", "item")},
        {"groups": "own", "names": "own"},
    ),
    "interval": Call(
        study.interval,
        lambda: {"base": np.ones(5), "other": np.zeros(5), "dependence": stakes.Independent()},
        {"base": "own", "other": "own", "dependence": "own"},
        named={"base": "base|other"},
    ),
    "dependence_of": Call(
        study.dependence_of,
        lambda: {"by": None, "predictor": plan().predictors.on(), "counted": None},
        {"by": "own or None", "predictor": "own", "counted": "own or None"},
    ),
    "decide": of_result("decide", {"data": "own", **CASES, "fit": "own or None"}),
    "assess": of_result("assess", {"data": "own", **CASES, "by": "own or None"}),
    "compare": of_result(
        "compare",
        {"held_out": "own or None", **CASES, "nuts": "count or None", "by": "own or None"},
    ),
    "leave_one_out": of_result("leave_one_out", {"draws": "count", "by": "own or None"}),
    "observed": of_result("observed", {"data": "own or None", **CASES}),
    "posterior": of_result("posterior", {"fit": "own or None", "draws": "count"}),
    "latent_draws": of_result(
        "latent_draws",
        {"fit": "own or None", "draws": "count", "part": "index"},
        fit=None,
        draws=1,
        part=0,
    ),
    "predictive": of_result(
        "predictive", {"data": "own or None", "fit": "own or None", "draws": "count", **CASES}
    ),
    "predictive_scale": of_result("predictive_scale", {"quantile": "share", "draws": "count"}),
    "expected": of_result(
        "expected",
        {
            "decisions": "numbers",
            "draws": "count",
            "data": "own or None",
            "fit": "own or None",
            "new": "names",
            "known": "names",
            "coords": "labels or None",
        },
        decisions=[1.0],
    ),
    "to_arviz": of_result("to_arviz", {"draws": "count"}),
    "nuts": of_result("nuts", {"draws": "count"}),
    "Cases.decide": Call(
        lambda posterior: result().on_fit.decide(posterior),
        dict,
        {"posterior": "own"},
        works=False,
    ),
    "Cases.compared": Call(
        lambda nuts=None, by=None: result().on_fit.compared(nuts, by=by),
        dict,
        {"nuts": "own or None", "by": "own or None"},
        works=False,
    ),
    "Cases.predictive": Call(
        lambda posterior, draws: result().on_fit.predictive(posterior, draws),
        lambda: {"posterior": result().on_fit.posteriors["VI"], "draws": 1},
        {"posterior": "own", "draws": "count"},
        works=False,
    ),
    "Cases": Call(
        study.Cases,
        lambda: fields(result().on_fit),
        {
            "problem": "own",
            "start": "own",
            "posteriors": "mapping",
            "predictor": "own",
            "expectation": "own",
            "keys": "own",
            "coords": "mapping",
            "setting": "text",
            "unconverged": "names",
            "held_out": "flag",
            "by": TRACED,
            "asked": TRACED,
            "most_draws": TRACED,
        },
    ),
    "fit_vi": Call(
        seeds.fit_vi,
        lambda: {"keys": jax.random.split(KEY), "plan": plan()},
        {
            "keys": "own",
            "plan": "own",
            "watch": "function of one or None",
            "together": "count or None",
            "on": "own or None",
        },
        works=False,
    ),
    "continued": Call(
        seeds.continued,
        lambda: {"plain": plain_fits(), "plan": plan()},
        {"plain": "own", "plan": "own"},
        works=False,
    ),
    "calibrate_seeds": Call(
        seeds.calibrate_seeds,
        lambda: {"plain": plain_fits(), "plan": plan()},
        {
            "plain": "own",
            "plan": "own",
            "watch": "function of one or None",
            "together": "count or None",
            "on": "own or None",
        },
        works=False,
    ),
    "calibrate_scales": Call(
        seeds.calibrate_scales,
        lambda: {"plain": plain_fits(), "plan": plan(), "scales": [1.0]},
        {"plain": "own", "plan": "own", "scales": "positive numbers"},
        works=False,
    ),
    "ascend": Call(
        fitting.ascend,
        lambda: {
            "optimizer": optax.sgd(0.1),
            "objective": jnp.sum,
            "trained": {},
            "trained_rows": {},
            "state": fitting.State({}, (), jnp.ones(()), jnp.zeros(()), jnp.zeros(())),
        },
        {
            "optimizer": "own",
            "objective": "function of one",
            "trained": TRACED,
            "trained_rows": TRACED,
            "chart": TRACED,
            "normals": TRACED,
            "division": TRACED,
            "state": "own",
        },
        works=False,
    ),
    "bound": Call(
        fitting.bound,
        lambda: {
            "approximation": plan().approximation,
            "term": None,
            "draws": 1,
            "key": KEY,
            "batch": {},
            "params": {},
            "decisions": None,
        },
        {
            "approximation": TRACED,
            "term": "function of three or None",
            "draws": "count",
            "independent": "flag",
            "key": TRACED,
            "batch": TRACED,
            "params": TRACED,
            "decisions": TRACED,
            "parts": TRACED,
        },
        works=False,
    ),
    **{
        f"stats.{statistic.__name__}": Call(
            lambda outcome, statistic=statistic, **others: statistic(outcome, *others.values()),
            lambda others=others: {"outcome": dist.Normal(0.0, 1.0), **others},
            {"outcome": "distribution", **dict.fromkeys(others, TRACED)},
            works=False,
        )
        for statistic, others in (
            (expectation.stats.mean, {}),
            (expectation.stats.variance, {}),
            (expectation.stats.cdf, {"value": 0.0}),
            (expectation.stats.tails, {"decision": 0.0, "above": 1.0, "below": 1.0}),
            (expectation.stats.cumulant, {"t": 1.0}),
            (expectation.stats.log_tails, {"decision": 0.0, "above": 1.0, "below": 1.0}),
            (expectation.stats.log_kernel, {"decision": 0.0, "width": 1.0}),
            (expectation.stats.few_values, {}),
            (expectation.stats.largest_value, {}),
            (expectation.stats.is_discrete, {}),
        )
    },
    "summarise": Call(
        report.summarise,
        lambda: {"result": result(), "title": "A line"},
        {
            "result": "own",
            "title": "text",
            "held_out": "own or None",
            "nuts": "count or None",
            "rows": "own or None",
            "choice": "own or None",
            "unit": "text or None",
            "origin": "own or None",
        },
        works=False,
    ),
    "Rows": Call(
        report.Rows,
        lambda: {"part": "fit", "cases": result().on_fit},
        {
            "part": "own",
            "cases": "own",
            "where": "text",
            "labels": "labels or None",
            "inputs": "mapping",
            "decided": "numbers or None",
            "drawn": "numbers or None",
            "others": "mapping",
            "doubts": "names",
            "basis": "text",
            "about": "text",
        },
    ),
    "plot.decisions": Call(plot.decisions, dict, {"result": "own"}, works=False),
    **{
        f"plot.{drawn.__name__} on axes": Call(
            drawn, lambda: {"result": result()}, {"ax": "own or None"}, works=False
        )
        for drawn in (plot.decisions, plot.expected_loss, plot.reduction, plot.posterior)
    },
    "plot.expected_loss": Call(
        plot.expected_loss,
        lambda: {"result": result()},
        {"result": "own", "case": "index", "draws": "count", "decisions": TRACED},
        works=False,
    ),
    "plot.reduction": Call(plot.reduction, dict, {"result": "own"}, works=False),
    "plot.posterior": Call(
        plot.posterior,
        lambda: {"result": result()},
        {"result": "own", "latent": "index"},
        works=False,
    ),
    "render": Call(report.render, dict, {"report": "own"}, works=False),
    "write": Call(report.write, lambda: {"path": "page.html"}, {"report": "own"}, works=False),
    "write to a path": Call(report.write, lambda: {"report": None}, {"path": "path"}, works=False),
    "lastfm": Call(lastfm, dict, {"path": "path"}, works=False),
    "newsvendor.problem": Call(
        newsvendor.problem,
        lambda: {"underage": 3, "overage": 1},
        {"underage": "positive", "overage": "positive"},
    ),
    "newsvendor.data": Call(newsvendor.data, dict, {"dish": "own"}, works=False),
    "newsvendor.held_out": Call(newsvendor.held_out, dict, {"dish": "own"}, works=False),
    "radon.problem": Call(radon.problem, dict, {"caution": "not zero"}),
    "retail.matrix": Call(retail.matrix, dict, {"seed": "index"}, works=False),
    "retail.data": Call(retail.data, dict, {"seed": "index"}, works=False),
    "retail.held_out": Call(retail.held_out, dict, {"seed": "index"}, works=False),
    "matrix_factorization.simulate": Call(
        matrix_factorization.simulate,
        lambda: {"rows": 4, "columns": 3, "factors": 2},
        {"rows": "count", "columns": "count", "factors": "count", "seed": "index"},
    ),
    "read_job": Call(
        spec.read_job,
        lambda: {"path": "spec.toml"},
        {"path": "path", "choose": "flag", "changes": "names"},
        works=False,
    ),
    "begin": Call(
        runs.begin,
        lambda: {"job": job(), "path": "run", "command": "stakes run"},
        {"job": "own", "path": "path", "command": "text"},
        works=False,
    ),
    "reopen": Call(
        runs.reopen,
        lambda: {"path": "run"},
        {"path": "path", "allow_changed_model": "flag", "model": "path or None"},
        works=False,
    ),
    "checked": Call(runs.checked, dict, {"job": "own"}, works=False),
    "restore": Call(runs.restore, dict, {"run": "own"}, works=False),
    "rewrite_report": Call(
        runs.rewrite_report,
        lambda: {"run": run()},
        {"run": "own", "table": "path or None", "changes": "names"},
        works=False,
    ),
    "carry_out": Call(
        runs.carry_out,
        lambda: {"run": run(), "report": False, "progress": False},
        {
            "run": "own",
            "report": "flag",
            "progress": "flag",
            "on": "own or None",
        },
        works=False,
    ),
    "decide_file": Call(
        runs.decide_file,
        lambda: {"run": run(), "source": "new.csv", "target": "decided.csv"},
        {
            "run": "own",
            "source": "path",
            "target": "path",
            "known": "flag",
            "way": "text or None",
            "changes": "names",
            "overwrite": "flag",
            "tell": "function of one",
        },
        works=False,
    ),
    "choose": Call(
        stakes.choose,
        lambda: {"key": KEY, "problem": PROBLEM, "data": DATA, "folds": 2, "optimizer": REFUSES},
        {
            **FITTED,
            "ways": "own or None",
            "folds": "count",
            "by": "own or None",
            "steps": "count",
            "draws": "count or None",
            "optimizer": "own or None",
            "progress": "flag",
            "on": "own or None",
        },
        works=False,
    ),
    "choose with options": Call(
        stakes.choose,
        lambda: {"key": KEY, "problem": PROBLEM, "data": DATA, "folds": 2},
        {"options": "own or None"},
        works=False,
    ),
    "map": Call(
        stakes.map,
        lambda: {"key": KEY, "problem_for": lambda group, data: PROBLEM, "groups": {"one": DATA}},
        {
            "key": "key",
            "problem_for": "loss",
            "groups": "mapping",
            "solve": "function of three",
            "decide": "own or None",
            "on": "own or None",
            "progress": "flag",
            "options": TRACED,
        },
        works=False,
    ),
    "Stream": Call(
        stakes.Stream,
        lambda: {"source": "sales.parquet", "constants": {"shops": 3}, "scratch": None},
        {"source": "path", "constants": "mapping", "scratch": "path or None"},
    ),
    "Answers": Call(
        stakes.Answers,
        lambda: {"answers": {}, "failures": {}},
        {"answers": "mapping", "failures": "mapping"},
    ),
    "Choice": Call(
        stakes.Choice,
        lambda: {"study": None, "strategies": (), "scores": ()},
        {
            "study": "own",
            "strategies": "own",
            "scores": "own",
            "left_out": "mapping",
            "not_tried": "text",
        },
        works=False,
    ),
    "Choice.saving": Call(
        lambda **given: no_choice().saving(**given), dict, {"than": "own"}, works=False
    ),
    "Choice.decide": Call(
        lambda **given: no_choice().decide(DATA, **given), dict, {"way": "own or None"}, works=False
    ),
    "DecisionRegressor": Call(
        lambda **given: DecisionRegressor(**given).fit(DATA["x"][:, None], DATA["y"]),
        lambda: {"steps": 10},
        {"model": "own or None", "loss": "loss or None", "steps": "count"},
        named={"model": "model|formula|data"},  # any function may be a model, any text a formula
        works=False,
    ),
    "DecisionRegressor of a formula": Call(
        lambda **given: DecisionRegressor("y ~ x0", **given).fit(DATA["x"][:, None], DATA["y"]),
        dict,
        {"family": "own", "priors": "own or None"},
        works=False,
    ),
    "Plain": Call(stakes.Plain, dict, {"guide": "guide or None"}),
    "Calibrated": Call(
        stakes.Calibrated,
        dict,
        {"transform": "own or None", "strength": "positive", "guide": "guide or None"},
    ),
    "NUTS": Call(stakes.NUTS, dict, {"draws": "count", "warmup": "count"}),
    "Reweighted": Call(stakes.Reweighted, dict, {"base": "own", "draws": "count"}),
    "Corrected": Call(stakes.Corrected, dict, {"base": "own", "head": "own"}),
    "Given": Call(stakes.Given, lambda: {"decisions": [1.0]}, {"decisions": "numbers or a name"}),
    "Forward": Call(
        stakes.Forward,
        dict,
        {"blocks": "count", "start": "share", "together": "numbers or None"},
    ),
    "Network": Call(
        Network,
        lambda: {"width": 8, "epochs": 3, "covariates": ("day",)},
        {"width": "count", "epochs": "count", "covariates": "names"},
    ),
    "Regressor": Call(
        Regressor,
        lambda: {"estimator": Mean(), "covariates": "day"},
        {"estimator": "own", "covariates": "names"},
    ),
    **{
        f"{head.title}.fit": Call(
            head.fit,
            lambda: {**HEAD_DATA, "key": KEY, "criterion": UTILITY},
            {"key": "key", "inputs": "own", "outcomes": "own", "criterion": "utility"},
            works=False,
        )
        for head in (Shift(), Level(), Monotone(), Network(), Regressor(Mean()))
    },
    "Unchanged.decide": Call(
        Identity().decide, lambda: {"inputs": HEAD_DATA["inputs"]}, {"inputs": "own"}
    ),
    "RunFolder": Call(runs.RunFolder, lambda: {"path": "run"}, {"path": "path"}),
}


DEAR = {"choose"}
"""Calls that trace the model before they come to some of their arguments."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in DEAR else n for n in CALLS]
)
def test_a_malformed_call_is_refused_by_an_error_that_names_the_argument(name: str) -> None:
    call, wrong = CALLS[name], []
    for argument, value, given in call.malformed():
        try:
            call.function(**given)
        except stakes.StakesError as error:
            if not re.search(rf"\b({call.named.get(argument, argument)})\b", str(error)):
                wrong.append(f"{argument}={value}: {error}")
        except Exception as error:
            wrong.append(f"{argument}={value}: {type(error).__name__}: {error}")
        else:
            wrong.append(f"{argument}={value}: accepted")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if call.works])
def test_the_call_is_accepted_with_valid_arguments(name: str) -> None:
    CALLS[name].function(**CALLS[name].arguments())


@pytest.mark.parametrize("convert", [np.int64, np.uint8, np.array, jnp.array])
def test_whole_numbers_of_numpy_and_jax_become_plain_ones(convert: Callable[[int], Any]) -> None:
    ten = convert(10)
    options = stakes.Options(steps=ten, draws=ten)
    counts = [
        options.steps,
        options.draws,
        stakes.EM(draws=ten).draws,
        stakes.MonteCarlo(ten).draws,
        stakes.Enumeration(ten).points,
        stakes.Quadrature(ten).points,
    ]
    assert [(type(count), count) for count in counts] == [(int, 10)] * len(counts)
    assert options == stakes.Options(steps=10, draws=10)


FLAGGED = ("Utility", "ExpUtility", "Linearized", "Exponential", "Options", "FitSettings")


@pytest.mark.parametrize("name", [*FLAGGED, "Comparison", "Cases"])
def test_truth_values_of_numpy_become_plain_ones(name: str) -> None:
    """They are part of what compiled programs are kept by, and of what is written as JSON."""
    call = CALLS[name]
    flags = [argument for argument, kind in call.kinds.items() if kind == "flag"]
    made = call.function(**{**call.arguments(), **dict.fromkeys(flags, np.bool_(False))})
    assert flags
    assert [getattr(made, flag) for flag in flags] == [False] * len(flags)
    assert {type(getattr(made, flag)) for flag in flags} == {bool}


@pytest.mark.parametrize("convert", [np.float32, np.float64, np.array, jnp.array])
def test_numbers_of_numpy_and_jax_become_plain_ones(convert: Callable[[float], Any]) -> None:
    half = convert(0.5)
    numbers = [
        stakes.Tilted(half).q,
        stakes.LinEx(half).c,
        stakes.Exponential(half, half).quantile,
        stakes.Exponential(half, half).scale,
        stakes.ExpUtility(stakes.Squared(), half).scale,
    ]
    assert [(type(number), number) for number in numbers] == [(float, 0.5)] * len(numbers)
    assert stakes.Tilted(half) == stakes.Tilted(0.5)


def test_a_utility_is_no_estimator_although_it_has_a_term() -> None:
    utility = stakes.Utility(lambda outcome, decision: outcome * 0 + 1)
    with pytest.raises(stakes.InputError, match=r"`estimator=`.*whose 'term' takes other arg"):
        stakes.Options(estimator=utility)


def test_a_thousand_malformed_calls_are_generated() -> None:
    assert sum(1 for call in CALLS.values() for _ in call.malformed()) >= 1000


def test_every_argument_of_everything_public_is_in_the_table() -> None:
    """A new argument has to say what it may be."""
    said: dict[Any, set[str]] = {}
    for call in CALLS.values():
        if getattr(call.function, "__name__", "") != "<lambda>":
            said.setdefault(call.function, {"self"}).update(call.kinds)
    for function, arguments in said.items():
        assert inspect.signature(function).parameters.keys() <= arguments, function
    for name in set(stakes.__all__) - {"datasets", "plot"}:
        public = getattr(stakes, name)
        of_its_own = not isinstance(public, type) or not issubclass(public, Exception | str)
        assert not of_its_own or not inspect.signature(public).parameters or public in said, name
