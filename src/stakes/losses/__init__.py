"""What a decision costs: losses, each with its expectation and best decision where known."""

from stakes.losses.any_loss import AnyLoss, Dial, WithCovariates, covariates_of
from stakes.losses.basic import Absolute, LinEx, Newsvendor, Squared, Tilted
from stakes.losses.more import Expectile, Huber, IntervalScore, ZeroOne
from stakes.losses.table import CostTable

__all__ = [
    "Absolute",
    "AnyLoss",
    "CostTable",
    "Dial",
    "Expectile",
    "Huber",
    "IntervalScore",
    "LinEx",
    "Newsvendor",
    "Squared",
    "Tilted",
    "WithCovariates",
    "ZeroOne",
    "covariates_of",
]
