"""How long a decision takes that has no formula, beside a loop over SciPy's scalar minimiser."""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from stakes import Huber, Quadrature
from stakes.decisions import DecisionTask, best_decision
from stakes.losses import AnyLoss

Figure = tuple[float, float | None]

ROWS, AT_ONCE, DRAWS, BY_SCIPY = 200_000, 500, 500, 20
DELTA = 1.0


def figures() -> dict[str, Figure]:
    """Huber decisions for normal outcomes under 500 draws of θ."""
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(DRAWS, 5)).astype(np.float32)
    noise = np.exp(rng.normal(size=DRAWS) / 5).astype(np.float32)
    x = rng.normal(size=(ROWS, 5)).astype(np.float32)
    task, like = DecisionTask(AnyLoss(Huber(DELTA))), jnp.zeros(AT_ONCE)

    @jax.jit
    def some(x: jax.Array) -> jax.Array:
        outcomes = jax.vmap(lambda b, s: dist.Normal(x @ b, jnp.full(len(x), s)))(slopes, noise)
        return best_decision(task, Quadrature(), jax.random.key(0), outcomes, like)

    def ours() -> np.ndarray:
        return np.concatenate([some(part) for part in x.reshape(-1, AT_ONCE, 5)])

    decisions, taken = ours(), []
    for _ in range(3):
        started = time.perf_counter()
        ours()
        taken.append((time.perf_counter() - started) / ROWS)
    started = time.perf_counter()
    locs = x[:BY_SCIPY].astype(float) @ slopes.T
    found = [minimize_scalar(_risk, args=(loc, noise.astype(float))).x for loc in locs]
    each = (time.perf_counter() - started) / BY_SCIPY
    np.testing.assert_allclose(decisions[:BY_SCIPY], found, atol=1e-3)
    mine = statistics.median(taken)
    return {
        "microseconds for a Huber decision, 500 draws": (1e6 * mine, 10),
        "a Huber decision / by SciPy's scalar minimiser": (mine / each, None),
    }


def _risk(decision: float, loc: np.ndarray, scale: np.ndarray) -> float:
    """The squared part between -δ and δ, and the lines on both sides, for each normal."""
    low, high = ((decision + side * DELTA - loc) / scale for side in (-1, 1))
    away = loc - decision
    inside = norm.cdf(high) - norm.cdf(low)
    first = norm.pdf(low) - norm.pdf(high)
    second = inside + low * norm.pdf(low) - high * norm.pdf(high)
    square = away**2 * inside + 2 * away * scale * first + scale**2 * second
    above = away * norm.sf(high) + scale * norm.pdf(high)
    below = -away * norm.cdf(low) + scale * norm.pdf(low)
    outside = norm.sf(high) + norm.cdf(low)
    return float(np.mean(square / 2 + DELTA * (above + below) - DELTA**2 / 2 * outside))


if __name__ == "__main__":
    for name, (value, limit) in figures().items():
        print(f"{name}: {value:.3g}" + ("" if limit is None else f" (at most {limit:g})"))
