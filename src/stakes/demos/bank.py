"""Whom to call: two actions, and a cost that differs from customer to customer.

A bank sells deposits by telephone. A call costs the same for everybody; a customer who is not
called but would have bought is worth what a deposit of theirs would have earned. The model is a
logistic regression on what is known before the call: how long it lasted is not among it. The
amounts are made up, the calls are real.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from stakes import checks, datasets
from stakes._types import Array, Data, Key
from stakes.demos import Demo
from stakes.fitting import EM
from stakes.losses import CostTable
from stakes.problem import Problem
from stakes.study import Calibration, calibrate

if TYPE_CHECKING:
    import pandas as pd

# What a call costs, whoever answers.
CALL = 6.0
# What a deposit earns: so much, and a share of the balance up to this.
LEAST_EARNED, SHARE_EARNED, MOST_COUNTED = 10.0, 0.02, 5000.0
# Customers, picked at random, that the fit does not see.
HELD_OUT = 1000
# Plates whose members are the same in `held_out()` as in `data()`.
KNOWN = ("feature",)
NUMBERS = ("age", "balance", "day", "campaign", "previous")
WORDS = (
    "job",
    "marital",
    "education",
    "default",
    "housing",
    "loan",
    "contact",
    "month",
    "poutcome",
)


def model(features: Array, bought: Array | None = None) -> None:
    """A logistic regression: who would buy.

    The spread of the slopes is learned, so that features that say little count little.
    """
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    level = numpyro.sample("level", dist.Normal(-2, 1))
    with numpyro.plate("feature", features.shape[1]):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("customer", len(features)):
        logits = level + features @ (spread * slope)
        numpyro.sample("bought", dist.Bernoulli(logits=logits), obs=bought)


def problem(call: float = CALL) -> Problem:
    """State whom to call, with what a call costs.

    `earned` is a column of the data: what a deposit of each customer would earn.
    """
    call = checks.number("`call=`", call, above=0)
    costs = CostTable({"call": [call, call], "skip": [0, "earned"]})
    return Problem(model, outcome="bought", loss=costs)


def data() -> Data:
    """Return the customers of the fit: features, what a deposit would earn, and who bought."""
    return _arguments()[0]


def held_out() -> Data:
    """Return the customers picked at random that the fit does not see."""
    return _arguments()[1]


def _arguments() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return customers of the fit, and those held out.

    Features are scaled by the customers of the fit alone, which must not learn from the others.
    """
    calls = datasets.bank_marketing()
    order = np.random.default_rng(0).permutation(len(calls))
    fitted, judged = np.sort(order[HELD_OUT:]), np.sort(order[:HELD_OUT])
    features = _features(calls).to_numpy(float)
    # On the scale of the customers of the fit, which must not learn anything from the others.
    seen = features[fitted]
    balance = np.clip(calls["balance"].to_numpy(float), 0, MOST_COUNTED)
    arguments = {
        "features": (features - seen.mean(axis=0)) / np.maximum(seen.std(axis=0), 1e-6),
        "earned": LEAST_EARNED + SHARE_EARNED * balance,
        "bought": (calls["y"] == "yes").to_numpy(int),
    }
    first, second = (
        {name: values[rows] for name, values in arguments.items()} for rows in (fitted, judged)
    )
    return first, second


def _features(calls: "pd.DataFrame") -> "pd.DataFrame":
    """Return features known before the call, as numbers; a column for each category but one."""
    import pandas as pd

    numbers = calls[list(NUMBERS)].astype(float)
    numbers["balance"] = np.arcsinh(numbers["balance"] / 100)
    numbers["called before"] = (calls["pdays"] >= 0).astype(float)
    return pd.concat([numbers, pd.get_dummies(calls[list(WORDS)], drop_first=True)], axis=1)


def labels() -> dict[str, list[str]]:
    """Return labels of the plates' members in the fit: the names of features."""
    return {"feature": list(_features(datasets.bank_marketing()).columns)}


FITTED_WITH: dict[str, Any] = {"steps": 9000, "draws": 4, "method": EM(every=50)}


def solve(key: Key, **other: Any) -> Calibration:
    """Calibrate to the customers of the fit.

    Args:
        key: a key of JAX.
        **other: further arguments of `calibrate`.
    """
    return calibrate(key, problem(), data(), coords=labels(), **{**FITTED_WITH, **other})


DEMO = Demo(
    path=Path(__file__),
    problem=problem,
    data=data,
    held_out=held_out,
    labels=labels,
    known=KNOWN,
    options=FITTED_WITH,
)
