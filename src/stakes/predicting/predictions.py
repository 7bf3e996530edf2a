"""What a posterior predicts and decides, over all instances, in bounded memory."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch, Distribution, Float, Key
from stakes.aim import Aim
from stakes.bridge import Predictor
from stakes.deciding import Rival, best_decision
from stakes.deciding import rivals as near_rivals
from stakes.host.programs import ONCE, Program
from stakes.port import (
    Instances,
    Rows,
    Subsample,
    columns_in,
    outcome_at,
    over_batches,
    sweep,
)
from stakes.predicting.posteriors import FittedPosterior, Members, Posterior
from stakes.protocols import Expectation
from stakes.sharing import Shared
from stakes.vectors import leading, seen

MOST_ELEMENTS = 2**25
"""Instances times draws held at once; 128 MB per array in single precision."""
DRAWS_FOR_RIVALS = 256
DRAWS_FOR_SIZE = 64
"""Draws of θ that show over which values outcomes spread."""


def draws_for(instances: int) -> int:
    """How many draws of θ to evaluate with: many for a few instances, fewer for many."""
    return int(np.clip(MOST_ELEMENTS // (16 * max(instances, 1)), 256, 8192))


def draws_to_decide(aim: Aim, expectation: Expectation, instances: int) -> int:
    """Fewer where decisions have to be tried: a cost known to be convex has a formula for them."""
    values = expectation.summed if aim.criterion.convex else expectation.tried
    return draws_for(instances * values)


def decide(
    aim: Aim,
    posterior: Posterior,
    predictor: Predictor,
    expectation: Expectation,
    key: Key,
    draws: int | None = None,
    asked: np.ndarray | None = None,
) -> np.ndarray:
    """The best decision for each instance, for the original loss or utility.

    Those of instances that are not asked about may be anything.
    """
    size = int(np.prod(predictor.cases.instances.shape))
    count = draws or draws_to_decide(aim, expectation, size)

    bare, numbers = aim.opened()

    def best(batch: Batch) -> Array:
        return _decide_batch(posterior, predictor, key, batch, bare, numbers, expectation, count)

    return _everywhere(best, predictor, leading(aim.space), asked)


@partial(Program, static=("aim", "expectation", "draws"), numbers=("numbers",))
def _decide_batch(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    aim: Aim,
    numbers: tuple[Any, ...],
    expectation: Expectation,
    draws: int,
) -> Float[Array, "*instance"]:
    here, outcomes, weight, y_key = _at(
        posterior, predictor, key, batch, aim.filled(numbers), draws
    )
    return best_decision(here, expectation, y_key, outcomes, weight)


def rivals(
    aim: Aim,
    posterior: Posterior,
    predictor: Predictor,
    expectation: Expectation,
    key: Key,
    draws: int = DRAWS_FOR_RIVALS,
) -> Rival | None:
    """Of the first batch of instances, other decisions that are nearly as good as the best."""
    if aim.criterion.convex or aim.space.actions is not None or leading(aim.space):
        return None
    batch, (bare, numbers) = next(sweep(predictor.cases.subsamples)), aim.opened()
    found: Rival | None = _rivals_batch(
        posterior, predictor, key, batch, bare, numbers, expectation, draws
    )
    return found


@partial(Program, static=("aim", "expectation", "draws"), numbers=("numbers",))
def _rivals_batch(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    aim: Aim,
    numbers: tuple[Any, ...],
    expectation: Expectation,
    draws: int,
) -> Rival | None:
    filled = aim.filled(numbers)
    here, outcomes, weight, y_key = _at(posterior, predictor, key, batch, filled, draws)
    return near_rivals(here, expectation, y_key, outcomes, weight)


def _at(
    posterior: Posterior, predictor: Predictor, key: Key, batch: Batch, aim: Aim, draws: int
) -> tuple[Aim, Any, Array, Key]:
    """The aim for a batch, what may come of decisions there, weights, and a key for outcomes."""
    theta_key, y_key = jax.random.split(key)
    outcomes, weight = _outcomes(posterior, predictor, theta_key, batch, draws, responding=True)
    return aim.at(columns_in(predictor, aim.needs, batch)), outcomes, weight, y_key


def outcomes(
    posterior: Posterior, predictor: Predictor, key: Key, draws: int
) -> tuple[Distribution, Array]:
    """p(y|θ) for the first batch of instances, draws of θ along a leading axis; and weights."""
    batch = next(sweep(predictor.cases.subsamples))
    return _outcomes_batch(posterior, predictor, key, batch, draws)


def one_outcome(
    posterior: Posterior, predictor: Predictor, key: Key
) -> tuple[Distribution, Array, np.ndarray]:
    """p(y|θ) for one θ and the first batch of instances; weights; and a draw of y."""
    batch = next(sweep(predictor.cases.subsamples))
    outcome, weight, drawn = _one_batch(posterior, predictor, key, batch)
    return outcome, weight, np.asarray(drawn)


@partial(Program, options=ONCE)
def _one_batch(
    posterior: Posterior, predictor: Predictor, key: Key, batch: Batch
) -> tuple[Distribution, Array, Array]:
    # The first two keys folded in are those of a split, from which the guide has started.
    theta_key, y_key = (jax.random.fold_in(key, number) for number in (2, 3))
    stacked, weight = _outcomes(posterior, predictor, theta_key, batch, 1)
    outcome = jax.tree.map(lambda leaf: leaf[0], stacked)
    return outcome, weight, jnp.asarray(outcome.expand(weight.shape).sample(y_key), weight.dtype)


def _outcomes(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    draws: int,
    part: Array | int = 0,
    *,
    responding: bool = False,
) -> tuple[Any, Array]:
    """p(y|θ) for the batch, or p(y|θ, h) where decisions change outcomes and that is asked for."""
    latent_key, model_key = jax.random.split(key)
    members = Members(predictor.fitted_members(batch), part)
    latents = posterior.latents(latent_key, draws, members)
    model_key = jax.random.fold_in(model_key, part)
    keys = jax.random.split(model_key, jax.tree.leaves(latents)[0].shape[0])

    def one(latents: dict[str, Array], key: Key) -> tuple[Any, Array]:
        outcome, weight = predictor.predict(latents, key, batch)
        if responding and predictor.cases.action is not None:
            return predictor.respond(latents, key, batch), weight
        return outcome, weight

    outcome, weight = jax.vmap(one)(latents, keys)
    return outcome, weight[0]


_outcomes_batch = Program(_outcomes, static=("draws", "responding"))


def weights(posterior: Posterior, predictor: Predictor) -> np.ndarray:
    """How much each instance counts, for any θ: its mask times the minibatch scale."""
    return _everywhere(lambda batch: _weigh_batch(posterior, predictor, batch), predictor)


@Program
def _weigh_batch(posterior: Posterior, predictor: Predictor, batch: Batch) -> Array:
    return _outcomes(posterior, predictor, jax.random.key(0), batch, 1)[1]


def observed(posterior: Posterior, predictor: Predictor) -> np.ndarray | None:
    """The observed outcomes of all instances, the same for any θ; None where there are none."""
    batch = next(sweep(predictor.cases.subsamples))
    if jax.eval_shape(_observed_batch, posterior, predictor, batch) is None:
        return None
    return _everywhere(lambda batch: _observed_batch(posterior, predictor, batch), predictor)


@Program
def _observed_batch(posterior: Posterior, predictor: Predictor, batch: Batch) -> Any:
    key = jax.random.key(0)
    latents = posterior.latents(key, 1, Members(predictor.fitted_members(batch)))
    value = predictor.observed(jax.tree.map(lambda one: one[0], latents), key, batch)
    return None if value is None else jnp.asarray(value, jnp.result_type(float))


class Observations(NamedTuple):
    """Outcomes to judge decisions by, and which of them count."""

    outcomes: np.ndarray
    counted: np.ndarray
    predictor: Predictor
    """Of the cases that they are of."""

    def filled(self) -> np.ndarray:
        """The outcomes, with the median of all in place of those that do not count."""
        outcomes = self.outcomes
        counted = self.counted.reshape(
            self.counted.shape + (1,) * (outcomes.ndim - self.counted.ndim)
        )
        some = outcomes[self.counted]
        return np.where(counted, outcomes, np.median(some) if some.size else 0.0)

    def aim(self, aim: Aim) -> Aim:
        """With the values of these cases in place."""
        return aim.at(self.predictor.columns(aim.needs))

    def costs(self, aim: Aim, decisions: np.ndarray) -> np.ndarray:
        """ℓ(y_i, h_i), or minus the utility, of each instance that counts."""
        return self.aim(aim).costs(self.outcomes, decisions)[self.counted]


def observations(posterior: Posterior, predictor: Predictor) -> Observations | None:
    """The observed outcomes and which of them the mask lets count; None where there are none."""
    outcomes = observed(posterior, predictor)
    if outcomes is None:
        return None
    return Observations(outcomes, weights(posterior, predictor) > 0, predictor)


def predictive_costs(
    aim: Aim,
    posterior: Posterior,
    predictor: Predictor,
    decisions: np.ndarray,
    key: Key,
    draws: int = 100,
) -> np.ndarray:
    """Costs of outcomes drawn from the predictive distribution, as in the paper's notebooks."""
    counted = weights(posterior, predictor) > 0
    found = predict(posterior, predictor, key, draws)
    criterion = aim.at(predictor.columns(aim.needs)).criterion
    decided = seen(aim.space, jnp.asarray(decisions))
    costs = np.asarray(criterion.cost(jnp.asarray(found), decided))
    return costs[:, counted].ravel()


def expected(
    aim: Aim,
    posterior: Posterior,
    predictor: Predictor,
    expectation: Expectation,
    key: Key,
    decision: float,
    draws: int,
) -> np.ndarray:
    """What a decision costs, or is worth, if taken for all: (mean, 5 %, 95 % over θ) x instance.

    Where outcomes share a decision, all of them together.
    """

    bare, numbers = aim.opened()
    same = jnp.asarray(decision)

    def some(batch: Batch) -> Array:
        return _expected_batch(
            posterior, predictor, key, batch, same, bare, numbers, expectation, draws
        )

    return _everywhere(some, predictor, leading=(3,))


@partial(Program, static=("aim", "expectation", "draws"), numbers=("numbers",))
def _expected_batch(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    decision: Array,
    aim: Aim,
    numbers: tuple[Any, ...],
    expectation: Expectation,
    draws: int,
) -> Float[Array, "statistic *instance"]:
    aim = aim.filled(numbers)
    here, outcomes, weight, y_key = _at(posterior, predictor, key, batch, aim, draws)
    space = here.space.counting(weight) if isinstance(here.space, Shared) else here.space
    same = jnp.full_like(weight, decision)

    def one(key: Key, outcome: Any) -> Array:
        at = outcome_at(outcome, same)
        found = here.criterion.worth(here.criterion.risk(expectation, key, at, same))
        return space.over(found, "sum") if isinstance(space, Shared) else found

    each = jax.vmap(one)(jax.random.split(y_key, _count(outcomes)), outcomes)
    ends = jnp.quantile(each, jnp.array([0.05, 0.95]), axis=0)
    return jnp.concatenate([each.mean(axis=0)[None], ends])


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

    return _everywhere(some, predictor, (draws,), asked)


@partial(Program, static=("draws",))
def _predict_batch(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    draws: int,
    part: Array | int,
) -> Array:
    theta_key, y_key = jax.random.split(key)
    outcomes, weight = _outcomes(posterior, predictor, theta_key, batch, draws, part)
    keys = jax.random.split(jax.random.fold_in(y_key, part), draws)
    if _count(outcomes) < draws:
        again = np.arange(draws) % _count(outcomes)
        outcomes = jax.tree.map(lambda leaf: leaf[again], outcomes)

    def one(key: Key, outcome: Distribution) -> Array:
        return outcome.expand(weight.shape).sample(key)

    return jnp.asarray(jax.vmap(one)(keys, outcomes), weight.dtype)


def _count(outcomes: Distribution) -> int:
    """Of draws of θ: a posterior given as draws may have fewer than were asked for."""
    return int(jax.tree.leaves(outcomes)[0].shape[0])


def latent_draws(posterior: FittedPosterior, key: Key, draws: int) -> dict[str, np.ndarray]:
    """Draws of every latent, draws along a leading axis, local ones for all members."""
    return _in_parts(
        lambda batch, part: _latents_batch(posterior, key, batch, draws, part),
        posterior.approximation.latents,
        posterior.approximation.subsamples,
        draws,
    )


def derived_draws(
    posterior: FittedPosterior, predictor: Predictor, key: Key, draws: int
) -> dict[str, np.ndarray]:
    """The model's deterministic sites for the same draws of the latents."""
    return _in_parts(
        lambda batch, part: _derived_batch(posterior, predictor, key, batch, draws, part),
        predictor.cases.derived,
        predictor.cases.subsamples,
        draws,
    )


def explained(
    posterior: FittedPosterior, predictor: Predictor, key: Key, draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """log p(y_i|θ) of what was observed, and outcomes drawn, for the draws of `latent_draws`.

    Draws along a leading axis.
    """
    instances = predictor.cases.instances
    found = _in_parts(
        lambda batch, part: _explained_batch(posterior, predictor, key, batch, draws, part),
        {"log_likelihood": instances, "outcome": instances},
        predictor.cases.subsamples,
        draws,
    )
    return found["log_likelihood"], found["outcome"]


@partial(Program, static=("draws",))
def _explained_batch(
    posterior: FittedPosterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    draws: int,
    part: Array | int,
) -> dict[str, Array]:
    latents = posterior.latents(key, draws, Members(batch, part))
    keys = jax.random.split(jax.random.fold_in(key, part), draws)

    def one(latents: dict[str, Array], key: Key) -> dict[str, Array]:
        outcome, weight = predictor.predict(latents, key, batch)
        log_p = outcome.log_prob(predictor.observed(latents, key, batch))
        drawn = outcome.expand(weight.shape).sample(key)
        return {
            "log_likelihood": jnp.broadcast_to(log_p, weight.shape),
            "outcome": jnp.asarray(drawn, weight.dtype),
        }

    return jax.vmap(one)(latents, keys)


def _in_parts(
    question: Callable[[Batch, int], dict[str, Array]],
    asked: Mapping[str, Instances],
    subsamples: tuple[Subsample, ...],
    draws: int,
) -> dict[str, np.ndarray]:
    """The answers to all that is asked for, draws along a leading axis, batch by batch.

    What differs from batch to batch, but has no plate that says whose it is, is left out.
    """
    whole: dict[str, np.ndarray] = {}
    stray: set[str] = set()
    for part, batch in enumerate(sweep(subsamples) if asked else ()):
        found = question(batch, part)
        for name, each in asked.items():
            values = np.asarray(found[name])
            if name not in whole:
                whole[name] = np.zeros((draws, *each.shape), values.dtype)
            elif not set(batch).intersection(each.dims):
                stray |= set() if np.array_equal(whole[name], values, equal_nan=True) else {name}
            Rows.of(each, batch, leading=1).fill(whole[name], values)
    return {name: values for name, values in whole.items() if name not in stray}


@partial(Program, static=("draws",))
def _latents_batch(
    posterior: FittedPosterior, key: Key, batch: Batch, draws: int, part: Array | int
) -> dict[str, Array]:
    return posterior.latents(key, draws, Members(batch, part))


@partial(Program, static=("draws",))
def _derived_batch(
    posterior: FittedPosterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    draws: int,
    part: Array | int,
) -> dict[str, Array]:
    latents = posterior.latents(key, draws, Members(batch, part))
    return jax.vmap(lambda one: predictor.derived(one, key, batch))(latents)


def outcomes_by_batch(
    posterior: Posterior, predictor: Predictor, key: Key, decisions: Sequence[float] = ()
) -> Iterator[Distribution]:
    """p(y|θ) for a few draws of θ along a leading axis, one batch of instances after the other.

    Where decisions change outcomes, also if all of these were taken.
    """
    for batch in sweep(predictor.cases.subsamples):
        yield _outcomes_batch(posterior, predictor, key, batch, DRAWS_FOR_SIZE)[0]
        for decision in decisions:
            yield _responses_batch(posterior, predictor, key, batch, jnp.asarray(decision))


@Program
def _responses_batch(
    posterior: Posterior, predictor: Predictor, key: Key, batch: Batch, decision: Array
) -> Distribution:
    """p(y|θ, h) where the same is decided for all."""
    found, weight = _outcomes(posterior, predictor, key, batch, DRAWS_FOR_SIZE, responding=True)
    same = jnp.full_like(weight, decision)
    return jax.vmap(lambda one: one.at(same))(found)


def _everywhere(
    question: Callable[[Batch], Array],
    predictor: Predictor,
    leading: tuple[int, ...] = (),
    asked: np.ndarray | None = None,
) -> np.ndarray:
    cases = predictor.cases
    return over_batches(question, cases.instances, cases.subsamples, leading=leading, asked=asked)
