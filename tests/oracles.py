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
from scipy.special import erfcx, logsumexp, pdtrc, xlog1py

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
class LargePoisson:
    """Of a rate above a hundred or so: SciPy's own probabilities lose digits as the rate grows.

    Loader, Fast and accurate computation of binomial probabilities (2000): no large terms cancel.
    """

    rate: np.ndarray

    def logpmf(self, k: np.ndarray) -> np.ndarray:
        away, some = (k - self.rate) / self.rate, np.maximum(k, 1)
        deviance = self.rate * (xlog1py(1 + away, away) - away)
        stirling = 1 / (12 * some) - 1 / (360 * some**3) + 1 / (1260 * some**5)
        log_pmf = -deviance - stirling - np.log(2 * np.pi * some) / 2
        return np.where(k == 0, -self.rate, log_pmf)

    def support(self) -> tuple[float, float]:
        return 0.0, np.inf

    def mean(self) -> np.ndarray:
        return self.rate

    def std(self) -> np.ndarray:
        return np.sqrt(self.rate)

    def sf(self, k: float) -> np.ndarray:
        return pdtrc(k, self.rate)


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

    def sf(self, k: float) -> np.ndarray:
        return np.zeros(self.logits.shape[1:])

    def std(self) -> np.ndarray:
        probs = np.exp(self.logits - logsumexp(self.logits, axis=0))
        return np.sqrt(np.square(np.arange(len(probs))) @ probs - np.square(self.mean()))


@dataclass(frozen=True)
class Point:
    """All of the probability at one place."""

    at: np.ndarray

    def mean(self) -> np.ndarray:
        return self.at

    def std(self) -> np.ndarray:
        return np.zeros_like(self.at)

    def cdf(self, value: np.ndarray) -> np.ndarray:
        return (value >= self.at) * 1.0


@dataclass(frozen=True)
class Blend:
    """A mixture, each component of which has a grid of its own."""

    parts: tuple[tuple[np.ndarray, Twin], ...]
    """Weights and components."""

    def mean(self) -> np.ndarray:
        return sum(weight * part.mean() for weight, part in self.parts)

    def std(self) -> np.ndarray:
        squares = (w * (p.std() ** 2 + (p.mean() - self.mean()) ** 2) for w, p in self.parts)
        return np.sqrt(sum(squares))

    def cdf(self, value: np.ndarray) -> np.ndarray:
        return sum(weight * part.cdf(value) for weight, part in self.parts)


class BlendOfCounts(Blend):
    """Without a grid between whole numbers."""

    def logpmf(self, k: np.ndarray) -> np.ndarray:
        return logsumexp([np.log(w) + part.logpmf(k) for w, part in self.parts], axis=0)

    def support(self) -> tuple[float, float]:
        return 0.0, np.inf


@dataclass(frozen=True)
class Hurdle:
    """Zero with the chance `gate`, and otherwise a count that is not zero."""

    gate: np.ndarray
    base: Twin

    def logpmf(self, k: np.ndarray) -> np.ndarray:
        others = np.log1p(-self.gate) + self.base.logpmf(k) - np.log(self.base.sf(0))
        return np.where(k == 0, np.log(self.gate), others)

    def support(self) -> tuple[float, float]:
        return 0.0, np.inf

    def mean(self) -> np.ndarray:
        return (1 - self.gate) * self.base.mean() / self.base.sf(0)

    def std(self) -> np.ndarray:
        square = (1 - self.gate) * (self.base.std() ** 2 + self.base.mean() ** 2)
        return np.sqrt(square / self.base.sf(0) - self.mean() ** 2)

    def cdf(self, value: np.ndarray) -> np.ndarray:
        some = np.maximum(self.base.cdf(value) - self.base.cdf(0), 0) / self.base.sf(0)
        return (value >= 0) * self.gate + (1 - self.gate) * some


@dataclass(frozen=True)
class Reflected:
    """Below `start`, as far as `distance` says."""

    start: np.ndarray
    distance: Twin

    def logpdf(self, y: np.ndarray) -> np.ndarray:
        return self.distance.logpdf(self.start - y)

    def ppf(self, level: float) -> np.ndarray:
        return self.start - self.distance.ppf(1 - level)

    def support(self) -> tuple[Any, Any]:
        low, high = self.distance.support()
        return self.start - high, self.start - low

    def mean(self) -> np.ndarray:
        return self.start - self.distance.mean()

    def std(self) -> np.ndarray:
        return self.distance.std()

    def cdf(self, value: np.ndarray) -> np.ndarray:
        return self.distance.sf(self.start - value)


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


@dataclass(frozen=True)
class LinEx:
    c: float

    def __call__(self, outcome: np.ndarray, decision: np.ndarray) -> np.ndarray:
        x = self.c * (decision - outcome)
        with np.errstate(over="ignore"):  # infinite where the outcome has hardly any mass left
            return np.expm1(x) - x

    def in_logs(self, grid: "Grid", decision: np.ndarray) -> np.ndarray:
        """E ℓ(y, h) where single losses overflow: then the exponential is all that counts."""
        return np.exp(logsumexp(grid.log_weights + self.c * (decision - grid.points), axis=0))


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
    if isinstance(twin, Point):
        points = np.broadcast_to(twin.at, decision.shape)[None]
        return Grid(points, np.zeros_like(points))
    if isinstance(twin, Blend):
        found = [grid(part, decision, width) for _, part in twin.parts]
        log_weights = [
            np.log(weight) + each.log_weights
            for (weight, _), each in zip(twin.parts, found, strict=True)
        ]
        return Grid(np.concatenate([g.points for g in found]), np.concatenate(log_weights))
    panels = _panels(twin, decision, width)
    middle, half = (panels[1:] + panels[:-1]) / 2, np.diff(panels, axis=0) / 2
    points = (middle[:, None] + half[:, None] * NODES[:, None]).reshape(-1, *decision.shape)
    with np.errstate(all="ignore"):
        log_steps = np.log(half[:, None] * WEIGHTS[:, None]).reshape(points.shape)
        log_weights = log_steps + twin.logpdf(points)
    # A panel may be empty, and rounding may put a point on the end of the support.
    return Grid(points, np.where(np.isfinite(log_steps + log_weights), log_weights, -np.inf))


def wide_grid(twin: Twin, decision: np.ndarray, middle: np.ndarray | None = None) -> Grid:
    """As `grid`, for small shapes and heavy tails: panels in the logarithm of the distance.

    Distances are measured from the decision, the middle and the ends of the support, down to
    exp(-60) of the way (what is nearer to an end is one point, weighed by the distribution
    function) and up to 1e150. A density that has a kink has it in the `middle`, or else the middle
    is the median.
    """
    if hasattr(twin, "logpmf"):
        return _every_value(twin, decision, mass=1e-18)
    low, high = (np.broadcast_to(end, decision.shape) for end in twin.support())
    spread = spread_of(twin)
    inside = (decision > low) & (decision < high)
    middle = np.broadcast_to(twin.median() if middle is None else middle, decision.shape)
    middle = np.clip(middle, low + 1e-9 * spread, high - 1e-9 * spread)
    kink = np.where(inside, decision, middle)
    left, right = np.minimum(kink, middle), np.maximum(kink, middle)
    parts = [
        _half_line(twin, left, low, spread, -1),
        _half_line(twin, right, high, spread, +1),
        _from(twin, left, (right - left) / 2, +1),
        _from(twin, right, (right - left) / 2, -1),
    ]
    return Grid(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def spread_of(twin: Twin) -> np.ndarray:
    """Standard deviations, or ranges between the quartiles where there are none."""
    sd = np.asarray(twin.std(), float)
    return sd if np.all(np.isfinite(sd)) else twin.ppf(0.75) - twin.ppf(0.25)


def expected(grid: Grid, loss: LossTwin, decision: np.ndarray) -> np.ndarray:
    """E ℓ(y, h)."""
    counts = np.exp(grid.log_weights) > 0
    losses = np.where(counts, loss(grid.points, decision), 0.0)
    found = np.sum(np.exp(grid.log_weights) * losses, axis=0)
    if isinstance(loss, LinEx) and np.isinf(found).any():
        return np.where(np.isinf(found), loss.in_logs(grid, decision), found)
    return found


def log_expected(grid: Grid, log_utility: LossTwin, decision: np.ndarray) -> np.ndarray:
    """log E u(y, h), with the largest term factored out."""
    return logsumexp(grid.log_weights + log_utility(grid.points, decision), axis=0)


def slope(question: Callable[[np.ndarray], np.ndarray], step: np.ndarray) -> np.ndarray:
    """The derivative at zero, where steps of this size are small."""
    return (
        sum(weight * (question(k * step) - question(-k * step)) for k, weight in STENCIL.items())
        / step
    )


NEAR = np.concatenate([np.arange(-60, -8, 2.0), np.arange(-8, 1e-9, 0.4)])
"""Ends of panels: log distance to a point, where the last is all of the way."""
FAR = np.concatenate(
    [np.arange(-60, -8, 2.0), np.arange(-8, 8, 0.4), np.arange(8, 24, 2.0), np.arange(24, 345, 8.0)]
)


def _half_line(
    twin: Twin, start: np.ndarray, end: np.ndarray, spread: np.ndarray, sign: int
) -> Grid:
    if not np.all(np.isfinite(end)):
        return _panelled(twin, start, spread, sign, FAR)
    half = sign * (end - start) / 2
    nearest = np.maximum(half * np.exp(NEAR[0]), 1e-10 * np.abs(end))
    rest = twin.cdf(end + nearest) if sign < 0 else twin.sf(end - nearest)
    with np.errstate(divide="ignore"):
        last = Grid((end - sign * nearest)[None], np.log(rest)[None])
    outer = _panelled(twin, end, half, -sign, NEAR, nearest)
    parts = (_from(twin, start, half, sign), outer, last)
    return Grid(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _from(twin: Twin, start: np.ndarray, width: np.ndarray, sign: int) -> Grid:
    return _panelled(twin, start, width, sign, NEAR)


def _panelled(
    twin: Twin,
    start: np.ndarray,
    width: np.ndarray,
    sign: int,
    log_panels: np.ndarray,
    nearest: np.ndarray | float = 0.0,
) -> Grid:
    with np.errstate(all="ignore"):
        log_ends = log_panels[:, None] + np.log(width)
        log_ends = np.maximum(log_ends, np.log(nearest))
        middle, half = (log_ends[1:] + log_ends[:-1]) / 2, np.diff(log_ends, axis=0) / 2
        x = (middle[:, None] + half[:, None] * NODES[:, None]).reshape(-1, *start.shape)
        points = start + sign * np.exp(x)
        log_steps = x + np.log(half[:, None] * WEIGHTS[:, None]).reshape(x.shape)
        log_weights = log_steps + twin.logpdf(points)
    counts = np.isfinite(log_weights)
    return Grid(np.where(counts, points, start), np.where(counts, log_weights, -np.inf))


def _every_value(twin: Twin, decision: np.ndarray, mass: float | None = None) -> Grid:
    low, high = twin.support()
    far = np.max(twin.mean() + 40 * twin.std() + 200)
    while mass is not None and np.max(twin.sf(far)) > mass:
        far *= 1.5
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
