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

from benchmarks.against.contest import Contest, Model, Table
from benchmarks.against.costs import Newsvendor
from benchmarks.against.tuning import FOLDS
from benchmarks.against.ways import falling, quick_ways
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
SINCE = 26
"""Months from the first day to the last that is judged."""
SPREADS = {"weekday": 0.3, "dish": 0.06, "season": 0.05, "month": 0.04}
"""How much, in logarithms, weekdays differ; that of one dish from others; a weekday from month to
month; and how far a dish's level moves in a month."""
REMAINS = 0.9
"""What is left of such a move a month later."""
COVARIATES = ((1.0, 0.3), (0.3, 0.05), (0.3, 0.05), (0.3, 0.05), (0.05, 0.02))
"""How large slopes may be: for all dishes, and for one beside that. Of holidays, sales of the week,
of four weeks and of the same weekday before, and of sunshine on warm days."""


def calendar() -> Contest:
    days = datasets.newsvendor()
    features = calendar_features(days)
    model = _model(*_arguments(days), known=(*KNOWN, "since"))
    return _contest("yaz-calendar", "Yaz, calendar alone", days, lambda dish: features, model)


def lagged() -> Contest:
    """With holidays, weather and what was sold on the days before."""
    days = datasets.newsvendor()
    calendar, weather = calendar_features(days), weather_features(days)

    def features(dish: str) -> np.ndarray:
        return np.column_stack([calendar, weather, lag_features(days, dish)])

    model = _model(*_arguments(days, covariates(days)), known=(*KNOWN, "feature"))
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
    since: Any,
    covariates: Any = None,
    sold: Any = None,
) -> None:
    """Negative binomial, log-linear; what a day does is for the most part common to all dishes.

    Without covariates, each dish has a level of its own that moves from month to month and returns
    slowly to where it was; with them, what was sold on the days before says where it is. How much
    each part may do was chosen by going forward in time within the days of the fit (`SPREADS`).
    """
    dish = numpyro.plate("dish", len(datasets.DISHES), dim=-1)
    weekdays = numpyro.plate("weekday", len(WEEKDAYS), dim=-2)
    with weekdays:
        weekday_all = numpyro.sample("weekday_all", dist.Normal(0, 1))
        with numpyro.plate("month", len(MONTHS), dim=-3):
            in_month = numpyro.sample("in_month", dist.Normal(0, 1))
    with dish:
        level = numpyro.sample("level", dist.Normal(3, 1))
        concentration = numpyro.sample("concentration", dist.LogNormal(2.5, 0.7))
        with weekdays:
            weekday_own = numpyro.sample("weekday_own", dist.Normal(0, 1))
    of_weekday = SPREADS["weekday"] * weekday_all + SPREADS["dish"] * weekday_own
    effect = of_weekday + SPREADS["season"] * in_month
    if covariates is None:
        with numpyro.plate("since", SINCE, dim=-2), dish:
            moved = numpyro.sample("moved", dist.Normal(0, 1))
        level = level + SPREADS["month"] * (_returning() @ moved)
    else:
        scale = jnp.asarray(COVARIATES)
        with numpyro.plate("feature", covariates.shape[-1], dim=-2):
            slope_all = numpyro.sample("slope_all", dist.Normal(0, 1))
            with dish:
                slope_own = numpyro.sample("slope_own", dist.Normal(0, 1))
        slope = scale[:, :1] * slope_all + scale[:, 1:] * slope_own
    log_rate = effect[month, weekday]
    if covariates is None:
        log_rate = log_rate + level[since]
    else:
        log_rate = log_rate + level + jnp.einsum("tdf,fd->td", covariates, slope)
    with numpyro.plate("day", len(weekday), dim=-2), dish:
        outcome = dist.NegativeBinomial2(jnp.exp(log_rate), concentration)
        numpyro.sample("sold", outcome, obs=sold)


def _returning() -> np.ndarray:
    """(month, month): what each month's move still does in the months after it."""
    apart = np.subtract.outer(np.arange(SINCE), np.arange(SINCE))
    return np.where(apart >= 0, REMAINS ** np.maximum(apart, 0), 0.0)


def covariates(days: pd.DataFrame) -> np.ndarray:
    """(day, dish, feature), as `COVARIATES` lists them, in units of the days of the fit."""
    sunshine = days["sunshine"].to_numpy(float)
    sunny = (sunshine - sunshine[FIT].mean()) / sunshine[FIT].std()
    warm = 1 / (1 + np.exp((18 - days["temperature"].to_numpy()) / 3))

    def of(dish: str) -> np.ndarray:
        _, week, _, month, weekday, _ = np.log(lag_features(days, dish) + 0.5).T
        lags = np.column_stack([week, month, weekday])
        lags = lags - lags[FIT].mean(axis=0)
        return np.column_stack([days["is_holiday"], lags, warm * sunny])

    return np.stack([of(dish) for dish in datasets.DISHES], axis=1)


def _model(data: dict[str, Any], new_data: dict[str, Any], known: tuple[str, ...]) -> Model:
    """The folds are blocks of days, as those of the other tools."""
    days = len(data["weekday"])
    blocks = np.arange(days) * FOLDS // days
    choosing = {
        "folds": np.broadcast_to(blocks[:, None], data["sold"].shape),
        "by": "day",
        "ways": quick_ways,
        "options": falling(1_200, draws=4),
    }
    return Model(
        demand,
        "sold",
        data,
        new_data,
        known=known,
        new=("day",),
        arranged=np.transpose,
        choosing=choosing,
    )


def _arguments(
    days: pd.DataFrame, covariates: np.ndarray | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """For the days of the fit, but for those on which nothing was sold, and for the days after."""
    month = np.array([MONTHS.index(name) for name in days["month"]])
    since = 12 * (days["year"].to_numpy() - 2013) + month
    arguments = {
        "weekday": np.array([WEEKDAYS.index(name) for name in days["weekday"]]),
        "month": month,
        "since": since - since[0],
        "sold": days[list(datasets.DISHES)].to_numpy(),
    }
    if covariates is not None:
        arguments["covariates"] = covariates
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
