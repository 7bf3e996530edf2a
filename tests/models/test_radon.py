"""Bambi's published radon example, as a formula here and by hand with NUTS.

https://bambinos.github.io/bambi/notebooks/radon_example.html has `log_radon ~ floor + log_u +
(1|county)`; what is called `log_u` there is `uranium` here.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS

import stakes
from stakes import datasets

FORMULA = "log_radon ~ floor + uranium + (1 | county)"


def by_hand(floor, uranium, county, counties, log_radon):
    """The same model: predictors around their means, priors as wide as printing it shows."""
    sd, floor, uranium = log_radon.std(), floor - floor.mean(), uranium - uranium.mean()
    level = numpyro.sample("intercept", dist.Normal(log_radon.mean(), 2.5 * sd))
    upstairs = numpyro.sample("floor", dist.Normal(0, 2.5 * sd / 0.5))
    soil = numpyro.sample("uranium", dist.Normal(0, 2.5 * sd / uranium.std()))
    between = numpyro.sample("1|county_sigma", dist.HalfNormal(2 * sd))
    with numpyro.plate("counties", counties):
        own = numpyro.sample("own", dist.Normal(0, 1))
    numpyro.deterministic("1|county", between * own)
    sigma = numpyro.sample("sigma", dist.HalfNormal(2 * sd))
    mean = level + upstairs * floor + soil * uranium + (between * own)[county]
    with numpyro.plate("homes", len(floor)):
        numpyro.sample("log_radon", dist.Normal(mean, sigma), obs=log_radon)


@pytest.mark.slow
def test_effects_are_those_of_the_same_model_by_hand() -> None:
    """Means within two standard errors, that is, posterior standard deviations, of NUTS."""
    homes = datasets.radon()
    names, codes = np.unique(homes["county"], return_inverse=True)
    columns = {name: jnp.asarray(homes[name]) for name in ("floor", "uranium", "log_radon")}
    settings = {"num_chains": 2, "chain_method": "sequential", "progress_bar": False}
    chains = MCMC(NUTS(by_hand), num_warmup=500, num_samples=1000, **settings)
    started = time.perf_counter()
    chains.run(jax.random.key(0), county=codes, counties=len(names), **columns)
    sampled = {name: np.asarray(draws) for name, draws in chains.get_samples().items()}
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    problem = stakes.Problem(
        stakes.formula(FORMULA, homes), outcome="log_radon", loss=stakes.Newsvendor(4, 1)
    )
    result = stakes.calibrate(jax.random.key(0), problem, homes, progress=False)
    both = time.perf_counter() - started
    found = result.posterior(result.vi, draws=4000).squeeze("chain")
    assert list(found["county"].values) == list(names)
    off = {}
    for name in ("intercept", "floor", "uranium", "1|county", "1|county_sigma", "sigma"):
        exact = sampled[name]
        off[name] = np.abs(found[name].values.mean(0) - exact.mean(0)) / exact.std(0)
        assert np.all(off[name] < 2), name
    worst = {name: round(float(np.max(each)), 2) for name, each in off.items()}
    print(
        f"\nfarthest off, in standard deviations: {worst}; counties on average "
        f"{off['1|county'].mean():.2f}. NUTS by hand {seconds:.0f} s, plain VI "
        f"{result.vi.seconds:.0f} s, both fits with all else {both:.0f} s."
    )
