"""Where M lies among the losses, and what calibration cost in fit.

A calibrated posterior explains the data less well than plain VI's, by as much as its bound without
the utility term, the ELBO, is lower. It is shown beside what decisions gained.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from stakes.fitting import finite_mean
from stakes.study import Calibration, Cases, are_inside

# Bars of the histogram of losses.
MOST_BINS = 40
# Levels of the central intervals whose coverage is shown.
COVERED = (0.5, 0.9)


@final
@dataclass(frozen=True, eq=False)
class ScaleOfLosses:
    """The place of M among the losses of plain VI's decisions.

    Attributes:
        transform: from loss to utility.
        value: M.
        share: the share of losses that are at most M.
        edges: of the bars of a histogram.
        counts: losses in each bar.
        beyond: losses to the right of the last edge.
    """

    transform: str
    value: float
    share: float
    edges: np.ndarray
    counts: np.ndarray
    beyond: int

    @property
    def bins(self) -> list[tuple[float, float, int]]:
        """(from, to, how many) of each bar."""
        edges = self.edges.tolist()
        return list(zip(edges[:-1], edges[1:], self.counts.tolist(), strict=True))


@final
@dataclass(frozen=True)
class Coverage:
    """Share of outcomes inside their central predictive interval.

    Attributes:
        level: of the interval.
        vi: the share by plain VI.
        calibrated: the share by the calibrated fit.
    """

    level: float
    vi: float
    calibrated: float


@final
@dataclass(frozen=True)
class Price:
    """The price of calibration: how much less well the posterior fits the data.

    Attributes:
        elbo_vi: at the end of plain VI.
        elbo_calibrated: at the end of the calibrated fit, without the utility term.
        error: standard error of the difference.
        coverage: of outcomes by both fits.
        instances: outcomes behind the coverage.
        held_out: whether the fits had not seen these.
    """

    elbo_vi: float
    elbo_calibrated: float
    error: float
    coverage: tuple[Coverage, ...]
    instances: int
    held_out: bool

    @property
    def given_up(self) -> float:
        """How much higher the ELBO of plain VI is."""
        return self.elbo_vi - self.elbo_calibrated

    @property
    def sentence(self) -> str:
        """A sentence about the difference of the two fits."""
        if self.given_up > 2 * self.error:
            how = "fits the data worse than plain VI does"
        elif self.given_up < -2 * self.error:
            how = "may fit the data worse than plain VI does, but here it does not"
        else:
            how = "may fit the data worse than plain VI does; here the difference is within noise"
        return f"A calibrated posterior errs where errors are cheap, so it {how}."

    @property
    def decimals(self) -> int:
        """As many digits as are meaningful, given the error."""
        if not 0 < self.error < math.inf:
            return 3
        return min(max(1 - math.floor(math.log10(self.error)), 0), 9)


def scale_of_losses(result: Calibration) -> ScaleOfLosses | None:
    """Return where M lies; None without a loss, or without a calibrated fit."""
    transform, scale = result.transform, result.scale
    judged = result.problem.why_not_judged is None
    if transform is None or scale is None or not judged or "LCVI" not in result.fits:
        return None
    losses = result.on_fit.comparison.costs["VI"]
    # A few losses far out would squeeze all others into one bin.
    end = max(float(np.quantile(losses, 0.99)), 1.2 * scale)
    bins = int(np.clip(2 * np.sqrt(len(losses)), 8, MOST_BINS))
    counts, edges = np.histogram(losses, bins, (min(0.0, float(losses.min())), end))
    return ScaleOfLosses(
        transform=type(transform).__name__,
        value=scale,
        share=float((losses <= scale * (1 + 1e-6)).mean()),
        edges=edges,
        counts=counts,
        beyond=int((losses > end).sum()),
    )


def price(result: Calibration, judged: Cases, *, covered: bool) -> Price:
    """Return what calibration cost in fit.

    Args:
        result: with both fits.
        judged: cases whose outcomes show the coverage.
        covered: whether to show it; a table of strategies has it already.
    """
    ends = [fit.last_tenth(fit.elbo) for fit in result.fits.values()]
    ends = [end[np.isfinite(end)] for end in ends]
    errors = [float(end.var() / len(end)) if len(end) else float("nan") for end in ends]
    seen = judged.observations
    return Price(
        elbo_vi=finite_mean(ends[0]),
        elbo_calibrated=finite_mean(ends[1]),
        error=float(np.sqrt(sum(errors))),
        coverage=_coverage(judged) if covered else (),
        instances=0 if seen is None else int(seen.counted.sum()),
        held_out=judged.held_out,
    )


def _coverage(cases: Cases) -> tuple[Coverage, ...]:
    """Return the coverage by both fits; nothing without outcomes."""
    seen = cases.observations
    if seen is None:
        return ()
    outcomes, counted = seen.outcomes.ravel(), seen.counted.ravel()
    plain, calibrated = (
        are_inside(cases.forecast(posterior).central, outcomes)[counted].mean(axis=0)
        for posterior in cases.posteriors.values()
    )
    return tuple(
        Coverage(level, float(plain[place]), float(calibrated[place]))
        for place, level in enumerate(COVERED)
    )
