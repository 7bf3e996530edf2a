"""Outcome x loss x space: no decision in the space costs less than the one that is found.

What a decision costs is known in NumPy: a sum over counts, or over a fine grid of values; where a
cost jumps, the distribution function says it.
"""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

from stakes import (
    Expectile,
    Huber,
    Integers,
    Interval,
    LinEx,
    Newsvendor,
    OneOf,
    Real,
    Squared,
    Tilted,
    ZeroOne,
)
from stakes.decisions import DecisionTask, best_decision
from stakes.expectation import choose
from stakes.losses import AnyLoss
from stakes.utilities import ScaledLoss

KEY = jax.random.key(0)
LOCS, SCALES = np.array([[0.3, 4.2, -2.0, 11.0], [1.4, 7.9, -1.0, 12.5]]), np.array([0.8, 2.0])
RATES = np.array([[0.4, 3.0, 9.0, 20.0], [0.9, 4.5, 12.0, 26.0]])
SHARES = np.array([0.3, 0.6, 0.5, 0.8])

SPACES: dict[str, tuple[Any, np.ndarray]] = {
    "real": (Real(), np.arange(-30, 60, 0.001)),
    "interval": (Interval(1, 8.5), np.arange(1, 8.5005, 0.001)),
    "from below": (Interval(low=2.5), np.arange(2.5, 60, 0.001)),
    "whole": (Integers(), np.arange(-30.0, 60.0)),
    "some whole": (Integers(2, 9), np.arange(2.0, 10.0)),
    "many whole": (Integers(0, 500), np.arange(0.0, 60.0)),
    "packs": (OneOf([12, 0, 6]), np.array([0.0, 6.0, 12.0])),
}
LOSSES: dict[str, Any] = {
    "squared": Squared(),
    "tilted": Tilted(0.8),
    "newsvendor": Newsvendor(3, 1.5),
    "linex": LinEx(0.3),
    "expectile": Expectile(0.8),
    "huber": Huber(1.5),
    "zero or one": ZeroOne(1.2),
    "own": lambda y, h: jnp.abs(y - h) ** 1.5,
}
QUICK = {
    ("normal", "interval", "newsvendor"),
    ("normal", "whole", "own"),
    ("poisson", "whole", "tilted"),
    ("poisson", "packs", "huber"),
    ("two normals", "real", "own"),
    ("two normals", "some whole", "tilted"),
}


class Outcomes(NamedTuple):
    """A mixture for each of four cases; and values with their probabilities, from SciPy."""

    ours: Any
    values: np.ndarray
    chances: np.ndarray
    cdf: Any


@cache
def outcomes(kind: str) -> Outcomes:
    if kind == "poisson":
        counts, twin = np.arange(200.0), stats.poisson(RATES[..., None])
        ours = jax.vmap(dist.Poisson)(jnp.asarray(RATES))
        return Outcomes(ours, counts, twin.pmf(counts).mean(axis=0), _mean_cdf(twin))
    places, scales = np.linspace(-20, 40, 24_001), np.broadcast_to(SCALES[:, None], LOCS.shape)
    twin = stats.norm(LOCS[..., None], scales[..., None])
    density = twin.pdf(places)
    if kind == "normal":
        ours = jax.vmap(dist.Normal)(jnp.asarray(LOCS), jnp.asarray(scales))
        return Outcomes(ours, places, density.mean(axis=0) * 60 / 24_000, _mean_cdf(twin))
    other = stats.norm(LOCS[..., None] + 6, 0.5)
    share = SHARES[:, None]

    def both(loc: Any, scale: Any) -> Any:
        weights = dist.Categorical(probs=jnp.stack([SHARES, 1 - SHARES], axis=-1))
        parts = jnp.stack([loc, loc + 6], -1), jnp.stack([scale, jnp.full(4, 0.5)], -1)
        return dist.MixtureSameFamily(weights, dist.Normal(*parts))

    chances = share * density + (1 - share) * other.pdf(places)
    ours = jax.vmap(both)(jnp.asarray(LOCS), jnp.asarray(scales))

    def cdf(value: np.ndarray) -> np.ndarray:
        mixed = share * twin.cdf(value[:, None]) + (1 - share) * other.cdf(value[:, None])
        return mixed.mean(axis=0)[:, 0]

    return Outcomes(ours, places, chances.mean(axis=0) * 60 / 24_000, cdf)


def _mean_cdf(twin: Any) -> Any:
    return lambda value: twin.cdf(value[:, None]).mean(axis=0)[:, 0]


@jax.jit
def _summed(chances: Any, losses: Any) -> Any:
    return jnp.sum(chances * losses, axis=-1)


def cost(kind: str, loss: str, h: np.ndarray) -> np.ndarray:
    """What a decision for each of the four cases costs."""
    here = outcomes(kind)
    if loss == "zero or one":
        width = LOSSES[loss].width
        low = np.ceil(h - width) - 1 if kind == "poisson" else h - width
        return 1 - (here.cdf(h + width) - here.cdf(low))
    losses = LOSSES[loss](jnp.asarray(here.values), jnp.asarray(h)[:, None])
    return np.asarray(_summed(here.chances, losses))


@cache
def costs_at(kind: str, loss: str, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Decisions this far apart, from -30 to 60, and what each costs each case."""
    places = np.arange(-30, 60, step)
    return places, np.stack([cost(kind, loss, np.full(4, h)) for h in places])


def least(kind: str, loss: str, places: np.ndarray) -> np.ndarray:
    """What each case costs at the best of these places."""
    if len(places) < 100:
        return np.min([cost(kind, loss, np.full(4, h)) for h in places], axis=0)
    coarse, costs = costs_at(kind, loss, 0.25)
    inside = (coarse >= places[0] - 0.25) & (coarse <= places[-1] + 0.25)
    best = []
    for case in range(4):
        start = coarse[inside][np.argmin(costs[inside, case])]
        finer = np.linspace(max(start - 0.3, places[0]), min(start + 0.3, places[-1]), 121)
        tried = [cost(kind, loss, np.full(4, h))[case] for h in finer]
        best.append(np.min(tried))
    return np.array(best)


decide = jax.jit(
    best_decision,
    static_argnums=(0, 1),
    compiler_options={"xla_backend_optimization_level": 0},
)


@pytest.mark.some(3)
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize(
    ("kind", "space", "loss"),
    [
        pytest.param(k, s, c, marks=() if (k, s, c) in QUICK else pytest.mark.slow)
        for k in ("normal", "poisson", "two normals")
        for s in SPACES
        for c in LOSSES
    ],
)
def test_no_decision_in_the_space_is_better(kind, space, loss):
    where, places = SPACES[space]
    here, like = outcomes(kind).ours, jnp.zeros(4)
    one = jax.tree.map(lambda leaf: leaf[0], here)
    expectation = choose(one, ScaledLoss(LOSSES[loss], 1.0), like).size_for([here])
    task = DecisionTask(AnyLoss(LOSSES[loss]), where)
    found = np.asarray(decide(task, expectation, KEY, here, like), float)
    np.testing.assert_allclose(np.asarray(where.inside(jnp.asarray(found))), found)
    costs, best = cost(kind, loss, found), least(kind, loss, places)
    assert (costs <= best * (1 + 1e-4) + 1e-6).all(), (found, costs, best)
