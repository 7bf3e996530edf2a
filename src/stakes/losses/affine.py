"""Losses and utilities that are linear in the outcome, such as revenue: its mean says it all."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal

from stakes._types import Array, PyTree
from stakes.protocols import Predicted

KEEPS = frozenset(
    ("add", "sub", "neg", "broadcast_in_dim", "reshape", "squeeze", "copy", "add_any")
)
"""Operations of JAX that are linear in all that they are given."""


class Linear(NamedTuple):
    """The expectation of a function that is linear in the outcome."""

    value: Array


def at_mean(
    function: Callable[[Array, Any], Array], predicted: Predicted, decision: PyTree
) -> Linear | None:
    """The function at the mean of the outcome, if it is linear in it; None otherwise.

    Raises `NoClosedForm` where it is linear, and no formula for the mean is known.
    """
    outcome = jnp.zeros(())
    scalar = jax.tree.map(lambda part: jnp.zeros((), jnp.result_type(part)), decision)
    try:
        traced = jax.make_jaxpr(function)(outcome, scalar)
    except Exception:
        return None
    inputs = [True] + [False] * (len(traced.jaxpr.invars) - 1)
    follows = _follow(traced, inputs)
    if follows is None or follows != [True]:
        return None
    return Linear(jnp.asarray(function(predicted.mean(), decision)))


def _follow(traced: ClosedJaxpr, inputs: Sequence[bool]) -> list[bool] | None:
    """Which outputs depend on these inputs; None unless all are linear in them."""
    depends = dict(zip(traced.jaxpr.invars, inputs, strict=True))

    def on(atom: Any) -> bool:
        return not isinstance(atom, Literal) and depends.get(atom, False)

    for step in traced.jaxpr.eqns:
        given = [on(atom) for atom in step.invars]
        name, outputs = step.primitive.name, [any(given)] * len(step.outvars)
        if any(given):
            inner = step.params.get("jaxpr") if name in ("pjit", "jit") else None
            if inner is not None:
                followed = _follow(inner, given)
                if followed is None:
                    return None
                outputs = followed
            elif not _keeps(name, given, step.params):
                return None
        depends.update(zip(step.outvars, outputs, strict=True))
    return [on(atom) for atom in traced.jaxpr.outvars]


def _keeps(name: str, given: Sequence[bool], parameters: dict[str, Any]) -> bool:
    """Whether an operation is linear in those of its arguments that depend on the outcome."""
    if name in KEEPS:
        return True
    if name == "mul":
        return not all(given)
    if name in ("div", "select_n"):  # by a number, or between two by another criterion
        return given[0] is (name == "div") and not (name == "div" and given[1])
    return name == "convert_element_type" and jnp.issubdtype(parameters["new_dtype"], jnp.floating)
