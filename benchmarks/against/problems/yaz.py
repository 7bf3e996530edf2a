"""Yaz: portions of seven dishes to prepare, as in Buttler, Philippi, Stein and Pibernik (2022).

Days in order, the first 27 dropped, 553 to fit and 185 to judge; a portion short and a portion left
over cost 10 together. With weekday, month and year alone the figures of that study can be set
beside. Its lag features cannot be used: their windows end with the day to be predicted. Those of
`lagged` end the day before.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd

import stakes
from benchmarks.against.contest import Contest, Model, Table
from benchmarks.against.costs import Newsvendor
from benchmarks.against.tuning import FOLDS
from benchmarks.against.ways import quick_ways
from stakes import datasets

DROPPED, FITTED = 27, 553
FIT, NEW = slice(DROPPED, DROPPED + FITTED), slice(DROPPED + FITTED, None)
COSTS = tuple(Newsvendor(q, total=10.0) for q in (0.1, 0.25, 0.5, 0.75, 0.9))
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
PUBLISHED = {
    "SAA": 19.82,
    "DL": 19.49,
    "tree": 19.38,
    "LR": 19.02,
    "kernel": 18.98,
    "forest": 18.68,
    "KNN": 17.83,
}
"""Mean cost over dishes and ratios, with weekday, month and year alone."""
KNOWN = ("dish", "weekday", "month")


def calendar() -> Contest:
    days = datasets.newsvendor()
    features = calendar_features(days)
    model = _model(*_arguments(days), known=KNOWN)
    return _contest("yaz-calendar", "Yaz, calendar alone", days, lambda dish: features, model)


def lagged() -> Contest:
    """With holidays, weather and what was sold on the days before."""
    days = datasets.newsvendor()
    calendar, weather = calendar_features(days), weather_features(days)

    def features(dish: str) -> np.ndarray:
        return np.column_stack([calendar, weather, lag_features(days, dish)])

    def covariates(dish: str) -> np.ndarray:
        return np.column_stack([weather, np.log1p(lag_features(days, dish))])

    model = _model(*_arguments(days, covariates), known=(*KNOWN, "feature"))
    return _contest("yaz-lagged", "Yaz, with weather and days before", days, features, model)


def calendar_features(days: pd.DataFrame) -> np.ndarray:
    """Weekday and month one-hot, and the year: what the published rows have."""
    weekday = days["weekday"].to_numpy()[:, None] == np.array(WEEKDAYS)
    month = days["month"].to_numpy()[:, None] == np.array(MONTHS)
    return np.column_stack([weekday, month, days["year"]]).astype(float)


def weather_features(days: pd.DataFrame) -> np.ndarray:
    named = days[["is_holiday", "wind", "clouds", "sunshine", "temperature"]]
    return np.column_stack([named, np.log1p(days["rain"])]).astype(float)


def lag_features(days: pd.DataFrame, dish: str) -> np.ndarray:
    """Of the days before alone: nothing that happens on a day or later changes its row.

    Days on which the restaurant was closed say nothing about demand and are passed over.
    """
    sold = days[dish].where(days["is_closed"] == 0).astype(float)
    total = days[list(datasets.DISHES)].sum(axis=1).where(days["is_closed"] == 0)
    before, total = sold.shift(1), total.shift(1)
    weeks = pd.concat([sold.shift(7 * week) for week in (1, 2, 3, 4)], axis=1)
    lags = pd.DataFrame(
        {
            "day": before,
            "week": before.rolling(7, min_periods=1).mean(),
            "fortnight": before.rolling(14, min_periods=1).mean(),
            "month": before.rolling(28, min_periods=1).mean(),
            "weekday": weeks.mean(axis=1),
            "all dishes": total.rolling(7, min_periods=1).mean(),
        }
    )
    return lags.ffill().fillna(0.0).to_numpy()


def demand(
    weekday: Any,
    month: Any,
    year: Any,
    covariates: Any = None,
    batch: int | None = None,
    sold: Any = None,
) -> None:
    """Negative binomial, log-linear; what weekday and month do is partly common to all dishes."""
    spread = dist.HalfNormal(0.3)
    dish = numpyro.plate("dish", len(datasets.DISHES), dim=-1)
    with numpyro.plate("weekday", len(WEEKDAYS), dim=-2):
        weekday_all = numpyro.sample("weekday_all", dist.Normal(0, 0.3))
    with numpyro.plate("month", len(MONTHS), dim=-2):
        month_all = numpyro.sample("month_all", dist.Normal(0, 0.2))
    weekday_spread = numpyro.sample("weekday_spread", spread)
    month_spread = numpyro.sample("month_spread", spread)
    with dish:
        level = numpyro.sample("level", dist.Normal(3, 1))
        trend = numpyro.sample("trend", dist.Normal(0, 0.3))
        concentration = numpyro.sample("concentration", dist.LogNormal(2.5, 1))
        with numpyro.plate("weekday", len(WEEKDAYS), dim=-2):
            weekday_own = numpyro.sample("weekday_own", dist.Normal(0, 1))
        with numpyro.plate("month", len(MONTHS), dim=-2):
            month_own = numpyro.sample("month_own", dist.Normal(0, 1))
        if covariates is not None:
            with numpyro.plate("feature", covariates.shape[-1], dim=-2):
                slope = numpyro.sample("slope", dist.Normal(0, 0.3))
    weekday_effect = weekday_all + weekday_spread * weekday_own
    month_effect = month_all + month_spread * month_own
    days = len(weekday)
    day = numpyro.plate("day", days, subsample_size=min(batch or days, days), dim=-2)
    with day as members, dish:
        log_rate = level + weekday_effect[weekday[members]] + month_effect[month[members]]
        log_rate = log_rate + trend * year[members][:, None]
        if covariates is not None:
            log_rate = log_rate + jnp.einsum("tdf,fd->td", covariates[members], slope)
        outcome = dist.NegativeBinomial2(jnp.exp(log_rate), concentration)
        numpyro.sample("sold", outcome, obs=None if sold is None else sold[members])


def _model(data: dict[str, Any], new_data: dict[str, Any], known: tuple[str, ...]) -> Model:
    """Fitted to minibatches of days; the folds are blocks of days, as those of the other tools."""
    days = len(data["weekday"])
    blocks = np.arange(days) * FOLDS // days
    choosing = {
        "folds": np.broadcast_to(blocks[:, None], data["sold"].shape),
        "by": "day",
        "ways": quick_ways,
        "options": stakes.Options(steps=3_000, draws=4),
    }
    fitted = {**data, "batch": 64}
    return Model(
        demand,
        "sold",
        fitted,
        new_data,
        known=known,
        new=("day",),
        arranged=np.transpose,
        one_fit=True,
        choosing=choosing,
    )


def _arguments(
    days: pd.DataFrame, covariates: Callable[[str], np.ndarray] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """For the days of the fit, but for those on which nothing was sold, and for the days after."""
    arguments = {
        "weekday": np.array([WEEKDAYS.index(name) for name in days["weekday"]]),
        "month": np.array([MONTHS.index(name) for name in days["month"]]),
        "year": days["year"].to_numpy() - 2014.0,
        "sold": days[list(datasets.DISHES)].to_numpy(),
    }
    if covariates is not None:
        stacked = np.stack([covariates(dish) for dish in datasets.DISHES], axis=1)
        seen = stacked[FIT]
        arguments["covariates"] = (stacked - seen.mean(axis=0)) / seen.std(axis=0)
    fitted, later = (
        {name: values[part] for name, values in arguments.items()} for part in (FIT, NEW)
    )
    told = fitted["sold"].sum(axis=1) > 0
    return {name: values[told] for name, values in fitted.items()}, later


def _contest(
    name: str,
    title: str,
    days: pd.DataFrame,
    features: Callable[[str], np.ndarray],
    model: Model,
) -> Contest:
    tables = []
    for dish in datasets.DISHES:
        x, y = features(dish), days[dish].to_numpy(float)
        tables.append(Table(dish, x[FIT], y[FIT], x[NEW], y[NEW]))
    cluster = np.arange(len(tables[0].new_y))
    return Contest(
        name, title, "cost per dish and day", COSTS, tuple(tables), model, cluster, in_order=True
    )
