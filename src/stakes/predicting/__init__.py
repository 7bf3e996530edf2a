"""Posteriors, and what they predict and decide for all instances."""

from stakes.predicting.posteriors import FittedPosterior, Posterior, SampledPosterior
from stakes.predicting.predictions import (
    Observations,
    decide,
    derived_draws,
    draws_for,
    draws_to_decide,
    expected,
    explained,
    latent_draws,
    observations,
    observed,
    one_outcome,
    outcomes,
    outcomes_by_batch,
    predict,
    predictive_costs,
    rivals,
    weights,
)
from stakes.predicting.reweighting import decide_weighted, weighed

__all__ = [
    "FittedPosterior",
    "Observations",
    "Posterior",
    "SampledPosterior",
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
    "rivals",
    "weighed",
    "weights",
]
