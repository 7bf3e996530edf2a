"""Fitted ways as plain arrays, and back: enough to decide by them later, in another program."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import singledispatch
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from stakes.errors import InputError, StorageError, some
from stakes.predicting import FittedPosterior, Posterior, SampledPosterior
from stakes.study.bench import Bench
from stakes.study.strategies.baselines import Constants, Given, Same
from stakes.study.strategies.corrected import Corrected, WithHead
from stakes.study.strategies.fitted import NUTS, ByPosterior, Calibrated, Plain
from stakes.study.strategies.heads import AtLevel, FittedHead, Line, Unchanged
from stakes.study.strategies.monotone import Risen
from stakes.study.strategies.network import Correction, Units
from stakes.study.strategies.way import Fitted

Arrays: TypeAlias = dict[str, np.ndarray]
Known: TypeAlias = Mapping[Any, FittedPosterior]
"""Ways whose posteriors are kept elsewhere."""

HEADS: dict[str, Any] = {
    "unchanged": Unchanged,
    "line": Line,
    "level": AtLevel,
    "risen": Risen,
    "network": Correction,
}


def kept(fitted: Mapping[Any, Fitted], bench: Bench, known: Known) -> Arrays:
    """What each way's fit to everything decides by; arrays of one way begin with its name."""
    found: Arrays = {}
    for way, each in fitted.items():
        found |= _under(f"{way.name}/", _numbers(way, each, bench.everything, known))
    return found


def restored(ways: Sequence[Any], name: str, arrays: Arrays, known: Known) -> Fitted:
    """The way of this name, fitted to everything: its only fit has the number 0."""
    way = next(each for each in ways if each.name == name)
    try:
        return _fitted(way, _below(f"{name}/", arrays), known)
    except KeyError as error:
        raise StorageError(f"What was kept of {name!r} lacks {error}.") from None


def _numbers(way: Any, fitted: Any, at: int, known: Known) -> Arrays:
    return {} if way in known else numbers_of(way, fitted, at, known)


def _fitted(way: Any, arrays: Arrays, known: Known) -> Fitted:
    if way in known:
        return ByPosterior([known[way]], 0.0, {})
    found: Fitted = fitted_from(way, arrays, known)
    return found


@singledispatch
def numbers_of(way: Any, fitted: Any, at: int, known: Known) -> Arrays:
    """What one fit of a way decides by."""
    raise _refused(way)


@singledispatch
def fitted_from(way: Any, arrays: Arrays, known: Known) -> Any:
    """The way, fitted, from what `numbers_of` gave."""
    raise _refused(way)


@numbers_of.register(Plain)
@numbers_of.register(Calibrated)
def _(way: Plain | Calibrated, fitted: ByPosterior, at: int, known: Known) -> Arrays:
    posterior = fitted.posteriors[at]
    if way.guide is not None or not isinstance(posterior, FittedPosterior):
        raise _refused(way)
    return _leaves(posterior.params)


@fitted_from.register(Plain)
@fitted_from.register(Calibrated)
def _(way: Plain | Calibrated, arrays: Arrays, known: Known) -> ByPosterior:
    like = next(iter(known.values()))
    shapes = {name: leaf.shape for name, leaf in _leaves(like.params).items()}
    if shapes != {name: array.shape for name, array in arrays.items()}:
        raise StorageError(
            f"What was kept of {way.name!r} does not fit the model and guide as they are now: it "
            f"has {some(arrays)}, they have {some(shapes)}."
        )
    leaves = [jnp.array(arrays[name]) for name in shapes]
    params = jax.tree.unflatten(jax.tree.structure(like.params), leaves)
    return ByPosterior([FittedPosterior(like.approximation, params)], 0.0, {})


@numbers_of.register
def _(way: NUTS, fitted: ByPosterior, at: int, known: Known) -> Arrays:
    drawn: Posterior = fitted.posteriors[at]
    assert isinstance(drawn, SampledPosterior)
    return {name: np.asarray(values) for name, values in drawn.samples.items()}


@fitted_from.register
def _(way: NUTS, arrays: Arrays, known: Known) -> ByPosterior:
    samples = {name: jnp.asarray(values) for name, values in arrays.items()}
    return ByPosterior([SampledPosterior(samples)], 0.0, {})


@numbers_of.register
def _(way: Corrected, fitted: WithHead, at: int, known: Known) -> Arrays:
    base = _numbers(way.base, fitted.base, at, known)
    return {**_under("base/", base), **_under("head/", _head_numbers(fitted.heads[at]))}


@fitted_from.register
def _(way: Corrected, arrays: Arrays, known: Known) -> WithHead:
    base = _fitted(way.base, _below("base/", arrays), known)
    return WithHead(base, way.head, [_head(_below("head/", arrays))], 0.0, {})


@numbers_of.register
def _(way: Same, fitted: Constants, at: int, known: Known) -> Arrays:
    return {"value": np.asarray(fitted.values[at])}


@fitted_from.register
def _(way: Same, arrays: Arrays, known: Known) -> Constants:
    return Constants([arrays["value"]])


@numbers_of.register
def _(way: Given, fitted: Given, at: int, known: Known) -> Arrays:
    return {}


@fitted_from.register
def _(way: Given, arrays: Arrays, known: Known) -> Given:
    return way


def _head_numbers(head: FittedHead) -> Arrays:
    kind = next((kind for kind, known in HEADS.items() if type(head) is known), None)
    if kind is None:
        raise _refused(head)
    own = {each.name: getattr(head, each.name) for each in fields(HEADS[kind])}
    if isinstance(head, Correction):
        units = {f"units/{each.name}": getattr(head.units, each.name) for each in fields(Units)}
        layers = {
            f"members/{i}/{j}": part
            for i, layer in enumerate(head.members)
            for j, part in enumerate(layer)
        }
        own = {**units, **layers, "share": head.share}
    return {"kind": np.array(kind), **{name: np.asarray(value) for name, value in own.items()}}


def _head(arrays: Arrays) -> FittedHead:
    kind = str(arrays["kind"])
    if kind not in HEADS:
        raise StorageError(f"There is no correction of the kind {kind!r}.")
    own: dict[str, Any] = {n: _plain(a) for n, a in arrays.items() if n != "kind"}
    if kind == "network":
        units = Units(**{each.name: own[f"units/{each.name}"] for each in fields(Units)})
        count = len([name for name in own if name.startswith("members/")]) // 2
        layers = [(own[f"members/{i}/0"], own[f"members/{i}/1"]) for i in range(count)]
        return Correction(units, layers, own["share"])
    found: FittedHead = HEADS[kind](**{each.name: own[each.name] for each in fields(HEADS[kind])})
    return found


def _plain(array: np.ndarray) -> Any:
    return array if array.ndim else array.item()


def _leaves(tree: Any) -> Arrays:
    """By their path in the tree, which has the names of the parameters in it."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def _below(prefix: str, arrays: Arrays) -> Arrays:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def _refused(thing: Any) -> InputError:
    return InputError(f"`{thing!r}` cannot be kept as plain numbers.")
