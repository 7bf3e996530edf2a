"""Models from formulas: what they stand for, what is remembered, and what is refused."""

import itertools
import sys
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro.infer import Predictive
from numpyro.infer.util import log_density
from quick import quickly
from scipy import special, stats

import stakes
from stakes.formulas import FAMILIES
from stakes.formulas.design import Design
from stakes.report import before_data, moved_latents
from stakes.study import Keys, prepare

KEY = jax.random.key(0)
SLOW = pytest.mark.slow
ROWS = 40
RIGHT = (
    "weekday * x + bs(x, df=4) + poly(e, 2) + scale(e) + offset(log(e)) + day_weekday "
    "+ (x | store) + (1 | store:weekday)"
)
RESPONSES = {
    "normal": "real",
    "student": "real",
    "lognormal": "positive",
    "poisson": "count",
    "negative binomial": "count",
    "zero-inflated poisson": "count",
    "zero-inflated negative binomial": "count",
    "bernoulli": "flag",
    "binomial": "p(hits, shots)",
    "gamma": "positive",
    "beta": "share",
    "ordinal": "grade",
}


@cache
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    grades = pd.Categorical.from_codes(rng.integers(0, 4, ROWS), list("abcd"), ordered=True)
    return pd.DataFrame(
        {
            "x": 10 + 3 * rng.normal(size=ROWS),
            "e": 1 + rng.random(ROWS),
            "weekday": np.array(["mon", "tue", "wed"])[np.arange(ROWS) % 3],
            "store": np.array(list("pqrst"))[np.arange(ROWS) % 5],
            "day": pd.date_range("2024-01-01", periods=ROWS),
            "real": rng.normal(size=ROWS) + np.arange(ROWS) % 5,
            "positive": rng.gamma(3, 1, ROWS),
            "count": rng.poisson(3, ROWS),
            "flag": rng.random(ROWS) < 0.4,
            "share": rng.beta(2, 3, ROWS),
            "hits": rng.binomial(9, 0.4, ROWS),
            "shots": 9,
            "grade": grades,
        }
    )


def arguments(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = model.read_table(table(), needs_outcome=True).arguments
    return found


def small(model: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Values for all latents, of which none leads far away."""
    trace = numpyro.handlers.trace(numpyro.handlers.seed(model, KEY)).get_trace(**given)
    latents = {n: s for n, s in trace.items() if s["type"] == "sample" and not s["is_observed"]}
    numbers = itertools.count(1)
    return {n: 0.1 * jnp.abs(s["value"]) + 0.01 * next(numbers) for n, s in latents.items()}


@pytest.mark.some(1)
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize(
    "family",
    [
        name if name in ("normal", "binomial", "ordinal") else pytest.param(name, marks=SLOW)
        for name in FAMILIES
    ],
)
def test_the_source_of_a_model_has_the_same_log_density(family: str) -> None:
    model = stakes.formula(f"{RESPONSES[family]} ~ {RIGHT}", table(), family=family)
    given = arguments(model)
    values = small(model, given)
    program: dict[str, Any] = {}
    exec(model.source(), program)
    ours, theirs = quickly(
        lambda values: [log_density(of, (), given, values)[0] for of in (model, program["model"])],
        values,
    )
    assert np.isfinite(ours)
    # Some priors are made in single precision, when the library is imported.
    np.testing.assert_allclose(ours, theirs, rtol=1e-8)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("family", ["normal", "poisson", "gamma", "beta", "binomial", "ordinal"])
def test_the_likelihood_is_what_the_formula_says(family: str) -> None:
    """Everything on the right is written out by hand, and the density is SciPy's."""
    text = "weekday + x + weekday:x + offset(log(e)) + (x | store)"
    model = stakes.formula(f"{RESPONSES[family]} ~ {text}", table(), family=family)
    given = arguments(model)
    with numpyro.handlers.substitute(data=small(model, given)):
        trace = numpyro.handlers.trace(numpyro.handlers.seed(model, KEY)).get_trace(**given)
    value = {name: np.asarray(site["value"]) for name, site in trace.items()}
    frame, store = table(), np.arange(ROWS) % 5
    away = (frame.x - frame.x.mean()).to_numpy()
    eta = np.log(frame.e.to_numpy()) + frame.x.mean() * 0 + away * value["x"]
    eta = eta + (0 if family == "ordinal" else value["intercept"])
    for at, word in enumerate(["tue", "wed"]):
        here = (frame.weekday == word).to_numpy(float)
        eta = eta + (here - here.mean()) * value["weekday"][at]
        both = here * frame.x.to_numpy()
        eta = eta + (both - both.mean()) * value["weekday:x"][at]
    eta = eta + value["1|store"][store] + away * value["x|store"][store]
    y = frame[model.response]
    expected = {
        "normal": lambda: stats.norm.logpdf(y, eta, value["sigma"]),
        "poisson": lambda: stats.poisson.logpmf(y, np.exp(eta)),
        "gamma": lambda: stats.gamma.logpdf(y, value["alpha"], scale=np.exp(eta) / value["alpha"]),
        "beta": lambda: stats.beta.logpdf(
            y, special.expit(eta) * value["phi"], special.expit(-eta) * value["phi"]
        ),
        "binomial": lambda: stats.binom.logpmf(y, 9, special.expit(eta)),
        "ordinal": lambda: _ordinal(y.cat.codes.to_numpy(), eta, value["cutpoints"]),
    }[family]()
    site = trace[model.response]
    np.testing.assert_allclose(site["fn"].log_prob(site["value"]), expected, rtol=1e-5)


def _ordinal(codes: np.ndarray, eta: np.ndarray, cutpoints: np.ndarray) -> np.ndarray:
    below = special.expit(np.concatenate([[-np.inf], cutpoints, [np.inf]]) - eta[:, None])
    return np.log(np.diff(below, axis=1)[np.arange(len(codes)), codes])


def test_other_rows_get_the_columns_that_they_would_have_in_the_fit() -> None:
    model = stakes.formula(f"real ~ {RIGHT}", table())
    whole = arguments(model)
    rows = [7, 3]
    some = model.read_table(table().iloc[rows].drop(columns="real"), needs_outcome=False)
    for name in ("design", "offset", "store_design_1"):
        np.testing.assert_allclose(some.arguments[name], whole[name][rows], rtol=1e-12)
    assert some.members == {"store": ("r", "s"), "store_weekday": ("r:tue", "s:mon")}
    assert "real" not in some.arguments


@cache
def result() -> stakes.Calibration:
    """As if fitted: the stores q and r are five above and below the others."""
    model = stakes.formula("real ~ x + (1 | store)", table())
    problem = stakes.Problem(model, outcome="real", loss=stakes.Tilted(0.2))
    options = stakes.Options(transform=stakes.Linearized(scale=1))
    plan = prepare(KEY, problem, table(), options)
    params = {
        name: jnp.full_like(value, -5 if "scale" in name else 0)
        for name, value in plan.approximation.start.items()
    }
    sigma = float(model.priors["1|store_sigma"].scale)
    params["1|store_offset_auto_loc"] = jnp.array([0, 5, -5, 0, 0]) / sigma
    fit = stakes.Fit(
        {"params": params}, np.zeros(3), np.zeros(3), stakes.Stop.CONVERGED, 0, 1.0, 0.1
    )
    return stakes.Calibration(plan=plan, keys=Keys.of(KEY), vi=fit, calibrated=fit)


def test_decisions_for_other_tables_use_what_was_learned_of_their_groups() -> None:
    new = table().iloc[[0, 0, 0]].drop(columns="real").assign(store=["r", "q", "Ulm"])
    decided = result().decide(new.set_axis(["a", "b", "c"]))
    assert list(decided.index) == ["a", "b", "c"]
    np.testing.assert_allclose(decided["b"] - decided["a"], 10, atol=0.1)
    # Of a new store, nothing is known but how much stores differ.
    sigma = float(result().problem.model.priors["1|store_sigma"].scale)
    noise = float(result().problem.model.priors["sigma"].scale)
    shift = np.hypot(sigma, noise) * stats.norm.ppf(0.2) - noise * stats.norm.ppf(0.2)
    middle = (decided["a"] + decided["b"]) / 2
    np.testing.assert_allclose(decided["c"] - middle, shift, atol=0.15 * sigma)


def test_groups_are_labels_of_what_is_learned() -> None:
    posterior = result().posterior(draws=10)
    assert posterior["1|store"].dims == ("chain", "draw", "store")
    assert list(posterior["store"].values) == list("pqrst")


@pytest.mark.parametrize("family", ["ordinal", "normal"])
def test_effects_are_the_sites_that_a_model_derives(family: str) -> None:
    """Told from the latents alone, in words; the oracle is the model itself."""
    text = f"{RESPONSES[family]} ~ x + C(day_weekday) + weekday:x + (x | store)"
    model = stakes.formula(text, table(), family=family)
    draws = Predictive(model, num_samples=5)(KEY, **arguments(model))
    latents = {name: draws[name] for name in draws if name.endswith(("_decentered", "_offset"))}
    own = {name: draws[name] for name in model.priors if name not in latents and name in draws}
    found = model.effects(latents | own)
    assert set(found) == set(draws) - set(latents) - {model.response}
    for name, values in found.items():
        np.testing.assert_allclose(values, draws[name], rtol=1e-5)
    stores = {"store": list("pqrst")}
    assert model.title("1|store", (1,), stores) == "store: q"
    assert model.title("x|store", (1,), stores) == "x by store: q"
    assert model.title("1|store_sigma", (), stores) == "store: spread between groups"
    assert model.title("C(day_weekday)", (0,), stores) == "day_weekday: Tuesday"
    assert model.title("x", (), stores) == "x"


def test_the_report_calls_effects_by_their_names() -> None:
    moved = moved_latents(result(), None).marginals
    named = {marginal.name: marginal for marginal in moved}
    assert set(named) <= {"x", "intercept", "sigma", "store: spread between groups"} | {
        f"store: {store}" for store in "pqrst"
    }
    for marginal in moved:
        assert before_data(result(), marginal.element, 10).shape == (10,)


def test_priors_follow_the_scale_of_the_data_and_can_be_replaced() -> None:
    frame = table().assign(real=1000 + 50 * table().real, x=table().x / 100)
    usual, wide = (stakes.formula("real ~ x", data) for data in (table(), frame))
    assert wide.priors["x"].scale == pytest.approx(5000 * usual.priors["x"].scale, rel=1e-5)
    assert wide.priors["intercept"].loc == pytest.approx(frame.real.mean())
    own = stakes.formula("real ~ x", frame, priors={"x": dist.Laplace(0, 3)})
    assert "x: dist.Laplace(loc=0, scale=3): as you said" in str(own)
    assert "numpyro.sample('x', dist.Laplace(loc=0.0, scale=3.0))" in own.source()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"text": "count ~ x", "family": "bernoulli"}, r"0 or 1; 'count' is \d in row \d"),
        ({"text": "real ~ x", "family": "gamma"}, r"above zero; 'real' is -"),
        ({"text": "hits ~ x", "family": "binomial"}, r"`p\(hits, shots\)"),
        ({"text": "p(hits, shots) ~ x", "family": "poisson"}, r"belong to the family 'binomial'"),
        ({"text": "real ~ x", "link": "logit"}, r"`formula\(link=...\)` must be one of 'identity'"),
        ({"text": "real ~ x", "priors": {"z": dist.Normal(0, 1)}}, r"names 'z'; there are 'inter"),
        ({"text": "real ~ x", "priors": {"sigma": dist.Normal(0, 1)}}, r"'sigma' must stay above"),
        ({"text": "real ~ log(x - 10)"}, r"`log\(x - 10\)`.*no finite value in row \d"),
        ({"text": "real ~ shots"}, r"`shots`.*same value in all rows"),
        ({"text": "real ~ real"}, r"'real' is on both sides"),
        ({"text": "weekday ~ x"}, r"'weekday' has the outcomes, and they are words"),
        ({"text": "real ~ sunshine"}, r"no column 'sunshine'"),
        ({"text": "real ~ day"}, r"'day' holds dates.*`day_weekday`"),
    ],
)
def test_what_does_not_fit_is_said(call: dict[str, Any], message: str) -> None:
    with pytest.raises(stakes.InputError, match=message):
        stakes.formula(**{"data": table(), **call})


PAYLOADS = [
    "__import__('os').system('touch /tmp/x')",
    "eval('1')",
    "exec('import os')",
    "open('/etc/passwd')",
    "os.system('ls')",
    "np.log(x)",
    "x.__class__",
    "x.real",
    "().__class__.__bases__[0]",
    "getattr(x, e)",
    "lambda: 0",
    "lambda x: x",
    "{x}",
    "{__import__('os')}",
    "`x`",
    "`__import__('os')`",
    "x[0]",
    "x['a']",
    "'x'",
    '"x"',
    "f'{x}'",
    "b'x'",
    "x if e else x",
    "[x for x in e]",
    "x; import os",
    "x\\nimport os",
    "x # comment",
    "x @ e",
    "x := e",
    "x = e",
    "x == e",
    "x < e",
    "x % 2",
    "x // 2",
    "!x",
    "$x",
    "x & e",
    "True",
    "None",
    "import os",
    "_x",
    "__name__",
    "x__",
    "system(x)",
    "C(x, levels=e)",
    "I(system(x))",
    "log(x, base=2)",
    "bs(x, knots=e)",
    "bs(x, df=100000)",
    "poly(x, 99999)",
    "x ** 99",
    "x ** e",
    "((((((((((((((((((x))))))))))))))))))",
    "x * e * x * e * x * e * x * e",
    "x\x00",
    "x\u2028e",
    "ｘ",
    "x²",
    "９",
    "1e999",
    "0x10",
    "2",
    "(x | (1 | store))",
    "x:(1 | store)",
    "(1 | store | weekday)",
    "(1 | f(store))",
    "binary(x, e)",
    "+".join(["x"] * 400),
]
TEMPLATES = ["real ~ {}", "real ~ x + {}", "{} ~ x", "real ~ (1 | {})"]
HOSTILE = [template.replace("{}", payload) for template in TEMPLATES for payload in PAYLOADS]
RUNNING = ("exec", "compile", "os.", "subprocess", "open", "import", "ctypes")


class Watch:
    """Notes what Python does that a formula must never make it do."""

    def __init__(self) -> None:
        self.on, self.seen = False, list[str]()
        sys.addaudithook(self)

    def __call__(self, event: str, _: Any) -> None:
        if self.on and event.startswith(RUNNING):
            self.seen.append(event)


def test_two_hundred_hostile_formulas_are_refused_by_name_and_nothing_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_design(*_: Any) -> None:
        raise AssertionError("It was passed on.")

    frame, watch, accepted = table(), Watch(), []
    monkeypatch.setattr(Design, "of", no_design)
    assert len(set(HOSTILE)) >= 200
    for text in HOSTILE:
        watch.on = True
        try:
            stakes.formula(text, frame)
        except stakes.InputError as error:
            if "formula(text)" not in str(error):
                accepted.append(f"{text!r}: {error}")
        except AssertionError:
            accepted.append(text)
        finally:
            watch.on = False
    assert accepted == []
    assert watch.seen == []


@pytest.mark.parametrize(
    "name",
    ["__import__('os').system('x')", "x y", "a.b", "`q`", "{q}", "lambda", "x;y", "\n", "_z"],
)
def test_a_hostile_column_name_is_no_name_in_a_formula_and_does_no_harm(name: str) -> None:
    frame = table().assign(**{name: 1.0})
    with pytest.raises(stakes.InputError, match=r"`formula\(text\)`"):
        stakes.formula(f"real ~ {name}", frame)
    assert stakes.formula("real ~ x", frame).response == "real"


def test_a_value_that_the_fit_has_not_seen_is_refused_with_its_row() -> None:
    days = pd.date_range("2024-01-01", periods=6)  # a Monday and the days after it
    frame = pd.DataFrame({"day": days, "y": [1.0, 2.0, 2.5, 4.0, 5.5, 6.0]})
    model = stakes.formula("y ~ C(day_weekday)", frame, family="normal")
    later = pd.DataFrame({"day": pd.date_range("2024-01-11", periods=4)}, index=list("abcd"))
    with pytest.raises(stakes.InputError, match=r"row 'd' \(1 in all\) has a value that the fit"):
        model.read_table(later, needs_outcome=False)
