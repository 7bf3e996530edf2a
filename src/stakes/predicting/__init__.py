"""Posteriors, and what they predict and decide for all instances."""

from stakes.predicting.decisions import (
    begin_to_decide,
    decide,
    draws_for,
    draws_to_decide,
    expected,
    second_minimum,
)
from stakes.predicting.instances import (
    CENTRAL,
    Observations,
    observations,
    observed,
    one_outcome,
    outcomes,
    outcomes_by_batch,
    predict,
    predictive_costs,
)
from stakes.predicting.posteriors import (
    FittedPosterior,
    Posterior,
    SampledPosterior,
    derived_draws,
    explained,
    latent_draws,
)
from stakes.predicting.reweighting import decide_weighted, weighed

__all__ = [
    "CENTRAL",
    "FittedPosterior",
    "Observations",
    "Posterior",
    "SampledPosterior",
    "begin_to_decide",
    "decide",
    "decide_weighted",
    "derived_draws",
    "draws_for",
    "draws_to_decide",
    "expected",
    "explained",
    "latent_draws",
    "observations",
    "observed",
    "one_outcome",
    "outcomes",
    "outcomes_by_batch",
    "predict",
    "predictive_costs",
    "second_minimum",
    "weighed",
]
