"""Whether counts vary more than by chance: a quick regression of the columns beside them."""

import numpy as np

from stakes.tables import Column, Kind


def effects(column: Column, rows: np.ndarray) -> np.ndarray:
    """A column as numbers that effects can be learned of: row x effect."""
    values = column.values[rows]
    if column.kind is Kind.DATES:
        days = values.astype("datetime64[D]").astype(int)
        return np.column_stack([np.eye(7)[(days + 3) % 7], _standard(days.astype(float))])
    if column.kind is Kind.CATEGORIES:
        words, codes = np.unique(values, return_inverse=True)
        return np.eye(len(words))[codes]
    return _standard(values.astype(float))[:, None]


def _standard(values: np.ndarray) -> np.ndarray:
    return np.asarray((values - values.mean()) / (values.std() or 1.0))


def dispersion(design: np.ndarray, counts: np.ndarray) -> float:
    """By how much counts vary around a Poisson regression, over what they would by chance.

    Pearson's statistic over its degrees of freedom, after reweighted least squares.
    """
    mean, kept = counts + 0.5, 1e-6 * np.eye(design.shape[1])
    for _ in range(25):
        working = np.log(mean) + (counts - mean) / mean
        weighted = design * mean[:, None]
        hat = np.linalg.solve(design.T @ weighted + kept, weighted.T @ working)
        mean = np.asarray(np.exp(np.clip(design @ hat, -20, 20)))
    free = len(counts) - np.linalg.matrix_rank(design)
    return float((((counts - mean) ** 2) / mean).sum() / free) if free > 0 else float("inf")
