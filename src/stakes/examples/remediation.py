"""Remediate, test again or leave: three actions, and what each costs by how much radon there is.

The model and the homes are those of `radon`. A home is left as it is, tested again for a year and
remediated if that shows too much, or remediated at once. What that costs depends on its level:
below 4 pCi/L nothing should be done. The amounts are made up. Run
`python -m stakes.examples.remediation`.
"""

import time
from typing import Any

import numpy as np

from stakes._types import Key
from stakes.calibration import Calibration, calibrate
from stakes.examples import radon
from stakes.examples.judging import table
from stakes.losses import CostTable
from stakes.problem import Problem

EDGES = (3.95, 9.95)
"""Levels, in pCi/L, at which radon is high, and very high: 4 and 10, as measured to a tenth."""
COSTS = {
    "leave": [0.0, 3000.0, 12000.0],
    "test again": [150.0, 2450.0, 3350.0],
    "remediate": [2000.0, 2000.0, 2000.0],
}
"""For a low, a high and a very high level. A test costs 150, and another year in the home."""
KNOWN = radon.KNOWN
FITTED_WITH: dict[str, Any] = {"steps": 1500, "draws": 10}


def problem() -> Problem:
    loss = CostTable(COSTS, bins=np.log(EDGES))
    return Problem(radon.model, outcome="log_radon", loss=loss)


data, held_out, labels = radon.data, radon.held_out, radon.labels


def costs(action: np.ndarray, log_radon: np.ndarray) -> np.ndarray:
    """What these actions cost homes of these levels."""
    level = np.searchsorted(np.log(EDGES), log_radon, side="right")
    rows = [list(COSTS).index(str(each)) for each in np.ravel(action)]
    found: np.ndarray = np.array(list(COSTS.values()))[rows, level]
    return found


def solve(key: Key, **other: Any) -> Calibration:
    """`other` are further arguments of `calibrate`."""
    return calibrate(key, problem(), data(), coords=labels(), **{**FITTED_WITH, **other})


def main() -> None:
    import jax

    started = time.perf_counter()
    result, homes = solve(jax.random.key(0)), held_out()
    print(result.compare(homes, known=KNOWN), end="\n\n")
    log_radon = homes["log_radon"]
    found = result.decide(homes, known=KNOWN, new="home", fit=result.vi).values
    names, counts = np.unique(found, return_counts=True)
    done = ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))
    print(f"Of {len(found)} homes held out, by plain VI: {done}.\n")
    same = {f"{each} everywhere": np.full(len(found), each) for each in COSTS}
    others = {name: costs(actions, log_radon) for name, actions in same.items()}
    print(table(costs(found, log_radon), others, "a home"))
    print(f"\n{time.perf_counter() - started:.1f} s of wall clock, compilation included.")


if __name__ == "__main__":
    main()
