"""Fits: the loop, its steps, and the methods that define them."""

from stakes.fitting.apart import Together, run_apart, run_together
from stakes.fitting.ascent import ascend, bound, start
from stakes.fitting.crew import axes_of
from stakes.fitting.default import adaptive
from stakes.fitting.fit import Fit, Stop
from stakes.fitting.history import (
    MOST_SKIPPED,
    RATES,
    History,
    Watch,
    least_steps,
    load_history,
    not_begun,
    start_history,
)
from stakes.fitting.loop import Feed, Hooks, begin_to_compile, compiled, run, sweeping
from stakes.fitting.methods import EM, VI, FreshDecisions, Joint
from stakes.fitting.natural import natural_gradient
from stakes.fitting.settings import FitSettings, adam
from stakes.fitting.shares import NOWHERE, Keeper, Share
from stakes.fitting.stages import Average, are_drifting, finite_mean, has_stopped_rising, owned
from stakes.fitting.step import Info, Method, ParametricStep, State, Step

__all__ = [
    "EM",
    "MOST_SKIPPED",
    "NOWHERE",
    "RATES",
    "VI",
    "Average",
    "Feed",
    "Fit",
    "FitSettings",
    "FreshDecisions",
    "History",
    "Hooks",
    "Info",
    "Joint",
    "Keeper",
    "Method",
    "ParametricStep",
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
    "finite_mean",
    "has_stopped_rising",
    "least_steps",
    "load_history",
    "natural_gradient",
    "not_begun",
    "owned",
    "run",
    "run_apart",
    "run_together",
    "start",
    "start_history",
    "sweeping",
]
