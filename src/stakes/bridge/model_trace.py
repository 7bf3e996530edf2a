"""The model on some cases: what it consists of, and what it makes of values of its latents.

The fit asks for the model at what the guide draws, predictions ask for it at draws of a posterior.
Both are one function of arrays, latents, a key and a batch, and JAX keeps what it traced: the
user's model runs once for each kind of arguments, whatever programs take it in.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.primitives import _PYRO_STACK  # NumPyro has no other name for open handlers

from stakes._types import Array, Batch, Data, Key, Model, PyTree
from stakes.bridge.returned import Returned
from stakes.bridge.sites import (
    GivenRows,
    Marking,
    Site,
    Sites,
    check_again,
    derived_of,
    instances_of,
    is_latent,
    plate_sizes,
    samples_of,
    site_plates,
    split_data,
    subsamples_of,
    survives_jit,
    trace_of,
)
from stakes.checks import is_traced
from stakes.errors import InputError
from stakes.port import Instances, RowIndex, Subsample
from stakes.problem import Problem

Given = Mapping[str, PyTree]
"""Values by the names of sites."""
# What densities and predictions need of a site.
PARTS = ("name", "type", "fn", "value", "scale", "is_observed", "cond_indep_stack")


@final
@dataclass(frozen=True)
class StandIn:
    """Shapes of what the model draws or learns, and the support of a distribution.

    Attributes:
        support: None where it is that of a parameter, or depends on what JAX traces.
    """

    like: PyTree
    support: Any = None

    @classmethod
    def of(cls, site: Site) -> "StandIn":
        """Return the stand-in for a site, of which shapes are known but no values."""
        support = site["fn"].support if site["type"] == "sample" else None
        if any(map(is_traced, jax.tree.leaves(support))):
            support = None
        struct: Any = jax.ShapeDtypeStruct
        like = jax.tree.map(lambda leaf: struct(jnp.shape(leaf), _dtype(leaf)), site["value"])
        return cls(like, support)

    def value(self) -> PyTree:
        """Return a possible value: zeros, moved into the support of the distribution."""
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), self.like)
        return zeros if self.support is None else self.support.feasible_like(zeros)


def _dtype(leaf: Any) -> Any:
    return jnp.result_type(float if isinstance(leaf, float) else leaf)


@final
@dataclass(frozen=True, eq=False)
class ModelTrace:
    """The model on some cases, without their arrays; compared by identity, as a key for jit.

    Attributes:
        observed: the argument that carries the observed outcomes.
        constants: arguments of the model that are not arrays, on which shapes may depend.
        plates: all plates, with their full sizes.
        latents: shape and dims of each latent known from the fit; others are drawn from the model.
        learned: the `numpyro.param` sites of the model itself.
        derived: shape and dims of the model's `numpyro.deterministic` sites.
        matched: as in the fit, shape and dims of latents of which only some rows are known from it,
            or all but in another order.
        parts_of_fit: plates that come in minibatches in the fit.
        about_latent: whether decisions are about a latent or deterministic site, which is never
            observed.
        together: whether outcomes are whole events, vectors, instead of the numbers in them.
        action: the argument that is decided about, where decisions change outcomes.
        acts_in_steps: whether decisions about it are whole numbers or actions, which the model may
            index with.
        told: plates whose members are told by labels: some may be new, or in another order.
        is_observed: whether the data have outcomes.
        drawn: what the model draws or learns where nothing is given.
        is_reusable: whether JAX can return all distributions of the model.
    """

    model: Model
    outcome: str
    observed: str
    constants: Mapping[str, Any]
    instances: Instances
    subsamples: tuple[Subsample, ...]
    plates: Mapping[str, int]
    latents: Mapping[str, Instances]
    learned: tuple[str, ...]
    derived: Mapping[str, Instances]
    matched: Mapping[str, Instances] = field(default_factory=dict)
    parts_of_fit: frozenset[str] = frozenset()
    about_latent: bool = False
    together: bool = False
    action: str | None = None
    acts_in_steps: bool = False
    told: frozenset[str] = frozenset()

    is_observed: bool = False
    drawn: Mapping[str, StandIn] = field(default_factory=dict)
    plates_with_latents: frozenset[str] = frozenset()
    is_reusable: bool = True

    def run(
        self,
        arrays: dict[str, Array],
        given: Given,
        key: Key,
        batch: Batch,
        *,
        rows: Mapping[str, tuple[Array, Array]] | None = None,
        marked: dict[str, Array] | None = None,
    ) -> Sites:
        """The sample and deterministic sites of the model where sites have the values given.

        All else is drawn.

        Args:
            rows: sites of which some rows are given: values, and which of them.
            marked: plate -> which members have nan for their latents; nothing is drawn then.
        """
        # Handlers around a run belong to it, and the next run may have others.
        run = self._traced if self.is_reusable and not _PYRO_STACK else self._run
        return _whole(run(arrays, dict(given), key, dict(batch), dict(rows or {}), marked))

    def stand_ins(self) -> dict[str, PyTree]:
        """Possible values for all that the model would draw or learn, as arguments of `run`."""
        return {name: drawn.value() for name, drawn in self.drawn.items()}

    @cached_property
    def _traced(self) -> Callable[..., Returned]:
        return jax.jit(self._run, inline=True)

    def _run(
        self,
        arrays: dict[str, Array],
        given: dict[str, PyTree],
        key: Key,
        batch: dict[str, Array],
        rows: dict[str, tuple[Array, Array]],
        marked: dict[str, Array] | None,
    ) -> Returned:
        marking = nullcontext() if marked is None else Marking(marked)
        with GivenRows(rows), marking, handlers.substitute(data={**given, **batch}):
            return _returned(trace_of(self.model, {**self.constants, **arrays}, key))

    @property
    def kind(self) -> dict[str, bool]:
        """What kind of outcome it is."""
        return {"latent": self.about_latent, "together": self.together}

    @property
    def known_plates(self) -> frozenset[str]:
        """Plates whose members are those of the fit, in the same order.

        Their latents are known from it. Plates told by labels are left out, since some members may
        be new.
        """
        from_fit = (*self.latents.values(), *self.matched.values())
        return frozenset(dim for latent in from_fit for dim in latent.dims) - self.told

    @property
    def known_instances(self) -> tuple[str, ...]:
        """Those of the known plates along which decisions are made."""
        return tuple(dim for dim in self.instances.dims if dim in self.known_plates)


def _returned(sites: Sites) -> Returned:
    """The sample and deterministic sites, in the order of the model, which mappings would lose."""
    return Returned.of(
        [
            (name, {part: site[part] for part in PARTS if part in site})
            for name, site in sites.items()
            if site["type"] in ("sample", "deterministic")
        ]
    )


def _whole(returned: Returned) -> Sites:
    """Return the sites as NumPyro gives them; distributions check values as the originals did."""
    sites: Sites = {name: {**site, "intermediates": []} for name, site in returned.value}
    for site in samples_of(sites):
        check_again(site["fn"])
    return sites


def model_trace(problem: Problem, data: Data, sites: Sites, **known: Any) -> ModelTrace:
    """Describe the model with these data.

    Args:
        problem: its model, outcome and decision.
        data: in the form that the model takes.
        sites: of the model with these data, from an abstract run.
        **known: the fields that tell what the fit knows of the latents.
    """
    subsamples, site = subsamples_of(sites), sites[problem.outcome]
    plates = {plate for s in sites.values() if is_latent(s) for plate in site_plates(s)}
    return ModelTrace(
        model=problem.program,
        outcome=problem.outcome,
        observed=problem.observations,
        constants=split_data(data)[1],
        instances=outcome_instances(problem, sites, subsamples),
        subsamples=subsamples,
        plates=plate_sizes(sites),
        derived=derived_of(sites, subsamples),
        about_latent=problem.about_latent,
        together=problem.together,
        action=problem.action,
        acts_in_steps=not problem.space.is_smooth,
        is_observed=not problem.about_latent and site["is_observed"],
        drawn={n: StandIn.of(s) for n, s in sites.items() if is_latent(s) or s["type"] == "param"},
        plates_with_latents=frozenset(plates),
        is_reusable=all(survives_jit(s["fn"]) for s in samples_of(sites)),
        **known,
    )


def outcome_instances(
    problem: Problem, sites: Sites, subsamples: tuple[Subsample, ...]
) -> Instances:
    """What is decided about: the members of the outcome's plates, or all numbers of a latent."""
    name, site = problem.outcome, sites[problem.outcome]
    if site["type"] == "deterministic":
        return derived_of(sites, subsamples)[name]
    return instances_of(name, site, subsamples, together=problem.together)


def with_decision(
    data: Mapping[str, Array], trace: ModelTrace, batch: Batch, decision: Array
) -> dict[str, Array]:
    """Return the data of the cases, if this were decided for those in the batch.

    An argument of whole numbers stays whole where decisions come in steps: the model may index by
    it.
    """
    assert trace.action is not None
    made = jnp.asarray(data[trace.action])
    if trace.acts_in_steps and jnp.issubdtype(made.dtype, jnp.integer):
        whole, decision = made, jnp.round(decision).astype(made.dtype)
    else:
        whole = made.astype(jnp.result_type(float))
    return {**data, trace.action: RowIndex.of(trace.instances, batch).scatter(whole, decision)}


def check_action(trace: ModelTrace, data: Data) -> None:
    """Refuse data without a number for each outcome in the argument that is decided about.

    A decision made for several outcomes at once could not be told apart from one for each.
    """
    if trace.action is None:
        return
    made = data.get(trace.action)
    shape = None if made is None else np.shape(made)
    if shape != trace.instances.shape:
        came = "is not there" if shape is None else f"has the shape {shape}"
        raise InputError(
            f"`data[{trace.action!r}]`, which is decided about, {came}; it must have the decision "
            f"that was made for each outcome, in the shape {trace.instances.shape}."
        )
