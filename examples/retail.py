"""Retail: how much of each product each customer will buy, by matrix factorisation.

The customers by products matrix of `datasets.retail()` as log(1 + count), half of its entries
seen by the fit, the others held out. Guessing too little of a purchase costs four times as much
as guessing too much: `Tilted(0.8)`. Run `python -m examples.retail`.
"""

from typing import Any

import numpy as np

from examples import matrix_factorization
from examples.judging import main
from stakes import checks, datasets
from stakes._types import Key
from stakes.losses import Tilted
from stakes.problem import Problem
from stakes.study import Calibration, calibrate

model = matrix_factorization.model
SETTINGS = {"factors": 5, "sigma_y": 1.0, "sigma_prior": 1.0}
"""Fewer factors and a narrower prior than the paper's 20 and 10, for a sparser matrix."""
KNOWN = ("row", "column", "factor", "row_factor")
"""Plates whose members are the same in `held_out()` as in `data()`: all of them."""


def problem() -> Problem:
    return Problem(model, outcome="y", loss=Tilted(0.8))


def matrix(seed: int = 0) -> dict[str, Any]:
    """log(1 + count), and which entries the fit may see: each with probability one half."""
    seed = checks.whole("`seed=`", seed, least=0, most=2**63 - 1)
    y = np.log1p(datasets.retail().to_numpy(dtype=np.float32))
    return {"observed": np.random.default_rng(seed).integers(0, 2, y.shape).astype(bool), "y": y}


def data(seed: int = 0) -> dict[str, Any]:
    """The matrix and the settings of the model."""
    return {**matrix(seed), **SETTINGS}


def held_out(seed: int = 0) -> dict[str, Any]:
    """The entries that the fit did not see."""
    fitted = data(seed)
    return {**fitted, "observed": ~fitted["observed"]}


def labels() -> dict[str, list[str]]:
    """Customers and products."""
    counts = datasets.retail()
    return {"row": [str(code) for code in counts.index], "column": list(counts.columns)}


def solve(key: Key, **other: Any) -> Calibration:
    """`other` are further arguments of `calibrate`."""
    return calibrate(key, problem(), data(), coords=labels(), **other)


def summary(result: Calibration) -> str:
    """What decisions cost for the entries held out, and decisions about five of the first row."""
    lines = [
        str(result.compare(held_out(), known=KNOWN)),
        "",
        "Five entries of the first customer, as counts, under plain VI and calibrated:",
    ]
    for at, product in enumerate(labels()["column"][:5]):
        plain, calibrated = (
            np.expm1(float(decisions[0, at]))
            for decisions in (result.vi_decisions, result.decisions)
        )
        lines.append(f"  {product:8} {plain:6.2f} {calibrated:6.2f}")
    return "\n".join([*lines, "", repr(result)])


if __name__ == "__main__":
    main(solve, summary)
