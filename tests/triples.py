"""The page of all outcomes, losses and spaces, made from the catalogue of the tests.

Run `python tests/triples.py` to write it again.
"""

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "triples.md"
sys.path.insert(0, str(ROOT / "tests"))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from catalogue import COMPOSITE, DISTRIBUTIONS, FORMULAS  # noqa: E402

import stakes  # noqa: E402
from stakes.errors import NoClosedForm  # noqa: E402
from stakes.expectation import choose  # noqa: E402
from stakes.losses import AnyLoss  # noqa: E402
from stakes.spaces import Vector  # noqa: E402
from stakes.utilities import ScaledLoss  # noqa: E402

OUTCOMES = DISTRIBUTIONS | FORMULAS | COMPOSITE
LOSSES: dict[str, Any] = {
    "`Squared`": stakes.Squared(),
    "`Tilted`, `Newsvendor`, `Absolute`": stakes.Tilted(0.8),
    "`LinEx(c)`, c > 0": stakes.LinEx(0.2),
    "`LinEx(c)`, c < 0": stakes.LinEx(-0.2),
    "`ZeroOne`": stakes.ZeroOne(0.5),
    "`IntervalScore`": stakes.IntervalScore(0.8),
    "`Expectile`": stakes.Expectile(0.8),
    "`Huber`, own": lambda outcome, decision: jnp.abs(outcome - decision) ** 1.5,
}
WORDS = {
    "ClosedForm": "formula",
    "Enumeration": "sum",
    "Quadrature": "quadrature",
    "Componentwise": "components",
    "MonteCarlo": "draws",
    "ScoreFunction": "score",
}
SPACES: dict[str, Any] = {
    "`Real`": stakes.Real(),
    "`Interval`": stakes.Interval(0, 9),
    "`Integers`": stakes.Integers(0, 500),
    "`OneOf`, few `Integers`": stakes.OneOf([0, 6, 12]),
    "`Vector`": stakes.Vector(low=stakes.Real(), high=stakes.Real()),
}


def expected_by(outcome: str, loss: str) -> str:
    """How the expected loss of this outcome is found."""
    cost = LOSSES[loss]
    like = jnp.zeros(4)
    space = AnyLoss(cost).space
    decision = space.unpack(jnp.zeros((2, 4))) if isinstance(space, Vector) else like
    there = OUTCOMES[outcome](np.random.default_rng(0))
    return WORDS[type(choose(there, ScaledLoss(cost, 1.0), decision)).__name__]


def decided_by(space: str, loss: str) -> str:
    """How the best decision is found, for a normal outcome."""
    cost, where = AnyLoss(LOSSES[loss]), SPACES[space]
    if isinstance(cost.space, Vector) != isinstance(where, Vector):
        own = isinstance(where, Vector) and not cost.of_numbers
        return "search, part by part" if own else "refused"
    if where.actions is not None:
        return "each tried"
    try:
        outcome = jax.vmap(OUTCOMES["Normal"].make)(jnp.zeros((1, 4)), jnp.ones((1, 4)))
        jax.eval_shape(lambda: cost.decision(stakes.ClosedForm().mixture(outcome)))
    except NoClosedForm:
        return "search"
    if space == "`Integers`":
        return "formula, and the numbers beside it" if cost.convex else "search"
    return "formula" if cost.convex or space in ("`Real`", "`Vector`") else "search"


def table(corner: str, rows: Any, columns: Any, cell: Any) -> str:
    lines = [f"| {corner} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| {row} | {' | '.join(cell(row, each) for each in columns)} |" for row in rows]
    return "\n".join(lines)


def page() -> str:
    return f"""# Every outcome, loss and space

Generated from the tests' catalogue by `python tests/triples.py`; a test keeps it up to date.

## How the expected loss is found

{table("outcome", OUTCOMES, LOSSES, expected_by)}

"formula" is a closed form, "sum" adds up all values, "components" integrates over each component
of a mixture. Exponential utilities have formulas for normal outcomes and their mixtures, and are
summed or integrated otherwise. Each of these is held to an independent answer in double precision,
values and slopes: formulas to 1e-7, the others to 1e-6, negative binomial sums to 1e-3
(`tests/laws/test_expectations.py`). Outcomes that are vectors are drawn, censored ones refused.

## How the best decision is found

{table("space", SPACES, LOSSES, decided_by)}

Where outcomes share a decision (`per=`), or the decision changes the outcome, it is always searched
for, or each one tried. Tests try to find a decision in the space that costs less, by brute force,
for three outcomes, eight losses and seven spaces (`tests/laws/test_triples.py`).
"""


if __name__ == "__main__":
    PAGE.write_text(page())
