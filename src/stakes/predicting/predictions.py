"""Outcomes drawn from the predictive distribution of all instances, in bounded memory."""

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch, Distribution, Key
from stakes.bridge import Predictor
from stakes.decisions import DecisionTask
from stakes.host.programs import Program
from stakes.port import count_in
from stakes.predicting.instances import count_of, everywhere, outcomes_in, weights
from stakes.predicting.posteriors import Posterior

CENTRAL = (0.05, 0.25, 0.75, 0.95)
"""Levels of the quantiles that are the ends of the central 90 and 50 % of what is predicted."""


def predict(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    draws: int,
    asked: np.ndarray | None = None,
) -> np.ndarray:
    """One outcome for each draw of θ, draws along a leading axis.

    A posterior that has fewer draws of θ gives several outcomes for each. Those of instances that
    are not asked about may be anything.
    """

    parts = itertools.count()

    def some(batch: Batch) -> Array:
        return _predict_batch(posterior, predictor, key, batch, draws, next(parts))

    return everywhere(some, predictor, (draws,), asked)


def _drawn(given: Mapping[str, Any]) -> int:
    """How many outcomes are drawn."""
    outcomes = count_in(given["predictor"].trace.instances, given["batch"])
    return outcomes * int(given["draws"])


@partial(Program, static=("draws",), work=_drawn)
def _predict_batch(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    draws: int,
    part: Array | int,
) -> Array:
    theta_key, y_key = jax.random.split(key)
    outcomes, weight = outcomes_in(posterior, predictor, theta_key, batch, draws, part)
    keys = jax.random.split(jax.random.fold_in(y_key, part), draws)
    if count_of(outcomes) < draws:
        again = np.arange(draws) % count_of(outcomes)
        outcomes = jax.tree.map(lambda leaf: leaf[again], outcomes)

    def one(key: Key, outcome: Distribution) -> Array:
        return outcome.expand(weight.shape).sample(key)

    return jnp.asarray(jax.vmap(one)(keys, outcomes), weight.dtype)


def predictive_costs(
    task: DecisionTask,
    posterior: Posterior,
    predictor: Predictor,
    decisions: np.ndarray,
    key: Key,
    draws: int = 100,
) -> np.ndarray:
    """Costs of outcomes drawn from the predictive distribution, as in the paper's notebooks."""
    counted = weights(posterior, predictor) > 0
    found = predict(posterior, predictor, key, draws)
    criterion = task.at(predictor.columns(task.needs)).criterion
    decided = task.space.unpack(jnp.asarray(decisions))
    costs = np.asarray(criterion.cost(jnp.asarray(found), decided))
    return costs[:, counted].ravel()
