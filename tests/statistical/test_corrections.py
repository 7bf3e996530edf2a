"""Heads on a base that needs none: what they cost there, on average over many data sets."""

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

import stakes
from stakes.losses import AnyLoss
from stakes.study import LEVELS, CalibrationMap, MapInputs, Network
from stakes.study.strategies.maps import Level, Monotone, Shift

FAILURE_RATE = 1e-4
"""Of all tests here together, were their seeds drawn anew."""
HEADS = (Shift(), Level(), Monotone())
Z = stats.norm.isf(FAILURE_RATE / len(HEADS))
SETS, ROWS, ALLOWED = 20, 100, 0.03
CRITERION = AnyLoss(stakes.Tilted(0.8))


def regret(head: CalibrationMap, seed: int) -> float:
    """The exact expected cost of what a head decides, relative to the best, which the base does."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=ROWS)
    best = mean + ndtri(0.8)
    shown = MapInputs(best, mean[:, None] + ndtri(LEVELS))
    outcomes = mean + rng.normal(size=ROWS)
    away = head.fit(jax.random.key(seed), shown, outcomes, CRITERION).decide(shown) - mean
    # E (y-h)+ of a standard normal is φ(h) - h (1 - Φ(h)).
    short = stats.norm.pdf(away) - away * stats.norm.sf(away)
    costs = 0.8 * short + 0.2 * (short + away)
    return float(costs.mean() / stats.norm.pdf(ndtri(0.8)) - 1)


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.title)
def test_a_base_that_cannot_be_bettered_is_hardly_made_worse(head: CalibrationMap) -> None:
    found = np.array([regret(head, seed) for seed in range(SETS)])
    assert (found >= -1e-6).all()
    assert found.mean() + Z * found.std() / np.sqrt(SETS) < ALLOWED
    # Most often the base is kept as it is.
    assert (found < 1e-6).mean() > 0.5


@pytest.mark.slow
def test_a_network_hardly_spoils_a_base_that_cannot_be_bettered() -> None:
    found = np.array([regret(Network(), seed) for seed in range(10)])
    assert found.mean() < ALLOWED
