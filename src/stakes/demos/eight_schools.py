"""Eight schools: how large an effect to promise each school, when promising too much costs more.

The model of Gelman et al. (Bayesian Data Analysis) with the tilted loss of the paper's first
experiment: q = 0.2 makes overestimating a coaching effect four times as costly as underestimating.
"""

from pathlib import Path

import numpyro
import numpyro.distributions as dist

from stakes._types import Array, Key
from stakes.demos import Demo
from stakes.losses import Tilted
from stakes.problem import Problem
from stakes.protocols import Transform
from stakes.study import Calibration, calibrate
from stakes.utilities import Linearized

SCHOOLS = ("A", "B", "C", "D", "E", "F", "G", "H")
# Observed effects of coaching, in points of the test, and their standard errors.
EFFECT = (28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0)
SIGMA = (15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0)


def model(sigma: Array, effect: Array | None = None) -> None:
    """Rubin's model of eight coaching experiments.

    Each school has an effect of its own, about a mean; `sigma` are the standard errors of the
    observed effects, which are known.
    """
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(sigma)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("effect", dist.Normal(theta, sigma), obs=effect)


def problem() -> Problem:
    """Return the problem: promising too much costs four times as much as promising too little."""
    return Problem(model, outcome="effect", loss=Tilted(0.2))


def data() -> dict[str, tuple[float, ...]]:
    """Return the observed effects and their standard errors."""
    return {"sigma": SIGMA, "effect": EFFECT}


def labels() -> dict[str, tuple[str, ...]]:
    """Labels of the schools."""
    return {"school": SCHOOLS}


# The published setting.
FITTED_WITH = {"transform": Linearized(scale=7)}


def solve(key: Key, transform: Transform = FITTED_WITH["transform"]) -> Calibration:
    """Calibrate to the eight schools, with this transform."""
    return calibrate(key, problem(), data(), transform=transform, coords=labels())


DEMO = Demo(path=Path(__file__), problem=problem, data=data, labels=labels, options=FITTED_WITH)
