"""A decision about a parameter: which effect to promise each school.

Eighty schools have tried a programme, and each has measured its effect with error. What is
promised is judged by the effect itself, which is never observed: a promise that is not kept costs
four times as much as one that is too modest. The schools are simulated, so that their effects are
known and the promises can be judged after all. Run `python -m stakes.examples.promises`.
"""

import time
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from stakes import checks
from stakes._types import Array, Key
from stakes.calibration import Calibration, calibrate
from stakes.examples.judging import table
from stakes.losses import Newsvendor
from stakes.problem import Problem

SCHOOLS = 80
MODEST, BROKEN = 1.0, 4.0
"""What each point costs by which a promise is below the effect, or above it."""
FITTED_WITH: dict[str, Any] = {"steps": 2500}


def model(error: Array, measured: Array | None = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    spread = numpyro.sample("spread", dist.HalfNormal(10))
    with numpyro.plate("school", len(error)):
        off = numpyro.sample("off", dist.Normal(0, 1))
        effect = numpyro.deterministic("effect", mean + spread * off)
        numpyro.sample("measured", dist.Normal(effect, error), obs=measured)


def problem() -> Problem:
    """A promise below the effect is short of it."""
    return Problem(model, outcome="effect", loss=Newsvendor(under=MODEST, over=BROKEN))


def effects(seed: int = 0) -> np.ndarray:
    """What the programme truly does."""
    rng = np.random.default_rng(checks.whole("`seed=`", seed, least=0))
    return rng.normal(6, 5, SCHOOLS)


def data(seed: int = 0) -> dict[str, Any]:
    """What the schools have measured."""
    rng = np.random.default_rng([1, checks.whole("`seed=`", seed, least=0)])
    error = rng.uniform(4, 14, SCHOOLS)
    return {"error": error, "measured": rng.normal(effects(seed), error)}


def costs(promised: np.ndarray) -> np.ndarray:
    """Of each school's promise."""
    short = effects() - promised
    return np.asarray(np.maximum(MODEST * short, -BROKEN * short))


def solve(key: Key, **other: Any) -> Calibration:
    """`other` are further arguments of `calibrate`."""
    return calibrate(key, problem(), data(), **{**FITTED_WITH, **other})


def main() -> None:
    import jax

    started = time.perf_counter()
    result, measured = solve(jax.random.key(0)), data()["measured"]
    others = {
        "calibrated": result.decisions.values,
        "what was measured": measured,
        "the mean for all": np.full(SCHOOLS, measured.mean()),
    }
    print(f"Promises to {SCHOOLS} schools, by plain VI, judged by their true effects:")
    judged = {name: costs(promised) for name, promised in others.items()}
    print(table(costs(result.vi_decisions.values), judged, "a school"))
    kept = (effects() >= result.vi_decisions.values).mean()
    print(f"\nPromises kept: {kept:.0%}.")
    print(f"\n{time.perf_counter() - started:.1f} s of wall clock, compilation included.")


if __name__ == "__main__":
    main()
