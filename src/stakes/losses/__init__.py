"""What a decision costs: losses, each with its expectation and best decision where known."""

from stakes.losses.any_loss import AnyLoss, WithCovariates, covariates_of
from stakes.losses.classes import CostTable, ZeroOne
from stakes.losses.linear import Absolute, IntervalScore, Newsvendor, Tilted
from stakes.losses.smooth import Expectile, Huber, LinEx, Squared

__all__ = [
    "Absolute",
    "AnyLoss",
    "CostTable",
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
