"""Gathers that were asked to do something about indices beyond their array."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive, jaxpr_as_fun
from jax.interpreters import mlir

ASKED: Any = Primitive("asked_gather")
"""The same as a gather, but for `checkify`, which does not know it."""
ASKED.def_effectful_abstract_eval(lax.gather_p.abstract_eval)
mlir.register_lowering(ASKED, mlir.lower_fun(lax.gather_p.bind, multiple_results=False))


def without_asked(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """The function, its indices beyond an array hidden from `checkify` where they are asked for.

    They are with `mode="clip"`, and with `mode="fill"` and a fill value; but nan, which is the
    value by default, serves no model.
    """
    return jaxpr_as_fun(_hidden(jax.make_jaxpr(function)(*arguments)))


def _hidden(value: Any) -> Any:
    """A program, or a parameter of one of its equations that may hold programs."""
    kind = type(value)
    if issubclass(kind, ClosedJaxpr):
        return value.replace(jaxpr=_hidden(value.jaxpr))
    if issubclass(kind, Jaxpr):
        return value.replace(eqns=[_equation(equation) for equation in value.eqns])
    return tuple(map(_hidden, value)) if kind is tuple else value


def _equation(equation: JaxprEqn) -> JaxprEqn:
    if equation.primitive is lax.gather_p and _is_asked_for(equation):
        return equation.replace(primitive=ASKED)
    params = {name: _hidden(value) for name, value in equation.params.items()}
    return equation.replace(params=params)


def _is_asked_for(gather: JaxprEqn) -> bool:
    mode, fill = gather.params["mode"], gather.params["fill_value"]
    if mode == lax.GatherScatterMode.CLIP:
        # Under `vmap`, x[i] of one i clips as well: it is a slice there, which keeps its axis.
        return bool(gather.params["dimension_numbers"].collapsed_slice_dims)
    table: Any = gather.invars[0].aval
    filled = mode == lax.GatherScatterMode.FILL_OR_DROP
    return filled and fill is not None and not _is_default(fill, table.dtype)


def _is_default(fill: float, dtype: np.dtype) -> bool:
    """What JAX fills in where no value is given."""
    if dtype.kind not in "iu":
        return bool(np.isnan(fill))
    return fill == (np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max)
