"""What a report says, as plain values: one dataclass for each section."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

METHODS = {"VI": "Plain VI", "LCVI": "Calibrated", "NUTS": "NUTS"}
"""What the page calls each method of a comparison."""


@final
@dataclass(frozen=True)
class Risk:
    """What the decisions of one method cost, and how much less that is than plain VI's."""

    method: str
    value: float
    """Mean loss; mean utility where the problem is given by one."""
    reduction: float | None = None
    interval: tuple[float, float] | None = None


@final
@dataclass(frozen=True)
class Verdict:
    """Did calibration help?"""

    sentence: str
    tone: str
    """`better`, `worse` or `unclear`."""
    quantity: str
    """`risk`, or `gain` for a utility."""
    risks: tuple[Risk, ...]
    instances: int
    held_out: bool
    setting: str
    notes: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class WayLine:
    """A way to a decision, and what its decisions cost on outcomes that it had not seen."""

    name: str
    words: str
    """What it is, in plain words."""
    risk: float
    better_by: float | None
    """Than plain VI, as a share."""
    interval: tuple[float | None, float | None]
    coverage_50: float | None
    coverage_90: float | None
    seconds: float


@final
@dataclass(frozen=True)
class Saving:
    """What a decision by the chosen way saves against another way."""

    than: str
    risk: float
    """Of that other way."""
    each: float
    low: float | None
    high: float | None

    @property
    def sentence(self) -> str:
        """In words that follow the numbers."""
        than = TODAY.get(self.than, f"deciding by {self.than}")
        span = _span(self.low, self.high)
        if self.low is not None and self.low > 0:
            return f"That is {shown(self.each)} better than {than}{span}."
        if self.high is not None and self.high < 0:
            return f"That is {shown(-self.each)} worse than {than}{span}."
        way = "better" if self.each >= 0 else "worse"
        size = shown(abs(self.each))
        return f"Against {than} it is {size} {way}, which may be chance{span}."


TODAY = {
    "the same for all": "deciding the same for all",
    "what is done today": "what is done today",
}


def _span(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ""
    return f" (95 % interval {shown(low)} to {shown(high)})"


def shown(value: float) -> str:
    """Three significant digits, with thousands apart."""
    size = math.floor(math.log10(abs(value))) if 0 < abs(value) < math.inf else 0
    return f"{value:,.{max(2 - size, 0)}f}".replace("-", "−")


@final
@dataclass(frozen=True)
class Worth:
    """Which way decides, and what its decisions are worth, in the user's unit."""

    way: str
    quantity: str
    """`cost`, or `gain` for a utility."""
    verdict: str
    folds: str
    outcomes: int
    ways: tuple[WayLine, ...]
    savings: tuple[Saving, ...]

    @property
    def line(self) -> WayLine:
        """That of the way that decides."""
        return next(line for line in self.ways if line.name == self.way)

    @property
    def sentence(self) -> str:
        verb = "gains" if self.quantity == "gain" else "costs"
        return f"A decision {verb} {shown(self.line.risk)} on average."


@final
@dataclass(frozen=True, eq=False)
class Chosen:
    """The decisions of the way that was chosen, for the data of the fit, and their worth."""

    decisions: np.ndarray
    interval: np.ndarray
    """Of what it predicts: instance x (5 %, 95 %)."""
    worth: Worth


@final
@dataclass(frozen=True, eq=False)
class Decisions:
    """One row for each instance; nan where no outcome was observed."""

    outcome: str
    labels: Mapping[str, tuple[str | int | float, ...]]
    """Column name -> what identifies each row."""
    low: np.ndarray
    high: np.ndarray
    """Ends of the 90 % predictive interval, of the way chosen or the calibrated posterior."""
    vi: np.ndarray
    calibrated: np.ndarray
    observed: np.ndarray
    decimals: int
    total: int
    """How many instances there are: more than there are rows, if the table was cut short."""
    draws: int
    """Draws of the predictive distribution, from which the intervals come."""
    chosen: np.ndarray | None = None
    """By the way that was chosen; None where there was no choice."""
    sum: float | None = None
    """Of all decisions to take, where they can be added up: counts."""
    actions: tuple[str, ...] = ()
    """Names of the actions, of which decisions are the numbers from zero; none for quantities."""
    counts: tuple[tuple[str, int], ...] = ()
    """How often each action is to be taken."""

    def __len__(self) -> int:
        return len(self.calibrated)


@final
@dataclass(frozen=True, eq=False)
class WhatIf:
    """All that the page needs to decide again for another parameter of the loss."""

    kind: str
    """`tilted` or `linex`."""
    parameter: float
    """As in the fit."""
    factor: float
    """The loss is this many times the tilted or LinEx loss."""
    low: float
    high: float
    levels: np.ndarray
    rows: np.ndarray
    """Which rows of the decision table take part."""
    quantiles: np.ndarray
    """Of the calibrated predictive distribution: row x level."""
    whole_numbers: bool


@final
@dataclass(frozen=True)
class Moments:
    """A marginal of one posterior in four numbers."""

    mean: float
    sd: float
    low: float
    """5 % quantile."""
    high: float
    """95 % quantile."""


@final
@dataclass(frozen=True, eq=False)
class Marginal:
    """One latent under each method."""

    name: str
    grid: np.ndarray
    density: Mapping[str, np.ndarray]
    moments: Mapping[str, Moments]


@final
@dataclass(frozen=True, eq=False)
class Pair:
    """Two latents together, under each method."""

    x: str
    y: str
    points: Mapping[str, np.ndarray]
    """Method -> draws x 2."""
    correlation: Mapping[str, float]


@final
@dataclass(frozen=True, eq=False)
class Movement:
    """How calibration moved the posterior; the latents that moved most come first."""

    marginals: tuple[Marginal, ...]
    pairs: tuple[Pair, ...]
    total: int
    """How many latents the model has, members of plates counted one by one."""
    draws: int


@final
@dataclass(frozen=True, eq=False)
class Trace:
    """How one fit went: its bound at some of its steps."""

    method: str
    steps: np.ndarray
    bound: np.ndarray
    reason: str
    converged: bool
    taken: int
    skipped: int
    seconds: float
    end: float
    """Mean bound over the last tenth of the steps."""


@final
@dataclass(frozen=True, eq=False)
class ScaleOfLosses:
    """Where M lies among the losses of plain VI's decisions."""

    transform: str
    value: float
    share: float
    """The share of losses that are at most M."""
    edges: np.ndarray
    counts: np.ndarray
    beyond: int
    """Losses to the right of the last edge."""


@final
@dataclass(frozen=True, eq=False)
class Convergence:
    traces: tuple[Trace, ...]
    scale: ScaleOfLosses | None
    """None for a problem given by a utility."""


@final
@dataclass(frozen=True)
class Coverage:
    """Share of outcomes inside their central predictive interval."""

    level: float
    vi: float
    calibrated: float


@final
@dataclass(frozen=True)
class Price:
    """What calibration cost in fit to the data."""

    elbo_vi: float
    elbo_calibrated: float
    error: float
    """Standard error of the difference."""
    coverage: tuple[Coverage, ...]
    instances: int
    held_out: bool

    @property
    def given_up(self) -> float:
        return self.elbo_vi - self.elbo_calibrated

    @property
    def sentence(self) -> str:
        """In words that follow the numbers."""
        if self.given_up > 2 * self.error:
            how = "fits the data worse than plain VI does"
        elif self.given_up < -2 * self.error:
            how = "may fit the data worse than plain VI does, but here it does not"
        else:
            how = "may fit the data worse than plain VI does; here no difference can be told"
        return f"A calibrated posterior errs where errors are cheap, so it {how}."

    @property
    def decimals(self) -> int:
        """As many as are meaningful, given the error."""
        if not 0 < self.error < math.inf:
            return 3
        return min(max(1 - math.floor(math.log10(self.error)), 0), 9)


@final
@dataclass(frozen=True)
class Origin:
    """Where the report comes from, and how to make it again."""

    provenance: Mapping[str, str] = field(default_factory=dict)
    command: str | None = None
    program: str | None = None


@final
@dataclass(frozen=True, eq=False)
class Report:
    """Everything on the page."""

    title: str
    loss: str
    verdict: Verdict
    decisions: Decisions
    what_if: WhatIf | None
    """None where the loss has no parameter to vary."""
    movement: Movement
    convergence: Convergence
    price: Price
    origin: Origin
    worth: Worth | None = None
    """None where there was no choice among ways."""
    unit: float = 1.0
    """What a loss of one costs."""
