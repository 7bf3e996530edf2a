"""What a calibrated step costs beside a step of VI, for outcomes of every family.

Run `python -m benchmarks.families`, with names of families for some of them. Each is a regression
of 300 rows on five covariates; an own loss is `where(y > h, 4, 1) * abs(y - h) ** 1.5`.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import stakes
from benchmarks.run import Chunk, calibrated, interleaved, plain
from stakes import predicting
from stakes.bridge import Predictors, approximate
from stakes.expectation import choose
from stakes.predicting import FittedPosterior
from stakes.protocols import Expectation, Loss
from stakes.utilities import ScaledLoss
from stakes.wording import text_table

ROWS, COVARIATES = 300, 5
VI_STEP = 0.013
"""Milliseconds, of a normal outcome: what steps with an own loss are measured by."""
BUILT_IN, OWN = 5.0, 80.0
"""The most that a calibrated step should cost, in steps of VI."""
HEAD = ["outcome", "VI step, ms", "tilted / VI", "squared / VI", "own, ms", "seconds"]
Outcome = Callable[[jax.Array, jax.Array], dist.Distribution]


def _two(eta: jax.Array, scale: jax.Array) -> dist.Distribution:
    parts = dist.Normal(jnp.stack([eta, eta + 3], -1), jnp.stack([scale, 2 * scale], -1))
    return dist.MixtureSameFamily(dist.Categorical(probs=jnp.array([0.3, 0.7])), parts)


def _shifted(eta: jax.Array, scale: jax.Array) -> dist.Distribution:
    move = dist.transforms.AffineTransform(-1.0, 2.0, domain=dist.constraints.positive)
    return dist.TransformedDistribution(dist.Gamma(1 / scale**2, jnp.exp(-eta)), move)


FAMILIES: dict[str, Outcome] = {
    "Normal": dist.Normal,
    "StudentT": lambda eta, scale: dist.StudentT(5.0, eta, scale),
    "Laplace": dist.Laplace,
    "Logistic": dist.Logistic,
    "Gumbel": dist.Gumbel,
    "TruncatedNormal": lambda eta, scale: dist.TruncatedNormal(eta, scale, low=-2.0),
    "LogNormal": dist.LogNormal,
    "Gamma": lambda eta, scale: dist.Gamma(1 / scale**2, jnp.exp(-eta) / scale**2),
    "Exponential": lambda eta, scale: dist.Exponential(jnp.exp(-eta)),
    "HalfNormal": lambda eta, scale: dist.HalfNormal(jnp.exp(eta)),
    "Weibull": lambda eta, scale: dist.Weibull(jnp.exp(eta), 1 / scale),
    "InverseGamma": lambda eta, scale: dist.InverseGamma(3 + 1 / scale, jnp.exp(eta)),
    "Pareto": lambda eta, scale: dist.Pareto(1.0, 3 + jnp.exp(eta)),
    "Beta": lambda eta, scale: dist.Beta(jnp.exp(eta) / scale, 2 / scale),
    "two normals": _two,
    "HurdleGamma": lambda eta, scale: dist.HurdleGamma(0.3, 1 / scale**2, jnp.exp(-eta)),
    "shifted gamma": _shifted,
    "Bernoulli": lambda eta, scale: dist.Bernoulli(logits=eta),
    "Binomial": lambda eta, scale: dist.Binomial(40, logits=eta),
    "Poisson": lambda eta, scale: dist.Poisson(jnp.exp(eta)),
    "Geometric": lambda eta, scale: dist.Geometric(logits=-eta),
    "NegativeBinomial2": lambda eta, scale: dist.NegativeBinomial2(jnp.exp(eta), 1 / scale),
    "HurdlePoisson": lambda eta, scale: dist.HurdlePoisson(0.3, jnp.exp(eta)),
}


def own(outcome: jax.Array, decision: jax.Array) -> jax.Array:
    return jnp.where(outcome > decision, 4.0, 1.0) * jnp.abs(outcome - decision) ** 1.5


def problem(name: str) -> tuple[stakes.Problem, dict[str, Any]]:
    """The regression, and outcomes that it would give."""
    family = FAMILIES[name]

    def model(x: jax.Array, y: jax.Array | None = None) -> None:
        slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([COVARIATES]).to_event(1))
        scale = numpyro.sample("scale", dist.LogNormal(-0.7, 0.3))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", family(1 + x @ slopes, scale), obs=y)

    x = np.random.default_rng(0).normal(size=(ROWS, COVARIATES)).astype(np.float32)
    eta = 1 + 0.3 * x @ np.array([1.0, -1.0, 0.5, 0.0, 0.3], np.float32)
    drawn = family(jnp.asarray(eta), jnp.asarray(0.5)).sample(jax.random.key(1), (ROWS,))
    y = np.asarray(drawn, np.float32)
    y = y[np.arange(ROWS), np.arange(ROWS)] if y.ndim == 2 else y
    return stakes.Problem(model, outcome="y", loss=stakes.Squared()), {"x": x, "y": y}


def runs(name: str, losses: dict[str, Loss]) -> dict[str, Chunk]:
    """A hundred steps of VI, and of calibrated fits by these losses."""
    asked, data = problem(name)
    approximation = approximate(asked, data, jax.random.key(0))
    posterior = FittedPosterior(approximation, approximation.start)
    predictor = Predictors(asked, approximation).on()
    outcome, weight, _ = predicting.one_outcome(posterior, predictor, jax.random.key(0))
    found: dict[str, Chunk] = {"VI": plain(approximation)}
    for title, loss in losses.items():
        expectation = choose(outcome, ScaledLoss(loss, 1.0), jnp.zeros_like(weight))
        if not expectation.is_sized:
            batches = predicting.outcomes_by_batch(posterior, predictor, jax.random.key(0))
            expectation = expectation.size_for(batches)
        found[title] = _run(approximation, loss, expectation)
    return found


def _run(approximation: Any, loss: Loss, expectation: Expectation) -> Chunk:
    return calibrated(approximation, loss, stakes.Linearized(scale=1.0), expectation, draws=10)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.families", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(FAMILIES))
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    losses: dict[str, Loss] = {
        "tilted": stakes.Tilted(0.8),
        "squared": stakes.Squared(),
        "own": own,
    }
    rows = [HEAD]
    for name in asked.names:
        began = time.perf_counter()
        seconds = interleaved(runs(name, losses), repeats=asked.repeats)
        each = {title: 1e3 * taken / 100 for title, taken in seconds.items()}
        vi = each["VI"]
        figures = [
            f"{vi:.3f}",
            f"{each['tilted'] / vi:.1f}",
            f"{each['squared'] / vi:.1f}",
            f"{each['own']:.2f}",
            f"{time.perf_counter() - began:.0f}",
        ]
        rows.append([name, *figures])
        print("  ".join(rows[-1]), flush=True)
    print("\n".join(["", *text_table(rows, right={1, 2, 3, 4, 5})]))


if __name__ == "__main__":
    main()
