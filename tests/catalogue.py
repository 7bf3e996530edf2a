"""Named instances of everything the laws hold for; a new one here is enrolled in every law."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import oracles
import pytest
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.transforms import AffineTransform
from scipy import stats

from stakes import (
    Absolute,
    ClosedForm,
    Enumeration,
    ExpUtility,
    LinEx,
    MonteCarlo,
    Quadrature,
    Squared,
    Tilted,
    Utility,
)

Parameters = dict[str, np.ndarray]

BETALN = 1e-3
"""JAX's `betaln`, in the negative binomial's log density, is off by 1e-6 in double precision too;
a large utility scale magnifies that, since log E u is then close to zero."""


@dataclass(frozen=True)
class Family:
    """An outcome distribution with random parameters, and its twin in SciPy.

    `draw(rng, size, unit)` gives parameters for outcomes whose spread is of the order of `unit`;
    families that have no scale ignore it. `shifts` are the parameters measured in the outcome's
    unit and `free` those of order one; the others are measured relative to themselves.
    """

    make: Callable[..., Distribution]
    twin: Callable[..., oracles.Twin]
    draw: Callable[[np.random.Generator, int, np.ndarray], Parameters]
    shifts: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()
    has_scale: bool = True
    linex_signs: tuple[int, ...] = (1, -1)
    """Signs of c for which E exp(-c y) is finite, when c is small."""
    precision: float = 1e-6
    """To what relative error double precision is held; what JAX's own log density allows."""

    def __call__(self, rng: np.random.Generator, size: int = 4) -> Distribution:
        return self.at(self.draw(rng, size, np.ones(size)))

    def at(self, parameters: Parameters) -> Distribution:
        return self.make(**{name: jnp.asarray(value) for name, value in parameters.items()})

    def units(self, parameters: Parameters, spread: np.ndarray) -> Parameters:
        """The natural size of each parameter, for steps and for comparing derivatives."""
        return {
            name: spread
            if name in self.shifts
            else np.ones_like(spread)
            if name in self.free
            else np.abs(value)
            for name, value in parameters.items()
        }


def _location_scale(
    make: Callable[..., Distribution], twin: Callable[..., oracles.Twin], **options: object
) -> Family:
    def draw(rng: np.random.Generator, size: int, unit: np.ndarray) -> Parameters:
        scale = unit * np.exp(rng.uniform(-1, 1, size))
        return {"loc": unit * rng.uniform(-3, 3, size), "scale": scale}

    return Family(make, twin, draw, shifts=frozenset({"loc"}), **options)  # type: ignore[arg-type]


def _student(rng: np.random.Generator, size: int, unit: np.ndarray) -> Parameters:
    return {
        "df": rng.uniform(4, 30, size),
        "loc": unit * rng.uniform(-3, 3, size),
        "scale": unit * np.exp(rng.uniform(-1, 1, size)),
    }


CONTINUOUS = {
    "Normal": _location_scale(dist.Normal, stats.norm),
    "StudentT": Family(dist.StudentT, stats.t, _student, shifts=frozenset({"loc"}), linex_signs=()),
    "Laplace": _location_scale(dist.Laplace, stats.laplace),
    "Logistic": _location_scale(dist.Logistic, stats.logistic),
    "Gumbel": _location_scale(dist.Gumbel, stats.gumbel_r),
    "Gamma": Family(
        dist.Gamma,
        lambda concentration, rate: stats.gamma(concentration, scale=1 / rate),
        lambda rng, size, unit: {
            "concentration": np.exp(rng.uniform(-0.3, 3, size)),
            "rate": np.exp(rng.uniform(-1, 1, size)) / unit,
        },
    ),
    "Exponential": Family(
        dist.Exponential,
        lambda rate: stats.expon(scale=1 / rate),
        lambda rng, size, unit: {"rate": np.exp(rng.uniform(-1, 1, size)) / unit},
    ),
    "LogNormal": Family(
        dist.LogNormal,
        lambda loc, scale: stats.lognorm(scale, scale=np.exp(loc)),
        lambda rng, size, unit: {
            "loc": np.log(unit) + rng.uniform(-1, 1, size),
            "scale": rng.uniform(0.2, 1, size),
        },
        free=frozenset({"loc"}),
        linex_signs=(1,),
    ),
    "HalfNormal": Family(
        dist.HalfNormal,
        lambda scale: stats.halfnorm(scale=scale),
        lambda rng, size, unit: {"scale": unit * np.exp(rng.uniform(-1, 1, size))},
    ),
    "Beta": Family(
        lambda a, b: dist.Beta(a, b),
        stats.beta,
        lambda rng, size, unit: {
            "a": np.exp(rng.uniform(-0.2, 2, size)),
            "b": np.exp(rng.uniform(-0.2, 2, size)),
        },
        has_scale=False,
    ),
    "Uniform": Family(
        dist.Uniform,
        lambda low, high: stats.uniform(low, high - low),
        lambda rng, size, unit: {
            "low": unit * rng.uniform(-3, 0, size),
            "high": unit * rng.uniform(1, 3, size),
        },
        shifts=frozenset({"low", "high"}),
    ),
}

DISCRETE = {
    "Bernoulli": Family(
        lambda probs: dist.Bernoulli(probs=probs),
        lambda probs: stats.bernoulli(probs),
        lambda rng, size, unit: {"probs": rng.uniform(0.05, 0.95, size)},
        has_scale=False,
    ),
    "Categorical": Family(
        lambda first, second, third: dist.Categorical(
            logits=jnp.stack([jnp.zeros_like(first), first, second, third], axis=-1)
        ),
        lambda first, second, third: oracles.Labels(
            np.stack([np.zeros_like(first), first, second, third])
        ),
        lambda rng, size, unit: {
            name: rng.normal(0, 1.5, size) for name in ("first", "second", "third")
        },
        free=frozenset({"first", "second", "third"}),
        has_scale=False,
    ),
    "Binomial": Family(
        lambda probs: dist.Binomial(40, probs=probs),
        lambda probs: stats.binom(40, probs),
        lambda rng, size, unit: {"probs": rng.uniform(0.05, 0.95, size)},
        has_scale=False,
    ),
    "Poisson": Family(
        dist.Poisson,
        lambda rate: stats.poisson(rate),
        lambda rng, size, unit: {"rate": np.exp(rng.uniform(-2, 5, size))},
        has_scale=False,
    ),
    "NegativeBinomial2": Family(
        dist.NegativeBinomial2,
        lambda mean, concentration: stats.nbinom(
            concentration, concentration / (concentration + mean)
        ),
        lambda rng, size, unit: {
            "mean": np.exp(rng.uniform(-1, 4, size)),
            "concentration": np.exp(rng.uniform(-0.5, 3, size)),
        },
        has_scale=False,
        linex_signs=(1,),
        precision=BETALN,
    ),
    "NegativeBinomialProbs": Family(
        lambda total_count, probs: dist.NegativeBinomialProbs(total_count, probs),
        lambda total_count, probs: stats.nbinom(total_count, 1 - probs),
        lambda rng, size, unit: {
            "total_count": np.exp(rng.uniform(-0.5, 3, size)),
            "probs": rng.uniform(0.1, 0.8, size),
        },
        has_scale=False,
        linex_signs=(1,),
        precision=BETALN,
    ),
}

DISTRIBUTIONS = CONTINUOUS | DISCRETE

FORMULAS = {
    "Weibull": Family(
        lambda scale, power: dist.Weibull(scale, power),
        lambda scale, power: stats.weibull_min(power, scale=scale),
        lambda rng, size, unit: {
            "scale": unit * np.exp(rng.uniform(-1, 1, size)),
            "power": np.exp(rng.uniform(-0.3, 2, size)),
        },
    ),
    "InverseGamma": Family(
        dist.InverseGamma,
        lambda concentration, rate: stats.invgamma(concentration, scale=rate),
        lambda rng, size, unit: {
            "concentration": rng.uniform(4, 30, size),
            "rate": unit * np.exp(rng.uniform(1, 3, size)),
        },
        linex_signs=(),
    ),
    "Pareto": Family(
        dist.Pareto,
        lambda scale, alpha: stats.pareto(alpha, scale=scale),
        lambda rng, size, unit: {
            "scale": unit * np.exp(rng.uniform(-1, 1, size)),
            "alpha": rng.uniform(4, 30, size),
        },
        linex_signs=(),
    ),
    "Geometric": Family(
        lambda probs: dist.Geometric(probs=probs),
        lambda probs: stats.geom(probs, loc=-1),
        lambda rng, size, unit: {"probs": rng.uniform(0.1, 0.9, size)},
        has_scale=False,
        linex_signs=(1,),
    ),
}
"""Outcomes enrolled in the laws of closed forms only."""


def _two(rng: np.random.Generator, size: int, unit: np.ndarray) -> Parameters:
    return {
        "share": rng.uniform(0.1, 0.9, size),
        "first": unit * rng.uniform(-3, 3, size),
        "second": unit * rng.uniform(-3, 3, size),
        "scale": unit * np.exp(rng.uniform(-1, 1, size)),
    }


def _both(share: Any, first: Distribution, second: Distribution, **options: Any) -> Distribution:
    weights = dist.Categorical(probs=jnp.stack([share, 1 - share], axis=-1))
    return dist.MixtureGeneral(weights, [first, second], **options)


def _side_by_side(share: Any) -> dist.Categorical:
    return dist.Categorical(probs=jnp.stack([share, 1 - share], axis=-1))


COMPOSITE = {
    "two normals": Family(
        lambda share, first, second, scale: dist.MixtureSameFamily(
            _side_by_side(share),
            dist.Normal(jnp.stack([first, second], -1), jnp.stack([scale, 3 * scale], -1)),
        ),
        lambda share, first, second, scale: oracles.Blend(
            ((share, stats.norm(first, scale)), (1 - share, stats.norm(second, 3 * scale)))
        ),
        _two,
        shifts=frozenset({"first", "second"}),
    ),
    "normal or Laplace": Family(
        lambda share, first, second, scale: _both(
            share, dist.Normal(first, scale), dist.Laplace(second, scale)
        ),
        lambda share, first, second, scale: oracles.Blend(
            ((share, stats.norm(first, scale)), (1 - share, stats.laplace(second, scale)))
        ),
        _two,
        shifts=frozenset({"first", "second"}),
    ),
    "zero or lognormal": Family(
        lambda share, loc, scale: _both(
            share,
            dist.Delta(jnp.zeros_like(loc)),
            dist.LogNormal(loc, scale),
            support=constraints.nonnegative,
        ),
        lambda share, loc, scale: oracles.Blend(
            (
                (share, oracles.Point(np.zeros_like(loc))),
                (1 - share, stats.lognorm(scale, scale=np.exp(loc))),
            )
        ),
        lambda rng, size, unit: {
            "share": rng.uniform(0.1, 0.9, size),
            "loc": np.log(unit) + rng.uniform(-1, 1, size),
            "scale": rng.uniform(0.2, 1, size),
        },
        free=frozenset({"loc"}),
        linex_signs=(1,),
    ),
    "HurdleGamma": Family(
        lambda gate, concentration, rate: dist.HurdleGamma(gate, concentration, rate),
        lambda gate, concentration, rate: oracles.Blend(
            (
                (gate, oracles.Point(np.zeros_like(rate))),
                (1 - gate, stats.gamma(concentration, scale=1 / rate)),
            )
        ),
        lambda rng, size, unit: {
            "gate": rng.uniform(0.1, 0.9, size),
            "concentration": np.exp(rng.uniform(-0.3, 3, size)),
            "rate": np.exp(rng.uniform(-1, 1, size)) / unit,
        },
    ),
    "shifted gamma": Family(
        lambda start, concentration, rate: dist.TransformedDistribution(
            dist.Gamma(concentration, rate),
            AffineTransform(start, -2.0, domain=constraints.positive),
        ),
        lambda start, concentration, rate: oracles.Reflected(
            start, stats.gamma(concentration, scale=2 / rate)
        ),
        lambda rng, size, unit: {
            "start": unit * rng.uniform(-3, 3, size),
            "concentration": np.exp(rng.uniform(0.3, 3, size)),
            "rate": np.exp(rng.uniform(-1, 1, size)) / unit,
        },
        shifts=frozenset({"start"}),
    ),
    "two Poissons": Family(
        lambda share, first, second: dist.MixtureSameFamily(
            _side_by_side(share), dist.Poisson(jnp.stack([first, second], -1))
        ),
        lambda share, first, second: oracles.BlendOfCounts(
            ((share, stats.poisson(first)), (1 - share, stats.poisson(second)))
        ),
        lambda rng, size, unit: {
            "share": rng.uniform(0.1, 0.9, size),
            "first": np.exp(rng.uniform(-2, 4, size)),
            "second": np.exp(rng.uniform(-2, 4, size)),
        },
        has_scale=False,
    ),
    "HurdlePoisson": Family(
        lambda gate, rate: dist.HurdlePoisson(gate, rate),
        lambda gate, rate: oracles.Hurdle(gate, stats.poisson(rate)),
        lambda rng, size, unit: {
            "gate": rng.uniform(0.1, 0.9, size),
            "rate": np.exp(rng.uniform(-1, 4, size)),
        },
        has_scale=False,
    ),
}
"""Outcomes made of others."""

LABELS = frozenset({"Bernoulli", "Categorical"})
"""Discrete outcomes whose few values need no window."""

LOSSES = {
    "squared": Squared(),
    "absolute": Absolute(),
    "tilted low": Tilted(0.2),
    "tilted high": Tilted(0.9),
    "linex over": LinEx(0.2),
    "linex under": LinEx(-0.2),
}

UTILITIES = {
    "exp squared": ExpUtility(Squared(), 2.0),
    "exp absolute": ExpUtility(Absolute(), 1.5),
    "exp tilted low": ExpUtility(Tilted(0.2), 0.7),
    "exp tilted high": ExpUtility(Tilted(0.9), 0.7),
    "bump": Utility(lambda outcome, decision: 1 / (1 + jnp.square(outcome - decision))),
}

EXPECTATIONS = {
    "closed form": ClosedForm(),
    "enumeration": Enumeration(points=512),
    "quadrature": Quadrature(),
    "Monte Carlo": MonteCarlo(draws=30),
}

TAILS = {"squared", "absolute", "tilted low", "tilted high"}

CLOSED_FORMS = {
    "Normal": LOSSES.keys() | (UTILITIES.keys() - {"bump"}),
    "StudentT": LOSSES.keys(),
    "Laplace": LOSSES.keys(),
    "Logistic": LOSSES.keys(),
    "Gumbel": LOSSES.keys(),
    "Gamma": LOSSES.keys(),
    "Exponential": LOSSES.keys(),
    "LogNormal": TAILS | {"linex under"},
    "HalfNormal": TAILS,
    "Weibull": TAILS,
    "InverseGamma": TAILS | {"linex under"},
    "Pareto": TAILS | {"linex under"},
    "Beta": TAILS,
    "Uniform": LOSSES.keys(),
    "Bernoulli": LOSSES.keys() | (UTILITIES.keys() - {"bump", "exp squared"}),
    "Binomial": LOSSES.keys(),
    "Poisson": LOSSES.keys(),
    "NegativeBinomial2": LOSSES.keys(),
    "NegativeBinomialProbs": LOSSES.keys(),
    "Geometric": LOSSES.keys(),
    "two normals": LOSSES.keys() | (UTILITIES.keys() - {"bump"}),
    "normal or Laplace": LOSSES.keys(),
    "zero or lognormal": TAILS,
    "HurdleGamma": LOSSES.keys(),
    "shifted gamma": TAILS,
    "two Poissons": LOSSES.keys(),
    "HurdlePoisson": TAILS,
}
"""What has a formula, also where it is infinite; every other outcome has one for the squared
loss, by mean and variance."""


QUICK = ("Normal", "Gamma", "Poisson", "Categorical")


def quickly_chosen(names: Iterable[str]) -> list[object]:
    """All of them, of which the suite runs a few; the others are slow tests."""
    return [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in names]
