"""What a report says, as plain values: one dataclass for each section."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np

from stakes.report.action_table import ActionTable
from stakes.report.curve import Curve
from stakes.report.worth import Answer, Quality, Worth

Column: TypeAlias = tuple[str | int | float, ...]
COLORS = {"VI": "#0072B2", "LCVI": "#D55E00", "NUTS": "#999999"}
"""By Okabe and Ito: colour-blind readers can tell them apart, also in grey."""
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
@dataclass(frozen=True, eq=False)
class Decisions:
    """One row for each instance; nan where no outcome was observed."""

    outcome: str
    labels: Mapping[str, Column]
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
    costs: np.ndarray | None = None
    """What each decision is expected to cost, or to gain; None where that is not known."""
    inputs: Mapping[str, Column] = field(default_factory=dict)
    """Column name -> what the model was told about each row."""
    parts: tuple[str, ...] = ()
    """Where each row comes from: "new", "held out" or "fit"; none where all come from the fit."""
    chances: Mapping[str, np.ndarray] = field(default_factory=dict)
    """For classes: class -> its probability for each row."""
    actions: tuple[str, ...] = ()
    """Names of the actions, of which decisions are the numbers from zero; none for quantities."""
    about: str | None = None
    """What is decided, where that changes the outcome and is no guess of it, such as a price."""

    def __len__(self) -> int:
        return len(self.calibrated)

    @property
    def taken(self) -> np.ndarray:
        """The decisions to take."""
        return self.calibrated if self.chosen is None else self.chosen


@final
@dataclass(frozen=True)
class Handle:
    """A cost, or another parameter of the loss, that the reader may turn."""

    name: str
    value: float
    """As in the fit."""
    span: float
    """It may be turned up and down by this factor."""


@final
@dataclass(frozen=True, eq=False)
class CostDial:
    """Which costs of a table the handles of a what-if turn."""

    actions: tuple[str, ...]
    cells: tuple[int, ...]
    """Action by action and class by class, the number of its handle; -1 where it costs nothing."""
    factors: tuple[np.ndarray | None, ...]
    """For each handle, what it is multiplied by in each row; None for one."""
    taken: np.ndarray
    """The number of the action for each row."""


@final
@dataclass(frozen=True, eq=False)
class WhatIf:
    """All that the page needs to decide again for other parameters of the loss."""

    kind: str
    """`costs`, of a unit short and one too many, `linex`, or `table` of costs of actions."""
    handles: tuple[Handle, ...]
    levels: np.ndarray
    """Of the quantiles; the numbers of the classes for a table."""
    rows: np.ndarray
    """Which rows of the decision table take part."""
    quantiles: np.ndarray
    """Of the predictive distribution: row x level; for a table, the chances of the classes."""
    whole_numbers: bool
    dial: CostDial | None = None
    """For a table."""


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
    element: tuple[str, int]
    """The site, and the number among its values."""
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
    """How calibration moved the posterior; the latents that moved most come first.

    Those that are clearest, where plain VI is the only fit.
    """

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
    """None for a problem given by a utility, and where plain VI is the only fit."""

    @property
    def calibrated(self) -> bool:
        """Whether there is a calibrated fit."""
        return len(self.traces) > 1


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
    price: Price | None
    """None where plain VI is the only fit."""
    origin: Origin
    answer: Answer
    quality: Quality | None
    """None where no outcomes were observed."""
    worth: Worth | None = None
    """None where there was no choice among ways."""
    unit: str | None = None
    """What costs are counted in."""
    actions: ActionTable | None = None
    """None where decisions are no actions of a table of costs, or no outcomes came."""
    curve: Curve | None = None
    """None where decisions do not change outcomes."""
