"""What the model predicts for cases of its fit, or for others.

Members of a plate are those of the fit, or new, or told by labels and some of both. Latents of
known members come from the posterior; those of new members are drawn from the model, given all
latents known from the fit, which is the posterior's own prediction for them. A model is traced once
for each shape that other cases come in.
"""

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch, Data, Distribution, Key
from stakes.bridge.approximation import NumPyroApproximation
from stakes.bridge.compatibility import (
    check_outcome,
    check_outcome_shape,
    check_same_batches,
)
from stakes.bridge.forms import FirstLook, first_look, in_form
from stakes.bridge.indices import check_indices
from stakes.bridge.model_trace import ModelTrace, model_trace, with_decision
from stakes.bridge.sites import (
    Sites,
    instances_of,
    plate_sizes,
    prediction_of,
    shapes_of,
    split_data,
    subsamples_of,
)
from stakes.errors import InputError, some
from stakes.host.compiling import LRU
from stakes.host.programs import kinds
from stakes.port import Instances, Response
from stakes.problem import Problem
from stakes.varying import Need, PerCase, columns_for

Made = TypeVar("Made")
# Shapes of other cases that are kept: a file is decided about in parts of two or three.
MOST_TRACED = 16


@final
@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["arrays", "rows"],
    meta_fields=["trace", "are_others"],
)
@dataclass(frozen=True)
class Predictor:
    """The model on the cases to decide about, with their data.

    Attributes:
        rows: plate -> which member of the fit each of its members is; -1 for a new one. Plates
            whose members are those of the fit in the same order, or all new, are left out.
        are_others: whether these are other cases than those of the fit, or the same in another
            order.
    """

    arrays: dict[str, Array]
    trace: ModelTrace
    rows: dict[str, Array] = field(default_factory=dict)
    are_others: bool = False

    @property
    def instances(self) -> Instances:
        """What is decided about, as in `NumPyroApproximation`."""
        return self.trace.instances

    def columns(self, needs: tuple[Need, ...]) -> dict[Need, Array]:
        """Return what the loss or the limits of decisions ask for, for all cases.

        An array with a number for each case of the fit is refused for other cases: it would apply
        to them by their place alone.
        """
        if self.are_others and any(isinstance(need, PerCase) for need in needs):
            raise InputError(
                "The loss or the limits of decisions have an array with a number for each case of "
                "the fit, and these are other cases, or may be. Give the name of a data argument "
                "instead or, if they are the same in the same order, say "
                f"`known={self.instances.dims}`."
            )
        return columns_for(needs, {**self.trace.constants, **self.arrays}, *self.instances)

    def predict(
        self, latents: Mapping[str, Array], key: Key, batch: Batch
    ) -> tuple[Distribution, Array]:
        """Return p(y|θ) for the cases in the batch, and how much each counts.

        Args:
            latents: one draw, for the members in the batch.
            key: for latents of new members, which come from the model.
            batch: the members of each plate in minibatches.
        """
        site = self._sites(latents, key, batch)[self.trace.outcome]
        return prediction_of(site, **self.trace.kind)

    def respond(self, latents: dict[str, Array], key: Key, batch: Batch) -> Response:
        """Return p(y|θ, h) for the cases in the batch, as a function of the decisions h.

        The model is run again for each decision, with the same key: latents of new members are the
        same.
        """

        def predict(latents: dict[str, Array], key: Key, decision: Array) -> Distribution:
            arrays = with_decision(self.arrays, self.trace, batch, decision)
            there = replace(self, arrays=arrays)
            return there.predict(latents, key, batch)[0]

        return Response(latents, key, predict)

    def observed(self, latents: Mapping[str, Array], key: Key, batch: Batch) -> Array | None:
        """Return the outcomes that were observed for the cases in the batch; None where there are
        none."""
        if not self.trace.is_observed:
            return None
        return self._sites(latents, key, batch)[self.trace.outcome]["value"]

    def derived(self, latents: Mapping[str, Array], key: Key, batch: Batch) -> dict[str, Array]:
        """Return the values of the model's deterministic sites at one draw."""
        sites = self._sites(latents, key, batch)
        return {name: jnp.asarray(sites[name]["value"]) for name in self.trace.derived}

    def fitted_members(self, batch: Batch) -> Batch:
        """The members of the fit in this batch, by plate; any one stands in for a new one."""
        same = {p: batch[p] for p in self.trace.known_plates if p in batch}
        return same | {p: jnp.maximum(self._rows(p, batch), 0) for p in self.rows}

    def _rows(self, plate: str, batch: Batch) -> Array:
        """Return which member of the fit each member of a plate is, for those in the batch."""
        return self.rows[plate][batch[plate]] if plate in batch else self.rows[plate]

    def _sites(self, latents: Mapping[str, Array], key: Key, batch: Batch) -> Sites:
        given = {name: latents[name] for name in (*self.trace.latents, *self.trace.learned)}
        rows = {
            name: self._matched(latents[name], latent, batch)
            for name, latent in self.trace.matched.items()
        }
        return self.trace.run(self.arrays, given, key, batch, rows=rows)

    def _matched(self, values: Array, latent: Instances, batch: Batch) -> tuple[Array, Array]:
        """Return a latent's values for the members in the batch, and which of these are known."""
        known = jnp.array(True)
        for axis, dim in enumerate(latent.dims):
            if dim in self.rows:
                rows = self._rows(dim, batch)
                # In minibatches, the posterior has drawn just these members already.
                drawn = dim in self.trace.parts_of_fit
                at = jnp.arange(len(rows)) if drawn else jnp.maximum(rows, 0)
                values = jnp.take(values, at, axis=axis)
                known = known & (rows >= 0).reshape((-1,) + (1,) * (len(latent.dims) - 1 - axis))
        return values, known


@final
class Predictors:
    """Predictors of one fit, traced once for each shape that other cases come in."""

    def __init__(self, problem: Problem, approximation: NumPyroApproximation) -> None:
        self._problem, self._approximation = problem, approximation
        self._plain: LRU[frozenset[str]] = LRU(MOST_TRACED)
        """Data that the model looks at, by shapes."""
        self._traced: LRU[ModelTrace] = LRU(MOST_TRACED)

    def on(
        self,
        data: Data | None = None,
        *,
        new: Iterable[str] = (),
        rows: Mapping[str, np.ndarray] | None = None,
    ) -> Predictor:
        """Return the model on the data of the fit, or on other cases.

        Args:
            data: those of other cases; None for the fit's own.
            new: plates with new members alone. Their latents are drawn from the model, given all
                latents known from the fit. A plate whose size differs from the fit's has new
                members as well.
            rows: plates of which some members are known and some are new: for each member its
                number in the fit, or -1.
        """
        if data is None:
            return Predictor(self._approximation.arrays, self._approximation.trace)
        rows, new = rows or {}, frozenset(new)
        data, sites = self._in_form(data)
        trace = self._kept(
            self._traced,
            (_shapes(data), new, frozenset(rows)),
            lambda: _trace_of(self._problem, self._approximation, data, sites, new, rows),
        )
        arrays, _ = split_data(data)
        check_indices(trace, arrays)
        matched = {dim for latent in trace.matched.values() for dim in latent.dims}
        found = {dim: jnp.asarray(at) for dim, at in rows.items() if dim in matched}
        dims = trace.instances.dims
        moved = [d for d, at in rows.items() if d in dims and not _are_in_place(at)]
        same = trace.instances == self._approximation.trace.instances
        others = bool(moved or new.intersection(dims)) or not same
        return Predictor(arrays, trace, found, others)

    def _in_form(self, data: Data) -> tuple[Data, Sites | None]:
        """The data as the model takes them; and its sites, where it had to run to tell."""
        looks: list[FirstLook] = []

        def look() -> frozenset[str]:
            looks.append(first_look(self._problem.program, data, jax.random.key(0)))
            return looks[0].plain

        plain = self._kept(self._plain, _shapes(data), look)
        return in_form(data, plain), looks[0].sites if looks else None

    def _kept(self, made: LRU[Made], key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what was made for this key before, or make it.

        It is always made anew where the key has no hash, as with a constant that is a list.
        """
        try:
            hash(key)
        except TypeError:  # a constant is a list, say
            return make()
        return made.get(key, make)


def _shapes(data: Data) -> Hashable:
    """All that a model's structure may depend on: it cannot read the values of traced arrays."""
    return tuple((name, kinds(data[name]), _shape(data[name])) for name in sorted(data))


def _shape(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, value.tobytes()
    return (value.shape, value.dtype) if isinstance(value, jax.Array) else value


def _are_in_place(rows: np.ndarray) -> bool:
    """Whether members are those of the fit, or new ones in their places."""
    return bool(np.all((rows < 0) | (rows == np.arange(len(rows)))))


def _trace_of(
    problem: Problem,
    approximation: NumPyroApproximation,
    data: Data,
    sites: Sites | None,
    new: frozenset[str],
    rows: Mapping[str, np.ndarray],
) -> ModelTrace:
    """Describe the model on other cases, and check that they go with the fit.

    Args:
        problem: its model and outcome.
        approximation: the fit's.
        data: of the other cases, in the form that the model takes.
        sites: of an abstract run; None to run it.
        new: plates with new members alone.
        rows: members of the fit, for plates told by labels.
    """
    fitted = approximation.trace
    if sites is None:
        sites = shapes_of(problem.program, data, jax.random.key(0))
    check_outcome(problem, sites)
    site = sites[problem.outcome]
    if not problem.about_latent and site["is_observed"]:
        check_outcome_shape(problem.outcome, site)
    plates, subsamples = plate_sizes(sites), subsamples_of(sites)
    for plate, size in plates.items():
        if len(rows.get(plate, range(size))) != size:
            raise InputError(
                f"`coords[{plate!r}]` has {len(rows[plate])} labels for {size} members."
            )
    fresh = _new_plates(plates, fitted.plates, new) - rows.keys()
    from_fit = {
        name: latent
        for name, latent in fitted.latents.items()
        if name in sites and not fresh.intersection(latent.dims)
    }
    matched = {name: each for name, each in from_fit.items() if rows.keys() & set(each.dims)}
    trace = model_trace(
        problem,
        data,
        sites,
        latents={name: each for name, each in from_fit.items() if name not in matched},
        learned=fitted.learned,
        matched=matched,
        parts_of_fit=frozenset(part.plate for part in fitted.subsamples),
        told=frozenset(rows),
    )
    check_same_batches(fitted.subsamples, trace)
    for name, latent in from_fit.items():
        here = instances_of(name, sites[name], subsamples).shape
        expected = tuple(
            len(rows[dim]) if dim in rows else size
            for dim, size in zip(latent.dims, latent.shape, strict=True)
        )
        if here != expected:
            raise InputError(
                f"The latent {name!r} has shape {latent.shape} in the fit and {here} here, "
                f"but no plate explains the difference. Sample it inside a `numpyro.plate`."
            )
    return trace


def _new_plates(
    here: Mapping[str, int], before: Mapping[str, int], new: frozenset[str]
) -> frozenset[str]:
    """Plates whose size differs from the fit's, and those named in `new`."""
    unknown = [name for name in sorted(new) if name not in here]
    if unknown:
        raise InputError(f"`new=` names {some(unknown)}; the model's plates are {some(here)}.")
    return new | {name for name, size in here.items() if before.get(name) != size}
