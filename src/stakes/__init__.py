"""Bayesian decisions: variational posteriors calibrated for what a decision costs."""

from stakes.calibration import (
    CalibratedELBO,
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
from stakes.formulas import formula
from stakes.losses import Absolute, LinEx, Squared, Tilted
from stakes.optimise import EM, Fit, Joint, Stop, natural_gradient
from stakes.problem import Problem
from stakes.utilities import Exponential, ExpUtility, Linearized, Utility
from stakes.utility_estimators import Jensen, Nested, Taylor
from stakes.ways import (
    NUTS,
    Calibrated,
    Choice,
    Corrected,
    Forward,
    Given,
    Level,
    Monotone,
    Network,
    Plain,
    Regressor,
    Reweighted,
    Same,
    Shift,
    choose,
)

__all__ = [
    "EM",
    "NUTS",
    "Absolute",
    "BayesDecisions",
    "Calibrated",
    "CalibratedELBO",
    "Calibration",
    "Choice",
    "ClosedForm",
    "Comparison",
    "Corrected",
    "Enumeration",
    "ExpUtility",
    "Exponential",
    "Fit",
    "Forward",
    "Given",
    "Independent",
    "InputError",
    "Jensen",
    "Joint",
    "Level",
    "LinEx",
    "Linearized",
    "Monotone",
    "MonteCarlo",
    "Nested",
    "Network",
    "NoClosedForm",
    "NumericalDecisions",
    "NumericalError",
    "Options",
    "Ordered",
    "Plain",
    "Problem",
    "Quadrature",
    "Regressor",
    "Reweighted",
    "Same",
    "Shift",
    "Squared",
    "StakesError",
    "StakesWarning",
    "Stop",
    "Taylor",
    "Tilted",
    "Utility",
    "calibrate",
    "choose",
    "formula",
    "natural_gradient",
]
