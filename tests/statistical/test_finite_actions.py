"""Finite actions: the calibrated bound that EM reaches is the best of all, tried one by one.

The model has one latent and the guide two parameters, so that the bound is an integral over one
number. For every way to assign actions to cases it is maximised by itself, in NumPy.
"""

from itertools import product

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import optimize

from stakes import EM, CostTable, Linearized, Problem, calibrate

KEY = jax.random.key(0)
YES = np.array([1, 0, 0, 1, 0])
AMOUNT = np.array([1.0, 2.0, 3.0, 9.0, 14.0])
CALL, SCALE, PRIOR = 2.0, 0.7, 1.5
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


def coins(y=None):
    level = numpyro.sample("level", dist.Normal(0, PRIOR))
    with numpyro.plate("case", 5):
        numpyro.sample("y", dist.Bernoulli(logits=level), obs=y)


def bound(parameters: np.ndarray, called: np.ndarray) -> float:
    """E_q [log p(y, θ) - log q(θ) - Σ_i regret(θ, h_i)/M]."""
    loc, log_scale = parameters
    level = loc + np.exp(log_scale) * NODES
    chance = 1 / (1 + np.exp(-level))
    prior = -np.square(level / PRIOR) / 2 - np.log(PRIOR * np.sqrt(2 * np.pi))
    log_p = prior + np.where(YES == 1, np.log(chance)[:, None], np.log1p(-chance)[:, None]).sum(
        axis=1
    )
    skip, call = chance[:, None] * AMOUNT, np.full((len(level), 5), CALL)
    regret = np.where(called, call, skip) - np.minimum(call, skip)
    inside = log_p - regret.sum(axis=1) / SCALE
    entropy = 0.5 * np.log(2 * np.pi * np.e) + log_scale
    return float(inside @ WEIGHTS / WEIGHTS.sum() + entropy)


def best(called: np.ndarray) -> float:
    starts = [(-1.0, -0.5), (0.0, -0.5), (-2.0, 0.0)]
    found = [optimize.minimize(lambda p: -bound(p, called), start).fun for start in starts]
    return -min(found)


@pytest.mark.slow
def test_the_optimum_of_the_bound_is_that_of_brute_force():
    every = {called: best(np.array(called)) for called in product([True, False], repeat=5)}
    winner = max(every, key=every.get)
    assert 0 < sum(winner) < 5
    others = sorted(every.values())
    assert others[-1] - others[-2] > 0.1  # no close race
    problem = Problem(
        coins, outcome="y", loss=CostTable({"call": [CALL, CALL], "skip": [0, AMOUNT]})
    )
    result = calibrate(
        KEY,
        problem,
        {"y": YES},
        method=EM(every=5),
        transform=Linearized(scale=SCALE),
        steps=1500,
        draws=64,
        progress=False,
    )
    decided = np.asarray(result.calibrated.variables["decisions"]) == 0
    assert tuple(decided) == winner
    transforms = result.approximation.structure.transforms
    loc, scale = (
        float(np.asarray(transforms[name](result.calibrated.params[name])))
        for name in ("level_auto_loc", "level_auto_scale")
    )
    reached = bound(np.array([loc, np.log(scale)]), decided)
    np.testing.assert_allclose(reached, every[winner], atol=3e-3)
