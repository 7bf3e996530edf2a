"""What a decision costs: losses, each with its expectation and best decision where known.

`AnyLoss` asks any loss, ours or a function, what it knows of itself; what it does not know raises
`NoClosedForm`, and is computed numerically.
"""

from stakes.losses.affine import at_mean as at_mean
from stakes.losses.any_loss import AnyLoss as AnyLoss
from stakes.losses.any_loss import WithCovariates as WithCovariates
from stakes.losses.any_loss import covariates_of as covariates_of
from stakes.losses.classes import CostTable as CostTable
from stakes.losses.classes import ZeroOne as ZeroOne
from stakes.losses.linear import Absolute as Absolute
from stakes.losses.linear import IntervalScore as IntervalScore
from stakes.losses.linear import Newsvendor as Newsvendor
from stakes.losses.linear import Tilted as Tilted
from stakes.losses.smooth import Expectile as Expectile
from stakes.losses.smooth import Huber as Huber
from stakes.losses.smooth import LinEx as LinEx
from stakes.losses.smooth import Squared as Squared
