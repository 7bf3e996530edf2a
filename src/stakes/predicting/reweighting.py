"""Decisions under draws of a fit that count differently for each case.

Each case resamples the draws by its own weights, and then decides by draws that count alike. So
closed forms of expectations serve here, too.
"""

import copy
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Distribution, Float, Key
from stakes.bridge import Weighed
from stakes.decisions import DecisionTask, best_decision
from stakes.errors import InputError
from stakes.host.programs import Program
from stakes.predicting.posteriors import FittedPosterior, LinearResponsePosterior
from stakes.protocols import Expectation
from stakes.varying import Columns

# Rounding that a density may show where parameters are laid out anew.
CLOSE = 1e-3


@partial(Program, static=("draws",))
def weighed(posterior: FittedPosterior, key: Key, draws: int) -> Weighed:
    """Return draws of the posterior, and the densities that weights are made of.

    The latents, which may be many, are left out.
    """
    return jax.vmap(posterior.weigh)(jax.random.split(key, draws))._replace(latents={})


@partial(Program, static=("draws",))
def weighed_latents(
    posterior: FittedPosterior | LinearResponsePosterior, key: Key, draws: int
) -> tuple[Array, dict[str, Array]]:
    """Return log p(D, θ) - log q(θ) of draws of the latents, and the draws."""
    drawn = jax.vmap(posterior.weigh)(jax.random.split(key, draws))
    return drawn.log_ratio, drawn.latents


def decide_weighted(
    task: DecisionTask,
    expectation: Expectation,
    key: Key,
    draws: Weighed,
    log_weights: Float[np.ndarray, "draw *instance"],
    columns: Columns | None = None,
) -> np.ndarray:
    """Return the best decision for each case under its own weights of the draws.

    Args:
        task: decisions and costs.
        expectation: how costs are averaged over outcomes.
        key: of the resampling and the decision.
        draws: of the posterior.
        log_weights: they need not add up to one.
        columns: what differs from case to case, for all of them.
    """
    place_key, decision_key = jax.random.split(key)
    start = float(jax.random.uniform(place_key))
    chosen = jnp.asarray(_resampled(np.asarray(log_weights, float), start))
    outcomes = _taken(draws.outcome, chosen)
    _check(draws.outcome, outcomes, chosen)
    like = draws.weight[0]
    bare, numbers = task.split_numbers()
    found = _decide(decision_key, outcomes, like, columns or {}, bare, numbers, expectation)
    return np.asarray(found)


@partial(Program, static=("task", "expectation"), numbers=("numbers",))
def _decide(
    key: Key,
    outcomes: Distribution,
    like: Array,
    columns: Columns,
    task: DecisionTask,
    numbers: tuple[Any, ...],
    expectation: Expectation,
) -> Array:
    """Return the best decision for each case, whose outcomes are resampled already."""
    return best_decision(task.with_numbers(numbers).at(columns), expectation, key, outcomes, like)


def _resampled(log_weights: np.ndarray, start: float) -> np.ndarray:
    """Return as many draws for each case, each as often as its weight says.

    Places are evenly spaced from one random start (systematic resampling), which adds little noise.
    """
    count = len(log_weights)
    weights = np.exp(log_weights - log_weights.max(axis=0))
    ends = weights.reshape(count, -1).cumsum(axis=0)
    places = (np.arange(count) + start) / count
    chosen = [np.searchsorted(each, places * each[-1]) for each in ends.T]
    return np.minimum(np.stack(chosen, axis=1), count - 1).reshape(log_weights.shape)


def _taken(outcomes: Distribution, chosen: Array) -> Distribution:
    """Return p(y_i|θ) with separate draws of θ for each case i.

    Args:
        outcomes: the outcomes, with draws of θ along the leading axis of each parameter.
        chosen: the indices of the draws to take, draw x case.
    """
    shape = chosen.shape[1:]

    def of(leaf: Array) -> Array:
        own = leaf.shape[1:]
        # Axes beyond those of the cases are a parameter's own, such as those of classes.
        event = own[len(shape) :] if len(own) > len(shape) else ()
        batch = own[: len(own) - len(event)]
        lined_up = leaf.reshape(len(leaf), *(1,) * (len(shape) - len(batch)), *own)
        whole = jnp.broadcast_to(lined_up, (len(leaf), *shape, *event))
        at = chosen.reshape(*chosen.shape, *(1,) * len(event))
        return jnp.take_along_axis(whole, at, axis=0)

    return _of_shape(jax.tree.map(of, outcomes), shape)


def _of_shape(outcome: Distribution, shape: tuple[int, ...]) -> Distribution:
    """Return the distribution with the shape that its arrays have now."""
    known = copy.copy(outcome)
    if not outcome.event_shape:
        known._batch_shape = shape
        if hasattr(outcome, "base_dist"):
            known.base_dist = _of_shape(outcome.base_dist, shape)
    return known


def _check(outcomes: Distribution, taken: Distribution, chosen: Array) -> None:
    """Refuse distributions whose arrays are not laid out along the cases."""
    try:
        value = outcomes.support.feasible_like(jnp.zeros(chosen.shape[1:]))
        before = jax.vmap(lambda each: each.log_prob(value))(outcomes)
        found = jax.vmap(lambda each: each.log_prob(value))(taken)
        before = before.reshape(len(before), *(1,) * (chosen.ndim - before.ndim), *before.shape[1:])
        expected = jnp.take_along_axis(jnp.broadcast_to(before, chosen.shape), chosen, axis=0)
        same = bool(jnp.allclose(expected, found, rtol=CLOSE, atol=CLOSE, equal_nan=True))
    except (TypeError, ValueError, NotImplementedError):
        same = False
    if not same:
        raise InputError(
            f"The outcome's distribution, {type(outcomes).__name__}, cannot be split by "
            f"case, as leaving one out requires. Use `compare(...)` with held-out data."
        )
