"""The port: what the algorithms need from a model and its approximation, and its minibatches."""

from stakes.port.approximation import Approximation, Draw, Instances, Subsample
from stakes.port.minibatches import (
    Batches,
    Rows,
    gather,
    over_batches,
    params_in,
    rows_of_params,
    scatter,
    sweep,
)

__all__ = [
    "Approximation",
    "Batches",
    "Draw",
    "Instances",
    "Rows",
    "Subsample",
    "gather",
    "over_batches",
    "params_in",
    "rows_of_params",
    "scatter",
    "sweep",
]
