"""Newsvendor: how many portions of a dish to prepare, when too few cost more than too many.

A restaurant's daily demand is negative binomial, its rate log-linear in calendar and weather.
A portion short loses what it would have earned, a portion left over what it cost to make. The
model is fitted to the days up to a date and judged by the days after it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from stakes import checks, datasets
from stakes._types import Array, Data, Key
from stakes.demos import Demo
from stakes.losses import Newsvendor
from stakes.problem import Problem
from stakes.study import Calibration, Forward, calibrate

if TYPE_CHECKING:
    import pandas as pd

# The dish that is decided about unless another is named.
DISH = "shrimp"
# What a portion short and a portion left over cost.
UNDERAGE, OVERAGE = 3.0, 1.0
# Days are judged by what was known before them.
FOLDS = Forward()
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
# Days at the end that the fit does not see.
HELD_OUT = 160
# Plates whose members are the same in `held_out()` as in `data()`.
KNOWN = ("day_of_week", "feature")


def model(
    weekday: Array,
    features: Array,
    batch: int | None = None,
    sold: Array | None = None,
) -> None:
    """Negative binomial demand, with a rate that is log-linear in weekday, season and weather.

    Demand varies 1 + rate / concentration times as much as a Poisson count.
    """
    level = numpyro.sample("level", dist.Normal(3, 1))
    concentration = numpyro.sample("concentration", dist.LogNormal(3, 1))
    with numpyro.plate("day_of_week", len(WEEKDAYS)):
        effect = numpyro.sample("effect", dist.Normal(0, 0.5))
    with numpyro.plate("feature", features.shape[1]):
        slope = numpyro.sample("slope", dist.Normal(0, 0.2))
    days = len(weekday)
    with numpyro.plate("day", days, subsample_size=min(batch or days, days)) as members:
        rate = jnp.exp(level + effect[weekday[members]] + features[members] @ slope)
        seen = None if sold is None else sold[members]
        numpyro.sample("sold", dist.NegativeBinomial2(rate, concentration), obs=seen)


def problem(underage: float = UNDERAGE, overage: float = OVERAGE) -> Problem:
    """State how many portions to prepare, with what one short and one left over cost."""
    underage = checks.number("`underage=`", underage, above=0)
    overage = checks.number("`overage=`", overage, above=0)
    return Problem(model, outcome="sold", loss=Newsvendor(underage, overage))


def data(dish: str = DISH) -> Data:
    """Return the days of the fit, for one dish: weekday, features and portions sold."""
    return _arguments(dish)[0]


def held_out(dish: str = DISH) -> Data:
    """Return the days after those of the fit."""
    return _arguments(dish)[1]


def open_days() -> "pd.DataFrame":
    """Days on which there is something to decide, by date; the last of them are held out."""
    days = datasets.newsvendor()
    return days[days["is_closed"] == 0]


def _arguments(dish: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return days of the fit, and later ones.

    Features are scaled by the days of the fit alone, which must not learn from later ones.
    """
    checks.one_of("`dish=`", dish, datasets.DISHES)
    days = open_days()
    features = _features(days).to_numpy()
    # On the scale of the days of the fit, which must not learn anything from the days held out.
    seen = features[:-HELD_OUT]
    arguments = {
        "weekday": np.array([WEEKDAYS.index(name) for name in days["weekday"]]),
        "features": (features - seen.mean(axis=0)) / seen.std(axis=0),
        "sold": days[dish].to_numpy(),
    }
    fitted, later = (
        {name: values[part] for name, values in arguments.items()}
        for part in (slice(None, -HELD_OUT), slice(-HELD_OUT, None))
    )
    return fitted, later


def _features(days: "pd.DataFrame") -> "pd.DataFrame":
    """Return the weather, season and trend of each day.

    Rain comes as a logarithm, since the first drops matter more than the last ones of a cloudburst.
    """
    import pandas as pd

    dates = pd.DatetimeIndex(days.index)
    season = 2 * np.pi * dates.day_of_year / 365.25
    weather = days[["wind", "clouds", "sunshine", "temperature"]]
    # The first drops of rain matter more than the last ones of a cloudburst.
    return weather.assign(
        rain=np.log1p(days["rain"]),
        holiday=days["is_holiday"],
        trend=np.arange(len(days)),
        summer=-np.cos(season),
        spring=np.sin(season),
    )


FITTED_WITH: dict[str, Any] = {"draws": 10}


def fit_data() -> Data:
    """Return the days of the fit, to be taken in minibatches of 64.

    With all days at every step, the fits would take minutes.
    """
    return {**data(), "batch": 64}


def solve(key: Key, **other: Any) -> Calibration:
    """Run `calibrate` on the days of the fit.

    Args:
        key: a key of JAX.
        **other: further arguments of `calibrate`.
    """
    return calibrate(key, problem(), fit_data(), coords=labels(), **{**FITTED_WITH, **other})


def labels() -> dict[str, list[str]]:
    """Return labels of the plates' members in the fit: dates, weekdays and features."""
    days = open_days()
    return {
        "day": [f"{date:%Y-%m-%d}" for date in days.index[:-HELD_OUT]],
        "day_of_week": list(WEEKDAYS),
        "feature": list(_features(days).columns),
    }


DEMO = Demo(
    path=Path(__file__),
    problem=problem,
    data=fit_data,
    held_out=held_out,
    labels=labels,
    known=KNOWN,
    options=FITTED_WITH,
    folds=FOLDS,
)
