"""What a posterior says of the outcomes of cases, and what was observed; in bounded memory.

Whatever is asked is asked of one batch of cases after the other, as the model takes them, and put
together to an array for all cases.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch, Distribution, Key
from stakes.bridge import Predictor
from stakes.decisions import DecisionTask
from stakes.host.compiling import ONCE
from stakes.host.programs import Program
from stakes.port import Outcome, count_in, over_batches, sweep
from stakes.predicting.posteriors import Members, Posterior

# Levels of the quantiles that are the ends of the central 90 and 50 % of what is predicted.
CENTRAL = (0.05, 0.25, 0.75, 0.95)
# Draws of θ that show over which values outcomes spread.
DRAWS_FOR_SIZE = 64
# Outcomes that a loss is tried on before a fit, and for which costs are computed at once.
MOST_TO_TRY, MOST_AT_ONCE = 2**20, 2**22


def outcomes(
    posterior: Posterior, predictor: Predictor, key: Key, draws: int
) -> tuple[Distribution, Array]:
    """Return p(y|θ) for the first batch, draws of θ along a leading axis; and weights."""
    batch = next(sweep(predictor.trace.subsamples))
    return _outcomes_batch(posterior, predictor, key, batch, draws)


def one_outcome(
    posterior: Posterior, predictor: Predictor, key: Key
) -> tuple[Distribution, Array, np.ndarray]:
    """Return p(y|θ) for one θ and the first batch of cases; weights; and a draw of y."""
    batch = next(sweep(predictor.trace.subsamples))
    outcome, weight, drawn = _one_batch(posterior, predictor, key, batch)
    return outcome, weight, np.asarray(drawn)


@partial(Program, options=ONCE)
def _one_batch(
    posterior: Posterior, predictor: Predictor, key: Key, batch: Batch
) -> tuple[Distribution, Array, Array]:
    # The first two keys folded in are those of a split, from which the guide has started.
    """Compute what `one_outcome` returns."""
    theta_key, y_key = (jax.random.fold_in(key, number) for number in (2, 3))
    stacked, weight = outcomes_in(posterior, predictor, theta_key, batch, 1)
    outcome = jax.tree.map(lambda leaf: leaf[0], stacked)
    return outcome, weight, jnp.asarray(outcome.expand(weight.shape).sample(y_key), weight.dtype)


def outcomes_in(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    draws: int,
    part: Array | int = 0,
    *,
    responding: bool = False,
) -> tuple[Outcome, Array]:
    """Return p(y|θ) for a batch, and how much each case counts.

    Args:
        posterior: what draws of θ come from.
        predictor: the model on the cases.
        key: of θ, and of what the model draws itself.
        batch: members of the plates that the model takes in minibatches.
        draws: of θ.
        part: the number of the batch; local latents are drawn anew for each.
        responding: return p(y|θ, h) where decisions change outcomes.
    """
    latent_key, model_key = jax.random.split(key)
    members = Members(predictor.fitted_members(batch), part)
    latents = posterior.latents(latent_key, draws, members)
    model_key = jax.random.fold_in(model_key, part)
    keys = jax.random.split(model_key, jax.tree.leaves(latents)[0].shape[0])

    def one(latents: dict[str, Array], key: Key) -> tuple[Outcome, Array]:
        outcome, weight = predictor.predict(latents, key, batch)
        if responding and predictor.trace.action is not None:
            return predictor.respond(latents, key, batch), weight
        return outcome, weight

    outcome, weight = jax.vmap(one)(latents, keys)
    return outcome, weight[0]


_outcomes_batch = Program(outcomes_in, static=("draws", "responding"))


def _predicted(given: Mapping[str, Any]) -> int:
    """About how many numbers it takes to predict: a hundred for each outcome and draw of θ."""
    instances = count_in(given["predictor"].trace.instances, given["batch"])
    return 100 * instances * int(given["draws"])


@partial(Program, static=("draws", "responding"), options=ONCE, work=_predicted)
def predict_batch(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    batch: Batch,
    draws: int,
    part: Array | int,
    responding: bool,
) -> tuple[Outcome, Array]:
    """p(y|θ), as in `outcomes_in`; whoever asks further takes the second half of the key."""
    theta_key, _ = jax.random.split(key)
    return outcomes_in(posterior, predictor, theta_key, batch, draws, part, responding=responding)


def outcomes_by_batch(
    posterior: Posterior, predictor: Predictor, key: Key, decisions: Sequence[float] = ()
) -> Iterator[Distribution]:
    """Yield p(y|θ) for a few draws of θ, one batch of cases after the other.

    Args:
        posterior: what draws of θ come from.
        predictor: the model on the cases.
        key: of θ.
        decisions: where decisions change outcomes, yield what comes of each of these, too.
    """
    for batch in sweep(predictor.trace.subsamples):
        yield _outcomes_batch(posterior, predictor, key, batch, DRAWS_FOR_SIZE)[0]
        for decision in decisions:
            yield _responses_batch(posterior, predictor, key, batch, jnp.asarray(decision))


@Program
def _responses_batch(
    posterior: Posterior, predictor: Predictor, key: Key, batch: Batch, decision: Array
) -> Distribution:
    """p(y|θ, h) where the same is decided for all."""
    found, weight = outcomes_in(posterior, predictor, key, batch, DRAWS_FOR_SIZE, responding=True)
    same = jnp.full_like(weight, decision)
    return jax.vmap(lambda one: one.at(same))(found)


def weights(posterior: Posterior, predictor: Predictor) -> np.ndarray:
    """Return how much each case counts, for any θ: its mask times the minibatch scale."""
    return everywhere(lambda batch: _weigh_batch(posterior, predictor, batch), predictor)


@Program
def _weigh_batch(posterior: Posterior, predictor: Predictor, batch: Batch) -> Array:
    return outcomes_in(posterior, predictor, jax.random.key(0), batch, 1)[1]


def observed(posterior: Posterior, predictor: Predictor) -> np.ndarray | None:
    """Return the observed outcomes, the same for any θ; None where there are none."""
    if not predictor.trace.is_observed:
        return None
    return everywhere(lambda batch: _observed_batch(posterior, predictor, batch), predictor)


@Program
def _observed_batch(posterior: Posterior, predictor: Predictor, batch: Batch) -> Any:
    key = jax.random.key(0)
    latents = posterior.latents(key, 1, Members(predictor.fitted_members(batch)))
    value = predictor.observed(jax.tree.map(lambda one: one[0], latents), key, batch)
    return jnp.asarray(value, jnp.result_type(float))


class Observations(NamedTuple):
    """Outcomes to judge decisions by, and which of them count.

    Attributes:
        predictor: of the cases that they are of.
    """

    outcomes: np.ndarray
    counted: np.ndarray
    predictor: Predictor

    def to_try(self, task: DecisionTask) -> tuple[DecisionTask, np.ndarray]:
        """Return the task and the outcomes of cases that a loss is tried on before any fit.

        They are a million at most, one from each stretch of cases, with the least and the greatest
        outcome among them.
        """
        outcomes, counted, columns = self._flat(task)
        filled = _filled(outcomes, counted, self._middle())
        if filled.size <= MOST_TO_TRY:
            return self.task(task), filled.reshape(self.outcomes.shape)
        edges = np.linspace(0, len(filled), MOST_TO_TRY * len(filled) // filled.size + 1)
        # Somewhere in each stretch: every seventh row of a table may be a Sunday.
        shares = np.random.default_rng(0).random(len(edges) - 1)
        some = (edges[:-1] + shares * np.diff(edges)).astype(int)
        ends = [np.unravel_index(at, filled.shape)[0] for at in (filled.argmin(), filled.argmax())]
        places = np.union1d(some, ends)
        return task.at({need: whole[places] for need, whole in columns.items()}), filled[places]

    def task(self, task: DecisionTask) -> DecisionTask:
        """Return the task with the values of these cases in place."""
        return task.at(self.predictor.columns(task.needs))

    def check(self, task: DecisionTask, decisions: np.ndarray) -> None:
        """Refuse a loss or utility that these decisions show to be broken."""
        middle = self._middle()
        for here, outcomes, counted, decided in self._parts(task, decisions):
            here.check_cost(_filled(outcomes, counted, middle), decided)

    def costs(self, task: DecisionTask, decisions: np.ndarray) -> np.ndarray:
        """Return ℓ(y_i, h_i), or minus the utility, of each case that counts."""
        parts = self._parts(task, decisions)
        return np.concatenate([here.costs(y, decided)[c] for here, y, c, decided in parts])

    def _parts(
        self, task: DecisionTask, decisions: np.ndarray
    ) -> Iterator[tuple[DecisionTask, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield a few million cases at a time: task, outcomes, which count, and decisions."""
        if self.outcomes.size <= MOST_AT_ONCE:
            yield self.task(task), self.outcomes, self.counted, decisions
            return
        lead, (outcomes, counted, columns) = task.space.axes, self._flat(task)
        decisions = np.broadcast_to(decisions, (*lead, *self.counted.shape)).reshape(*lead, -1)
        each = max(len(outcomes) * MOST_AT_ONCE // outcomes.size, 1)
        for first in range(0, len(outcomes), each):
            part = slice(first, first + each)
            here = task.at({need: whole[part] for need, whole in columns.items()})
            yield here, outcomes[part], counted[part], decisions[..., part]

    def _flat(self, task: DecisionTask) -> tuple[np.ndarray, np.ndarray, dict[Any, Array]]:
        """Return cases in one dimension: outcomes, which count, and what the task asks for."""
        further = self.outcomes.shape[self.counted.ndim :]
        columns = self.predictor.columns(task.needs)
        return (
            self.outcomes.reshape(-1, *further),
            self.counted.ravel(),
            {need: jnp.ravel(whole) for need, whole in columns.items()},
        )

    def _middle(self) -> Any:
        some = self.outcomes[self.counted]
        return np.median(some) if some.size else 0.0


def _filled(outcomes: np.ndarray, counted: np.ndarray, middle: Any) -> np.ndarray:
    """The outcomes, with a stand-in for those that do not count: they may be anything."""
    along = counted.reshape(counted.shape + (1,) * (outcomes.ndim - counted.ndim))
    return np.where(along, outcomes, middle)


def observations(posterior: Posterior, predictor: Predictor) -> Observations | None:
    """Return the outcomes observed and which of them count; None where there are none."""
    outcomes = observed(posterior, predictor)
    if outcomes is None:
        return None
    return Observations(outcomes, weights(posterior, predictor) > 0, predictor)


def count_of(outcomes: Distribution) -> int:
    """Return the number of draws of θ: a posterior given as draws may have fewer than asked for."""
    return int(jax.tree.leaves(outcomes)[0].shape[0])


def everywhere(
    question: Callable[[Batch], Array],
    predictor: Predictor,
    leading: tuple[int, ...] = (),
    asked: np.ndarray | None = None,
) -> np.ndarray:
    """Return the answers to a question for all cases, asked batch by batch."""
    cases = predictor.trace
    return over_batches(question, cases.instances, cases.subsamples, leading=leading, asked=asked)


def predict(
    posterior: Posterior,
    predictor: Predictor,
    key: Key,
    draws: int,
    asked: np.ndarray | None = None,
) -> np.ndarray:
    """Return one outcome for each draw of θ, draws along a leading axis.

    A posterior that has fewer draws of θ gives several outcomes for each.

    Args:
        posterior: what draws of θ come from.
        predictor: the model on the cases.
        key: of θ and outcomes.
        draws: of outcomes.
        asked: the cases asked about; outcomes of others may be anything.
    """

    parts = itertools.count()

    def some(batch: Batch) -> Array:
        part = next(parts)
        predicted = predict_batch(posterior, predictor, key, batch, draws, part, False)
        return _sample_batch(key, *predicted, draws, part)

    return everywhere(some, predictor, (draws,), asked)


def _drawn(given: Mapping[str, Any]) -> int:
    """Return how many outcomes are drawn."""
    return int(np.size(given["weight"])) * int(given["draws"])


@partial(Program, static=("draws",), work=_drawn)
def _sample_batch(
    key: Key, outcomes: Distribution, weight: Array, draws: int, part: Array | int
) -> Array:
    """Draw outcomes of one batch."""
    _, y_key = jax.random.split(key)
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
    """Return costs of predicted outcomes, by which the paper's notebooks set M."""
    counted = weights(posterior, predictor) > 0
    found = predict(posterior, predictor, key, draws)
    criterion = task.at(predictor.columns(task.needs)).criterion
    decided = task.space.unpack(jnp.asarray(decisions))
    costs = np.asarray(criterion.cost(jnp.asarray(found), decided))
    return costs[:, counted].ravel()
