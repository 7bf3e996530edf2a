"""Independent answers in NumPy and SciPy: none of this knows `stakes` or JAX.

Expectations over a continuous outcome are Gauss-Legendre sums over some hundred panels, which
narrow geometrically at the decision, the median and the ends of the support (the library itself
uses another rule, double-exponential); over a discrete outcome they are plain sums. Derivatives
are central differences of sixth order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import erfcx, logsumexp

Twin: TypeAlias = Any
"""A frozen distribution of SciPy, or something like it."""
LossTwin: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(outcome, decision) -> loss, or log utility."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
OUTWARD = np.concatenate([[0.0], 2.0 ** np.arange(-4, 42)])
"""Where panels end, counted from a point of interest in units of its width."""
STENCIL = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
STEP = 1e-3
"""In natural units: truncation 1e-15, and the rounding of the values magnified to 1e-11."""


@dataclass(frozen=True)
class Labels:
    """A categorical distribution over 0, 1, ...; SciPy has none for many at once."""

    logits: np.ndarray

    def logpmf(self, k: np.ndarray) -> np.ndarray:
        log_probs = self.logits - logsumexp(self.logits, axis=0)
        return np.take_along_axis(log_probs, k.astype(int), axis=0)

    def support(self) -> tuple[int, int]:
        return 0, len(self.logits) - 1

    def mean(self) -> np.ndarray:
        probs = np.exp(self.logits - logsumexp(self.logits, axis=0))
        return np.arange(len(probs)) @ probs

    def std(self) -> np.ndarray:
        probs = np.exp(self.logits - logsumexp(self.logits, axis=0))
        return np.sqrt(np.square(np.arange(len(probs))) @ probs - np.square(self.mean()))


class Grid(NamedTuple):
    """Points (point, case) with weights that add up to one."""

    points: np.ndarray
    log_weights: np.ndarray


# Losses ------------------------------------------------------------------------------------


def squared(outcome: np.ndarray, decision: np.ndarray) -> np.ndarray:
    return (outcome - decision) ** 2


def absolute(outcome: np.ndarray, decision: np.ndarray) -> np.ndarray:
    return np.abs(outcome - decision)


def tilted(q: float) -> LossTwin:
    return lambda outcome, decision: np.where(
        outcome >= decision, q * (outcome - decision), (1 - q) * (decision - outcome)
    )


def linex(c: float) -> LossTwin:
    def loss(outcome: np.ndarray, decision: np.ndarray) -> np.ndarray:
        x = c * (decision - outcome)
        with np.errstate(over="ignore"):  # infinite where the outcome has no mass left
            return np.expm1(x) - x

    return loss


def exponential(loss: LossTwin, scale: float) -> LossTwin:
    """log of exp(-ℓ/M)."""
    return lambda outcome, decision: -loss(outcome, decision) / scale


def bump(width: float) -> LossTwin:
    """log of 1/(1 + ((y-h)/width)²)."""
    return lambda outcome, decision: -np.log1p(np.square((outcome - decision) / width))


# Expectations ------------------------------------------------------------------------------


def grid(twin: Twin, decision: np.ndarray, width: float | np.ndarray = 1.0) -> Grid:
    """Where to sum; `width` is the size of the finest feature of the loss or utility at h."""
    if hasattr(twin, "logpmf"):
        return _every_value(twin, decision)
    panels = _panels(twin, decision, width)
    middle, half = (panels[1:] + panels[:-1]) / 2, np.diff(panels, axis=0) / 2
    points = (middle[:, None] + half[:, None] * NODES[:, None]).reshape(-1, *decision.shape)
    with np.errstate(all="ignore"):
        log_steps = np.log(half[:, None] * WEIGHTS[:, None]).reshape(points.shape)
        log_weights = log_steps + twin.logpdf(points)
    # A panel may be empty, and rounding may put a point on the end of the support.
    return Grid(points, np.where(np.isfinite(log_steps + log_weights), log_weights, -np.inf))


def expected(grid: Grid, loss: LossTwin, decision: np.ndarray) -> np.ndarray:
    """E ℓ(y, h)."""
    counts = np.exp(grid.log_weights) > 0
    losses = np.where(counts, loss(grid.points, decision), 0.0)
    return np.sum(np.exp(grid.log_weights) * losses, axis=0)


def log_expected(grid: Grid, log_utility: LossTwin, decision: np.ndarray) -> np.ndarray:
    """log E u(y, h), with the largest term factored out."""
    return logsumexp(grid.log_weights + log_utility(grid.points, decision), axis=0)


def slope(question: Callable[[np.ndarray], np.ndarray], step: np.ndarray) -> np.ndarray:
    """The derivative at zero, where steps of this size are small."""
    return (
        sum(weight * (question(k * step) - question(-k * step)) for k, weight in STENCIL.items())
        / step
    )


def _every_value(twin: Twin, decision: np.ndarray) -> Grid:
    low, high = twin.support()
    far = np.max(twin.mean() + 40 * twin.std() + 200)
    values = np.arange(np.min(low), min(np.max(high), far) + 1)
    points = np.broadcast_to(values[:, None], (len(values), *decision.shape))
    return Grid(points, twin.logpmf(points))


def _panels(twin: Twin, decision: np.ndarray, width: float | np.ndarray) -> np.ndarray:
    median = np.broadcast_to(twin.ppf(0.5), decision.shape)
    spread = twin.ppf(0.75) - twin.ppf(0.25)
    low, high = (np.broadcast_to(end, decision.shape) for end in twin.support())
    ends = (
        [median + sign * spread * offset for offset in OUTWARD for sign in (-1, 1)]
        + [decision + sign * width * offset for offset in OUTWARD for sign in (-1, 1)]
        + [median + (decision - median) * part for part in np.linspace(0, 1, 65)]
    )
    if np.all(np.isfinite(low)):
        ends += [low + spread / 2.0**k for k in range(1, 100)]
    if np.all(np.isfinite(high)):
        ends += [high - spread / 2.0**k for k in range(1, 50)]
    return np.sort(np.clip(np.array(ends), low, high), axis=0)


# Mills' ratio ------------------------------------------------------------------------------


def mills(x: np.ndarray) -> np.ndarray:
    """(1 - Φ(x))/φ(x)."""
    return np.sqrt(np.pi / 2) * erfcx(x / np.sqrt(2))


def mills_slope(x: np.ndarray) -> np.ndarray:
    """x·mills(x) - 1 or, where that cancels, -(1/x²) ∫ s exp(-s - s²/2x²) ds by Gauss-Laguerre."""
    s, weights = np.polynomial.laguerre.laggauss(60)
    far = np.maximum(x, 10.0)[..., None]
    integral = np.sum(weights * s * np.exp(-np.square(s / far) / 2), axis=-1)
    return np.where(x < 10.0, x * mills(x) - 1, -integral / np.square(far[..., 0]))
