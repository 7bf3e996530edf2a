"""Quantiles of what is predicted, and the levels that everything uses."""

from typing import Any

import numpy as np

_LOW = (0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4)
LEVELS: tuple[float, ...] = (*_LOW, 0.5, *(round(1 - level, 3) for level in reversed(_LOW)))
"""Levels of the predictive quantiles that a calibration map sees, denser in the tails."""
AT_ONCE = 10_000
"""Instances whose draws are sorted at once."""


def predictive_quantiles(draws: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Instance x level; quantiles of whole numbers are whole numbers, too."""
    method: Any = "inverted_cdf" if are_whole_numbers(draws) else "linear"
    quantiles = np.empty((draws.shape[1], len(levels)))
    for start in range(0, draws.shape[1], AT_ONCE):
        part = slice(start, start + AT_ONCE)
        quantiles[part] = np.quantile(draws[:, part], levels, axis=0, method=method).T
    return quantiles


def are_whole_numbers(values: np.ndarray) -> bool:
    """Whether all of these are whole numbers."""
    return bool((values == np.round(values)).all())
