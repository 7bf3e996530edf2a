"""The port: what the algorithms need from a model and its approximation, and its minibatches."""

from stakes.port.approximation import (
    Approximation,
    Draw,
    Instances,
    NormalPair,
    Subsample,
    normals_of,
)
from stakes.port.minibatches import (
    Batches,
    Rows,
    columns_in,
    gather,
    over_batches,
    params_in,
    rows_of_params,
    scatter,
    sweep,
)
from stakes.port.response import Response, outcome_at

__all__ = [
    "Approximation",
    "Batches",
    "Draw",
    "Instances",
    "NormalPair",
    "Response",
    "Rows",
    "Subsample",
    "columns_in",
    "gather",
    "normals_of",
    "outcome_at",
    "over_batches",
    "params_in",
    "rows_of_params",
    "scatter",
    "sweep",
]
