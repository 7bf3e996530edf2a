"""Random outcomes, losses and decisions, many of them extreme: right, or nan, or refused by name.

Small shapes, heavy tails, large counts, infinite expectations and losses of a user's own, against
panels of Gauss-Legendre sums in NumPy and central differences (`oracles.wide_grid`). Every
expectation that has no objection is held to the answer, not only the one that would be chosen.
The seed is fixed: nothing here fails by chance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import oracles
import pytest
from catalogue import Family, Parameters
from scipy import stats

from stakes import (
    Absolute,
    ClosedForm,
    Enumeration,
    ExpUtility,
    LinEx,
    Quadrature,
    Squared,
    Tilted,
)
from stakes.protocols import Expectation
from stakes.utilities import ScaledLoss

TOLERANCE = {"float32": 1e-2, "float64": 1e-5}
C = 0.3


@dataclass(frozen=True)
class Wild:
    """A family, how many moments its outcomes have, and how fast their tails fall.

    E |y|^k is finite for k < `moments`, E exp(ty) for -`below` < t < `above`.
    """

    family: Family
    moments: Callable[..., Any] = lambda **_: np.inf
    below: Callable[..., Any] = lambda **_: np.inf
    above: Callable[..., Any] = lambda **_: np.inf


def wild(
    make: Callable[..., Any],
    twin: Callable[..., Any],
    tails: dict[str, Callable[..., Any]] | None = None,
    shifts: tuple[str, ...] = (),
    free: tuple[str, ...] = (),
    **draw: Callable[[np.random.Generator, int], np.ndarray],
) -> Wild:
    def draws(rng: np.random.Generator, size: int, unit: np.ndarray) -> Parameters:
        return {name: one(rng, size) for name, one in draw.items()}

    family = Family(make, twin, draws, shifts=frozenset(shifts), free=frozenset(free))
    return Wild(family, **(tails or {}))


def between(low: float, high: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda rng, size: rng.uniform(low, high, size)


def sized(low: float, high: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    """Anything from low to high, on a logarithmic scale."""
    return lambda rng, size: np.exp(rng.uniform(np.log(low), np.log(high), size))


def one_of(*values: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda rng, size: rng.choice(np.array(values, float), size)


ZERO = lambda **_: 0.0  # noqa: E731
UNIT = {"loc": between(-3, 3), "scale": sized(0.3, 3)}
SCALES = {"below": lambda scale, **_: 1 / scale, "above": lambda scale, **_: 1 / scale}
POWER = {"below": ZERO, "above": ZERO}

WILD = {
    "Normal": wild(dist.Normal, stats.norm, shifts=("loc",), **UNIT),
    "StudentT": wild(
        dist.StudentT,
        stats.t,
        {"moments": lambda df, **_: df, **POWER},
        shifts=("loc",),
        df=one_of(0.7, 1.0, 1.1, 1.4, 2.0, 2.2, 3, 5, 30),
        **UNIT,
    ),
    "Cauchy": wild(
        dist.Cauchy, stats.cauchy, {"moments": lambda **_: 1.0, **POWER}, shifts=("loc",), **UNIT
    ),
    "Laplace": wild(dist.Laplace, stats.laplace, SCALES, shifts=("loc",), **UNIT),
    "AsymmetricLaplace": wild(
        lambda loc, scale, asymmetry: dist.AsymmetricLaplace(loc, scale, asymmetry),
        lambda loc, scale, asymmetry: stats.laplace_asymmetric(asymmetry, loc, scale),
        {
            "below": lambda scale, asymmetry, **_: 1 / (scale * asymmetry),
            "above": lambda scale, asymmetry, **_: asymmetry / scale,
        },
        shifts=("loc",),
        asymmetry=sized(0.3, 3),
        **UNIT,
    ),
    "Logistic": wild(dist.Logistic, stats.logistic, SCALES, shifts=("loc",), **UNIT),
    "Gumbel": wild(
        dist.Gumbel, stats.gumbel_r, {"above": SCALES["above"]}, shifts=("loc",), **UNIT
    ),
    "Gamma": wild(
        dist.Gamma,
        lambda concentration, rate: stats.gamma(concentration, scale=1 / rate),
        {"above": lambda rate, **_: rate},
        concentration=sized(0.02, 300),
        rate=sized(0.2, 5),
    ),
    "Chi2": wild(dist.Chi2, stats.chi2, {"above": lambda **_: 0.5}, df=sized(0.05, 50)),
    "Exponential": wild(
        dist.Exponential,
        lambda rate: stats.expon(scale=1 / rate),
        {"above": lambda rate: rate},
        rate=sized(0.1, 10),
    ),
    "Weibull": wild(
        dist.Weibull,
        lambda scale, concentration: stats.weibull_min(concentration, scale=scale),
        {"above": lambda concentration, **_: np.where(concentration > 1, np.inf, 0.0)},
        scale=sized(0.3, 3),
        concentration=one_of(0.3, 0.7, 1.5, 4),
    ),
    "InverseGamma": wild(
        dist.InverseGamma,
        lambda concentration, rate: stats.invgamma(concentration, scale=rate),
        {"moments": lambda concentration, **_: concentration, "above": ZERO},
        concentration=one_of(0.5, 1.0, 1.2, 2.0, 2.3, 4, 20),
        rate=sized(0.3, 3),
    ),
    "LogNormal": wild(
        dist.LogNormal,
        lambda loc, scale: stats.lognorm(scale, scale=np.exp(loc)),
        {"above": ZERO},
        free=("loc",),
        loc=between(-1, 1),
        scale=sized(0.1, 2.5),
    ),
    "HalfNormal": wild(
        dist.HalfNormal, lambda scale: stats.halfnorm(scale=scale), scale=sized(0.3, 3)
    ),
    "HalfCauchy": wild(
        dist.HalfCauchy,
        lambda scale: stats.halfcauchy(scale=scale),
        {"moments": lambda **_: 1.0, "above": ZERO},
        scale=sized(0.3, 3),
    ),
    "Pareto": wild(
        dist.Pareto,
        lambda scale, alpha: stats.pareto(alpha, scale=scale),
        {"moments": lambda alpha, **_: alpha, "above": ZERO},
        scale=sized(0.3, 3),
        alpha=one_of(0.8, 1.0, 1.2, 2.0, 2.2, 4, 20),
    ),
    "Levy": wild(
        dist.Levy,
        stats.levy,
        {"moments": lambda **_: 0.5, "above": ZERO},
        shifts=("loc",),
        **UNIT,
    ),
    "Beta": wild(lambda a, b: dist.Beta(a, b), stats.beta, a=sized(0.03, 50), b=sized(0.03, 50)),
    "Uniform": wild(
        dist.Uniform,
        lambda low, high: stats.uniform(low, high - low),
        shifts=("low", "high"),
        low=between(-3, 0),
        high=between(0.5, 5),
    ),
    "LogUniform": wild(
        lambda a, b: dist.LogUniform(a, b), stats.loguniform, a=sized(1e-3, 1), b=sized(2, 20)
    ),
    "TruncatedNormal": wild(
        lambda loc, scale: dist.TruncatedNormal(loc, scale, low=0.0, high=6.0),
        lambda loc, scale: stats.truncnorm(-loc / scale, (6 - loc) / scale, loc, scale),
        shifts=("loc",),
        **UNIT,
    ),
    "Bernoulli": wild(lambda p: dist.Bernoulli(probs=p), stats.bernoulli, p=between(0.01, 0.99)),
    "Categorical": wild(
        lambda first, second: dist.Categorical(
            logits=jnp.stack([jnp.zeros_like(first), first, second], axis=-1)
        ),
        lambda first, second: oracles.Labels(np.stack([np.zeros_like(first), first, second])),
        free=("first", "second"),
        first=between(-5, 5),
        second=between(-5, 5),
    ),
    "Binomial": wild(
        lambda probs: dist.Binomial(2000, probs=probs),
        lambda probs: stats.binom(2000, probs),
        probs=sized(1e-3, 0.99),
    ),
    "BetaBinomial": wild(
        lambda a, b: dist.BetaBinomial(a, b, 100),
        lambda a, b: stats.betabinom(100, a, b),
        a=sized(0.05, 30),
        b=sized(0.05, 30),
    ),
    "Poisson": wild(dist.Poisson, lambda rate: stats.poisson(rate), rate=sized(0.02, 50)),
    "large Poisson": wild(dist.Poisson, oracles.LargePoisson, rate=sized(1e3, 1e5)),
    "NegativeBinomial2": wild(
        dist.NegativeBinomial2,
        lambda mean, concentration: stats.nbinom(
            concentration, concentration / (concentration + mean)
        ),
        {"above": lambda mean, concentration: np.log1p(concentration / mean)},
        mean=sized(0.2, 30),
        concentration=sized(0.02, 50),
    ),
    "Geometric": wild(
        lambda probs: dist.Geometric(probs=probs),
        lambda probs: stats.geom(probs, loc=-1),
        {"above": lambda probs: -np.log1p(-probs)},
        probs=sized(0.01, 0.9),
    ),
    "DiscreteUniform": wild(
        lambda level: dist.DiscreteUniform(-3, 3 + 0 * level.astype(int)),
        lambda level: stats.randint(-3, 4 + 0 * level.astype(int)),
        level=between(0, 1),
    ),
}


@dataclass(frozen=True)
class Gain:
    """A loss or utility of `stakes`, the oracle's, and whether its expectation is finite."""

    ours: Any
    theirs: oracles.LossTwin
    degree: float = 0.0
    """It grows as this power of y."""
    below: float = 0.0
    above: float = 0.0
    """It grows as exp(-below·y) and as exp(above·y)."""

    @property
    def is_utility(self) -> bool:
        return isinstance(self.ours, ExpUtility)

    def finite(self, tails: Wild, parameters: Parameters) -> np.ndarray:
        return (
            (self.degree < tails.moments(**parameters))
            & ((self.below == 0) | (self.below < tails.below(**parameters)))
            & ((self.above == 0) | (self.above < tails.above(**parameters)))
        )


def own_smooth(outcome: Any, decision: Any) -> Any:
    return (1 + (outcome - decision) ** 2) ** 0.5 - 1


def own_exponential(outcome: Any, decision: Any) -> Any:
    """Overflows far out, where the outcome has no mass left."""
    high = C * (decision - outcome)
    return (jnp if isinstance(high, jax.Array) else np).exp(high) - high - 1


def own_jump(outcome: Any, decision: Any) -> Any:
    return (outcome > decision) * 2.0 + 0.1 * abs(outcome - decision)


def utility(ours: Any, theirs: oracles.LossTwin, scale: float) -> Gain:
    return Gain(ExpUtility(ours, scale), oracles.exponential(theirs, scale))


GAINS = {
    "squared": Gain(Squared(), oracles.squared, degree=2),
    "absolute": Gain(Absolute(), oracles.absolute, degree=1),
    "tilted": Gain(Tilted(0.9), oracles.tilted(0.9), degree=1),
    "linex over": Gain(LinEx(C), oracles.LinEx(C), degree=1, below=C),
    "linex under": Gain(LinEx(-C), oracles.LinEx(-C), degree=1, above=C),
    "own smooth": Gain(own_smooth, own_smooth, degree=1),
    "own exponential": Gain(own_exponential, own_exponential, degree=1, below=C),
    "own jump": Gain(own_jump, own_jump, degree=1),
    "exp absolute": utility(Absolute(), oracles.absolute, 0.8),
    "exp squared": utility(Squared(), oracles.squared, 2.0),
    "exp own jump": utility(own_jump, own_jump, 1.5),
    "exp own exponential": utility(own_exponential, own_exponential, 1.0),
}


@dataclass(frozen=True)
class Case:
    """Parameters and decisions, and their natural units."""

    values: Parameters
    units: Parameters
    steps: Parameters

    @property
    def parameters(self) -> Parameters:
        return {name: value for name, value in self.values.items() if name != "decision"}


def random_case(family: Family, rng: np.random.Generator, size: int) -> Case:
    dtype = np.dtype(jnp.result_type(float))
    rounded = lambda values: values.astype(dtype).astype(float)  # noqa: E731
    parameters = {k: rounded(v) for k, v in family.draw(rng, size, np.ones(size)).items()}
    twin = family.twin(**parameters)
    spread = np.broadcast_to(oracles.spread_of(twin), (size,))
    mean = np.asarray(twin.mean(), float)
    middle = np.where(np.isfinite(mean), mean, 0.0 if hasattr(twin, "logpmf") else twin.median())
    decision = middle + spread * rng.uniform(-5, 5, size) * rng.choice([0.2, 1.0], size)
    units = family.units(parameters, spread) | {"decision": spread}
    steps = {name: oracles.STEP * unit for name, unit in units.items()}
    if hasattr(twin, "logpmf"):  # there is a kink at every whole number
        decision = np.floor(decision) + rng.uniform(0.1, 0.9, size)
        # An exponential loss grows a thousandfold while a large rate grows by a hundredth.
        steps = {name: oracles.STEP * np.minimum(unit, spread) for name, unit in units.items()}
        steps["decision"] = np.full(size, oracles.STEP)
    else:
        for end in twin.support():  # and a loss that jumps has one at the ends
            near = np.abs(decision - end) < 0.02 * spread
            decision = np.where(near, decision + 0.04 * spread, decision)
    return Case(parameters | {"decision": rounded(decision)}, units, steps)


def answers(
    family: Family, case: Case, gains: dict[str, Gain], expectations: dict[str, Expectation]
) -> dict[tuple[str, str], Any]:
    """Values and slopes by (gain, expectation), of all that have no objection; one program."""
    values = {name: jnp.asarray(value, float) for name, value in case.values.items()}
    outcome = family.make(**{k: v for k, v in values.items() if k != "decision"})
    gain_of = lambda gain: gain.ours if gain.is_utility else ScaledLoss(gain.ours, 1.0)  # noqa: E731
    applicable = [
        (gain, way)
        for gain in gains
        for way in expectations
        if expectations[way].objection(outcome, gain_of(gains[gain]), values["decision"]) is None
    ]

    def ask(values: dict[str, Any]) -> list[Any]:
        def of(gain: Gain, expectation: Expectation) -> Any:
            def question(v: dict[str, Any]) -> Any:
                outcome = family.make(**{k: x for k, x in v.items() if k != "decision"})
                way = expectation.log_expected if gain.is_utility else expectation.expected
                return way(None, outcome, gain.ours, v["decision"])

            answer, pull = jax.vjp(question, values)
            return answer, pull(jnp.ones_like(answer))[0]

        return [of(gains[gain], expectations[way]) for gain, way in applicable]

    lowered = jax.jit(ask).lower(values)
    compiled = lowered.compile(compiler_options={"xla_backend_optimization_level": 0})
    return dict(zip(applicable, compiled(values), strict=True))


def truths(family: Family, case: Case, gains: dict[str, Gain]) -> dict[str, Any]:
    def ask(values: Parameters) -> np.ndarray:
        parameters = {k: v for k, v in values.items() if k != "decision"}
        twin = family.twin(**parameters)
        kink = parameters.get("loc") if np.all(np.isinf(twin.support())) else None
        grid = oracles.wide_grid(twin, values["decision"], kink)
        with np.errstate(all="ignore"):
            return np.stack(
                [
                    (oracles.log_expected if gain.is_utility else oracles.expected)(
                        grid, gain.theirs, values["decision"]
                    )
                    for gain in gains.values()
                ]
            )

    def slope(name: str) -> np.ndarray:
        moved = lambda by: ask(case.values | {name: case.values[name] + by})  # noqa: E731
        return oracles.slope(moved, case.steps[name])

    with np.errstate(all="ignore"):
        value, slopes = ask(case.values), {name: slope(name) for name in case.values}
    return {name: (value[i], {by: slopes[by][i] for by in slopes}) for i, name in enumerate(gains)}


@np.errstate(all="ignore")
def silently_wrong(
    wild: Wild, case: Case, gain: Gain, answer: Any, truth: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The largest error of value and slopes in natural units, where no nan says so."""
    value, slopes = (jax.tree.map(lambda x: np.asarray(x, float), part) for part in answer)
    exact, exact_slopes = truth
    size = np.maximum(np.abs(exact), 1.0 if gain.is_utility else 0.0)
    error = np.abs(value - exact) / size
    natural = [np.abs(exact_slopes[by]) * unit for by, unit in case.units.items()]
    yardstick = np.maximum(np.max(natural, axis=0), 1e-2 * size)
    for by, unit in case.units.items():
        off = np.abs(slopes[by] - exact_slopes[by]) * unit / yardstick
        error = np.fmax(error, off)  # a slope of nan says that it is not known
    # A loss of `stakes` goes on linearly where it would overflow: that large, it says so.
    known = np.abs(value) < np.finfo(jnp.result_type(float)).max ** 0.7
    finite = np.broadcast_to(gain.finite(wild, case.parameters), value.shape)
    return np.where(known, np.where(finite, error, np.inf), 0.0), known & finite


def check_triples(name: str, gains: dict[str, Gain], size: int, seed: int) -> tuple[int, int]:
    """Assert that none is silently wrong; how many were answered, of how many that are finite."""
    wild = WILD[name]
    rng = np.random.default_rng([seed, list(WILD).index(name)])
    case = random_case(wild.family, rng, size)
    outcome = wild.family.at(case.parameters)
    ways = {"closed form": ClosedForm(), "quadrature": Quadrature()}
    if outcome.support.is_discrete:
        stacked = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], outcome)
        ways["enumeration"] = Enumeration().size_for([stacked])
    truth = truths(wild.family, case, gains)
    tolerance = TOLERANCE[jnp.result_type(float).name]
    wrong, answered, asked = [], 0, 0
    for (gain, way), answer in answers(wild.family, case, gains, ways).items():
        error, known = silently_wrong(wild, case, gains[gain], answer, truth[gain])
        answered += int(known.sum())
        asked += int(np.sum(np.ones(size) * gains[gain].finite(wild, case.parameters)))
        for i in np.flatnonzero(~(error <= tolerance)):
            at = {k: float(v[i]) for k, v in case.values.items()}
            found, exact = float(answer[0][i]), float(truth[gain][0][i])
            wrong.append(f"{gain} by {way} off by {error[i]:.1e} at {at}: {found} for {exact}")
    assert not wrong, f"{name}: {len(wrong)} silently wrong:\n" + "\n".join(wrong)
    return answered, asked


def some_gains(name: str) -> dict[str, Gain]:
    """Two for each family, so that all are used."""
    first = list(WILD).index(name)
    return {k: GAINS[k] for k in np.take(list(GAINS), [first, first + 5], mode="wrap")}


TAME = {
    "Normal",
    "Laplace",
    "Logistic",
    "Gumbel",
    "Exponential",
    "LogNormal",
    "HalfNormal",
    "Weibull",
    "Pareto",
    "InverseGamma",
    "Uniform",
    "Bernoulli",
    "Categorical",
    "Binomial",
    "Geometric",
}
"""Outcomes that test_expectations.py asks about, with shapes that hardly matter."""


def every_second(first: int) -> list[object]:
    return [
        pytest.param(name, marks=pytest.mark.slow if name in TAME else ())
        for name in list(WILD)[first::2]
    ]


@pytest.mark.some(5)
@pytest.mark.parametrize("name", every_second(0))
def test_random_triples_are_right_or_nan_or_refused_in_single_precision(name):
    check_triples(name, some_gains(name), size=5, seed=1)


@pytest.mark.some(3)
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("name", every_second(1))
def test_random_triples_are_right_or_nan_or_refused_in_double_precision(name):
    check_triples(name, some_gains(name), size=5, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", WILD)
def test_thousands_of_random_triples_are_right_or_nan_or_refused_in_single_precision(name):
    check_triples(name, GAINS, size=9, seed=2)


@pytest.mark.slow
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("name", WILD)
def test_thousands_of_random_triples_are_right_or_nan_or_refused_in_double_precision(name):
    check_triples(name, GAINS, size=9, seed=2)
