"""Eight schools: how large an effect to promise each school, when promising too much costs more.

The model of Gelman et al. (Bayesian Data Analysis) with the tilted loss of the paper's first
experiment: q = 0.2 makes overestimating a coaching effect four times as costly as underestimating.
Run `python -m stakes.examples.eight_schools`.
"""

import time

import numpyro
import numpyro.distributions as dist

from stakes._types import Array, Key
from stakes.losses import Tilted
from stakes.problem import Problem
from stakes.protocols import Transform
from stakes.study import Calibration, calibrate
from stakes.utilities import Linearized

SCHOOLS = ("A", "B", "C", "D", "E", "F", "G", "H")
EFFECT = (28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0)
SIGMA = (15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0)


def model(sigma: Array, effect: Array | None = None) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(sigma)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("effect", dist.Normal(theta, sigma), obs=effect)


def problem() -> Problem:
    return Problem(model, outcome="effect", loss=Tilted(0.2))


def data() -> dict[str, tuple[float, ...]]:
    return {"sigma": SIGMA, "effect": EFFECT}


def labels() -> dict[str, tuple[str, ...]]:
    """Labels of the schools."""
    return {"school": SCHOOLS}


FITTED_WITH = {"transform": Linearized(scale=7)}
"""The published setting."""


def solve(key: Key, transform: Transform = FITTED_WITH["transform"]) -> Calibration:
    return calibrate(key, problem(), data(), transform=transform, coords=labels())


def main() -> None:
    import jax

    started = time.perf_counter()
    result = solve(jax.random.key(0))
    print(result.compare(), end="\n\n")
    print("Effect to promise each school, under plain VI and calibrated:")
    for school, plain, calibrated in zip(
        SCHOOLS, result.vi_decisions.values, result.decisions.values, strict=True
    ):
        print(f"  {school} {plain:8.2f} {calibrated:8.2f}")
    print("\nA ninth school, whose study has standard error 12:", end=" ")
    print(f"{float(result.decide({'sigma': [12.0]}, new='school')[0]):.2f}")
    print(f"\n{result!r}")
    print(f"\n{time.perf_counter() - started:.1f} s of wall clock, compilation included.")


if __name__ == "__main__":
    from stakes.host.compiling import keep_compiled

    keep_compiled()  # a second time, nothing has to be compiled
    main()
