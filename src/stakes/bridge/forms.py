"""The form in which a model takes its data: traced by JAX, or as they are where it needs that.

Arrays are traced, so that one compiled program serves all values. A model may still look at whole
numbers, as in `len(np.unique(county))` or for a shape. Which ones it looks at is found by trial: it
is run abstractly with all of them plain, and then with one after the other traced, until only those
are left without which it fails.
"""

import functools
import inspect
import itertools
import traceback
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Data, Key, Model
from stakes.bridge.compatibility import check_outcome
from stakes.bridge.sites import Sites, shapes_of, subsamples_of
from stakes.errors import InputError, name_of, some
from stakes.host.programs import TRACING_ERRORS
from stakes.port import Subsample
from stakes.problem import Problem

# Tuples are tried as they are in all combinations, of which more than three have too many.
MOST_TUPLES = 3


class WholeNumbers(np.ndarray):
    """Whole numbers that a model may look at, and index by the members of a minibatch as well."""

    def __getitem__(self, at: Any) -> Any:
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(at))
        return jnp.asarray(self)[at] if traced else super().__getitem__(at)


class FirstLook(NamedTuple):
    """A program with its data as it takes them.

    Attributes:
        plain: the whole numbers whose values it has to know while JAX traces it.
        sites: types, shapes and plates, without values.
    """

    plain: frozenset[str]
    data: Data
    sites: Sites


def first_look(program: Model, data: Data, key: Key) -> FirstLook:
    """Run a program abstractly, with as much of the data for JAX to trace as it allows.

    It may look at the values of whole numbers, for a count such as `len(np.unique(county))`, or for
    a shape. Nothing else may be looked at: an error says so.

    Returns:
        The arguments that have to be plain, all data in the form that the program takes, and its
        sites.
    """
    plain: frozenset[str] = frozenset()
    given = in_form(data, plain)
    try:
        return FirstLook(plain, given, shapes_of(program, given, key))
    except Exception as problem:  # whatever the program raises
        plain = _looked_at(program, data, key, problem)
    given = in_form(data, plain)
    return FirstLook(plain, given, shapes_of(program, given, key))


def _looked_at(program: Model, data: Data, key: Key, problem: Exception) -> frozenset[str]:
    """Return the arguments that have to be plain, for a program that failed with all of them
    traced."""
    for plain in _trials(data):
        if _failure(program, in_form(data, plain), key) is None:
            return _needed(program, data, plain, key)
    if not isinstance(problem, TRACING_ERRORS):
        raise problem
    raise _explained(program, data, key, problem) from problem


def _trials(data: Data) -> Iterator[list[str]]:
    """Arguments to give as they are: arrays of whole numbers, with as few tuples as will do."""
    arrays = [name for name, value in data.items() if holds_whole_numbers(value)]
    tuples = [name for name, value in data.items() if isinstance(value, tuple)]
    for count in range(min(len(tuples), MOST_TUPLES) + 1):
        for chosen in itertools.combinations(tuples, count):
            yield [*arrays, *chosen]


def in_form(data: Data, plain: Iterable[str]) -> Data:
    """The data with these arguments as they are, and all other arrays and tuples for JAX."""
    return {
        name: _plain(value)
        if name in plain
        else jnp.asarray(value)
        if isinstance(value, tuple | WholeNumbers)
        else value
        for name, value in data.items()
    }


def _plain(value: Any) -> Any:
    return np.asarray(value).view(WholeNumbers) if isinstance(value, jax.Array) else value


def holds_whole_numbers(value: object) -> bool:
    """Whether these are an array's whole numbers, or truth values."""
    return isinstance(value, jax.Array | WholeNumbers) and value.dtype.kind in "biu"


def _failure(program: Model, data: Data, key: Key) -> Exception | None:
    """Return what a program raises in an abstract run; None where it runs."""
    try:
        shapes_of(program, data, key)
    except Exception as error:  # whatever the program raises
        return error
    return None


def _needed(program: Model, data: Data, plain: Iterable[str], key: Key) -> frozenset[str]:
    """Those of the arguments given as they are without which the program does not run."""
    needed = frozenset(plain)
    for name in sorted(needed):
        if _failure(program, in_form(data, needed - {name}), key) is None:
            needed -= {name}
    return needed


def _explained(program: Model, data: Data, key: Key, error: Exception) -> InputError:
    """Return an error that names the arguments, and the line of the program that looks at them."""
    every = [name for name, value in data.items() if isinstance(value, jax.Array | tuple)]
    culprits: Iterable[str] = ()
    if _failure(program, in_form(data, every), key) is None:
        culprits = _needed(program, data, every, key)
    what = ", ".join(f"`data[{name!r}]`" for name in sorted(culprits))
    line = _line(program, error)
    return InputError(
        f"`{name_of(program)}` looks at the values of {what or 'arrays'}"
        f"{f', in `{line}`,' if line else ''} which JAX does not know while it compiles the model. "
        f"Use `jax.numpy` in place of NumPy and `jnp.where` in place of `if`. Give a number that "
        f"sets a size, such as a count of groups, as an argument of its own."
    )


def _line(program: Model, error: Exception) -> str | None:
    """The line of the program that failed."""
    while isinstance(program, functools.partial):
        program = program.func
    try:
        file = inspect.getsourcefile(program)
    except TypeError:  # an object with handlers, say
        return None
    lines = [f.line for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return lines[-1] if lines else None


def parts_of(problem: Problem, data: Data, key: Key) -> tuple[Subsample, ...]:
    """Return the plates in minibatches, for data that are a sample of more rows.

    Refuse a model that looks at the values of arrays: it would only ever see part of a stream.
    """
    plain, _, sites = first_look(problem.program, data, key)
    seen = [name for name in plain if name in data]
    if seen:
        raise InputError(
            f"The model looks at the values of {some(seen)}, but it only ever gets some rows of a "
            f"stream. Give what it needs to know about all rows, such as the number of "
            f"categories, as an argument of its own: `Stream(..., constants={{...}})`."
        )
    check_outcome(problem, sites)
    return subsamples_of(sites)
