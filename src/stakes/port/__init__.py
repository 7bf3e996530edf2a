"""The port: what the algorithms need from a model and its approximation, and its minibatches."""

from stakes.port.approximation import Approximation, Draw, Instances, Subsample
from stakes.port.minibatches import (
    Batches,
    Rows,
    columns_in,
    gather,
    instances_in_a_batch,
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
    "columns_in",
    "gather",
    "instances_in_a_batch",
    "over_batches",
    "params_in",
    "rows_of_params",
    "scatter",
    "sweep",
]
