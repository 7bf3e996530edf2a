"""Bayesian decisions: variational posteriors calibrated for what a decision costs."""

from stakes.algorithms import EM, BayesDecisions, Joint, NumericalDecisions
from stakes.calibration import calibrate
from stakes.comparison import Comparison
from stakes.errors import InputError, NumericalError, StakesError, StakesWarning
from stakes.expectation import ClosedForm, Enumeration, MonteCarlo, Quadrature
from stakes.fitting import Fit, Stop
from stakes.losses import Absolute, LinEx, Squared, Tilted
from stakes.natural_gradient import natural_gradient
from stakes.problem import Problem
from stakes.result import Calibration
from stakes.utilities import Exponential, ExpUtility, Linearized, Utility
from stakes.utility_term import Jensen, Nested, Taylor

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
    "InputError",
    "Jensen",
    "Joint",
    "LinEx",
    "Linearized",
    "MonteCarlo",
    "Nested",
    "NumericalDecisions",
    "NumericalError",
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
