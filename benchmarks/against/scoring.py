"""What the tools cost on the rows held out, and how sure their differences are."""

from typing import NamedTuple

import numpy as np
from scipy import stats


class Difference(NamedTuple):
    """Of mean costs, with a 95 % interval."""

    mean: float
    low: float
    high: float


def difference(
    costs: np.ndarray, best: np.ndarray, cluster: np.ndarray, *, in_order: bool
) -> Difference:
    """Of the mean costs of two tools on the same (table, row), rows of one cluster dependent.

    Clusters in order of time may depend on their neighbours, too (Newey and West, 1987).
    """
    gaps = (costs - best).mean(axis=0)
    _, place = np.unique(cluster, return_inverse=True)
    mean = float(gaps.mean())
    # A row counts as much as any other, so clusters of different sizes are summed, not averaged.
    away = np.bincount(place, gaps - mean)
    count = len(away)
    lags = int(4 * (count / 100) ** (2 / 9)) + 7 if in_order else 0
    variance = float(away @ away)
    for lag in range(1, lags + 1):
        variance += 2 * (1 - lag / (lags + 1)) * float(away[lag:] @ away[:-lag])
    error = np.sqrt(max(variance, 0.0) * count / (count - 1)) / len(gaps)
    reach = float(stats.t.ppf(0.975, count - 1) * error)
    return Difference(mean, mean - reach, mean + reach)
