"""Matrices: entries that were not seen, of users and items that were.

The tools that learn from tables get, for each entry, what the other entries of its row and column
that were seen say; `stakes` gets the matrix.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.against.contest import Contest, Model, Table
from benchmarks.against.costs import Newsvendor, Square
from stakes import datasets
from stakes.examples import matrix_factorization, retail

COSTS = (Newsvendor(0.2), Newsvendor(0.5), Newsvendor(0.8), Square())
USERS = 150
"""Rows of the matrix, chosen at random before anything was run: all of them would take hours."""
FACTORS = 5
"""Of the singular value decomposition whose entries the tables have."""


def purchases() -> Contest:
    """Purchases by 1000 customers of 100 products: the example of `stakes.examples.retail`."""
    matrix = retail.matrix()
    return _contest("retail", "retail", matrix["y"], matrix["observed"], retail.SETTINGS)


def plays() -> Contest:
    """Last.fm as in the paper; its folder is in STAKES_DATA."""
    counts = datasets.lastfm(Path(os.environ["STAKES_DATA"])).iloc[:, :100]
    y = np.log1p(counts.to_numpy(dtype=np.float32))
    # The split of the published runs: NumPy's old generator, seed 123, 1 = test.
    test = np.random.RandomState(123).choice([0, 1], y.shape).astype(bool)
    return _contest("lastfm", "Last.fm", y, ~test, {})


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


def _contest(
    name: str, title: str, y: np.ndarray, seen: np.ndarray, settings: dict[str, Any]
) -> Contest:
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
    data = {"observed": seen, "y": y, **settings}
    model = Model(
        matrix_factorization.model,
        "y",
        data,
        {**data, "observed": ~seen},
        known=retail.KNOWN,
        arranged=lambda decided: decided[~seen][None],
    )
    users = np.nonzero(~seen)[0]
    return Contest(name, title, "loss per entry", COSTS, (table,), model, users)
