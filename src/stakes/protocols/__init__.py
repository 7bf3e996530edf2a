"""The protocols of all choices: a value of your own that implements one serves as well.

A *loss* is what a decision costs; a *transform* turns it into a *gain*; an *expectation* averages
over outcomes; an *estimator* estimates the logarithm of an expected utility; a *decision rule* sets
decisions. A *method*, which optimises variational parameters and decisions, implements
`stakes.fitting.Method`.

Choices are values: frozen dataclasses, so that JAX can reuse the programs compiled for them.
Axes are named as in `Float[Array, "theta *instance"]`: draws of θ first, then one axis for each
plate of the outcome.
"""

from stakes.protocols.decisions import Criterion as Criterion
from stakes.protocols.decisions import DecisionRule as DecisionRule
from stakes.protocols.decisions import Groups as Groups
from stakes.protocols.decisions import Objective as Objective
from stakes.protocols.decisions import Over as Over
from stakes.protocols.decisions import Space as Space
from stakes.protocols.expectations import Cost as Cost
from stakes.protocols.expectations import Estimator as Estimator
from stakes.protocols.expectations import Expectation as Expectation
from stakes.protocols.expectations import Gain as Gain
from stakes.protocols.expectations import PositiveUtility as PositiveUtility
from stakes.protocols.expectations import Spaced as Spaced
from stakes.protocols.expectations import Tabled as Tabled
from stakes.protocols.expectations import Transform as Transform
from stakes.protocols.expectations import UtilityTerm as UtilityTerm
from stakes.protocols.losses import Loss as Loss
from stakes.protocols.losses import Predicted as Predicted
from stakes.protocols.losses import SolvedLoss as SolvedLoss
