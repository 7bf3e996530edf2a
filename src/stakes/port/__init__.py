"""The port: what the algorithms need from a model and its approximation, and its minibatches."""

from stakes.port.approximation import (
    Approximation,
    Draw,
    Instances,
    NormalPair,
    Outcome,
    Response,
    Subsample,
    normals_of,
    outcome_at,
    responds,
    steps_of_a_pass,
)
from stakes.port.division import Division
from stakes.port.minibatches import (
    Batches,
    RowIndex,
    columns_in,
    count_in,
    gather,
    over_batches,
    params_in,
    rows_of_decisions,
    rows_of_params,
    scatter,
    sweep,
)
from stakes.port.own_draws import key_of_part

__all__ = [
    "Approximation",
    "Batches",
    "Division",
    "Draw",
    "Instances",
    "NormalPair",
    "Outcome",
    "Response",
    "RowIndex",
    "Subsample",
    "columns_in",
    "count_in",
    "gather",
    "key_of_part",
    "normals_of",
    "outcome_at",
    "over_batches",
    "params_in",
    "responds",
    "rows_of_decisions",
    "rows_of_params",
    "scatter",
    "steps_of_a_pass",
    "sweep",
]
