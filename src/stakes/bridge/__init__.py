"""NumPyro behind the port: no other package uses handlers, sites, plates and constraints."""

from stakes.bridge.approximation import (
    NumPyroApproximation,
    Weighed,
    approximate,
    prior_draws,
    row_check,
)
from stakes.bridge.dividing import Divided, check_even, divided
from stakes.bridge.forms import parts_of
from stakes.bridge.influence import groups_of, lost_parameters, seen_members
from stakes.bridge.model_trace import ModelTrace
from stakes.bridge.predictor import Predictor, Predictors
from stakes.bridge.running import Running, guide_with_decisions
from stakes.bridge.sampling import Diagnostics, check_sampling, nuts

__all__ = [
    "Diagnostics",
    "Divided",
    "ModelTrace",
    "NumPyroApproximation",
    "Predictor",
    "Predictors",
    "Running",
    "Weighed",
    "approximate",
    "check_even",
    "check_sampling",
    "divided",
    "groups_of",
    "guide_with_decisions",
    "lost_parameters",
    "nuts",
    "parts_of",
    "prior_draws",
    "row_check",
    "seen_members",
]
