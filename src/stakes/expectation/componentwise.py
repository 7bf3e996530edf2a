"""Quadrature over each component of a mixture."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
import numpyro.distributions as dist

from stakes import checks
from stakes._types import Array, Distribution, Key
from stakes.expectation import stats
from stakes.expectation.points import ByPoints
from stakes.expectation.quadrature import Quadrature
from stakes.expectation.shifted import Shifted
from stakes.expectation.sums import Rule, Terms
from stakes.protocols import Cost, Gain, Spaced


@final
@dataclass(frozen=True)
class Componentwise(ByPoints):
    """The points of all components of a continuous mixture, and the masses at single points.

    A rule for the whole mixture would miss a narrow component; here each has points of its own.
    `count` is how many components there are: by default it is found from VI's fit.

    Examples:
        >>> import jax.numpy as jnp, numpyro.distributions as dist, stakes
        >>> weights = dist.Categorical(probs=jnp.array([0.25, 0.75]))
        >>> parts = [dist.Delta(0.0), dist.Exponential(1.0)]
        >>> rain = dist.MixtureGeneral(weights, parts, support=dist.constraints.nonnegative)
        >>> wet = stakes.Componentwise().expected(
        ...     None, rain, lambda rain, limit: (rain > limit) * 1.0, 2.0
        ... )
        >>> round(float(wet), 4)  # 0.75 exp(-2)
        0.1015
    """

    count: int = 1
    by: Quadrature | Shifted = Quadrature()  # noqa: RUF009 (a frozen value)

    def __post_init__(self) -> None:
        checks.assign(self, count=checks.whole("`Componentwise(count=...)`", self.count))
        checks.instance(
            "`Componentwise(by=...)`", self.by, (Quadrature, Shifted), "a `Quadrature()`"
        )

    def objection(self, outcome: Distribution, gain: Gain, decision: Array) -> str | None:
        parts = None if outcome.event_shape else stats.components(outcome)
        if parts is None:
            return "only mixtures are taken component by component"
        for part in parts.distributions:
            reason = self.by.objection(part, gain, jnp.zeros(()))
            if reason is not None and not _is_point(part):
                return f"of its components, {type(part).__name__} has no `icdf`"
        return None

    def rule(self, key: Key | None, outcome: Distribution, decision: Array) -> Rule:
        decision = jnp.asarray(decision, jnp.result_type(float))
        parts = _components(outcome)
        log_weights = jnp.log(parts.weights)
        if parts.side_by_side:
            [stacked] = parts.distributions
            rule = self._rule(key, stacked, decision[..., None])
            return Rule(_in_front(rule.points), _in_front(rule.log_weights + log_weights))
        rules = [self._rule(key, part, decision) for part in parts.distributions]
        shape = jnp.broadcast_shapes(*(r.points.shape[1:] for r in rules), log_weights.shape[:-1])
        weighed = [r.log_weights + log_weights[..., number] for number, r in enumerate(rules)]
        return Rule(_stacked([r.points for r in rules], shape), _stacked(weighed, shape))

    def _rule(self, key: Key | None, part: Distribution, decision: Array) -> Rule:
        if not _is_point(part):
            return self.by.rule(key, part, decision)
        point = jnp.broadcast_arrays(jnp.asarray(part.v, decision.dtype), decision)[0]
        return Rule(point[None], jnp.zeros_like(point)[None])

    def typical(self, outcome: Distribution) -> Array | None:
        parts = _components(outcome)
        first = parts.distributions[0]
        typical = jnp.asarray(first.v) if _is_point(first) else self.by.typical(first)
        return typical[..., 0] if parts.side_by_side and typical is not None else typical

    def trusted(self, outcome: Distribution, terms: Terms) -> Array | bool:
        """Whether the sum over each component is."""
        parts = _components(outcome)
        if parts.side_by_side:
            count = parts.weights.shape[-1]
            [stacked] = parts.distributions
            each = self.by.trusted(stacked, _side_by_side(terms, count))
            return each if isinstance(each, bool) else jnp.all(each, axis=-1)
        fine: Array | bool = True
        start = 0
        for part in parts.distributions:
            stop = start + (1 if _is_point(part) else self.by.cost.points)
            if not _is_point(part):
                fine = fine & self.by.trusted(part, terms.part(start, stop))
            start = stop
        return fine

    def for_steps(self) -> "Componentwise":
        return Componentwise(self.count, self.by.for_steps())

    def spacing(self, outcome: Distribution) -> Spaced | None:
        """Of the whole mixture."""
        return self.by.spacing(outcome)

    def size_for(self, outcomes: Iterable[Distribution]) -> "Componentwise":
        counts = [_components(outcome).weights.shape[-1] for outcome in outcomes]
        return Componentwise(max(counts, default=self.count), self.by)

    @property
    def cost(self) -> Cost:
        values = self.count * self.by.cost.points
        return Cost(points=values, trial=values)


def _components(outcome: Distribution) -> stats.Components:
    parts = stats.components(outcome)
    assert parts is not None
    return parts


def _is_point(part: Distribution) -> bool:
    return isinstance(part, dist.Delta) and not part.event_dim


def _in_front(values: Array) -> Array:
    """From (point, *instance, component) to (point and component, *instance)."""
    values = jnp.moveaxis(values, -1, 1)
    return values.reshape(-1, *values.shape[2:])


def _side_by_side(terms: Terms, count: int) -> Terms:
    """The other way round."""

    def back(values: Array) -> Array:
        return jnp.moveaxis(values.reshape(-1, count, *values.shape[1:]), 1, -1)

    size, coarse = terms.size, terms.coarse
    return Terms(
        back(terms.points),
        back(terms.log_weights),
        back(terms.shares),
        back(terms.weightless),
        None if size is None else lambda points: back(size(_in_front(points))),
        coarse if isinstance(coarse, float) else coarse[..., None],
    )


def _stacked(values: list[Array], shape: tuple[int, ...]) -> Array:
    return jnp.concatenate([jnp.broadcast_to(array, (len(array), *shape)) for array in values])
