"""A small neural network that corrects decisions, for any cost.

The network sees the shape of each prediction and where the decision lies in it, all in units of the
prediction's spread, and gives a correction in the same unit. Its weights
follow the slope of the mean cost. A cost that jumps has no slope at most places; the slope of its
average over a small interval around the decision is followed instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Array, Float, Key, PyTree
from stakes.protocols import Criterion
from stakes.study.cases import LEVELS
from stakes.study.strategies.correction import (
    FOLDS,
    FittedMap,
    LearnedMap,
    MapInputs,
    Numbers,
    RowCosts,
    best_share,
    check_columns,
    checked,
    folds,
)
from stakes.study.strategies.strategy import below, value_of

# Weights and intercepts; with a leading axis of members where there are several.
Layers: TypeAlias = list[tuple[Any, Any]]
# Rows in each step of the training.
BATCH = 256
# Steps of the training, however few rows there are.
LEAST_STEPS = 1000
# How often the held-out cost is computed, to keep each member as it was when that was least.
LOOKS = 40
# Step size of Adam at first; it falls to zero along a cosine.
RATE = 0.005
# Weight decay, against fitting the noise of small samples.
DECAY = 0.01
# Half the width, in units of the predictive spread, over which the cost is averaged to have a
# slope.
BLUR = 0.1
# Standard deviations beyond which features are clipped: the network has seen nothing out there.
FAR = 5.0
# Rows decided about at once, to bound memory.
ROWS_AT_ONCE = 2**16


@final
@dataclass(frozen=True)
class Network(LearnedMap):
    """A neural network from predictive quantiles to a correction, in units of their spread.

    It starts from the base's decisions. Five networks are averaged; each is trained without a fifth
    of the rows, and kept as it was when these cost least. `covariates` names data arguments that it
    also sees.

    Examples:
        >>> import stakes
        >>> stakes.Corrected(stakes.Plain(), stakes.Network(width=16)).name
        'plain VI, corrected by network'
    """

    width: int = 32
    epochs: int = 30
    covariates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("width", "epochs"):
            given = checks.whole(f"`Network({name}=...)`", getattr(self, name))
            checks.assign(self, **{name: given})
        names = checks.names("`Network(covariates=...)`", self.covariates)
        checks.assign(self, covariates=names)

    @property
    def title(self) -> str:
        """Its short name in tables."""
        return "network"

    @property
    def description(self) -> str:
        """What it does to decisions, in plain words."""
        return "decisions moved by a small neural network"

    def learn(self, key: Key, inputs: MapInputs, costs: RowCosts) -> FittedMap:
        """Train five networks; keep the share of their mean correction that pays on other rows."""
        fold_key, start_key, step_key = jax.random.split(key, 3)
        units = Units.of(inputs, np.asarray(costs.outcomes))
        fold = folds(fold_key, costs.rows)
        rows = _rows(units, inputs, np.asarray(costs.outcomes))
        steps = max(LEAST_STEPS, self.epochs * len(rows.outcome) // BATCH) // LOOKS
        start = _start(start_key, rows.features.shape[1], self.width)
        members = _train(costs.criterion, steps, step_key, start, rows, _left_out(fold), costs.rows)
        found = NetworkMap(units, jax.tree.map(np.asarray, members))
        held_out = inputs.decisions.copy()
        for k in range(FOLDS):
            held_out[fold == k] = found.of_member(k, inputs.rows(fold == k))
        share, _ = best_share(costs, inputs.decisions, held_out)
        return NetworkMap(units, found.members, share)

    def remade(self, arrays: Mapping[str, np.ndarray]) -> FittedMap:
        """Return the networks with these units, weights and intercepts."""
        where = "A calibration map that was kept"
        count = len([name for name in arrays if name.startswith("members/")]) // 2
        members = [
            (
                value_of(arrays, f"members/{i}/0", where),
                value_of(arrays, f"members/{i}/1", where),
            )
            for i in range(count)
        ]
        share = float(value_of(arrays, "share", where))
        return NetworkMap(Units.from_arrays(below("units/", arrays)), members, share)


class _Rows(NamedTuple):
    """What is known of each row; for a batch, of the rows in it.

    Attributes:
        features: the standardised features of the prediction.
        spread: the spread of the prediction, the unit of a correction.
        decision: the base's decision.
        outcome: what happened.
    """

    features: Float[Array, "row feature"]
    spread: Float[Array, "row"]
    decision: Float[Array, "row"]
    outcome: Float[Array, "row"]


def _room(rows: int) -> int:
    """Return the number of rows rounded up, so that folds of similar size share a program."""
    step = 1 << max(rows.bit_length() - 4, 0)
    return -(-rows // step) * step


def _rows(units: "Units", inputs: MapInputs, outcomes: np.ndarray) -> _Rows:
    """Return all rows, and copies of the first one that fill the room.

    The copies only make arrays of the same shape; steps never draw them.
    """
    every = np.append(np.arange(len(outcomes)), np.zeros(_room(len(outcomes)) - len(outcomes), int))
    values = (*units.seen(inputs), inputs.decisions, outcomes)
    return _Rows(*(jnp.asarray(each[every], jnp.result_type(float)) for each in values))


def _left_out(fold: np.ndarray) -> Array:
    """Return for each member the rows that it is not trained on, filled up with -1."""
    found = np.full((FOLDS, -(-_room(len(fold)) // FOLDS)), -1)
    for k in range(FOLDS):
        own = np.flatnonzero(fold == k)
        found[k, : len(own)] = own
    return jnp.asarray(found)


@final
@dataclass(frozen=True, eq=False)
class Units(Numbers):
    """The units of inputs, so that the network does not depend on the unit of outcomes.

    Attributes:
        least_spread: spreads below it count as that.
        middle: mean of each feature.
        scale: its standard deviation; infinite where it does not vary.
    """

    least_spread: float
    middle: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, inputs: MapInputs, outcomes: np.ndarray) -> "Units":
        """Return the units for these rows.

        A prediction without spread would leave no room for a correction, so there is a least
        spread: a tenth of a typical one.
        """
        spreads = _spreads(inputs)
        some = spreads[spreads > 0]
        least = 0.1 * float(np.median(some)) if some.size else float(np.std(outcomes)) or 1.0
        raw = _features(inputs, np.maximum(spreads, least))
        middle, scale = raw.mean(axis=0), raw.std(axis=0)
        rounding = 1e-6 * np.abs(raw).max(axis=0)
        return cls(least, middle, np.where(scale > rounding, scale, np.inf))

    def seen(self, inputs: MapInputs) -> tuple[np.ndarray, np.ndarray]:
        """Return features, and the spread in whose units a correction is."""
        spreads = np.maximum(_spreads(inputs), self.least_spread)
        raw = _features(inputs, spreads)
        check_columns(raw, len(self.middle))
        features = (raw - self.middle) / self.scale
        return np.clip(features, -FAR, FAR), spreads


def _spreads(inputs: MapInputs) -> np.ndarray:
    """Return about a standard deviation of each prediction."""
    low, high = (inputs.quantiles[:, LEVELS.index(level)] for level in (0.15, 0.85))
    return np.asarray((high - low) / 2)


def _features(inputs: MapInputs, spreads: np.ndarray) -> np.ndarray:
    """Return the prediction's shape, place and size, the decision's place in it, and covariates."""
    median = inputs.quantiles[:, LEVELS.index(0.5)]
    shape = (inputs.quantiles - median[:, None]) / spreads[:, None]
    within = (inputs.decisions - median) / spreads
    own = np.column_stack([shape, within, inputs.decisions, np.log(spreads)])
    return own if inputs.covariates is None else np.hstack([own, inputs.covariates])


@final
@dataclass(frozen=True, eq=False)
class NetworkMap:
    """decision + share · spread · (mean of what the networks say)."""

    units: Units
    members: Layers
    share: float = 1.0

    def arrays(self) -> dict[str, np.ndarray]:
        """Return units, weights and intercepts."""
        units = {f"units/{name}": array for name, array in self.units.arrays().items()}
        layers = {
            f"members/{i}/{j}": np.asarray(part)
            for i, layer in enumerate(self.members)
            for j, part in enumerate(layer)
        }
        return {**units, **layers, "share": np.asarray(self.share)}

    def decide(self, inputs: MapInputs) -> np.ndarray:
        """Return the decisions, moved by the mean of what the networks say."""
        inputs = checked(inputs)
        each = [self.of_member(k, inputs) for k in range(FOLDS)]
        mean = np.mean(each, axis=0)
        return np.asarray(inputs.decisions + self.share * (mean - inputs.decisions))

    def of_member(self, member: int, inputs: MapInputs) -> np.ndarray:
        """Return the decisions of one network, in bounded memory."""
        layers = jax.tree.map(lambda leaf: leaf[member].astype(np.float64), self.members)
        found = [np.zeros(0)]
        for start in range(0, len(inputs.decisions), ROWS_AT_ONCE):
            part = inputs.rows(slice(start, start + ROWS_AT_ONCE))
            features, spread = self.units.seen(part)
            found.append(part.decisions + spread * _forward(np.tanh, layers, features))
        return np.concatenate(found)


def _forward(tanh: Callable[[Any], Any], layers: Layers, features: Any) -> Any:
    """Return the network's output for each row, by NumPy or JAX."""
    *hidden, (weight, intercept) = layers
    for inner, constant in hidden:
        features = tanh(features @ inner + constant)
    return (features @ weight + intercept)[:, 0]


def _start(key: Key, features: int, width: int) -> Layers:
    """Return random hidden layers for each member, and no correction yet."""
    sizes = [(features, width), (width, width)]
    keys = jax.random.split(key, len(sizes))
    hidden = [
        (jax.random.normal(own, (FOLDS, *size)) / np.sqrt(size[0]), jnp.zeros((FOLDS, width)))
        for own, size in zip(keys, sizes, strict=True)
    ]
    return [*hidden, (jnp.zeros((FOLDS, width, 1)), jnp.zeros((FOLDS, 1)))]


def _slope(criterion: Criterion, rows: _Rows, correction: Array) -> Float[Array, "row"]:
    """Return by how much the cost rises with the correction, averaged over a small interval around
    it.

    The average has a slope where the cost itself has a kink or jumps: the difference of the costs
    at both ends of the interval.
    """
    decision = rows.decision + rows.spread * correction
    away = BLUR * rows.spread
    rise = criterion.cost(rows.outcome, decision + away) - criterion.cost(
        rows.outcome, decision - away
    )
    return jax.lax.stop_gradient(jnp.nan_to_num(rise, posinf=0.0, neginf=0.0) / (2 * BLUR))


@partial(jax.jit, static_argnames=("criterion", "steps"))
def _train(
    criterion: Criterion,
    steps: int,
    key: Key,
    start: Layers,
    rows: _Rows,
    left_out: Float[Array, "member row"],
    count: int | Array,
) -> Layers:
    """Return each member as it was when its left-out rows cost least.

    Args:
        criterion: the loss or utility.
        steps: of Adam, with a rate that falls to zero, between two looks at the left-out rows.
        key: the key that picks the rows of each step.
        start: weights of all members.
        rows: all rows, and copies that fill the room.
        left_out: for each member, the rows that it is not trained on.
        count: of the rows that are no copies.
    """
    import optax  # here, since deciding does without it

    room = len(rows.outcome)
    # What is -1 falls outside, and is dropped.
    places = jnp.where(left_out < 0, room, left_out)
    weight = jnp.ones((FOLDS, room)).at[jnp.arange(FOLDS)[:, None], places].set(0.0, mode="drop")
    size = jnp.abs(_slope(criterion, rows, jnp.zeros(room))).mean()
    size = jnp.where(size > 0, size, 1.0)
    rate = optax.cosine_decay_schedule(RATE, LOOKS * steps)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=DECAY))

    def objective(layers: Layers, weight: Array, batch: _Rows) -> Array:
        correction = _forward(jnp.tanh, layers, batch.features)
        slope = _slope(criterion, batch, correction) / size
        return jnp.sum(weight * slope * correction) / jnp.maximum(weight.sum(), 1.0)

    def held_out(layers: Layers, own: Array) -> Array:
        batch = jax.tree.map(lambda leaf: leaf[own], rows)
        correction = _forward(jnp.tanh, layers, batch.features)
        decision = batch.decision + batch.spread * correction
        cost = criterion.cost(batch.outcome, decision).mean(where=own >= 0)
        return jnp.where(jnp.isfinite(cost), cost, jnp.inf)

    def step(carry: PyTree, key: Key) -> tuple[PyTree, None]:
        layers, state = carry
        members = jax.random.randint(key, (min(BATCH, room),), 0, count)
        batch = jax.tree.map(lambda leaf: leaf[members], rows)
        slopes = jax.vmap(jax.grad(objective), (0, 0, None))(layers, weight[:, members], batch)
        updates, state = jax.vmap(optimizer.update)(slopes, state, layers)
        return (optax.apply_updates(layers, updates), state), None

    def look(carry: PyTree, key: Key) -> tuple[PyTree, None]:
        layers, state, best, least = carry
        (layers, state), _ = jax.lax.scan(step, (layers, state), jax.random.split(key, steps))
        cost = jax.vmap(held_out)(layers, left_out)
        better = cost < least

        def keep(new: Array, old: Array) -> Array:
            return jnp.where(better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

        best = jax.tree.map(keep, layers, best)
        return (layers, state, best, jnp.minimum(cost, least)), None

    begin = (start, jax.vmap(optimizer.init)(start), start, jax.vmap(held_out)(start, left_out))
    (_, _, best, _), _ = jax.lax.scan(look, begin, jax.random.split(key, LOOKS))
    return best
