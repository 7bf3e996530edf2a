"""The protocols of all choices: a value of your own that implements one serves as well.

A *loss* is what a decision costs; a *transform* turns it into a *gain*; an *expectation* averages
over outcomes; an *estimator* estimates the logarithm of an expected utility; a *decision rule* sets
decisions. A *method*, which optimises variational parameters and decisions, implements
`stakes.fitting.Method`.

Choices are values: frozen dataclasses, so that JAX can reuse the programs compiled for them.
Axes are named as in `Float[Array, "theta *instance"]`: draws of θ first, then one axis for each
plate of the outcome.
"""

from stakes.protocols.decisions import (
    Criterion,
    DecisionRule,
    Groups,
    Objective,
    Over,
    Space,
)
from stakes.protocols.expectations import (
    Cost,
    Estimator,
    Expectation,
    Gain,
    PositiveUtility,
    Tabled,
    Transform,
    UtilityTerm,
)
from stakes.protocols.losses import Loss, Predicted, SolvedLoss

__all__ = [
    "Cost",
    "Criterion",
    "DecisionRule",
    "Estimator",
    "Expectation",
    "Gain",
    "Groups",
    "Loss",
    "Objective",
    "Over",
    "PositiveUtility",
    "Predicted",
    "SolvedLoss",
    "Space",
    "Tabled",
    "Transform",
    "UtilityTerm",
]
