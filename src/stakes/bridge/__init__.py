"""NumPyro behind the port: no other package uses handlers, sites, plates and constraints."""

from stakes.bridge.approximation import NumPyroApproximation, Weighed, approximate
from stakes.bridge.cases import Cases
from stakes.bridge.groups import groups_of
from stakes.bridge.predictor import Predictor, Predictors
from stakes.bridge.sampling import Diagnostics, nuts

__all__ = [
    "Cases",
    "Diagnostics",
    "NumPyroApproximation",
    "Predictor",
    "Predictors",
    "Weighed",
    "approximate",
    "groups_of",
    "nuts",
]
