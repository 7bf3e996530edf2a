"""Portions as whole numbers, and no more than the kitchen can make.

The model and the days are those of `newsvendor`. Portions are whole, and the kitchen can make 16 of
them; on Mondays, with one cook less, 9. The best numbers are those of the problem in whole numbers,
not the best numbers rounded. Run `python -m stakes.examples.portions`.
"""

import time
from typing import Any

import numpy as np

from stakes._types import Key
from stakes.calibration import Calibration, calibrate
from stakes.examples import newsvendor
from stakes.examples.judging import table
from stakes.losses import Newsvendor
from stakes.optimise import EM
from stakes.problem import Problem
from stakes.spaces import Integers

ROOM, ON_MONDAYS = 16, 9
"""Portions that the kitchen can make."""
KNOWN, FOLDS = newsvendor.KNOWN, newsvendor.FOLDS
FITTED_WITH: dict[str, Any] = {"steps": 1000, "draws": 4, "method": EM(every=25, draws=16)}
labels = newsvendor.labels


def problem() -> Problem:
    """`room` is a column of the data: what the kitchen can make on each day."""
    loss = Newsvendor(newsvendor.UNDERAGE, newsvendor.OVERAGE)
    return Problem(newsvendor.model, outcome="sold", loss=loss, decision=Integers(0, "room"))


def data() -> dict[str, Any]:
    """The days of the fit."""
    return _with_room(newsvendor.data())


def fit_data() -> dict[str, Any]:
    """In minibatches."""
    return {**data(), "batch": 64}


def held_out() -> dict[str, Any]:
    """The days after those of the fit."""
    return _with_room(newsvendor.held_out())


def _with_room(days: dict[str, Any]) -> dict[str, Any]:
    monday = days["weekday"] == newsvendor.WEEKDAYS.index("MON")
    return {**days, "room": np.where(monday, ON_MONDAYS, ROOM)}


def costs(portions: np.ndarray, sold: np.ndarray) -> np.ndarray:
    short = sold - portions
    return np.asarray(np.maximum(newsvendor.UNDERAGE * short, -newsvendor.OVERAGE * short))


def solve(key: Key, **other: Any) -> Calibration:
    """For the days of the fit; `other` are further arguments of `calibrate`."""
    return calibrate(key, problem(), fit_data(), coords=labels(), **{**FITTED_WITH, **other})


def main() -> None:
    import jax

    started = time.perf_counter()
    result, later = solve(jax.random.key(0)), held_out()
    cases = result.assess(later, known=KNOWN)
    print(cases.comparison, end="\n\n")
    portions = cases.vi_decisions.values
    seen, sold = data(), later["sold"]
    weekday = np.array([seen["sold"][seen["weekday"] == day].mean() for day in range(7)])
    level = np.quantile(seen["sold"], 0.75)
    others = {
        "the same every day": np.minimum(round(float(level)), later["room"]),
        "the weekday's mean": np.minimum(np.round(weekday[later["weekday"]]), later["room"]),
    }
    print(f"Days at the limit of the kitchen: {int((portions == later['room']).sum())}.\n")
    print(
        table(costs(portions, sold), {name: costs(h, sold) for name, h in others.items()}, "a day")
    )
    print(f"\n{time.perf_counter() - started:.1f} s of wall clock, compilation included.")


if __name__ == "__main__":
    main()
