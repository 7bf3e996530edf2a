"""Outcome x loss, for all outcomes of the catalogue: expected losses and their slopes.

Each is found in the way that the library chooses, and held to sums in NumPy; where a loss jumps, to
the distribution function of SciPy.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from catalogue import COMPOSITE, DISTRIBUTIONS, FORMULAS, Family

from stakes import Expectile, Huber, IntervalScore, Newsvendor, ZeroOne
from stakes.expectation import choose
from stakes.spaces import Vector
from stakes.utilities import ScaledLoss

OUTCOMES = DISTRIBUTIONS | FORMULAS | COMPOSITE
CASES, WIDTH, LEVEL = 12, 1.0, 0.8
TOLERANCE = {"NegativeBinomial2": 1e-3, "NegativeBinomialProbs": 1e-3}
"""1e-4 for all others: JAX's `betaln`, in the density of these, is off by 1e-6 itself."""


def expectile(y: np.ndarray, h: np.ndarray) -> np.ndarray:
    return np.where(y > h, 0.8, 0.2) * (y - h) ** 2


def huber(y: np.ndarray, h: np.ndarray) -> np.ndarray:
    away = np.abs(y - h)
    return np.where(away < WIDTH, away**2 / 2, WIDTH * (away - WIDTH / 2))


class Pair(NamedTuple):
    """A loss of the library, and its twin of outcomes and decisions."""

    ours: Any
    theirs: oracles.LossTwin | None


LOSSES = {
    "newsvendor": Pair(Newsvendor(3, 1.5), lambda y, h: 4.5 * oracles.tilted(2 / 3)(y, h)),
    "expectile": Pair(Expectile(0.8), expectile),
    "huber": Pair(Huber(WIDTH), huber),
    "own": Pair(lambda y, h: jnp.abs(y - h) ** 1.5, lambda y, h: np.abs(y - h) ** 1.5),
    "interval score": Pair(IntervalScore(LEVEL), None),
    "zero or one": Pair(ZeroOne(WIDTH), None),
}


def cases(family: Family) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Parameters and decisions, up to four standard deviations away; and their natural units."""
    rng = np.random.default_rng(0)
    values = family.draw(rng, CASES, np.ones(CASES))
    twin = family.twin(**values)
    spread = twin.std()
    decision = twin.mean() + np.linspace(-4, 4, CASES) * spread
    if hasattr(twin, "logpmf"):  # there is a kink at every whole number
        decision = np.floor(decision) + rng.uniform(0.1, 0.9, CASES)
    near_zero = np.minimum(np.abs(decision), np.abs(decision + WIDTH)) < 0.01
    decision = decision + 0.02 * near_zero  # there may be a mass, over which no difference goes
    units = family.units(values, spread) | {"decision": np.minimum(spread, 1.0)}
    return values | {"decision": decision}, units


def theirs(family: Family, name: str, values: dict[str, np.ndarray]) -> np.ndarray:
    parameters = {key: value for key, value in values.items() if key != "decision"}
    twin, h = family.twin(**parameters), values["decision"]
    if name == "zero or one" and hasattr(twin, "logpmf"):
        return oracles.expected(oracles.grid(twin, h), lambda y, h: 1.0 * (abs(y - h) > WIDTH), h)
    if name == "zero or one":
        low = h - WIDTH  # no decision is so near to a value that it matters which side that is on
        return 1 - (twin.cdf(h + WIDTH) - twin.cdf(low))
    if name == "interval score":
        ends = [(h, (1 - LEVEL) / 2), (h + WIDTH, (1 + LEVEL) / 2)]
        factor = 2 / (1 - LEVEL)
        return factor * sum(
            oracles.expected(oracles.grid(twin, end), oracles.tilted(q), end) for end, q in ends
        )
    loss = LOSSES[name].theirs
    assert loss is not None
    return oracles.expected(oracles.grid(twin, h, WIDTH), loss, h)


def ours(family: Family, values: dict[str, np.ndarray]) -> dict[str, Any]:
    """Values, and slopes by everything, of all losses."""
    floats = {key: jnp.asarray(value, float) for key, value in values.items()}
    one = family.at({key: value for key, value in values.items() if key != "decision"})
    stacked = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], one)

    def seen(loss: Any, h: Any) -> Any:
        space = getattr(loss, "space", None)
        return space.unpack(jnp.stack([h, h + WIDTH])) if isinstance(space, Vector) else h

    best = {  # what enumerates has to know how many values there are before anything is traced
        name: choose(one, ScaledLoss(loss, 1.0), seen(loss, floats["decision"])).size_for([stacked])
        for name, (loss, _) in LOSSES.items()
    }

    def ask(values: dict[str, Any]) -> dict[str, Any]:
        def of(name: str, loss: Any) -> Any:
            def question(values: dict[str, Any]) -> Any:
                parameters = {key: value for key, value in values.items() if key != "decision"}
                decision = seen(loss, values["decision"])
                return best[name].expected(None, family.make(**parameters), loss, decision)

            answer, pull = jax.vjp(question, values)
            return answer, pull(jnp.ones_like(answer))[0]

        return {name: of(name, pair.ours) for name, pair in LOSSES.items()}

    lowered = jax.jit(ask).lower(floats)
    options = {"xla_backend_optimization_level": 0}
    found: dict[str, Any] = lowered.compile(compiler_options=options)(floats)
    return found


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "Normal" else pytest.mark.slow) for n in OUTCOMES]
)
def test_expected_losses_and_slopes_are_those_of_the_oracle(name):
    family = OUTCOMES[name]
    values, units = cases(family)
    found, tolerance = ours(family, values), TOLERANCE.get(name, 1e-4)
    for loss, (value, slopes) in found.items():
        truth = theirs(family, loss, values)
        size = np.maximum(np.abs(truth), 1e-3)
        assert np.max(np.abs(value - truth) / size) <= tolerance, (loss, value, truth)
        exact = {
            by: unit
            * oracles.slope(
                lambda step, by=by, loss=loss: theirs(
                    family, loss, values | {by: values[by] + step}
                ),
                1e-3 * unit,
            )
            for by, unit in units.items()
        }
        largest = np.maximum(np.max(np.abs(list(exact.values())), axis=0), 1e-3)
        for by, unit in units.items():
            off = np.abs(np.asarray(slopes[by]) * unit - exact[by]) / largest
            assert np.max(off) <= tolerance, (loss, by, slopes[by] * unit, exact[by])
