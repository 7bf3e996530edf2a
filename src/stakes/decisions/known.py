"""Best decisions by a formula, and among a few places."""

import jax
import jax.numpy as jnp

from stakes._types import Array, Distribution, Float
from stakes.decisions.risks import REAL
from stakes.decisions.search import Curve
from stakes.protocols import Criterion, Expectation, Space
from stakes.spaces import Real, Vector, laid_out


def known_decision(
    criterion: Criterion,
    expectation: Expectation,
    outcomes: Distribution,
    like: Array,
    space: Space = REAL,
) -> Array:
    """The best decision by a formula of the loss; raises `NoClosedForm` where it has none."""
    decision = criterion.decision(expectation.mixture(outcomes))
    if isinstance(space, Vector):
        return laid_out(decision, like)
    return jnp.broadcast_to(decision, like.shape).astype(like.dtype)


def is_any_number(space: Space) -> bool:
    """Whether no limits keep a decision from being the best of all numbers."""
    parts = space.spaces if isinstance(space, Vector) else (space,)
    return all(isinstance(part, Real) for part in parts)


def beside(risk: Curve, space: Space, best: Array) -> Array:
    """The best decision in the space, where the best of all numbers is known and risk is convex."""
    places = space.beside(best)
    return places[0] if len(places) == 1 else least_of(risk, places)


def every_action(actions: tuple[float, ...], like: Array) -> Float[Array, "place *instance"]:
    places = jnp.asarray(actions, like.dtype).reshape(-1, *(1 for _ in like.shape))
    return jnp.broadcast_to(places, (len(actions), *like.shape))


def least_of(objective: Curve, places: Float[Array, "place *instance"]) -> Array:
    """The place with the least value; the first one of equals, nan where none is defined."""
    values = jax.lax.map(objective, places)
    values = jnp.where(jnp.isnan(values), jnp.inf, values)
    index = jnp.argmin(values, axis=0)[None]
    best = jnp.take_along_axis(places, index, axis=0)[0]
    return jnp.where(values.min(axis=0) == jnp.inf, jnp.nan, best)
