"""Every inner expectation equals an independent answer: values, and gradients by everything."""

import decimal
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise, product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import oracles
import pytest
from catalogue import (
    CLOSED_FORMS,
    COMPOSITE,
    CONTINUOUS,
    DISCRETE,
    DISTRIBUTIONS,
    EXPECTATIONS,
    FORMULAS,
    LABELS,
    LOSSES,
    UTILITIES,
    Family,
    Parameters,
)
from numpyro.distributions.transforms import AffineTransform
from quick import quickly
from scipy import integrate, special
from scipy import stats as scipy_stats

from stakes import (
    Absolute,
    ClosedForm,
    Componentwise,
    Enumeration,
    ExpUtility,
    InputError,
    LinEx,
    MonteCarlo,
    Quadrature,
    ScoreFunction,
    Squared,
    Tilted,
    Utility,
)
from stakes.expectation import Mixture, Single, check, choose, stats
from stakes.expectation.families.poisson import poisson_tail
from stakes.expectation.special import exp_less_tangent, log_less_tangent, mills
from stakes.protocols import Expectation
from stakes.utilities import ScaledLoss

CASES = 24
LINEX = 0.2
"""c, in units of the outcome."""
SINGLE = 1e-3
DOUBLE = 1e-7
"""Relative errors allowed; where JAX's own log densities are used, each family says."""


class Gain(NamedTuple):
    """A loss or a utility of `stakes`, and the oracle's loss or log utility."""

    ours: Any
    theirs: oracles.LossTwin


class Case(NamedTuple):
    """Outcomes and decisions, and the natural unit of each for comparing derivatives.

    `unit` is the outcome's scale, from 1e-3 to 1e3; `narrow` the utility's, from a tenth of that
    to ten times as much; decisions are up to ten standard deviations away.
    """

    values: Parameters
    units: Parameters
    steps: Parameters
    unit: np.ndarray
    narrow: np.ndarray


class Answer(NamedTuple):
    """E ℓ or log E u, and its derivatives by name."""

    value: np.ndarray
    gradient: Parameters


def every_gain(unit: np.ndarray, narrow: np.ndarray, linex_signs: Iterable[int]) -> dict[str, Gain]:
    """Losses, and utilities of the scales given."""
    one, scale = jnp.asarray(unit, float), jnp.asarray(narrow, float)
    losses = {
        "squared": Gain(Squared(), oracles.squared),
        "absolute": Gain(Absolute(), oracles.absolute),
        "tilted low": Gain(Tilted(0.2), oracles.tilted(0.2)),
        "tilted high": Gain(Tilted(0.9), oracles.tilted(0.9)),
    }
    utilities = {
        f"exp {name}": Gain(
            ExpUtility(loss.ours, scale * one if name == "squared" else scale),
            oracles.exponential(loss.theirs, narrow * unit if name == "squared" else narrow),
        )
        for name, loss in losses.items()
    }
    bump = Gain(
        Utility(lambda outcome, decision: 1 / (1 + jnp.square((outcome - decision) / scale))),
        oracles.bump(narrow),
    )
    return losses | linex_gains(unit, linex_signs) | utilities | {"bump": bump}


def linex_gains(unit: np.ndarray, signs: Iterable[int]) -> dict[str, Gain]:
    """LinEx takes one c, so that many units at once are a matter of a user's own loss."""

    def of(c: float) -> Gain:
        theirs = lambda outcome, decision: oracles.LinEx(c)(outcome / unit, decision / unit)  # noqa: E731
        if np.all(unit == unit[0]):
            return Gain(LinEx(c / unit[0]), theirs)
        one = jnp.asarray(unit, float)
        return Gain(lambda outcome, decision: LinEx(c)(outcome / one, decision / one), theirs)

    return {("linex over" if sign > 0 else "linex under"): of(sign * LINEX) for sign in signs}


def only(gains: dict[str, Gain], names: Iterable[str]) -> dict[str, Gain]:
    return {name: gains[name] for name in names if name in gains}


def is_utility(gain: Gain) -> bool:
    return isinstance(gain.ours, ExpUtility | Utility)


def random_case(family: Family, seed: int, unit: float | None = None) -> Case:
    """Corners and random places; values are those that the precision in force can represent."""
    rng = np.random.default_rng(seed)
    corners = np.array(list(product((-1, 1), repeat=3))).T
    log_unit, log_ratio, away = np.hstack([corners, rng.uniform(-1, 1, (3, CASES - 8))])
    units_wanted = np.full(CASES, unit) if unit else 10.0 ** (3 * log_unit)
    unit_of = represented(units_wanted if family.has_scale else np.ones(CASES))
    parameters = {k: represented(v) for k, v in family.draw(rng, CASES, unit_of).items()}
    twin = family.twin(**parameters)
    spread = twin.std()
    decision = twin.mean() + 10 * away * spread
    units = family.units(parameters, spread) | {"decision": spread}
    steps = {name: oracles.STEP * size for name, size in units.items()}
    if hasattr(twin, "logpmf"):  # there is a kink at every whole number
        decision = np.floor(decision) + rng.uniform(0.1, 0.9, CASES)
        steps["decision"] = np.full(CASES, oracles.STEP)
    values = parameters | {"decision": represented(decision)}
    return Case(values, units, steps, unit_of, represented(unit_of * 10.0**log_ratio))


def represented(values: np.ndarray) -> np.ndarray:
    return values.astype(np.dtype(jnp.result_type(float))).astype(float)


def question(expectation: Expectation, family: Family, gain: Gain, values: Any) -> jax.Array:
    parameters = {name: value for name, value in values.items() if name != "decision"}
    ask = expectation.log_expected if is_utility(gain) else expectation.expected
    return ask(None, family.make(**parameters), gain.ours, values["decision"])


def ours(
    family: Family, case: Case, gains: dict[str, Gain], expectation: Expectation
) -> dict[str, Answer]:
    def ask(values: dict[str, jax.Array]) -> list[Any]:
        def of(gain: Gain) -> Any:
            answer, pull = jax.vjp(lambda v: question(expectation, family, gain, v), values)
            return answer, pull(jnp.ones_like(answer))[0]

        return [of(gain) for gain in gains.values()]

    values = {name: jnp.asarray(value, float) for name, value in case.values.items()}
    answers = quickly(ask, values)
    return {
        name: Answer(np.asarray(v, float), {by: np.asarray(d, float) for by, d in slopes.items()})
        for name, (v, slopes) in zip(gains, answers, strict=True)
    }


def theirs(family: Family, case: Case, gains: dict[str, Gain]) -> dict[str, Answer]:
    def ask(values: Parameters) -> np.ndarray:
        decision = values["decision"]
        parameters = {name: value for name, value in values.items() if name != "decision"}
        grid = oracles.grid(family.twin(**parameters), decision, case.narrow)
        return np.stack([oracle(gain)(grid, gain.theirs, decision) for gain in gains.values()])

    def oracle(gain: Gain) -> Callable[..., np.ndarray]:
        return oracles.log_expected if is_utility(gain) else oracles.expected

    def slope(name: str) -> np.ndarray:
        moved = lambda by: ask(case.values | {name: case.values[name] + by})  # noqa: E731
        return oracles.slope(moved, case.steps[name])

    values, slopes = ask(case.values), {name: slope(name) for name in case.values}
    return {
        name: Answer(values[i], {by: slopes[by][i] for by in slopes})
        for i, name in enumerate(gains)
    }


def errors(case: Case, answer: Answer, truth: Answer, name: str) -> dict[str, float]:
    """Of values relative to themselves; of derivatives, in natural units, to the largest."""
    size = np.max([np.abs(truth.gradient[by]) * unit for by, unit in case.units.items()], axis=0)
    found = {name: np.max(np.abs(answer.value - truth.value) / np.abs(truth.value))}
    for by, unit in case.units.items():
        off = np.abs(answer.gradient[by] - truth.gradient[by]) * unit / size
        found[f"∂ {name} / ∂ {by}"] = np.max(off)
    return found


def assert_agree(
    family: Family,
    case: Case,
    names: Iterable[str],
    expectation: Expectation,
    tolerance: float,
) -> None:
    gains = only(every_gain(case.unit, case.narrow, family.linex_signs), names)
    assert gains
    answers, truths = ours(family, case, gains, expectation), theirs(family, case, gains)
    found = {k: v for n in gains for k, v in errors(case, answers[n], truths[n], n).items()}
    wrong = {name: f"{error:.1e}" for name, error in found.items() if not error <= tolerance}
    assert not wrong, f"relative errors beyond {tolerance}: {wrong}"


def windowed(name: str) -> Enumeration:
    return Enumeration() if name in LABELS else Enumeration(points=2048)


INTEGRATED = ("tilted low", "linex over", "linex under", "exp squared", "exp tilted high", "bump")
SUMMED = ("squared", "tilted low", "exp squared", "exp tilted high", "bump")


WITH_FORMULAS = DISTRIBUTIONS | FORMULAS | COMPOSITE
QUICK = [("Normal", 1e-3), ("Normal", 1e3), ("Poisson", 1.0), ("StudentT", 1.0)]
OTHERS = [(name, 1.0) for name in CLOSED_FORMS if name not in {"Poisson", "StudentT"}]


def formulas(name):
    """Absolute and tilted losses have one formula; the squared loss has a test of its own."""
    same = set() if name == "Normal" else {"squared", "absolute", "tilted high"}
    return CLOSED_FORMS[name] - same


@pytest.mark.parametrize(
    ("name", "unit"), QUICK + [pytest.param(*pair, marks=pytest.mark.slow) for pair in OTHERS]
)
def test_closed_forms_agree_with_the_oracle_in_single_precision(name, unit):
    family = WITH_FORMULAS[name]
    case = random_case(family, seed=1, unit=unit)
    assert_agree(family, case, formulas(name), ClosedForm(), SINGLE)


@pytest.mark.some(10)
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_forms_agree_with_the_oracle_in_double_precision(name):
    family = WITH_FORMULAS[name]
    case = random_case(family, seed=2, unit=1.0)
    assert_agree(family, case, formulas(name), ClosedForm(), DOUBLE)


def integrated(name):
    """A known limit: below a Gumbel, whose density falls off as exp(-exp(x)), a narrow exponential
    utility ten standard deviations out peaks between the points (off by 9e-3)."""
    if name == "Gumbel":
        return tuple(term for term in INTEGRATED if not term.startswith("exp"))
    return INTEGRATED


@pytest.mark.some(1)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_quadrature_agrees_with_the_oracle_in_single_precision(name):
    family = CONTINUOUS[name]
    terms = integrated(name)
    assert_agree(family, random_case(family, seed=3), terms, Quadrature(), SINGLE)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize(
    "name",
    ["Gamma", *(pytest.param(n, marks=pytest.mark.slow) for n in CONTINUOUS if n != "Gamma")],
)
def test_quadrature_agrees_with_the_oracle_in_double_precision(name):
    family = CONTINUOUS[name]
    assert_agree(
        family, random_case(family, seed=4), integrated(name), Quadrature(), family.precision
    )


@pytest.mark.some(2)
@pytest.mark.parametrize("name", DISCRETE)
def test_enumeration_agrees_with_the_oracle_in_single_precision(name):
    family = DISCRETE[name]
    assert_agree(family, random_case(family, seed=5), SUMMED, windowed(name), SINGLE)


@pytest.mark.some(3)
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("name", DISCRETE)
def test_enumeration_agrees_with_the_oracle_in_double_precision(name):
    family = DISCRETE[name]
    assert_agree(family, random_case(family, seed=6), SUMMED, windowed(name), family.precision)


@pytest.mark.some(2)
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("name", COMPOSITE)
def test_own_losses_and_utilities_of_mixtures_agree_with_the_oracle(name):
    """Component by component, or value by value; narrow utilities far out, less than for one."""
    family = COMPOSITE[name]
    case = random_case(family, seed=9)
    outcome = family.at({k: v for k, v in case.values.items() if k != "decision"})
    best = choose(outcome, UTILITIES["bump"], jnp.asarray(case.values["decision"]))
    assert type(best) is {True: Enumeration}.get(
        outcome.support.is_discrete, Quadrature if name == "shifted gamma" else Componentwise
    )
    best = Enumeration(points=512) if isinstance(best, Enumeration) else best
    assert_agree(family, case, ("tilted low", "exp squared", "bump"), best, 1e-6)


@pytest.mark.parametrize("base", ["Poisson", "Binomial"])
def test_counts_behind_a_hurdle_may_hardly_ever_be_there_without_it(base):
    """In single precision: of the base, next to nothing is left once its zeros are taken out."""
    rate = np.array([5.0, 1e-2, 2.5e-4, 1e-5, 1e-7])[:, None]
    ours, theirs = {
        "Poisson": (dist.Poisson(jnp.asarray(rate)), scipy_stats.poisson(rate)),
        "Binomial": (dist.Binomial(40, jnp.asarray(rate / 40)), scipy_stats.binom(40, rate / 40)),
    }[base]
    gate, k = 0.3, np.arange(1, 60)
    chances = (1 - gate) * theirs.pmf(k) / theirs.sf(0)
    mean = chances @ k
    outcome, h = dist.HurdleDistribution(ours, gate=gate), np.array([-0.7, 0.4, 1.6, 7.2])
    short = k[:, None] - h
    tails = gate * np.maximum(-0.9 * h, 0.1 * h) + chances @ np.maximum(0.9 * short, -0.1 * short)
    found = quickly(
        lambda h, k: (
            stats.tails(outcome, h, 0.9, 0.1),
            stats.mean(outcome)[:, 0],
            stats.variance(outcome)[:, 0],
            stats.cdf(outcome, h),
            jnp.exp(stats.log_mass(outcome, k)),
        ),
        jnp.asarray(h),
        jnp.arange(1.0, 40.0),
    )
    np.testing.assert_allclose(found[0], tails, rtol=1e-4)
    np.testing.assert_allclose(found[1], mean, rtol=1e-4)
    np.testing.assert_allclose(found[2], chances @ k**2 - mean**2, rtol=1e-4)
    at_most = gate * (h >= 0) + chances @ (k[:, None] <= h)
    np.testing.assert_allclose(found[3], at_most, atol=1e-4)
    np.testing.assert_allclose(found[4], chances[:, :39], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "ours"),
    {
        "Weibull": lambda shape: dist.Weibull(2.0, shape),
        "Kumaraswamy": lambda shape: dist.Kumaraswamy(shape, 5.0),
    }.items(),
)
def test_variances_hold_however_large_the_shape_in_single_precision(name, ours):
    """By the exact distribution of log y, whose spread is what is left of that of y."""
    shapes = np.array([0.7, 1.9, 8.0, 80.0, 160.0, 2000.0])
    levels, weights = np.polynomial.legendre.leggauss(400)
    levels, weights = (
        scipy_stats.norm.cdf(8 * levels),
        weights * 8 * scipy_stats.norm.pdf(8 * levels),
    )
    rest = 1 - levels
    logs = {
        "Weibull": np.log(-np.log(rest)),
        "Kumaraswamy": np.log(-np.expm1(np.log(rest) / 5.0)),
    }[name]
    away = np.expm1(logs / shapes[:, None])
    mean = away @ weights
    exact = np.square(away - mean[:, None]) @ weights * {"Weibull": 4.0}.get(name, 1.0)
    found = quickly(lambda shape: stats.variance(ours(shape)), jnp.asarray(shapes))
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def _two_counts(second):
    weights = dist.Categorical(probs=jnp.array([0.3, 0.7]))
    parts = [dist.Binomial(5, probs=0.4), second]
    return dist.MixtureGeneral(weights, parts, support=dist.constraints.nonnegative_integer)


CLASSES = np.array([0.2, 0.5, 0.3])
COUNTS = np.arange(60)
FEW_OR_MANY = {
    "binomial or Poisson": (
        _two_counts(dist.Poisson(3.0)),
        0.3 * scipy_stats.binom(5, 0.4).pmf(COUNTS) + 0.7 * scipy_stats.poisson(3).pmf(COUNTS),
    ),
    "binomial or Bernoulli": (
        _two_counts(dist.Bernoulli(probs=0.2)),
        0.3 * scipy_stats.binom(5, 0.4).pmf(COUNTS) + 0.7 * scipy_stats.bernoulli(0.2).pmf(COUNTS),
    ),
    "more zeros than a coin": (
        dist.ZeroInflatedDistribution(dist.Bernoulli(probs=0.2), gate=0.3),
        0.3 * (COUNTS == 0) + 0.7 * scipy_stats.bernoulli(0.2).pmf(COUNTS),
    ),
    "classes behind a hurdle": (
        dist.HurdleDistribution(dist.Categorical(probs=jnp.asarray(CLASSES)), gate=0.3),
        np.append([0.3, 0.7 * 5 / 8, 0.7 * 3 / 8], np.zeros(57)),
    ),
}


@pytest.mark.parametrize("name", FEW_OR_MANY)
def test_values_that_a_part_of_an_outcome_cannot_have_add_nothing(name):
    outcome, chances = FEW_OR_MANY[name]
    loss, h = lambda y, h: jnp.abs(y - h) ** 1.5, 2.3
    best = choose(outcome, ScaledLoss(loss, 1.0), jnp.array(h))
    assert isinstance(best, Enumeration)
    best = best.size_for([jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], outcome)])
    found = quickly(lambda: best.expected(None, outcome, loss, jnp.array(h)))
    assert float(found) == pytest.approx(chances @ np.abs(COUNTS - h) ** 1.5, rel=1e-4)


DAGUM = scipy_stats.burr(185.6, 4.66, scale=0.5)


def _narrow():
    y = np.linspace(1.4, 1.4 * 1.001, 1000)
    return np.average((y - 1.4) ** 2, weights=1 / y)


@pytest.mark.parametrize(
    ("outcome", "decision", "exact"),
    [
        (dist.DiscreteUniform(0, jnp.array(60_000)), 30_000.0, (60_001**2 - 1) / 12),
        (dist.LogUniform(1.4, 1.4 * 1.001), 1.4, _narrow()),
        (dist.Dagum(4.66, 185.6, 0.5), 0.5, DAGUM.var() + (DAGUM.mean() - 0.5) ** 2),
    ],
    ids=["many values", "a narrow range", "a narrow peak"],
)
def test_the_squared_loss_holds_where_the_variance_of_numpyro_does_not(outcome, decision, exact):
    """In single precision: whole numbers overflow, and differences of moments cancel."""
    best = choose(outcome, ScaledLoss(Squared(), 1.0), jnp.array(decision))
    found = quickly(lambda: best.expected(None, outcome, Squared(), jnp.array(decision)))
    assert float(found) == pytest.approx(exact, rel=1e-2)


def test_nothing_of_a_mixture_lies_below_its_parts():
    """NumPyro's distribution function of a Gompertz outcome is no chance there."""
    weights = dist.Categorical(probs=jnp.array([0.3, 0.7]))
    outcome = dist.MixtureSameFamily(weights, dist.Gompertz(jnp.array([9.0, 0.1]), 1.0))
    assert float(quickly(lambda: stats.cdf(outcome, jnp.array(-2.0)))) == 0


@pytest.mark.some(1)
@pytest.mark.parametrize("left", [False, True])
def test_the_squared_loss_holds_where_little_of_a_gamma_is_left(left):
    """In single precision NumPyro's variance is off by half to twice."""
    twin, end = scipy_stats.gamma(200), 300.0 if left else 100.0
    outcome = dist.TruncatedGamma(200.0, 1.0, **{"low" if left else "high": end})
    y = end + (1 if left else -1) * np.linspace(0, 60, 200_001)[1:]
    weights = np.exp(twin.logpdf(y) - twin.logpdf(end))
    exact = np.average((y - end) ** 2, weights=weights)
    best = choose(outcome, ScaledLoss(Squared(), 1.0), jnp.array(end))
    found = quickly(lambda: best.expected(None, outcome, Squared(), jnp.array(end)))
    assert float(found) == pytest.approx(exact, rel=1e-2)


@pytest.mark.parametrize("room", [None, 1.5])
def test_the_distribution_function_holds_where_little_of_a_distribution_is_left(room):
    """In single precision, five standard deviations out NumPyro's is off by a tenth."""
    starts = np.array([-3.0, 0.0, 3.0, 5.0, 6.0, -6.5], np.float32)
    ends = np.inf if room is None else starts + room
    twin = scipy_stats.truncnorm(starts, ends, 1, 2)
    value = twin.ppf(0.4).astype(np.float32)

    def reached(scale, value):
        high = None if room is None else 1 + scale * ends
        outcome = dist.TruncatedNormal(1.0, scale, low=1 + scale * starts, high=high)
        return jnp.sum(stats.cdf(outcome, value)), stats.cdf(outcome, value)

    slopes, found = quickly(jax.grad(reached, argnums=(0, 1), has_aux=True), 2.0, value)
    np.testing.assert_allclose(found, twin.cdf(value), atol=2e-5)
    np.testing.assert_allclose(slopes[1], twin.pdf(value), rtol=1e-3)
    by_scale = -twin.pdf(value) * (value - 1) / 2  # limits move with the scale
    np.testing.assert_allclose(slopes[0], by_scale.sum(), rtol=1e-3)


@pytest.mark.usefixtures("double_precision")
def test_quadrature_serves_outcomes_without_quantiles_whose_moments_are_known():
    family = FORMULAS["Weibull"]
    case = random_case(family, seed=10, unit=1.0)
    assert_agree(family, case, ("tilted low", "linex over", "bump"), Quadrature(), 1e-6)


def test_decisions_about_shifted_outcomes_take_all_draws_together():
    """Where the shift differs by case, and the scale does not: no support of all draws is asked."""
    starts = np.array([[0.0, 5.0], [1.0, 7.0], [3.0, 6.0]])

    def less(start):
        moved = AffineTransform(start, -2.0, domain=dist.constraints.positive)
        return dist.TransformedDistribution(dist.Gamma(3.0, 1.0), moved)

    found = quickly(lambda s: Mixture(jax.vmap(less)(s)).quantile(0.8), jnp.asarray(starts))
    reached = scipy_stats.gamma(3, scale=2).sf(starts - np.asarray(found)).mean(axis=0)
    np.testing.assert_allclose(reached, 0.8, rtol=1e-4)


@pytest.mark.some(1)
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("name", ["two normals", "HurdleGamma", "shifted gamma", "HurdlePoisson"])
def test_the_least_expected_loss_is_that_of_the_best_decision(name):
    family = COMPOSITE[name]
    values = family.draw(np.random.default_rng(4), 6, np.ones(6))
    one, twin = Single(family.at(values)), family.twin(**values)
    low, high = twin.mean() - 4 * twin.std(), twin.mean() + 8 * twin.std()
    places = low + np.linspace(0, 1, 2001)[:, None] * (high - low)
    places = np.concatenate([places, np.zeros((1, 6))])  # where a hurdle has mass
    if name == "HurdlePoisson":
        places = np.arange(0.0, 300.0)[:, None] * np.ones(6)
    tails, least = quickly(
        lambda places: (one.tails(places, 0.8, 0.2), one.least_tails(0.8, 0.2)),
        jnp.asarray(places),
    )
    np.testing.assert_allclose(least, np.min(tails, axis=0), rtol=1e-4)


@pytest.mark.usefixtures("double_precision")
def test_mixtures_of_classes_are_summed():
    chances = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    mixed = dist.MixtureGeneral(
        dist.Categorical(probs=jnp.array([0.25, 0.75])),
        [dist.Categorical(probs=jnp.array(each)) for each in chances],
    )
    found = quickly(
        lambda h: Enumeration().expected(None, mixed, Squared(), h), np.array([0.5, 2.0])
    )
    each = np.array([0.25, 0.75]) @ chances
    expected = [each @ (np.arange(3) - h) ** 2 for h in (0.5, 2.0)]
    np.testing.assert_allclose(found, expected)


def test_the_score_function_has_the_right_slope_on_average():
    def found(rate: Any) -> Any:
        score = ScoreFunction(draws=20_000)
        return score.expected(jax.random.key(3), dist.Poisson(rate), Tilted(0.8), 2.2)

    def exact(rate: Any) -> Any:
        return ClosedForm().expected(None, dist.Poisson(rate), Tilted(0.8), 2.2)

    (value, slope), truth = quickly(
        lambda rate: (jax.value_and_grad(found)(rate), jax.value_and_grad(exact)(rate)), 3.0
    )
    np.testing.assert_allclose(value, truth[0], rtol=0.03)  # four standard errors
    np.testing.assert_allclose(slope, truth[1], rtol=0.06)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_squared_loss_has_a_closed_form_for_every_outcome(name):
    family = DISTRIBUTIONS[name]
    assert_agree(family, random_case(family, seed=7), ["squared"], ClosedForm(), SINGLE)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_oracle_agrees_with_adaptive_quadrature(name):
    family, rng = CONTINUOUS[name], np.random.default_rng(8)
    twin = family.twin(**family.draw(rng, 1, np.ones(1)))
    spread, decision = twin.std(), twin.mean() + 2 * twin.std()
    low, high = (float(np.squeeze(end)) for end in twin.support())
    for loss in (oracles.tilted(0.2), oracles.squared):
        found = oracles.expected(oracles.grid(twin, decision, spread), loss, decision)
        integrand = lambda y, loss=loss: float(np.squeeze(loss(y, decision) * twin.pdf(y)))  # noqa: E731
        near = twin.mean() + spread * np.array([-20, -4, -1, 0, 1, 4, 20])
        ends = np.unique(np.clip([low, *near, float(np.squeeze(decision)), high], low, high))
        parts = [integrate.quad(integrand, *pair, epsrel=1e-10) for pair in pairwise(ends)]
        np.testing.assert_allclose(found, sum(value for value, _ in parts), rtol=1e-8)


# Closed forms at the extremes ----------------------------------------------------------------


def gamma_excess(concentration, rate, decision):
    x = rate * np.maximum(decision, 0)
    at_most = special.gammaincc(concentration + 1, x), special.gammaincc(concentration, x)
    return concentration / rate * at_most[0] - decision * at_most[1]


def beta_excess(a, b, decision):
    h = np.clip(decision, 0, 1)
    return a / (a + b) * special.betaincc(a + 1, b, h) - decision * special.betaincc(a, b, h)


def poisson_excess(rate, decision):
    k = np.floor(decision)
    beyond = np.where(k < 0, 1.0, special.gammainc(np.maximum(k, 0) + 1, rate))
    return rate * np.exp(scipy_stats.poisson.logpmf(k, rate)) + (rate - decision) * beyond


def negative_binomial_excess(mean, concentration, decision):
    k, p = np.floor(decision), concentration / (concentration + mean)
    beyond = np.where(k < 0, 1.0, special.betaincc(concentration, np.maximum(k, 0) + 1, p))
    here = np.exp(scipy_stats.nbinom.logpmf(k, concentration, p))
    return mean * (1 + k / concentration) * here + (mean - decision) * beyond


EXTREMES = {
    "Gamma": (dist.Gamma, gamma_excess, np.geomspace(0.02, 1e6, 40), np.geomspace(100, 0.01, 40)),
    "Beta": (dist.Beta, beta_excess, np.geomspace(0.02, 1e3, 40), np.geomspace(30, 0.05, 40)),
    "Poisson": (dist.Poisson, poisson_excess, np.geomspace(0.01, 1e7, 40)),
    "NegativeBinomial2": (
        dist.NegativeBinomial2,
        negative_binomial_excess,
        np.geomspace(0.05, 1e5, 40),
        np.tile(np.geomspace(0.05, 1e4, 8), 5),
    ),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("name", EXTREMES)
def test_tails_hold_for_tiny_and_huge_shapes_and_outside_the_support(name):
    """In single precision, and with derivatives by everything; half of each loss is E (y-h)+."""
    make, excess, *values = EXTREMES[name]
    parameters = [np.tile(represented(value), 8) for value in values]
    outcome = make(*map(jnp.asarray, parameters))
    spread = np.sqrt(np.asarray(outcome.variance, float))
    away = np.repeat([-30.0, -6.0, -1.0, -0.1, 0.1, 1.0, 6.0, 30.0], 40)
    decision = np.asarray(outcome.mean, float) + away * spread
    if name in DISCRETE:  # there is a kink at every whole number
        decision = np.where(spread < 1e3, np.floor(decision) + 0.5, np.floor(decision))
    at = [*parameters, represented(decision)]

    def ours(values):
        return ClosedForm().expected(None, make(*values[:-1]), Absolute(), values[-1])

    def theirs(values):
        far = -np.abs(values[-1]) - 1.0
        mean = excess(*values[:-1], far) + far
        return 2 * excess(*values) + values[-1] - mean

    floats = [jnp.asarray(value, float) for value in at]
    value, slopes = quickly(
        lambda values: (ours(values), jax.grad(lambda v: ours(v).sum())(values)), floats
    )
    np.testing.assert_allclose(value, theirs(at), rtol=SINGLE)
    small = 1e-2 * np.minimum(spread / np.asarray(outcome.mean, float), 1.0)
    for place, parameter in enumerate(parameters):
        moved = lambda by, place=place: theirs(  # noqa: E731
            [each + by if here == place else each for here, each in enumerate(at)]
        )
        exact = parameter * oracles.slope(moved, small * parameter)
        error = np.abs(parameter * np.asarray(slopes[place], float) - exact)
        assert np.max(error / (np.abs(exact) + spread)) < SINGLE


def test_quantiles_of_large_poisson_counts_hold_in_single_precision():
    rates = np.array([1e4, 1e5, 1e6, 1e7])
    found = quickly(lambda rate: Single(dist.Poisson(rate)).quantile(0.9), jnp.asarray(rates))
    off = np.asarray(found, float) - scipy_stats.poisson.ppf(0.9, rates)
    assert np.all(np.abs(off) <= 1 + 1e-3 * np.sqrt(rates))


INFINITE = [
    (dist.StudentT(1.0, 0.0, 1.0), Tilted(0.2)),
    (dist.StudentT(0.6, 0.0, 1.0), Absolute()),
    (dist.StudentT(5.0, 0.0, 1.0), LinEx(0.2)),
    (dist.Cauchy(0.0, 1.0), Tilted(0.2)),
    (dist.HalfCauchy(1.0), Absolute()),
    (dist.InverseGamma(0.9, 1.0), Tilted(0.2)),
    (dist.Pareto(1.0, 1.0), Tilted(0.2)),
    (dist.LogNormal(0.0, 1.0), LinEx(-0.2)),
    (dist.Gamma(2.0, 0.2), LinEx(-0.2)),
    (dist.Exponential(0.1), LinEx(-0.2)),
    (dist.Laplace(0.0, 5.0), LinEx(0.2)),
    (dist.Logistic(0.0, 6.0), LinEx(-0.2)),
    (dist.Gumbel(0.0, 5.0), LinEx(-0.2)),
    (dist.NegativeBinomial2(10.0, 1.0), LinEx(-0.2)),
    (dist.Geometric(0.1), LinEx(-0.2)),
]


@pytest.mark.parametrize(
    ("outcome", "loss"), INFINITE, ids=lambda value: type(value).__name__.removesuffix("Probs")
)
def test_an_infinite_expectation_is_never_a_finite_number(outcome, loss):
    gain, decision = ScaledLoss(loss, 1.0), jnp.array([-1.0, 0.5, 3.0])
    chosen = choose(outcome, gain, decision)
    risk = quickly(lambda h: chosen.expected(None, outcome, loss, h), decision)
    assert not np.any(np.isfinite(risk))


OWN_CDF = sorted(CLOSED_FORMS.keys() - {"Normal", "Laplace", "Logistic", "Gumbel", "Uniform"})


@pytest.mark.parametrize("name", OWN_CDF)
def test_distribution_functions_agree_with_scipy_also_outside_the_support(name):
    family = WITH_FORMULAS[name]
    parameters = dict(random_case(family, seed=12, unit=1.0).values)
    value = np.concatenate([parameters.pop("decision")[:-4], [-1e3, -1.0, 0.0, 1e6]])
    value = np.floor(value) if name in {*DISCRETE, "Geometric"} else value
    found = quickly(
        lambda parameters, value: stats.cdf(family.make(**parameters), value),
        {k: jnp.asarray(v, float) for k, v in parameters.items()},
        jnp.asarray(value, float),
    )
    np.testing.assert_allclose(found, family.twin(**parameters).cdf(value), atol=1e-5)


def cumulant_of_counts(log_mass, t):
    """log E exp(t (y - E y)), by plain sums over 0, 1, ..."""
    values = np.arange(len(log_mass))
    return special.logsumexp(log_mass + t * (values - np.exp(log_mass) @ values))


@pytest.mark.parametrize("t", [-20.0, -1.0, -0.01, 0.01, 1.0, 20.0])
def test_cumulants_of_counts_hold_for_small_and_large_exponents(t):
    chances = represented(np.array([0.02, 0.4, 0.75, 0.999]))
    binomial = np.array([scipy_stats.binom.logpmf(np.arange(11), 10, p) for p in chances])
    more_zeros = np.array(
        [
            np.logaddexp(np.log1p(-g) + binomial[1], np.where(np.arange(11), -np.inf, np.log(g)))
            for g in chances
        ]
    )

    def ask(chance):
        outcomes = (
            dist.Binomial(10, probs=chance),
            dist.ZeroInflatedDistribution(dist.Binomial(10, probs=chances[1]), gate=chance),
        )
        return jnp.stack([stats.cumulant(outcome, t) for outcome in outcomes])

    found, slopes = quickly(
        lambda p: (ask(p), jax.grad(lambda p: ask(p).sum())(p)), jnp.asarray(chances, float)
    )
    exact = [[cumulant_of_counts(each, t) for each in row] for row in (binomial, more_zeros)]
    np.testing.assert_allclose(found, exact, rtol=1e-4)
    assert np.all(np.isfinite(slopes))


@pytest.mark.usefixtures("double_precision")
def test_extra_zeros_mix_into_every_statistic():
    gate, rate, values = 0.3, 4.0, np.arange(80)
    mass = (1 - gate) * scipy_stats.poisson.pmf(values, rate) + gate * (values == 0)
    outcome, decision = dist.ZeroInflatedPoisson(gate, rate), jnp.array([-0.5, 0.5, 3.5, 30.0])
    losses = (Squared(), Tilted(0.2), LinEx(1e-3), LinEx(-0.7), LinEx(-2.0), LinEx(9.0))
    found, every, at_most = quickly(
        lambda h: (
            [ClosedForm().expected(None, outcome, loss, h) for loss in losses],
            [loss(values, h[:, None]) for loss in losses],
            stats.cdf(outcome, h),
        ),
        decision,
    )
    np.testing.assert_allclose(found, np.asarray(every) @ mass, rtol=1e-8)
    np.testing.assert_allclose(at_most, [mass[values <= h].sum() for h in decision], atol=1e-9)


# Where derivatives are easily lost ---------------------------------------------------------


@pytest.mark.parametrize("q", [0.2, 0.9])
@pytest.mark.parametrize("expectation", [ClosedForm(), Quadrature()])
def test_the_tilted_loss_has_its_slope_where_the_decision_is_the_mean(expectation, q):
    def risk(values):
        loc, decision = values
        return expectation.expected(None, dist.Normal(loc, 2.0), Tilted(q), decision)

    by_loc, by_decision = quickly(jax.grad(risk), (jnp.array(1.5), jnp.array(1.5)))
    # d/dh E ℓ = P(y < h) - q, whatever the scale.
    np.testing.assert_allclose([by_loc, by_decision], [q - 0.5, 0.5 - q], atol=1e-5)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_quadrature_is_finite_where_the_decision_is_the_median_or_outside_the_support(name):
    family = CONTINUOUS[name]
    parameters = family.draw(np.random.default_rng(9), 3, np.ones(3))
    twin = family.twin(**parameters)
    low, high = (np.where(np.isfinite(end), end, 0.0) for end in twin.support())
    decision = np.array([twin.median()[0], np.ravel(low)[-1], np.ravel(high)[-1] + 1])
    values = {k: jnp.asarray(v) for k, v in (parameters | {"decision": decision}).items()}

    def ask(values):
        gains = [
            Gain(Tilted(0.2), oracles.squared),
            Gain(UTILITIES["exp absolute"], oracles.squared),
        ]
        return sum(question(Quadrature(), family, gain, values).sum() for gain in gains)

    for derivative in jax.tree.leaves(quickly(jax.value_and_grad(ask), values)):
        assert np.all(np.isfinite(derivative))


# Enumeration -------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("name", DISCRETE)
def test_a_window_of_the_size_chosen_loses_nothing(name):
    outcome = DISCRETE[name](np.random.default_rng(10), 20)
    sized = Enumeration().widen_for([jax.tree.map(lambda leaf: leaf[None], outcome)])
    zero = jnp.zeros(())
    by_window, by_moments = quickly(
        lambda: [each.expected(None, outcome, Squared(), zero) for each in (sized, ClosedForm())]
    )
    np.testing.assert_allclose(by_window, by_moments, rtol=1e-4)


@pytest.mark.parametrize(
    "outcome",
    [
        dist.Poisson(jnp.geomspace(100.0, 5000.0, 200)),
        dist.NegativeBinomial2(jnp.geomspace(100.0, 1000.0, 200), 50.0),
        dist.Binomial(2000, probs=jnp.linspace(0.01, 0.99, 200)),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_large_counts_are_summed_in_single_precision(outcome):
    decision = outcome.mean + jnp.sqrt(outcome.variance)
    window = Enumeration(points=4096)
    by_sum = quickly(lambda: window.expected(None, outcome, Squared(), decision))
    np.testing.assert_allclose(by_sum, 2 * outcome.variance, rtol=1e-2)


CONCENTRATION = 1e5
LARGE_COUNTS = {
    "Poisson": (dist.Poisson, oracles.LargePoisson),
    "Binomial": (
        lambda mean: dist.Binomial(2.0**21, mean / 2.0**21),
        lambda mean: scipy_stats.binom(2**21, mean / 2.0**21),
    ),
    "BinomialLogits": (
        lambda mean: dist.Binomial(2.0**21, logits=jax.scipy.special.logit(mean / 2.0**21)),
        lambda mean: scipy_stats.binom(2**21, mean / 2.0**21),
    ),
    "NegativeBinomial": (
        lambda mean: dist.NegativeBinomial2(mean, CONCENTRATION),
        lambda mean: scipy_stats.nbinom(CONCENTRATION, CONCENTRATION / (CONCENTRATION + mean)),
    ),
    "ZeroInflated": (
        lambda mean: dist.ZeroInflatedPoisson(jnp.zeros_like(mean), mean),
        oracles.LargePoisson,
    ),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("name", LARGE_COUNTS)
def test_exponential_utilities_of_large_counts_hold_in_single_precision(name):
    """Value and slope in the mean, with decisions and scales of some standard deviations.

    The score of each of these distributions in its mean m is (y - m) / Var y.
    """
    ours, twin = LARGE_COUNTS[name]
    mean, away = np.meshgrid([1e3, 1e4, 1e5, 1e6], [-3.0, -1.0, 0.0, 1.0, 3.0], indexing="ij")
    mean = mean.astype(np.float32).astype(float)
    theirs = twin(mean)
    sd = theirs.std()
    decision, scale = np.round(mean + away * sd), np.square(sd).astype(np.float32).astype(float)

    counts = np.floor(mean - 9 * sd) + np.arange(20 * sd.max()).reshape(-1, 1, 1)
    log_mass = np.where(counts >= 0, theirs.logpmf(np.maximum(counts, 0)), -np.inf)
    shares = log_mass - np.square(counts - decision) / scale
    value = special.logsumexp(shares, axis=0)
    slope = np.sum(np.exp(shares - value) * (counts - mean), axis=0) / sd

    window = Enumeration(points=25 * int(sd.max()))

    def log_expected(mean):
        utility = ExpUtility(Squared(), jnp.asarray(scale, jnp.float32))
        return window.log_expected(None, ours(mean), utility, jnp.asarray(decision, jnp.float32))

    def value_and_slope(mean):
        found, pull = jax.vjp(log_expected, mean)
        return found, pull(jnp.ones_like(found))[0]

    found, found_slope = quickly(value_and_slope, jnp.asarray(mean, jnp.float32))
    np.testing.assert_allclose(found, value, rtol=1e-3)
    np.testing.assert_allclose(found_slope * sd, slope, rtol=1e-2, atol=1e-2)


def test_a_window_that_is_too_small_gives_nan_and_never_a_wrong_sum():
    rate = np.arange(1.0, 401.0)
    decision = rate + 0.5
    outcome, window = dist.Poisson(jnp.asarray(rate, float)), Enumeration(points=64)
    sums = np.asarray(
        quickly(lambda: window.expected(None, outcome, Absolute(), jnp.asarray(decision)))
    )
    twin = DISCRETE["Poisson"].twin(rate)
    exact = oracles.expected(oracles.grid(twin, decision), oracles.absolute, decision)
    known = np.isfinite(sums)
    assert known[0]
    assert not known[-1]
    np.testing.assert_allclose(sums[known], exact[known], rtol=0.01)


@pytest.mark.slow
@pytest.mark.usefixtures("double_precision")
def test_a_window_with_room_for_every_value_of_a_binomial_leaves_none_out():
    outcome = dist.Binomial(40, probs=jnp.array([0.05, 0.5, 0.95]))
    _, log_weights = Enumeration(points=64).rule(None, outcome, outcome.mean)
    np.testing.assert_allclose(jnp.exp(log_weights).sum(axis=0), 1.0, rtol=1e-12)


def test_enumerating_unbounded_counts_asks_for_a_window():
    with pytest.raises(InputError, match=r"`Enumeration\(\)` of Poisson .* `Enumeration\(points="):
        Enumeration().rule(None, dist.Poisson(3.0), jnp.zeros(()))


def test_counts_too_wide_to_enumerate_are_refused_by_name():
    with pytest.raises(InputError, match=r"The Poisson outcome spreads over \d+ values, more than"):
        Enumeration().widen_for([dist.Poisson(jnp.array([[1e8]]))])


# The choice --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_best_expectation_is_chosen_for_every_loss_and_utility(name):
    outcome = DISTRIBUTIONS[name](np.random.default_rng(11))
    users_own = {"a user's loss": lambda outcome, decision: jnp.abs(outcome - decision) ** 3}
    gains = UTILITIES | {n: ScaledLoss(loss, 1.0) for n, loss in (LOSSES | users_own).items()}
    closed = {"squared"} | CLOSED_FORMS.get(name, set())
    otherwise = Enumeration if name in DISCRETE else Quadrature
    best = {n: ClosedForm if n in closed else otherwise for n in gains}
    assert {n: type(choose(outcome, gain, jnp.zeros(4))) for n, gain in gains.items()} == best


def test_draws_are_the_last_resort():
    outcome = dist.FoldedDistribution(dist.Normal())  # reparameterised, and nothing else
    assert isinstance(choose(outcome, UTILITIES["exp absolute"], jnp.zeros(())), MonteCarlo)


@pytest.mark.parametrize(
    "outcome",
    [
        dist.LeftCensoredDistribution(dist.Normal(), 0.0),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_an_outcome_that_nothing_can_handle_is_refused_with_a_way_out(outcome):
    name = type(outcome).__name__
    with pytest.raises(InputError, match=rf"an outcome that is {name}: .* Rewrite the outcome"):
        choose(outcome, ScaledLoss(Tilted(0.2), 1.0), jnp.zeros(()))


def test_an_outcome_without_moments_falls_through_to_the_next_best():
    outcome = dist.TransformedDistribution(
        dist.Normal(0.0, 1.0), dist.transforms.SigmoidTransform()
    )
    assert isinstance(choose(outcome, ScaledLoss(Squared(), 1.0), jnp.zeros(())), Quadrature)


@pytest.mark.parametrize(
    ("expectation", "outcome", "gain", "reason"),
    [
        (ClosedForm(), dist.Laplace(), UTILITIES["bump"], "no closed form is known"),
        (
            Enumeration(points=9),
            dist.Normal(),
            ScaledLoss(Squared(), 1.0),
            "only discrete outcomes",
        ),
        (Quadrature(), dist.Poisson(1.0), ScaledLoss(Tilted(0.2), 1.0), "continuous outcomes"),
        (Quadrature(), dist.TruncatedPolyaGamma(), ScaledLoss(Tilted(0.2), 1.0), "have an `icdf`"),
        (
            MonteCarlo(),
            dist.Poisson(1.0),
            ScaledLoss(Tilted(0.2), 1.0),
            "cannot be reparameterised",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_expectation_that_does_not_fit_is_refused_with_the_reason(
    expectation, outcome, gain, reason
):
    name = type(outcome).__name__
    with pytest.raises(InputError, match=rf"does not fit an outcome that is {name}: .*{reason}"):
        check(expectation, outcome, gain, jnp.zeros(()))


def test_an_expectation_that_fits_passes_the_check():
    check(Quadrature(), dist.Normal(), ScaledLoss(Squared(), 1.0), jnp.zeros(()))


def test_draws_of_the_outcome_are_at_least_one():
    with pytest.raises(InputError, match=r"`MonteCarlo\(draws=...\)` must be .* above zero; got 0"):
        MonteCarlo(draws=0)


# Compiled, mapped, broadcast ---------------------------------------------------------------


def outcome_for(expectation_name: str, level: Any) -> dist.Distribution:
    return dist.Poisson(level) if expectation_name == "enumeration" else dist.Normal(level, 2.0)


@pytest.mark.some(1)
@pytest.mark.parametrize("expectation_name", EXPECTATIONS)
def test_compiling_and_mapping_change_nothing(expectation_name):
    key = jax.random.key(0)

    def risk(level, decision):
        outcome = outcome_for(expectation_name, level)
        return EXPECTATIONS[expectation_name].expected(key, outcome, Tilted(0.2), decision)

    level, decision = jnp.linspace(1.0, 9.0, 3), jnp.array([2.0, 4.5, 9.0])
    one_by_one = jnp.stack([risk(*pair) for pair in zip(level, decision, strict=True)])
    np.testing.assert_allclose(quickly(jax.vmap(risk), level, decision), one_by_one, rtol=1e-5)


@pytest.mark.parametrize("expectation_name", EXPECTATIONS)
def test_one_outcome_serves_many_decisions(expectation_name):
    expectation, key = EXPECTATIONS[expectation_name], jax.random.key(0)
    outcome, decision = outcome_for(expectation_name, 3.0), jnp.arange(6.0).reshape(2, 3)
    risk = quickly(lambda h: expectation.expected(key, outcome, Squared(), h), decision)
    assert risk.shape == (2, 3)
    if expectation_name != "Monte Carlo":
        np.testing.assert_allclose(risk, outcome.variance + (decision - 3.0) ** 2, rtol=1e-4)


# Mills' ratio ------------------------------------------------------------------------------


def _assert_mills_agrees(tolerance: float) -> None:
    x = represented(np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 5000)]))
    value, slope = quickly(
        lambda x: jax.jvp(mills, (x,), (jnp.ones_like(x),)), jnp.asarray(x, float)
    )
    np.testing.assert_allclose(value, oracles.mills(x), rtol=tolerance)
    np.testing.assert_allclose(slope, oracles.mills_slope(x), rtol=tolerance)


def test_mills_ratio_agrees_with_scipy_in_single_precision():
    _assert_mills_agrees(2e-6)


@pytest.mark.usefixtures("double_precision")
def test_mills_ratio_agrees_with_scipy_in_double_precision():
    _assert_mills_agrees(1e-12)


def _assert_without_tangents(tolerance: float) -> None:
    """Logarithm and exponential less their tangents, near them and far away; and at the ends."""
    near, far = np.geomspace(1e-6, 0.9, 400), np.geomspace(0.9, 1e30, 200)
    off = np.concatenate([-near, near, far])
    ratio = represented(1 + off)
    off, exact = ratio - 1, decimal.Context(prec=80)
    log = [float((exact.create_decimal(r).ln(exact)) - exact.create_decimal(r) + 1) for r in ratio]
    found = quickly(log_less_tangent, jnp.asarray(ratio, float), jnp.asarray(off, float))
    np.testing.assert_allclose(found, log, rtol=tolerance)
    x = off[np.abs(off) < 80]
    exp = [float(exact.create_decimal(v).exp(exact) - 1 - exact.create_decimal(v)) for v in x]
    found = quickly(exp_less_tangent, jnp.asarray(x, float))
    np.testing.assert_allclose(found, exp, rtol=tolerance)
    ends = jnp.array([0.0, jnp.inf, -1.0, jnp.nan])
    found = quickly(log_less_tangent, ends, ends - 1)
    np.testing.assert_array_equal(found[jnp.array([0, 2, 3])], [-np.inf, np.nan, np.nan])
    assert not np.isfinite(found[1])


def test_logarithms_less_their_tangents_hold_in_single_precision():
    _assert_without_tangents(1.5e-6)


@pytest.mark.usefixtures("double_precision")
def test_logarithms_less_their_tangents_hold_in_double_precision():
    _assert_without_tangents(1e-12)


def _poisson_cases() -> tuple[np.ndarray, np.ndarray]:
    """Counts and rates from a thousandth to 10,000, up to eight standard deviations apart."""
    rate, z = np.meshgrid(10.0 ** np.linspace(-3, 4, 141), np.linspace(-8, 8, 81))
    rate = rate.astype(np.float32).astype(float)
    return np.maximum(np.floor(rate + z * np.sqrt(rate)), 0), rate


def _assert_poisson_agrees(tolerance: float) -> None:
    count, rate = _poisson_cases()
    given = jnp.asarray(count, float), jnp.asarray(rate, float)
    mass = scipy_stats.poisson.pmf(count, rate)
    for tail in (poisson_tail, partial(poisson_tail, shared=True)):
        reached, weight = quickly(tail, *given)
        np.testing.assert_allclose(reached, scipy_stats.poisson.cdf(count, rate), atol=tolerance)
        np.testing.assert_allclose(weight / np.sqrt(rate), mass * np.sqrt(rate), atol=tolerance)


def test_poisson_distribution_function_agrees_with_scipy_in_single_precision():
    _assert_poisson_agrees(1.5e-6)


@pytest.mark.usefixtures("double_precision")
def test_poisson_distribution_function_agrees_with_scipy_in_double_precision():
    _assert_poisson_agrees(1e-9)


@pytest.mark.parametrize("level", [0.001, 0.02, 0.3, 0.5, 0.8, 0.97, 0.999])
def test_least_tails_of_poisson_counts_are_those_of_the_best_count(level):
    rate = (10.0 ** np.linspace(-2, 3, 201)).astype(np.float32)
    least = quickly(lambda rate: stats.least_tails(dist.Poisson(rate), level, 1 - level), rate)
    exact = rate.astype(float)
    best = scipy_stats.poisson.ppf(level, exact)
    reached = scipy_stats.poisson.cdf(best, exact)
    at_best = exact * scipy_stats.poisson.pmf(best, exact)
    value = at_best + (exact - best) * (level - reached)
    np.testing.assert_allclose(least / np.sqrt(exact), value / np.sqrt(exact), atol=3e-6)


@pytest.mark.some(2)
@pytest.mark.parametrize("level", [0.01, 0.3, 0.95])
def test_least_tails_of_negative_binomial_counts_are_those_of_the_best_count(level):
    """Also where a few large counts make up the mean."""
    rng = np.random.default_rng(0)
    mean = np.exp(rng.uniform(np.log(0.01), np.log(1e4), 2000)).astype(np.float32)
    shape = np.exp(rng.uniform(np.log(0.01), np.log(1e3), 2000)).astype(np.float32)
    least = quickly(
        lambda *of: stats.least_tails(dist.NegativeBinomial2(*of), level, 1 - level), mean, shape
    )
    exact = scipy_stats.nbinom(shape.astype(float), 1 / (1 + mean.astype(float) / shape))
    best = exact.ppf(level)
    # E y 1(y > k) = E y P(z ≥ k) for z of one more in shape.
    more = scipy_stats.nbinom(shape + 1.0, 1 / (1 + mean.astype(float) / shape))
    excess = exact.mean() * more.sf(best - 1) - best * exact.sf(best)
    value = excess + (1 - level) * (best - exact.mean())
    np.testing.assert_allclose(least / value, 1, atol=1e-3)


def test_least_tails_of_counts_by_the_million_grow_with_their_mean():
    """Far in the tail of such counts each has a chance of less than one in a billion."""
    least = quickly(
        lambda mean: stats.least_tails(dist.GammaPoisson(0.01, 0.01 / mean), 0.999, 0.001),
        jnp.array([1e3, 1e5, 1e7]),
    )
    np.testing.assert_allclose(least / jnp.array([1e3, 1e5, 1e7]), 0.22329, rtol=1e-4)


@pytest.mark.parametrize("slope", [2.0, -2.0])
def test_a_line_of_counts_reaches_and_misses_its_values_as_they_do(slope):
    """A falling line turns what lies below a value into what lies above it."""
    line = dist.transforms.AffineTransform(1.0, slope)
    outcome = dist.TransformedDistribution(dist.Poisson(3.0), line)
    counts = np.arange(60)
    masses, values = scipy_stats.poisson(3.0).pmf(counts), 1.0 + slope * counts
    places = np.array([1.0, 1 + 2 * slope, 1 + 2.5 * slope])
    reached, missed = quickly(
        lambda at: (stats.cdf(outcome, at), stats.below(outcome, at)), jnp.asarray(places)
    )
    np.testing.assert_allclose(reached, [masses[values <= at].sum() for at in places], atol=1e-6)
    np.testing.assert_allclose(missed, [masses[values < at].sum() for at in places], atol=1e-6)
