"""Densities of draws on an even grid, for curves and for contours."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import gaussian_kde

MOST_TERMS = 5_000_000
"""The most draws times grid points; draws are thinned to that."""
FEWEST = 10
"""The fewest draws for a density; where there are fewer, they are repeated."""
MARGIN = 8
"""An eighth of the grid is added at each end, and reflected."""


def centres(low: float, high: float, count: int) -> np.ndarray:
    """Middles of that many cells of equal width."""
    edges = np.linspace(low, high, count + 1)
    return (edges[:-1] + edges[1:]) / 2


def smoothed(draws: np.ndarray, axes: Sequence[np.ndarray]) -> np.ndarray:
    """Density of draws x variable on a grid with one even axis for each variable.

    It is reflected at the ends of the grid, so that the density of a latent with a bound, such as
    a scale, does not dip there.
    """
    points = np.meshgrid(*(_widened(axis) for axis in axes), indexing="ij")
    half_cell = np.array([float(axis[1] - axis[0]) / 2 for axis in axes])
    kept = _some(_within(draws, axes, half_cell), MOST_TERMS // points[0].size)
    # Noise too small to show, so that constant and collinear draws have a density, too.
    kept = kept + half_cell * np.random.default_rng(0).normal(size=kept.shape)
    kernels = gaussian_kde(kept.T, bw_method=_width(kept, half_cell))
    values: np.ndarray = kernels(np.stack([each.ravel() for each in points]))
    found = values.reshape(points[0].shape)
    for place, axis in enumerate(axes):
        found = _reflected(found, place, len(axis) // MARGIN)
    return found


def levels(density: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """For each share of the draws, the density on the line around the densest part that has it."""
    falling: np.ndarray = np.sort(density.ravel())[::-1]
    held = np.cumsum(falling) / falling.sum()
    return falling[np.searchsorted(held, np.array(shares))]


def _within(draws: np.ndarray, axes: Sequence[np.ndarray], half_cell: np.ndarray) -> np.ndarray:
    """The draws that lie on the grid, or all of them where hardly any do."""
    low = np.array([axis[0] for axis in axes]) - half_cell
    high = np.array([axis[-1] for axis in axes]) + half_cell
    inside = ((low <= draws) & (draws <= high)).all(axis=1)
    return draws[inside] if inside.sum() >= FEWEST else draws


def _some(draws: np.ndarray, most: int) -> np.ndarray:
    """Thinned or repeated to a number of draws that suits a density."""
    count = len(draws)
    thinned = draws[np.linspace(0, count - 1, min(count, most)).astype(int)]
    return np.resize(thinned, (max(len(thinned), FEWEST), draws.shape[1]))


def _width(draws: np.ndarray, least: np.ndarray) -> float:
    """Scott's factor, less where a few draws far out make up most of the standard deviation.

    No kernel is narrower than `least`, or it could fall between two points of the grid.
    """
    count, variables = draws.shape
    sd = draws.std(axis=0)
    lower, upper = np.quantile(draws, (0.25, 0.75), axis=0)
    typical = min(np.max((upper - lower) / 1.34 / sd), 1.0)
    return float(max(count ** (-1 / (variables + 4)) * typical, np.max(least / sd)))


def _widened(axis: np.ndarray) -> np.ndarray:
    margin = len(axis) // MARGIN
    wider: np.ndarray = np.arange(-margin, len(axis) + margin) * (axis[1] - axis[0]) + axis[0]
    return wider


def _reflected(wide: np.ndarray, axis: int, margin: int) -> np.ndarray:
    """Without the margins of one axis, whose values are added to their mirror images."""
    wide = np.moveaxis(wide, axis, 0)
    inner = wide[margin:-margin].copy()
    inner[:margin] += wide[:margin][::-1]
    inner[-margin:] += wide[-margin:][::-1]
    return np.moveaxis(inner, 0, axis)
