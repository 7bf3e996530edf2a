"""Fits: the loop, its steps, and the methods that define them."""

from stakes.optimise.apart import Together, divided, run_apart, run_together
from stakes.optimise.ascent import ascend, bound, start
from stakes.optimise.course import (
    MOST_SKIPPED,
    RATES,
    Course,
    Watch,
    least_steps,
    not_begun,
    outset,
)
from stakes.optimise.crew import axes_of
from stakes.optimise.default import adaptive
from stakes.optimise.em import EM, Anew
from stakes.optimise.fit import Fit, Stop
from stakes.optimise.joint import Joint
from stakes.optimise.loop import (
    Feed,
    RowsElsewhere,
    begin_to_compile,
    compiled,
    run,
    sweeping,
)
from stakes.optimise.natural import natural_gradient
from stakes.optimise.settings import FitSettings, adam
from stakes.optimise.shares import NOWHERE, Keeper, Share
from stakes.optimise.stages import (
    Average,
    are_drifting,
    finite_mean,
    has_stopped_rising,
    is_no_better,
    owned,
)
from stakes.optimise.step import Info, Method, Numbered, State, Step
from stakes.optimise.vi import VI

__all__ = [
    "EM",
    "MOST_SKIPPED",
    "NOWHERE",
    "RATES",
    "VI",
    "Anew",
    "Average",
    "Course",
    "Feed",
    "Fit",
    "FitSettings",
    "Info",
    "Joint",
    "Keeper",
    "Method",
    "Numbered",
    "RowsElsewhere",
    "Share",
    "State",
    "Step",
    "Stop",
    "Together",
    "Watch",
    "adam",
    "adaptive",
    "are_drifting",
    "ascend",
    "axes_of",
    "begin_to_compile",
    "bound",
    "compiled",
    "divided",
    "finite_mean",
    "has_stopped_rising",
    "is_no_better",
    "least_steps",
    "natural_gradient",
    "not_begun",
    "outset",
    "owned",
    "run",
    "run_apart",
    "run_together",
    "start",
    "sweeping",
]
