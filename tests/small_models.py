"""Small models with their data, which tests of several modules fit: one program serves them all."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from stakes import CostTable, Interval, Problem, Utility

X = np.linspace(-2, 2, 24)
DATA = {"x": X, "y": 1.5 * X + 0.3 * np.sin(37 * X)}
YES = {"x": X, "y": (X + 0.8 * np.sin(23 * X) > 0).astype(int)}
CALLS = CostTable({"call": [5, 1], "skip": [0, 20]})

ELASTICITY, UNIT_COST = 2.5, 1.2
PRICE = np.linspace(1.5, 4.0, 24)
SOLD = {"price": PRICE, "sold": np.round(40 * PRICE**-ELASTICITY).astype(int)}


def regression(x, y=None):
    """A line through the origin, with noise that is learned: for `DATA`."""
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    noise = numpyro.sample("noise", dist.LogNormal(0, 0.5))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(slope * x, noise), obs=y)


def coins(x, y=None):
    """A logistic regression: for `YES`, with the costs in `CALLS`."""
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=slope * x), obs=y)


def demand(price, sold=None):
    """Counts that fall as the price rises, by a known elasticity: for `SOLD`."""
    level = numpyro.sample("level", dist.Normal(3, 1))
    with numpyro.plate("week", len(price)):
        rate = jnp.exp(level - ELASTICITY * jnp.log(price))
        numpyro.sample("sold", dist.Poisson(rate), obs=sold)


def profit(sold, price):
    return (price - UNIT_COST) * sold + 1e-4


def pricing(space=Interval(1.3, 6.0), **others):  # noqa: B008
    """The price with the largest profit: a decision that changes its outcome."""
    utility = Utility(profit, regret=False)
    return Problem(demand, outcome="sold", utility=utility, decision={"price": space}, **others)


def schools(effect, error):
    """Eight schools, of which each has an effect of its own: for `SCHOOLS`."""
    mean, spread = numpyro.sample("mean", dist.Normal(0, 5)), 4.0
    with numpyro.plate("school", len(effect)):
        own = numpyro.sample("own", dist.Normal(mean, spread))
        numpyro.sample("seen", dist.Normal(own, error), obs=effect)
    numpyro.deterministic("twice", 2 * mean)


SCHOOLS = {"effect": np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), "error": np.full(8, 10.0)}
