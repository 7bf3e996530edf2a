"""What a traced program computes, as a key: programs of the same key are lowered to the same text.

Lowering takes longer than tracing, and programs that were compiled before are known by their
equations. The key holds all that lowering looks at. Where an equation has something that is not
known here, such as a Python function to be called back, there is no key.
"""

import hashlib
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from types import FunctionType
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.extend.core import primitives
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

NOT_LOWERED = {
    primitives.custom_jvp_call_p: {"jvp_jaxpr_fun"},
    primitives.custom_vjp_call_p: {"fwd_jaxpr_thunk", "bwd", "out_trees"},
}
"""By primitive, what belongs to derivatives, which have been taken by then."""
PRINTED = {
    "AbstractMesh",
    "ArrayCopySemantics",
    "JaxprEqnContext",
    "Layout",
    "ShapedArray",
    "UnspecifiedValue",
}
"""Types of JAX whose values are known by how they are printed."""
PLAIN = {type(None), type(...), bool, int, str, bytes, range, slice}
PACKAGES = {"builtins", "jax", "jaxlib", "ml_dtypes", "numpy"}
"""What has a name in these has no other meaning later."""
LISTED = {id(each) for each in vars(primitives).values() if isinstance(each, core.Primitive)}
"""Primitives of JAX."""
UNLISTED = {
    "broadcast_to",
    "iota_2x32_shape",
    "layout_constraint",
    "lu_pivots_to_permutation",
    "mulhi",
    "optimization_barrier",
    "platform_index",
    "random_clone",
    "random_unwrap",
    "random_wrap",
    "scatter-sub",
    "split",
    "stack",
    "tile",
    "unstack",
}
"""Others of JAX, by name. One of a user may be lowered in another way next time."""


class UnknownError(Exception):
    """Something that lowering may look at."""


def key_of(traced: Any) -> str | None:
    """The key of what `jax.jit(...).trace(...)` returned; None where it has none."""
    try:
        return key_or_error(traced)
    except Exception:  # of a later JAX, whose equations look different, a program is lowered
        return None


def key_or_error(traced: Any) -> str:
    return Keys().key(traced.jaxpr)


@final
class Keys:
    """Keys of the parts of one program; what comes up again has been looked at."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[Any, str]] = {}
        """By `id`, with what it is the id of, which has to live for as long."""

    def key(self, value: Any) -> str:
        kind = type(value)
        if kind in PLAIN:
            return f"{kind.__name__} {value!r}"
        if kind is float or kind is complex:  # which print every nan alike
            return f"{kind.__name__} {np.asarray(value).tobytes().hex()}"
        if kind is tuple or kind is list:
            return f"{kind.__name__}({self._each(value)})"
        if id(value) not in self._before:
            self._before[id(value)] = value, self._found(value)
        return self._before[id(value)][1]

    def _each(self, values: Iterable[Any]) -> str:
        return ",".join(map(self.key, values))

    def _found(self, value: Any) -> str:
        match value:
            case core.ClosedJaxpr():
                return f"closed({self.key(value.jaxpr)},{self._each(value.consts)})"
            case core.Jaxpr():
                return self._equations(value)
            case jax.Array():
                return self._array(value)
            case np.dtype():  # those of other packages have types without a name
                return f"dtype {jnp.dtype(value).name} {value}"
            case type():
                return f"type {_name(value)}"
            case FunctionType():
                return f"function {_name(value)}"
        name = _name(type(value))
        match value:
            case np.ndarray() | np.generic():
                numbers = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
                digest = hashlib.sha256(numbers.data).hexdigest()
                return f"{name}({value.dtype},{value.shape},{digest})"
            case int():  # with a type of JAX's own
                return f"{name}({value!r},{getattr(value, 'dtype', None)})"
            case float() | complex():
                bits = np.asarray(value).tobytes().hex()
                return f"{name}({bits},{getattr(value, 'dtype', None)})"
            case Enum():
                return f"{name}.{value.name}"
            case tuple():
                return f"{name}({self._each(value)})"
            case dict():
                items = (f"{self.key(k)}:{self.key(v)}" for k, v in value.items())
                return f"{name}({','.join(sorted(items))})"
            case set() | frozenset():
                return f"{name}({','.join(sorted(map(self.key, value)))})"
            case Mesh() if value.empty:
                return name
            case NamedSharding() if value.mesh.empty:
                return f"{name}({value.spec!r})"
        if type(value).__name__ in PRINTED:
            return f"{name} {value!r}"
        if is_dataclass(value):
            return f"{name}({self._each(getattr(value, field.name) for field in fields(value))})"
        raise UnknownError(name)

    def _array(self, value: jax.Array) -> str:
        about: list[Any] = [getattr(value, "weak_type", False)]  # arrays of keys have none
        if value.committed:
            if not isinstance(value.sharding, SingleDeviceSharding):
                raise UnknownError(repr(value.sharding))
            about.append(repr(value.sharding))
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            if not isinstance(jax.random.key_impl(value), str):
                raise UnknownError("random numbers that are not JAX's own")
            about.append(jax.random.key_impl(value))
            value = jax.random.key_data(value)
        return f"array({self._each(about)},{self._found(np.asarray(value))})"

    def _equations(self, jaxpr: core.Jaxpr) -> str:
        numbers: dict[core.Var, int] = {}

        def bound(variables: Iterable[core.Var]) -> str:
            each = (f"{numbers.setdefault(v, len(numbers))}:{self.key(v.aval)}" for v in variables)
            return ",".join(each)

        def used(atoms: Iterable[Any]) -> str:
            each = (
                f"literal({self.key(atom.val)},{self.key(atom.aval)})"
                if isinstance(atom, core.Literal)
                else str(numbers[atom])
                for atom in atoms
            )
            return ",".join(each)

        if jaxpr.effects:
            raise UnknownError(str(jaxpr.effects))
        lines = [bound(jaxpr.constvars), bound(jaxpr.invars)]
        for each in jaxpr.eqns:
            primitive = each.primitive
            if id(primitive) not in LISTED and primitive.name not in UNLISTED:
                raise UnknownError(f"the primitive {primitive}")
            left_out = NOT_LOWERED.get(primitive, set())
            params = {name: at for name, at in each.params.items() if name not in left_out}
            taken = used(each.invars)
            about = ",".join(f"{name}={self.key(at)}" for name, at in sorted(params.items()))
            lines.append(
                f"{bound(each.outvars)}={primitive}[{about}]({taken}) in {self.key(each.ctx)}"
            )
        lines.append(used(jaxpr.outvars))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _name(known: type | FunctionType) -> str:
    """Of what a module of these packages defines; other names may mean something else later."""
    module, name = known.__module__, known.__qualname__
    there: Any = sys.modules.get(module)
    for part in name.split("."):
        there = getattr(there, part, None)
    if module.partition(".")[0] not in PACKAGES or there is not known:
        raise UnknownError(f"{module}.{name}")
    return f"{module}.{name}"
