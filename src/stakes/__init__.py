"""Bayesian decisions: variational posteriors calibrated for what a decision costs."""

from stakes.calibration import (
    Calibration,
    Comparison,
    Independent,
    Options,
    Ordered,
    calibrate,
)
from stakes.deciding import BayesDecisions, NumericalDecisions
from stakes.errors import InputError, NoClosedForm, NumericalError, StakesError, StakesWarning
from stakes.expectation import ClosedForm, Enumeration, MonteCarlo, Quadrature
from stakes.losses import Absolute, LinEx, Squared, Tilted
from stakes.optimise import EM, Fit, Joint, Stop, natural_gradient
from stakes.problem import Problem
from stakes.utilities import Exponential, ExpUtility, Linearized, Utility
from stakes.utility_estimators import Jensen, Nested, Taylor

__all__ = [
    "EM",
    "Absolute",
    "BayesDecisions",
    "Calibration",
    "ClosedForm",
    "Comparison",
    "Enumeration",
    "ExpUtility",
    "Exponential",
    "Fit",
    "Independent",
    "InputError",
    "Jensen",
    "Joint",
    "LinEx",
    "Linearized",
    "MonteCarlo",
    "Nested",
    "NoClosedForm",
    "NumericalDecisions",
    "NumericalError",
    "Options",
    "Ordered",
    "Problem",
    "Quadrature",
    "Squared",
    "StakesError",
    "StakesWarning",
    "Stop",
    "Taylor",
    "Tilted",
    "Utility",
    "calibrate",
    "natural_gradient",
]
