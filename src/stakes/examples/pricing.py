"""One price for all regions, and one for each: a decision that changes the outcome.

Sales fall with the price by an elasticity that differs from region to region. The weeks are
simulated, so that the best prices are known: cost · e / (e - 1) where the elasticity is e. The
prices that were set vary a little around 3, which is all that the model learns elasticities from.
Run `python -m stakes.examples.pricing`.
"""

import time
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from stakes import checks
from stakes._types import Array, Key
from stakes.calibration import Calibration, calibrate
from stakes.examples.judging import saved
from stakes.problem import Problem
from stakes.protocols import Predicted
from stakes.spaces import Interval
from stakes.utilities import Linearized

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
    "steps": 1500,
    "draws": 4,
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
    found: np.ndarray = np.exp(LEVEL[region] - ELASTICITY[region] * np.log(price / SET))
    return found


def best_prices() -> np.ndarray:
    found: np.ndarray = COST * ELASTICITY / (ELASTICITY - 1)
    return found


def solve(key: Key, per: str = "region", **other: Any) -> Calibration:
    """`other` are further arguments of `calibrate`."""
    return calibrate(key, problem(per), data(), **{**FITTED_WITH, **other})


def main() -> None:
    import jax

    started = time.perf_counter()
    weeks = data()
    region, rng = weeks["region"], np.random.default_rng(1)
    prices = {"set so far": np.full(len(region), SET)}
    for per, name in (("all", "one for all"), ("region", "one for each region")):
        prices[name] = solve(jax.random.key(0), per).vi_decisions.values
    prices["best, if all were known"] = best_prices()[region]
    # The same customers come, whatever the price: later weeks, simulated.
    chance = rng.uniform(size=len(region))
    from scipy import stats

    earned = {
        name: (price - COST) * stats.poisson(sales(region, price)).ppf(chance)
        for name, price in prices.items()
    }
    print(f"Prices by region, by plain VI, and profit a week over {len(region)} later weeks:")
    for name, price in prices.items():
        shown = " ".join(f"{price[region == r][0]:.2f}" for r in range(len(ELASTICITY)))
        mean, low, high = saved(earned["set so far"], earned[name])
        more = "" if name == "set so far" else f"; {mean:.2f} more ({low:.2f} to {high:.2f})"
        print(f"  {name:<24} {shown}  {earned[name].mean():6.2f}{more}")
    print(f"\n{time.perf_counter() - started:.1f} s of wall clock, compilation included.")


if __name__ == "__main__":
    main()
