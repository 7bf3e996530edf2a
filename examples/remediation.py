"""Remediate, test again or leave: three actions, and what each costs by how much radon there is.

The model and the homes are those of `radon`. A home is left as it is, tested again for a year and
remediated if that shows too much, or remediated at once. What that costs depends on its level:
below 4 pCi/L nothing should be done. The amounts are made up. Run
`python -m examples.remediation`.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from examples import radon
from examples.judging import ending, main, new_axes, table
from stakes._types import Key
from stakes.fitting import natural_gradient
from stakes.losses import CostTable
from stakes.problem import Problem
from stakes.study import Calibration, calibrate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EDGES = (3.95, 9.95)
"""Levels, in pCi/L, at which radon is high, and very high: 4 and 10, as measured to a tenth."""
COSTS = {
    "leave": [0.0, 3000.0, 12000.0],
    "test again": [150.0, 2450.0, 3350.0],
    "remediate": [2000.0, 2000.0, 2000.0],
}
"""For a low, a high and a very high level. A test costs 150, and another year in the home."""
KNOWN = radon.KNOWN
FITTED_WITH: dict[str, Any] = {
    "steps": 9000,
    "draws": 4,
    "optimizer": natural_gradient(0.1),
}


def problem() -> Problem:
    loss = CostTable(COSTS, bins=np.log(EDGES))
    return Problem(radon.model, outcome="log_radon", loss=loss)


data, held_out, labels = radon.data, radon.held_out, radon.labels


def costs(action: np.ndarray, log_radon: np.ndarray) -> np.ndarray:
    """What these actions cost homes of these levels."""
    level = np.searchsorted(np.log(EDGES), log_radon, side="right")
    rows = [list(COSTS).index(str(name)) for name in np.ravel(action)]
    amounts: np.ndarray = np.array(list(COSTS.values()))
    return amounts[rows, level]


def solve(key: Key, **other: Any) -> Calibration:
    """`other` are further arguments of `calibrate`."""
    return calibrate(key, problem(), data(), coords=labels(), **{**FITTED_WITH, **other})


def actions(result: Calibration) -> np.ndarray:
    """By plain VI, for the homes held out."""
    best: np.ndarray = result.decide(held_out(), known=KNOWN, new="home", fit=result.vi).values
    return best


def summary(result: Calibration) -> str:
    """What decisions cost the homes held out."""
    homes, chosen = held_out(), actions(result)
    comparison = result.compare(homes, known=KNOWN)
    log_radon = homes["log_radon"]
    names, counts = np.unique(chosen, return_counts=True)
    done = ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))
    others = {
        f"{action} everywhere": costs(np.full(len(chosen), action), log_radon) for action in COSTS
    }
    return "\n".join(
        [
            str(comparison),
            "",
            f"Of {len(chosen)} homes held out, by plain VI: {done}.",
            table(costs(chosen, log_radon), others, "a home", comparison.dependence),
            "",
            ending(result),
        ]
    )


def picture(result: Calibration, ax: "Axes | None" = None) -> "Axes":
    """Which action is best at which chances of a high level, for the homes held out."""
    ax, chosen = new_axes() if ax is None else ax, actions(result)
    predicted = result.predictive(held_out(), known=KNOWN, new="home", fit=result.vi)
    drawn = predicted["log_radon"].values[0]
    high, very_high = ((drawn >= edge).mean(axis=0) for edge in np.log(EDGES))
    for action, color in zip(COSTS, ("#0072B2", "#E69F00", "#D55E00"), strict=True):
        rows = chosen == action
        ax.plot(high[rows], very_high[rows], "o", color=color, label=action, markersize=4)
    ax.set_xlabel("probability of 4 pCi/L or more")
    ax.set_ylabel("probability of 10 pCi/L or more")
    ax.legend(frameon=False)
    return ax


if __name__ == "__main__":
    main(solve, summary)
