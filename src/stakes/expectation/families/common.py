"""What several families share."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from stakes._types import Array, Number

if TYPE_CHECKING:
    from functools import _SingleDispatchCallable

Question: TypeAlias = "_SingleDispatchCallable[Array]"
"""A function of `stats`."""
Answer = TypeVar("Answer", bound=Callable[..., Array])

# A rate or chance that is as good as zero, but has a logarithm.
LEAST = 1e-25


def answers(
    kind: type[Distribution], view: Callable[[Distribution], object | None], otherwise: type
) -> Callable[[Question], Callable[[Answer], Answer]]:
    """A decorator that registers what is known of some outcomes of a kind.

    Args:
        view: what the answer is computed from; None for the other outcomes of the kind.
        otherwise: the kind whose answer serves these others; `object` for that of any outcome.
    """

    def of(question: Question) -> Callable[[Answer], Answer]:
        def register(answer: Answer) -> Answer:
            @question.register(kind)
            def _(outcome: Distribution, *arguments: Number) -> Array:
                part = view(outcome)
                if part is None:
                    return question.dispatch(otherwise)(outcome, *arguments)
                return answer(part, *arguments)

            return answer

        return register

    return of


def bare(outcome: Distribution) -> Distribution:
    """Without wrappers that only repeat it."""
    while isinstance(outcome, dist.ExpandedDistribution):
        outcome = outcome.base_dist
    return outcome


def not_zero(chance: Array) -> Array:
    """The derivative stays that of the chance."""
    return chance + jax.lax.stop_gradient(jnp.maximum(chance, LEAST) - chance)


def floats(*values: Number) -> tuple[Array, ...]:
    """The values in one floating type: a whole number has no derivative."""
    dtype = jnp.result_type(float, *values)
    return tuple(jnp.asarray(value, dtype) for value in values)


def whole(value: Array) -> Array:
    """The largest count that is not above the value, or zero."""
    return jnp.maximum(jnp.floor(value), 0.0)


def positive(value: Array, below: Number, inside: Callable[[Array], Array]) -> Array:
    """A function of positive values; `below` for the others.

    There, `inside` is asked about a value that it knows, so that its derivative is no nan.
    """
    known = value > 0
    return jnp.where(known, inside(jnp.where(known, value, 1.0)), below)


def fraction(value: Array, below: Number, inside: Callable[[Array], Array]) -> Array:
    """A function of values between zero and one; `below` zero, and nothing above one."""
    known = (value > 0) & (value < 1)
    outside = jnp.where(value <= 0, below, 0.0)
    return jnp.where(known, inside(jnp.where(known, value, 0.5)), outside)


def finite_below_one(at: Array, inside: Callable[[Array], Array]) -> Array:
    """A function of values below one; infinite from there on."""
    known = at < 1
    return jnp.where(known, inside(jnp.where(known, at, 0.0)), jnp.inf)
