"""One price for all regions, and one for each: a decision that changes the outcome.

Sales fall with the price by an elasticity that differs from region to region. The weeks are
simulated, so that the best prices are known: cost · e / (e - 1) where the elasticity is e. The
prices that were set vary a little around 3, which is all that the model learns elasticities from.
Run `python -m examples.pricing`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from examples.judging import ending, main, new_axes, saving
from stakes import checks
from stakes._types import Array, Key
from stakes.fitting import natural_gradient
from stakes.problem import Problem
from stakes.protocols import Predicted
from stakes.spaces import Interval
from stakes.study import Calibration, calibrate
from stakes.utilities import Linearized

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COST = 1.2
"""Of a unit."""
ELASTICITY = np.array([1.6, 2.2, 3.0])
LEVEL = np.array([2.6, 2.4, 2.2])
"""Of log sales at a price of three, by region."""
SET = 3.0
"""The price so far, around which those in the data vary."""
WEEKS = 60
"""In each region."""
LIMITS = (1.3, 6.0)
FITTED_WITH: dict[str, Any] = {
    "steps": 9000,
    "draws": 4,
    "optimizer": natural_gradient(0.1),
    "transform": Linearized(scale=100.0, regret=False),
}
"""The losses themselves lie near `most`, and say nothing of how much is at stake."""


def model(region: Array, price: Array, sold: Array | None = None) -> None:
    """Elasticities are shrunk towards 2."""
    with numpyro.plate("regions", len(ELASTICITY)):
        level = numpyro.sample("level", dist.Normal(2, 1))
        elasticity = numpyro.sample("elasticity", dist.LogNormal(jnp.log(2.0), 0.4))
    with numpyro.plate("week", len(region)):
        rate = jnp.exp(level[region] - elasticity[region] * jnp.log(price / SET))
        numpyro.sample("sold", dist.Poisson(rate), obs=sold)


@final
@dataclass(frozen=True)
class Forgone:
    """How much less than `most` is earned, which is more than there is to earn in a week."""

    most: float = 1000.0

    def __call__(self, sold: Array, price: Array) -> Array:
        return self.most - (price - COST) * sold

    def expected(self, predicted: Predicted, price: Array) -> Array:
        """Only the mean of what is sold matters, so that no sum over counts is needed."""
        return self.most - (price - COST) * predicted.mean()


def problem(per: str = "region") -> Problem:
    """With one price for each region, or for "all"."""
    checks.one_of("`per=`", per, ("region", "all"))
    prices = {"price": Interval(*LIMITS)}
    return Problem(model, outcome="sold", loss=Forgone(), decision=prices, per=per)


def data(seed: int = 0) -> dict[str, Any]:
    """Weeks at the prices that were set."""
    rng = np.random.default_rng(checks.whole("`seed=`", seed, least=0))
    region = np.repeat(np.arange(len(ELASTICITY)), WEEKS)
    price = SET * np.exp(rng.normal(0, 0.25, len(region)))
    return {"region": region, "price": price, "sold": rng.poisson(sales(region, price))}


def sales(region: np.ndarray, price: np.ndarray) -> np.ndarray:
    """What is truly sold on average."""
    mean: np.ndarray = np.exp(LEVEL[region] - ELASTICITY[region] * np.log(price / SET))
    return mean


def best_prices() -> np.ndarray:
    best: np.ndarray = COST * ELASTICITY / (ELASTICITY - 1)
    return best


def solve(key: Key, per: str = "region", **other: Any) -> Calibration:
    """`other` are further arguments of `calibrate`."""
    return calibrate(key, problem(per), data(), **{**FITTED_WITH, **other})


def solve_both(key: Key, **other: Any) -> dict[str, Calibration]:
    """With one price for all, and one for each region."""
    return {per: solve(key, per, **other) for per in ("all", "region")}


def summary(results: Mapping[str, Calibration]) -> str:
    """What prices earn in later weeks, which are simulated: the same customers come to each."""
    from scipy import stats

    region = data()["region"]
    prices = {
        "set so far": np.full(len(region), SET),
        "one for all": results["all"].vi_decisions.values,
        "one for each region": results["region"].vi_decisions.values,
        "best, if all were known": best_prices()[region],
    }
    chance = np.random.default_rng(1).uniform(size=len(region))
    earned = {
        name: (price - COST) * stats.poisson(sales(region, price)).ppf(chance)
        for name, price in prices.items()
    }
    lines = [f"Prices by region, by plain VI, and profit a week over {len(region)} later weeks:"]
    for name, price in prices.items():
        shown = " ".join(f"{price[region == r][0]:.2f}" for r in range(len(ELASTICITY)))
        saved = saving(-earned[name], -earned["set so far"])
        more = "" if name == "set so far" else f"; more by {saved}"
        lines.append(f"  {name:<24} {shown}  {earned[name].mean():6.2f}{more}")
    return "\n".join([*lines, "", ending(results["region"])])


def picture(result: Calibration, ax: "Axes | None" = None) -> "Axes":
    """Expected profit a week over prices, with a band, and the prices that are truly best."""
    ax, tried = new_axes() if ax is None else ax, np.linspace(*LIMITS, 25)
    expected = result.expected(tried, fit=result.vi, draws=200)
    for number, color in enumerate(("#0072B2", "#D55E00", "#009E73")):
        week = int(np.flatnonzero(data()["region"] == number)[0])
        mean, low, high = (
            Forgone().most - expected[name].values[:, week] / WEEKS
            for name in ("mean", "low", "high")
        )
        ax.fill_between(tried, high, low, color=color, alpha=0.15, linewidth=0)
        ax.plot(tried, mean, color=color, label=f"region {number}")
        ax.axvline(best_prices()[number], color=color, linestyle=":")
    ax.set_xlabel("price (dotted: truly best)")
    ax.set_ylabel("expected profit a week")
    ax.legend(frameon=False)
    return ax


if __name__ == "__main__":
    main(solve_both, summary)
