"""Whom to call: two actions, and a cost that differs from customer to customer.

A bank sells deposits by telephone. A call costs the same for everybody; a customer who is not
called but would have bought is worth what a deposit of theirs would have earned. The model is a
logistic regression on what is known before the call: how long it lasted is not among it. The
amounts are made up, the calls are real. Run `python -m stakes.examples.bank`.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from stakes import checks, datasets
from stakes._types import Array, Key
from stakes.examples.judging import ending, new_axes, table, told
from stakes.fitting import EM
from stakes.losses import CostTable
from stakes.problem import Problem
from stakes.study import Calibration, calibrate, net_benefit

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

CALL = 6.0
"""What a call costs, whoever answers."""
LEAST_EARNED, SHARE_EARNED, MOST_COUNTED = 10.0, 0.02, 5000.0
"""What a deposit earns: so much, and a share of the balance up to this."""
HELD_OUT = 1000
"""Customers, picked at random, that the fit does not see."""
KNOWN = ("feature",)
"""Plates whose members are the same in `held_out()` as in `data()`."""
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
    """The spread of the slopes is learned, so that features that say little count little."""
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    level = numpyro.sample("level", dist.Normal(-2, 1))
    with numpyro.plate("feature", features.shape[1]):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("customer", len(features)):
        logits = level + features @ (spread * slope)
        numpyro.sample("bought", dist.Bernoulli(logits=logits), obs=bought)


def problem(call: float = CALL) -> Problem:
    """`earned` is a column of the data: what a deposit of each customer would earn."""
    call = checks.number("`call=`", call, above=0)
    costs = CostTable({"call": [call, call], "skip": [0, "earned"]})
    return Problem(model, outcome="bought", loss=costs)


def data() -> dict[str, Any]:
    """The customers of the fit."""
    return _arguments()[0]


def held_out() -> dict[str, Any]:
    """The others."""
    return _arguments()[1]


def _arguments() -> tuple[dict[str, Any], dict[str, Any]]:
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
    import pandas as pd

    numbers = calls[list(NUMBERS)].astype(float)
    numbers["balance"] = np.arcsinh(numbers["balance"] / 100)
    numbers["called before"] = (calls["pdays"] >= 0).astype(float)
    return pd.concat([numbers, pd.get_dummies(calls[list(WORDS)], drop_first=True)], axis=1)


def labels() -> dict[str, list[str]]:
    """Labels of the plates' members in the fit."""
    return {"feature": list(_features(datasets.bank_marketing()).columns)}


FITTED_WITH: dict[str, Any] = {"steps": 9000, "draws": 4, "method": EM(every=50)}


def solve(key: Key, **other: Any) -> Calibration:
    """For the customers of the fit; `other` are further arguments of `calibrate`."""
    return calibrate(key, problem(), data(), coords=labels(), **{**FITTED_WITH, **other})


def said(result: Calibration) -> str:
    """What decisions cost the customers held out, and how good its probabilities are."""
    later = held_out()
    plan = result.decide(later, new="customer", known=KNOWN, fit=result.vi).values
    nobody = later["bought"] * later["earned"]
    others = {"call everybody": np.full(HELD_OUT, CALL), "call nobody": nobody}
    lines = [
        str(result.compare(later, new="customer", known=KNOWN)),
        "",
        f"Plain VI calls {int((plan == 'call').sum())} of {HELD_OUT} customers held out.",
        table(np.where(plan == "call", CALL, nobody), others, "a customer"),
        "",
        "Net benefit, in buyers for each 1,000 customers:",
    ]
    chance = chances(result)
    for threshold in (0.05, 0.1, 0.2, 0.3):
        worth = 1000 * net_benefit(later["bought"], chance, threshold)
        everybody = 1000 * net_benefit(later["bought"], np.ones(HELD_OUT), threshold)
        lines.append(f"  at {threshold:4.0%}: {worth:6.1f}, calling everybody {everybody:7.1f}")
    return "\n".join([*lines, "", ending(result)])


def chances(result: Calibration) -> np.ndarray:
    """That customers held out would buy, by plain VI."""
    predicted = result.predictive(held_out(), new="customer", known=KNOWN, fit=result.vi)
    found: np.ndarray = predicted["bought"].mean(("chain", "draw")).values
    return found


def picture(result: Calibration, ax: "Axes | None" = None) -> "Axes":
    """Net benefit over thresholds, on the customers held out."""
    ax = new_axes() if ax is None else ax
    bought, thresholds = held_out()["bought"], np.linspace(0.01, 0.6, 60)
    lines = {"by the model": chances(result), "calling everybody": np.ones(HELD_OUT)}
    for name, chance in lines.items():
        worth = [1000 * net_benefit(bought, chance, each) for each in thresholds]
        ax.plot(thresholds, worth, label=name)
    ax.axhline(0, color="#767676", linestyle="--", label="calling nobody")
    ax.set_ylim(-20, None)
    ax.set_xlabel("threshold probability")
    ax.set_ylabel("net benefit, buyers for each 1,000")
    ax.legend(frameon=False)
    return ax


if __name__ == "__main__":
    told(solve, said)
