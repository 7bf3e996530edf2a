"""Portions as whole numbers, and no more than the kitchen can make.

The model and the days are those of `newsvendor`. Portions are whole, and the kitchen can make 16 of
them; on Mondays, with one cook less, 9. The best numbers are those of the problem in whole numbers,
not the best numbers rounded. Run `python -m examples.portions`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from examples.judging import ending, main, new_axes, table
from stakes._types import Key
from stakes.demos import newsvendor
from stakes.fitting import EM, natural_gradient
from stakes.losses import Newsvendor
from stakes.problem import Problem
from stakes.spaces import Integers
from stakes.study import Calibration, calibrate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOM, ON_MONDAYS = 16, 9
"""Portions that the kitchen can make."""
KNOWN, FOLDS = newsvendor.KNOWN, newsvendor.FOLDS
FITTED_WITH: dict[str, Any] = {
    "steps": 9000,
    "draws": 4,
    "optimizer": natural_gradient(0.1),
    "method": EM(every=50, draws=16),
}
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
    return {**data(), "batch": 32}


def held_out() -> dict[str, Any]:
    """The days after those of the fit."""
    return _with_room(newsvendor.held_out())


def _with_room(days: Mapping[str, Any]) -> dict[str, Any]:
    monday = days["weekday"] == newsvendor.WEEKDAYS.index("MON")
    return {**days, "room": np.where(monday, ON_MONDAYS, ROOM)}


def costs(portions: np.ndarray, sold: np.ndarray) -> np.ndarray:
    short = sold - portions
    return np.asarray(np.maximum(newsvendor.UNDERAGE * short, -newsvendor.OVERAGE * short))


def solve(key: Key, **other: Any) -> Calibration:
    """For the days of the fit; `other` are further arguments of `calibrate`."""
    return calibrate(key, problem(), fit_data(), coords=labels(), **{**FITTED_WITH, **other})


def summary(result: Calibration) -> str:
    """What decisions cost on the days held out."""
    later, seen = held_out(), data()
    cases = result.assess(later, known=KNOWN)
    portions, sold = cases.vi_decisions.values, later["sold"]
    weekday = np.array([seen["sold"][seen["weekday"] == day].mean() for day in range(7)])
    level = np.quantile(seen["sold"], 0.75)
    others = {
        "the same every day": np.minimum(round(float(level)), later["room"]),
        "the weekday's mean": np.minimum(np.round(weekday[later["weekday"]]), later["room"]),
    }
    judged = {name: costs(other, sold) for name, other in others.items()}
    return "\n".join(
        [
            str(cases.comparison),
            "",
            f"Days at the limit of the kitchen: {int((portions == later['room']).sum())}.",
            table(costs(portions, sold), judged, "a day", cases.comparison.dependence),
            "",
            ending(result),
        ]
    )


def picture(result: Calibration, ax: "Axes | None" = None, days: int = 42) -> "Axes":
    """Portions, what was sold and what the kitchen could make, on the first days held out."""
    ax, later = new_axes() if ax is None else ax, held_out()
    portions = result.decide(later, known=KNOWN, fit=result.vi).values
    number = np.arange(days)
    ax.step(number, later["room"][:days], where="mid", color="#767676", label="room in the kitchen")
    ax.plot(number, portions[:days], "_", color="#D55E00", markersize=9, label="portions")
    ax.plot(number, later["sold"][:days], "o", color="#1d1d1f", markersize=3, label="sold")
    ax.set_xlabel("days held out")
    ax.set_ylabel("portions")
    ax.legend(frameon=False)
    return ax


if __name__ == "__main__":
    main(solve, summary)
