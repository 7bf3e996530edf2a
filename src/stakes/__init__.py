"""Bayesian decisions: variational posteriors calibrated for what a decision costs.

What is named here is imported when it is first used, so that a command that needs none of it, such
as `stakes --help`, need not wait for JAX.
"""

from ast import ImportFrom, parse, walk
from functools import cache
from importlib import import_module
from inspect import getsource
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stakes.decisions import BayesDecisions, NumericalDecisions
    from stakes.errors import InputError, NoClosedForm, NumericalError, StakesError, StakesWarning
    from stakes.expectation import (
        ClosedForm,
        Componentwise,
        Enumeration,
        MonteCarlo,
        Quadrature,
        ScoreFunction,
    )
    from stakes.fitting import EM, Fit, Joint, Stop, natural_gradient
    from stakes.formulas import formula
    from stakes.host.compiling import keep_compiled
    from stakes.losses import (
        Absolute,
        CostTable,
        Expectile,
        Huber,
        IntervalScore,
        LinEx,
        Newsvendor,
        Squared,
        Tilted,
        ZeroOne,
    )
    from stakes.many import Answers, map
    from stakes.problem import Problem
    from stakes.processes import join
    from stakes.spaces import Integers, Interval, OneOf, Real, Vector
    from stakes.study import (
        NUTS,
        Calibrated,
        CalibratedELBO,
        Calibration,
        Choice,
        Comparison,
        Corrected,
        Forward,
        Given,
        Independent,
        Level,
        Monotone,
        Network,
        Options,
        Ordered,
        Plain,
        Regressor,
        Reweighted,
        Same,
        Shift,
        calibrate,
        choose,
    )
    from stakes.tables import Stream
    from stakes.utilities import Exponential, ExpUtility, Linearized, Utility
    from stakes.utility_estimators import Jensen, Nested, Taylor

__all__ = [
    "EM",
    "NUTS",
    "Absolute",
    "Answers",
    "BayesDecisions",
    "Calibrated",
    "CalibratedELBO",
    "Calibration",
    "Choice",
    "ClosedForm",
    "Comparison",
    "Componentwise",
    "Corrected",
    "CostTable",
    "Enumeration",
    "ExpUtility",
    "Expectile",
    "Exponential",
    "Fit",
    "Forward",
    "Given",
    "Huber",
    "Independent",
    "InputError",
    "Integers",
    "Interval",
    "IntervalScore",
    "Jensen",
    "Joint",
    "Level",
    "LinEx",
    "Linearized",
    "Monotone",
    "MonteCarlo",
    "Nested",
    "Network",
    "Newsvendor",
    "NoClosedForm",
    "NumericalDecisions",
    "NumericalError",
    "OneOf",
    "Options",
    "Ordered",
    "Plain",
    "Problem",
    "Quadrature",
    "Real",
    "Regressor",
    "Reweighted",
    "Same",
    "ScoreFunction",
    "Shift",
    "Squared",
    "StakesError",
    "StakesWarning",
    "Stop",
    "Stream",
    "Taylor",
    "Tilted",
    "Utility",
    "Vector",
    "ZeroOne",
    "calibrate",
    "choose",
    "formula",
    "join",
    "keep_compiled",
    "map",
    "natural_gradient",
]


@cache
def _places() -> dict[str, str]:
    """Name -> module, as the imports above say."""
    tree = parse(getsource(import_module(__name__)))
    found = [node for node in walk(tree) if isinstance(node, ImportFrom)]
    return {alias.name: str(node.module) for node in found for alias in node.names}


def __getattr__(name: str) -> Any:
    """One of the names above, or a module of the package."""
    if name in __all__:
        found = getattr(import_module(_places()[name]), name)
        globals()[name] = found
        return found
    if not name.startswith("_"):
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
