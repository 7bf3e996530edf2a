"""Matrices: entries that were not seen, of users and items that were.

The tools that learn from tables get, for each entry, what the other entries of its row and column
that were seen say; `stakes` gets the matrix.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

import stakes
from benchmarks.against.contest import Contest, Model, Table
from benchmarks.against.costs import Newsvendor, Square
from benchmarks.against.ways import quick_ways
from examples import retail
from reproduce.lastfm import lastfm

COSTS = (Newsvendor(0.2), Newsvendor(0.5), Newsvendor(0.8), Square())
USERS = 150
"""Rows of the matrix, chosen at random before anything was run: all of them would take hours."""
FACTORS = 5
"""Of the singular value decomposition whose entries the tables have."""
TASTES = 2
"""Factors of the model."""


def purchases() -> Contest:
    """Purchases by 1000 customers of 100 products: the example of `examples.retail`."""
    matrix = retail.matrix()
    return _contest("retail", "retail", matrix["y"], matrix["observed"])


def plays() -> Contest:
    """Last.fm as in the paper; its folder is in STAKES_DATA."""
    counts = lastfm(Path(os.environ["STAKES_DATA"])).iloc[:, :100]
    y = np.log1p(counts.to_numpy(dtype=np.float32))
    # The split of the published runs: NumPy's old generator, seed 123, 1 = test.
    test = np.random.RandomState(123).choice([0, 1], y.shape).astype(bool)
    return _contest("lastfm", "Last.fm", y, ~test)


def ways() -> list[Any]:
    """With a network, for which thousands of entries are enough."""
    *others, same = quick_ways()
    return [*others, stakes.Corrected(stakes.Plain(), stakes.Network()), same]


def amounts(observed: Any, y: Any = None) -> None:
    """None, or an amount: rows and columns differ in both, and `TASTES` say who likes what."""
    rows, columns = observed.shape
    row, column = numpyro.plate("row", rows, dim=-2), numpyro.plate("column", columns, dim=-1)
    with numpyro.plate("part", 2):  # how likely there is any, and the logarithm of how much
        level = numpyro.sample("level", dist.Normal(0, 1))
        of_row = numpyro.sample("of_row", dist.HalfNormal(1))
        of_column = numpyro.sample("of_column", dist.HalfNormal(1))
        of_taste = numpyro.sample("of_taste", dist.HalfNormal(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    with row:
        likely_row = numpyro.sample("likely_row", dist.Normal(0, 1))
        much_row = numpyro.sample("much_row", dist.Normal(0, 1))
        with numpyro.plate("row_factor", TASTES, dim=-1):
            z = numpyro.sample("z", dist.Normal(0, 1))
    with column:
        likely_column = numpyro.sample("likely_column", dist.Normal(0, 1))
        much_column = numpyro.sample("much_column", dist.Normal(0, 1))
        with numpyro.plate("factor", TASTES, dim=-2):
            w = numpyro.sample("w", dist.Normal(0, 1))
    taste = z @ w / np.sqrt(TASTES)
    likely, much = (
        level[part] + of_row[part] * by_row + of_column[part] * by_column + of_taste[part] * taste
        for part, (by_row, by_column) in enumerate(
            [(likely_row, likely_column), (much_row, much_column)]
        )
    )
    with row, column, numpyro.handlers.mask(mask=observed):
        amount = dist.LogNormal(much, noise)
        # NumPyro takes zero for a value that cannot be, since no amount is.
        outcome = dist.HurdleDistribution(amount, gate_logits=-likely, validate_args=False)
        numpyro.sample("y", outcome, obs=y)


def entry_features(y: np.ndarray, seen: np.ndarray, folds: int = 5) -> np.ndarray:
    """(row, column, feature): of entries that were seen, a fold at a time, never of its own fold.

    What is left out with the entry hides its value: from the mean of all others it could be told.
    """
    fold = np.random.default_rng(0).integers(0, folds, y.shape)
    made = [_features(y, seen & (fold != number)) for number in range(folds)]
    return np.choose(fold[..., None], made)


def _features(y: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Count, mean, share above zero and mean square by row and column, and a low-rank guess."""
    values = np.where(kept, y, 0.0).astype(float)
    features = [_low_rank(values, kept)]
    for axis in (1, 0):
        count = kept.sum(axis=axis, keepdims=True)
        for part in (values, values > 0, values**2):
            features.append(part.sum(axis=axis, keepdims=True) / np.maximum(count, 1))
        features.append(count)
    return np.stack(np.broadcast_arrays(*features), axis=-1).astype(float)


def _low_rank(values: np.ndarray, kept: np.ndarray, rounds: int = 15) -> np.ndarray:
    """Missing entries filled in by turns with a shrunken decomposition."""
    level = (values * kept).sum(axis=0) / np.maximum(kept.sum(axis=0), 1)
    filled = np.where(kept, values, level)
    for _ in range(rounds):
        u, s, v = np.linalg.svd(filled - level, full_matrices=False)
        s = np.maximum(s - s[FACTORS], 0)
        approximated = level + (u[:, :FACTORS] * s[:FACTORS]) @ v[:FACTORS]
        filled = np.where(kept, values, approximated)
    return approximated


def _contest(name: str, title: str, y: np.ndarray, seen: np.ndarray) -> Contest:
    some = np.sort(np.random.default_rng(0).choice(len(y), USERS, replace=False))
    y, seen = y[some], seen[some]
    features = entry_features(y, seen)
    shuffled = np.random.default_rng(0).permutation(int(seen.sum()))
    table = Table(
        name,
        features[seen][shuffled],
        y[seen][shuffled].astype(float),
        features[~seen],
        y[~seen].astype(float),
    )
    model = Model(
        amounts,
        "y",
        {"observed": seen, "y": y},
        {"observed": ~seen, "y": y},
        known=("part", *retail.KNOWN),
        arranged=lambda decided: decided[~seen][None],
        choosing={"ways": ways},
    )
    users = np.nonzero(~seen)[0]
    return Contest(name, title, "loss per entry", COSTS, (table,), model, users)
