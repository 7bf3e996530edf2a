"""A decision about a parameter: which effect to promise each school.

Eighty schools have tried a programme, and each has measured its effect with error. What is
promised is judged by the effect itself, which is never observed: a promise that is not kept costs
four times as much as one that is too modest. The schools are simulated, so that their effects are
known and the promises can be judged after all. Run `python -m examples.promises`.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from examples.judging import ending, main, new_axes, table
from stakes import checks
from stakes._types import Array, Key
from stakes.fitting import natural_gradient
from stakes.losses import Newsvendor
from stakes.problem import Problem
from stakes.study import Calibration, calibrate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCHOOLS = 80
MODEST, BROKEN = 1.0, 4.0
"""What each point costs by which a promise is below the effect, or above it."""
FITTED_WITH: dict[str, Any] = {
    "steps": 9000,
    "draws": 4,
    "optimizer": natural_gradient(0.1),
}


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


def summary(result: Calibration) -> str:
    """What promises cost, judged by the effects that were never measured."""
    promises, measured = result.vi_decisions.values, data()["measured"]
    others = {
        "calibrated": result.decisions.values,
        "what was measured": measured,
        "the mean for all": np.full(SCHOOLS, measured.mean()),
    }
    judged = {name: costs(promised) for name, promised in others.items()}
    return "\n".join(
        [
            f"Promises to {SCHOOLS} schools, by plain VI, judged by their true effects:",
            table(costs(promises), judged, "a school"),
            "",
            f"Promises kept: {(effects() >= promises).mean():.0%}. {ending(result)}",
        ]
    )


def picture(result: Calibration, ax: "Axes | None" = None) -> "Axes":
    """What was measured, what is promised, and what the effects truly are."""
    ax, measured = new_axes() if ax is None else ax, data()["measured"]
    ax.plot(measured, effects(), "o", color="#767676", markersize=3, label="true effect")
    ax.plot(
        measured, result.vi_decisions.values, "_", color="#0072B2", markersize=8, label="promise"
    )
    ends = [measured.min(), measured.max()]
    ax.plot(ends, ends, color="#767676", linestyle="--", linewidth=1, label="as measured")
    ax.set_xlabel("measured effect")
    ax.set_ylabel("effect")
    ax.legend(frameon=False)
    return ax


if __name__ == "__main__":
    main(solve, summary)
