"""A check that no whole number in the data, and no member of a plate, points beyond an array.

JAX clamps such an index, so that an eighth weekday would pass for the seventh without a word, and
the last outcome for all that are missing.

The model is run on all the data once with `checkify`, which reports the first index out of range,
but not where it came from. So the argument that leads there is found by trial: with zeros in place
of all others, does the index still appear? And where the argument is used as it is, its own size in
its place appears in the report, too. Indices that a model clips on purpose, by `mode="clip"` or a
fill value, are hidden from `checkify` first.
"""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import checkify
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive, jaxpr_as_fun
from jax.interpreters import mlir

from stakes._types import Array, Batch, Data
from stakes.arguments import rows_where
from stakes.bridge.forms import holds_whole_numbers
from stakes.bridge.model_trace import ModelTrace
from stakes.errors import InputError, OutOfRangeError, listed, some
from stakes.host.programs import Program
from stakes.port import sweep

# Larger than any array, with room in 32 bits for a model that adds to it.
HUGE = 2**30
# The same as a gather, but for `checkify`, which does not know it.
ASKED: Any = Primitive("asked_gather")
ASKED.def_effectful_abstract_eval(lax.gather_p.abstract_eval)
mlir.register_lowering(ASKED, mlir.lower_fun(lax.gather_p.bind, multiple_results=False))


class BadIndex(NamedTuple):
    """An index beyond its array.

    Attributes:
        at: the index, as the model asks for it.
        size: the length of the axis that it indexes.
    """

    at: int
    size: int


def check_indices(trace: ModelTrace, arrays: dict[str, Array]) -> None:
    """Run the model on all the data once, and name the argument with an index out of range.

    A negative index is allowed by JAX, and counts from the end. In data it is a mistake, such as a
    code of -1 for a missing category, and is refused as well.
    """
    every = {**trace.constants, **arrays}
    whole = {
        name: np.asarray(value)
        for name, value in every.items()
        if name != trace.observed and holds_whole_numbers(value) and value.dtype != bool
    }

    def trial(**values: int) -> BadIndex | None:
        return _beyond(*_filled(trace, arrays, values), every=bool(whole))

    found = trial() if whole or trace.subsamples or trace.parts_of_fit else None
    if found is None:
        # JAX counts negative ones from the end. With a huge value in its place, an index shows.
        for name in [n for n, values in whole.items() if values.min() < 0]:
            huge = trial(**{name: HUGE})
            if huge is not None and huge.at == HUGE:
                raise _refusal(name, whole[name], huge, trace, direct=True)
        return

    zeros = dict.fromkeys(whole, 0)
    if trial(**zeros) == found:  # it does not come from these data
        _check_members(found, trace, every)
        return
    for name, values in whole.items():
        others = {other: 0 for other in whole if other != name}
        alone = trial(**others)
        if alone is not None:
            # With the size itself as its value, an argument that is used as it is points there.
            direct = trial(**others, **{name: alone.size}) == BadIndex(alone.size, alone.size)
            raise _refusal(name, values, alone, trace, direct=direct)
    together = [name for name in whole if trial(**{name: 0}) != found]
    raise InputError(
        f"{' and '.join(f'`data[{name!r}]`' for name in together or whole)} together lead to the "
        f"index {found.at}, where 0 to {found.size - 1} is allowed. JAX would take the last member "
        f"instead. Number members from 0, as in the fit."
    )


def _check_members(found: BadIndex, trace: ModelTrace, data: Data) -> None:
    """Refuse arrays with fewer rows than a plate has members; other indices of the model are its
    own."""
    plates = {plate: size for plate, size in trace.plates.items() if found.at < size}
    if not plates:
        return
    short = [name for name, value in data.items() if np.shape(value)[:1] == (found.size,)]
    which = " or ".join(f"`data[{name!r}]`" for name in short) or "An array of the model"
    plate, size = max(plates.items(), key=lambda each: each[1])
    raise InputError(
        f"{which} has {found.size} rows, too few for the {size} members of the plate {plate!r}: "
        f"the model asks for row {found.at}, and JAX would take the last row instead."
    )


def _filled(
    trace: ModelTrace, arrays: dict[str, Array], values: Mapping[str, int]
) -> tuple[ModelTrace, dict[str, Array]]:
    """The cases and their arrays with one value throughout for each of these arguments."""
    constants = {
        n: np.full_like(trace.constants[n], v) for n, v in values.items() if n in trace.constants
    }
    filled = {n: jnp.full_like(arrays[n], v) for n, v in values.items() if n in arrays}
    if constants:
        trace = replace(trace, constants={**trace.constants, **constants})
    return trace, {**arrays, **filled}


def _refusal(
    name: str, values: np.ndarray, found: BadIndex, trace: ModelTrace, *, direct: bool
) -> InputError:
    """Return the error for an argument with an index out of range.

    Args:
        name: the argument.
        values: what the data have for it.
        found: the index that the model asked for.
        trace: the model, whose plates tell how many members there are.
        direct: whether the argument itself is the index, so that its rows can be named.
    """
    inner = {p: size for p, size in trace.plates.items() if p not in trace.instances.dims}
    plates = [plate for plate, size in inner.items() if size == found.size]
    allowed = f"0 to {found.size - 1}"
    if plates:
        allowed += f" (the plate {some(plates)} has {found.size} members)"
    points = f"`data[{name!r}]` points beyond an array that the model indexes with it"
    advice = "JAX would take another member instead. Number members from 0, as in the fit."
    if not direct:
        where = f"it leads to the index {found.at}, where {allowed} is allowed."
        return InputError(f"{points}: {where} {advice}")
    bad = (values >= found.size) | (values < 0)
    came = listed(np.unique(values[bad]), 5)
    where = f"its values may be {allowed}, but the data have {came}, in {rows_where(bad)}"
    return OutOfRangeError(
        f"{points}: {where}. {advice}",
        argument=name,
        value=int(values[bad].flat[0]),
        row=int(np.argwhere(bad)[0, 0]),
        size=found.size,
    )


def _beyond(trace: ModelTrace, arrays: dict[str, Array], *, every: bool) -> BadIndex | None:
    """Return the first index out of range, if there is any.

    Args:
        trace: the model, with its constants.
        arrays: all other data.
        every: whether to run every batch, or only that of the last members.
    """
    batches = list(sweep(trace.subsamples))[0 if every else -1 :]
    stacked = {part.plate: np.stack([b[part.plate] for b in batches]) for part in trace.subsamples}
    try:
        error = _checked(trace, arrays, stacked).get_exception()
    except Exception:  # `checkify` does not know all that a model may do, and this is a courtesy
        return None
    if getattr(error, "prim", None) not in ("gather", "dynamic_slice"):
        return None
    at, size = re.findall(r"index (-?\d+) .* size (\d+)", str(error))[0]
    return BadIndex(int(at), int(size))


@functools.partial(Program, static=("trace",))
def _checked(trace: ModelTrace, arrays: dict[str, Array], batches: Batch) -> checkify.Error:
    """Run the model on all batches, and return the first error that `checkify` has found."""

    def run(_: None, batch: Batch) -> tuple[None, None]:
        # An index does not depend on the values of latents.
        trace.run(arrays, trace.stand_ins(), jax.random.key(0), batch)
        return None, None

    def over_all(batches: Batch) -> None:
        if batches:
            jax.lax.scan(run, None, batches)
        else:
            run(None, {})

    leaves, tree = jax.tree.flatten(batches)
    program = without_asked(lambda *flat: over_all(jax.tree.unflatten(tree, flat)), *leaves)
    error, _ = checkify.checkify(program, errors=checkify.index_checks)(*leaves)
    return error


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
    """Whether the model itself says what an index beyond the array stands for."""
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
