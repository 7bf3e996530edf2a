"""A NumPyro model and guide with their data, as an implementation of the port.

A draw is made as NumPyro's own ELBO makes it: the guide is run with its parameters in place, the
model with the guide's values in place, and log p - log q is summed over the sites. Two things
differ. Parameters come unconstrained, and those of a plate in minibatches as the rows of the batch
alone, so that a step costs no more where there are more rows. The model's prediction of the
outcome is kept as a distribution, for the expected loss.
"""

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.infer import autoguide

from stakes._types import Array, Batch, Bool, Data, Distribution, Float, Key, Model, Params
from stakes.bridge.compatibility import (
    as_guide,
    check_guide,
    check_latents,
    check_observed,
    check_outcome,
    forget,
    learned_by,
)
from stakes.bridge.forms import first_look, in_form
from stakes.bridge.indices import check_indices
from stakes.bridge.model_trace import ModelTrace, check_action, model_trace, with_decision
from stakes.bridge.setup import set_up
from stakes.bridge.sites import (
    GivenNoise,
    GivenParams,
    Sites,
    Times,
    counting,
    instances_of,
    is_latent,
    log_likelihood_of,
    log_prob_of,
    log_q_of,
    ordered_sum,
    plate_axes,
    prediction_of,
    samples_of,
    shapes_of,
    site_plates,
    split_data,
    subsamples_of,
    trace_of,
)
from stakes.bridge.support import check_support
from stakes.errors import InputError
from stakes.port import (
    Approximation,
    Division,
    Draw,
    Instances,
    NormalPair,
    Response,
    RowIndex,
    Subsample,
)
from stakes.problem import Problem
from stakes.processes import Processes
from stakes.varying import Need, columns_for

# Folding in 0 or 1 gives the two keys of a split, which is how NumPyro seeds a guide's sites.
AFTER_SPLIT = 2


class Weighed(NamedTuple):
    """One draw θ ~ q, and what its weight in the exact posterior is made of.

    Attributes:
        log_ratio: log p(D, θ) - log q(θ).
        latents: θ itself, with the model's own parameters.
        log_likelihood: what each instance adds to log p(D, θ).
        outcome: p(y_i|θ) for each instance i.
    """

    log_ratio: Array
    latents: dict[str, Array]
    log_likelihood: Float[Array, "*instance"]
    outcome: Distribution
    weight: Float[Array, "*instance"]


@final
@dataclass(frozen=True, eq=False)
class Structure:
    """All that stays the same during a fit; compared by identity, so that jit can key on it.

    Attributes:
        transforms: for each parameter, from unconstrained values to those that the program takes.
    """

    trace: ModelTrace
    guide: Model
    transforms: Mapping[str, Any]
    parameter_plates: Mapping[str, dict[str, int]]


@final
@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["arrays", "counted", "times"],
    meta_fields=["structure", "division"],
    drop_fields=["start"],
)
@dataclass(frozen=True)
class NumPyroApproximation(Approximation):
    """A NumPyro model and guide with their data. Build it with `approximate`.

    Attributes:
        counted: which outcomes the fit may see; None for all. The others are there to be predicted.
        start: where the guide starts for the key it was set up with; compiled programs do not know.
        times: how many rows each row in minibatches stands for, where these are a sample of more
            rows.
        division: how the rows are divided among processes; None where one process has them all.
    """

    arrays: dict[str, Array]
    structure: Structure
    counted: Bool[Array, "*instance"] | None = None
    start: Params = field(default_factory=dict)
    times: Float[Array, ""] | None = None
    division: Division | None = None

    def counting(self, counted: Bool[Array, "*instance"]) -> "NumPyroApproximation":
        """Return the same approximation, fitted to these outcomes only.

        Fits with different masks share one compiled program: the mask is an array among others.
        """
        return replace(self, counted=counted)

    def standing_for(self, rows: int) -> "NumPyroApproximation":
        """Return the same approximation; its rows in minibatches are a sample of so many rows."""
        [part] = self.subsamples
        return replace(self, times=jnp.asarray(rows / part.size, jnp.result_type(float)))

    def of_rows(self, arrays: dict[str, Array]) -> "NumPyroApproximation":
        """Return the same approximation with other rows, as many as before."""
        return replace(self, arrays={**self.arrays, **arrays})

    def divided(
        self, processes: Processes, stands_for: tuple[int, ...] | None = None
    ) -> "NumPyroApproximation":
        """Return the same approximation, its rows in minibatches divided among processes.

        Args:
            processes: each of which takes an equal part of every minibatch from its own rows.
            stands_for: how many rows those of each process are a sample of, where they are one.
        """
        [part] = self.subsamples
        check_even(part, processes.count)
        arrays = jax.tree.map(processes.shared, self.arrays)
        times = None if self.times is None else processes.shared(self.times)
        division = Division(part, processes, stands_for)
        return replace(self, arrays=arrays, times=times, division=division)

    def _counting_rows(self) -> AbstractContextManager[object]:
        """Let rows in minibatches count for as many as they stand for."""
        times, division = self.times, self.division
        weights = None if division is None else division.weights
        if weights is not None:
            times = jnp.asarray(weights if times is None else weights * times)
        return nullcontext() if times is None else Times(self.subsamples[0].plate, times)

    @property
    def trace(self) -> ModelTrace:
        """The model on the cases of the fit."""
        return self.structure.trace

    @property
    def instances(self) -> Instances:
        """What is decided about: its shape, with a dim for each plate of the outcome."""
        return self.trace.instances

    @property
    def subsamples(self) -> tuple[Subsample, ...]:
        """The plates that the model takes in minibatches, with their sizes."""
        return self.trace.subsamples

    @property
    def latents(self) -> Mapping[str, Instances]:
        """Shape and dims of each latent."""
        return self.trace.latents

    @property
    def normals(self) -> tuple[NormalPair, ...]:
        """Names of locations and scales, where the guide consists of independent normals.

        Natural gradients and evenly spread noise are only for these.
        """
        pairs = ((f"{stem}_loc", f"{stem}_scale") for stem in self._normal_sites.values())
        transforms = self.structure.transforms
        return tuple(NormalPair(loc, scale, transforms[scale]) for loc, scale in pairs)

    @property
    def _normal_sites(self) -> dict[str, str]:
        """Sites of such a guide, and how the names of their parameters begin."""
        guide: Any = self.structure.guide
        if type(guide) is autoguide.AutoNormal:
            return {name: f"{name}_{guide.prefix}" for name in self.latents}
        if type(guide) is autoguide.AutoDiagonalNormal:
            return {f"_{guide.prefix}_latent": guide.prefix}
        return {}

    @property
    def data(self) -> Data:
        """The arguments of the model by name: arrays, and values that are no arrays."""
        return {**self.trace.constants, **self.arrays}

    def columns(self, needs: tuple[Need, ...]) -> dict[Need, Array]:
        """Return what the loss or the limits of decisions ask for, with a value for each case."""
        return columns_for(needs, self.data, *self.instances)

    def plates_of(self, parameter: str) -> dict[str, int]:
        """Return the axes of a parameter with a row for each member of a plate in minibatches."""
        return self.structure.parameter_plates.get(parameter, {})

    def init(self, key: Key) -> Params:
        """Return the parameters at which the guide starts.

        An autoguide is set up anew, and draws another start with another key.
        """
        guide = self.structure.guide
        forget(guide)
        return set_up(self.trace, guide, self.data, key).start

    def draw(
        self, params: Params, key: Key, batch: Batch, noise: Mapping[str, Array] | None = None
    ) -> Draw:
        """Draw θ from the guide, and return log p(D, θ) - log q(θ) with the predicted outcome.

        Args:
            params: unconstrained; of a plate in minibatches, the rows of the batch.
            key: for the sites that the guide draws. The same key draws the same θ.
            batch: the members of each plate in minibatches.
            noise: standard normals for locations, by name, in place of those that the key would
                give.

        Returns:
            The log ratio with log q of normal sites replaced by its expectation, which has the same
            gradient and less noise, and p(y|θ) for each case of the batch. Where decisions change
            outcomes, a `Response` stands for the latter.
        """
        guide_sites, model_sites = self._both_sites(params, key, batch, noise)
        found = draw_of(guide_sites, model_sites, self.trace.outcome, **self.trace.kind)
        if self.trace.action is None:
            return found
        drawn = {site["name"]: site["value"] for site in samples_of(guide_sites)}
        return found._replace(outcome=Response(drawn, key, partial(self._respond, params, batch)))

    def _respond(
        self, params: Params, batch: Batch, drawn: dict[str, Array], key: Key, decision: Array
    ) -> Distribution:
        """Return p(y|θ) at this draw of the guide's sites, if `decision` were made."""
        arrays = with_decision(self.arrays, self.trace, batch, decision)
        sites = self._model_sites(params, key, batch, drawn, arrays)
        return prediction_of(sites[self.trace.outcome], **self.trace.kind)[0]

    def weigh(
        self, params: Params, key: Key, noise: Mapping[str, Array] | None = None
    ) -> "Weighed":
        """Draw θ, and return what its weight in the exact posterior is made of.

        Unlike in `draw`, log q is that of the draw itself: a weight needs its value, not just its
        gradient. Not for minibatches.
        """
        guide_sites, model_sites = self._both_sites(params, key, {}, noise)
        log_p = ordered_sum(log_prob_of(site) for site in samples_of(model_sites))
        log_q = ordered_sum(log_prob_of(site) for site in samples_of(guide_sites))
        site = model_sites[self.trace.outcome]
        latents = {name: guide_sites[name]["value"] for name in self.latents}
        latents |= self._learned(params)
        return Weighed(log_p - log_q, latents, log_likelihood_of(site), *prediction_of(site))

    def _both_sites(
        self, params: Params, key: Key, batch: Batch, noise: Mapping[str, Array] | None = None
    ) -> tuple[Sites, Sites]:
        """Return the sites of the guide, and those of the model at the values that the guide has
        drawn."""
        with self._counting_rows():
            with self._given_noise(noise):
                guide_sites = self._guide_sites(params, key, batch)
            drawn = {name: guide_sites[name]["value"] for name in self.latents}
            model_sites = self._model_sites(params, key, batch, drawn, self.arrays)
        name = self.trace.outcome
        model_sites[name] = counting(model_sites[name], self.counted_in(batch))
        return guide_sites, model_sites

    def _given_noise(self, noise: Mapping[str, Array] | None) -> GivenNoise:
        normals = self._normal_sites if noise else {}
        return GivenNoise({site: (noise or {})[f"{stem}_loc"] for site, stem in normals.items()})

    def _model_sites(
        self,
        params: Params,
        key: Key,
        batch: Batch,
        drawn: Mapping[str, Array],
        arrays: dict[str, Array],
    ) -> Sites:
        given = {name: drawn[name] for name in self.latents} | self._learned(params)
        return self.trace.run(arrays, given, jax.random.fold_in(key, AFTER_SPLIT), batch)

    def _learned(self, params: Params) -> Params:
        """The model's own parameters, as it takes them."""
        transforms = self.structure.transforms
        return {name: transforms[name](params[name]) for name in self.trace.learned}

    def draw_latents(
        self,
        params: Params,
        key: Key,
        batch: Batch,
        part: Array | int = 0,
        noise: Mapping[str, Array] | None = None,
    ) -> dict[str, Array]:
        """Draw every latent of the model once, and return them with the model's own parameters.

        Args:
            params: those of the rows in the batch.
            key: what lies outside the plates in minibatches is the same for the same key.
            batch: the members to draw for.
            part: the number of the batch. Latents of its members are drawn with a key of their own,
                so that no two batches repeat each other.
            noise: standard normals for locations, as in `draw`; not for minibatches.
        """
        with self._given_noise(noise):
            sites = self._guide_sites(params, key, batch)
        parts = {p.plate for p in self.subsamples}
        if parts:
            shared = {
                s["name"]: s["value"]
                for s in samples_of(sites)
                if not parts.intersection(site_plates(s))
            }
            with handlers.substitute(data=shared):
                sites = self._guide_sites(
                    params, jax.random.fold_in(key, AFTER_SPLIT + part), batch
                )
        return {name: sites[name]["value"] for name in self.latents} | self._learned(params)

    def counted_in(self, batch: Batch) -> Array | None:
        """Which outcomes of the batch the fit may see; None for all."""
        if self.counted is None:
            return None
        return RowIndex.of(self.instances, batch).gather(self.counted)

    def _guide_sites(self, params: Params, key: Key, batch: Batch) -> Sites:
        with self._given(params), handlers.substitute(data=dict(batch)):
            return trace_of(self.structure.guide, self.data, key)

    def _given(self, params: Params) -> GivenParams:
        """Return the handler that puts constrained parameters in place."""
        values = {name: self.structure.transforms[name](value) for name, value in params.items()}
        return GivenParams(values, self.structure.parameter_plates)


def check_even(part: Subsample, count: int) -> None:
    """Refuse minibatches of which processes cannot take equal parts."""
    if part.batch_size % count:
        raise InputError(
            f"The minibatches of {part.plate!r} have {part.batch_size} members, which cannot be "
            f"divided evenly among {count} processes: let `subsample_size` be a multiple of that."
        )


def draw_of(guide_sites: Sites, model_sites: Sites, outcome: str, **kind: bool) -> Draw:
    """What a draw of the guide, and the model there, mean for the bound."""
    log_p = ordered_sum(log_prob_of(site) for site in samples_of(model_sites))
    log_q = ordered_sum(log_q_of(site) for site in samples_of(guide_sites))
    return Draw(log_p - log_q, *prediction_of(model_sites[outcome], **kind))


def approximate(problem: Problem, data: Data, key: Key) -> NumPyroApproximation:
    """Trace the problem's model and guide once and check that everything fits together.

    All mistakes that can be seen without a fit are refused here, by name: a missing site, an
    outcome that is not observed, latents that the guide leaves out, indices beyond their arrays,
    outcomes that the distribution cannot have.

    Args:
        problem: its model, guide and outcome.
        data: checked, as `Problem.check_data` returns them.
        key: for where the guide starts.
    """
    guide = as_guide(problem)
    plain, data, sites = first_look(problem.program, data, key)
    check_outcome(problem, sites)
    site = sites[problem.outcome]
    subsamples = subsamples_of(sites)
    check_observed(problem, site, data, subsamples)
    latents = {n: s for n, s in sites.items() if is_latent(s)}
    check_latents(guide, sites, latents, subsamples)
    if not isinstance(guide, autoguide.AutoGuide):  # one by hand may look at the data, too
        data = in_form(data, plain | first_look(guide, data, key).plain)
    arrays, _ = split_data(data)
    trace = model_trace(
        problem,
        data,
        sites,
        latents={name: instances_of(name, site, subsamples) for name, site in latents.items()},
        learned=learned_by(sites, subsamples),
    )
    check_action(trace, data)
    check_indices(trace, arrays)
    check_support(trace, site, arrays)
    ready = set_up(trace, guide, data, key)
    check_guide(problem, latents, ready.guide_sites, subsamples)
    structure = Structure(
        trace=trace,
        guide=guide,
        transforms=ready.transforms,
        parameter_plates={
            name: plate_axes(param, subsamples) for name, param in ready.parameters.items()
        },
    )
    return NumPyroApproximation(arrays, structure, start=ready.start)


def row_check(
    problem: Problem, approximation: NumPyroApproximation, key: Key
) -> Callable[[dict[str, Array]], None]:
    """Return a function that refuses other rows in place of those of a fit.

    It makes the same checks that `approximate` made of the first rows: of indices and of the
    support of the outcome.
    """
    trace = approximation.trace
    site = shapes_of(problem.program, approximation.data, key)[problem.outcome]

    def check(rows: dict[str, Array]) -> None:
        arrays = {**approximation.arrays, **rows}
        check_indices(trace, arrays)
        check_support(trace, site, arrays)

    return check


def prior_draws(approximation: NumPyroApproximation, key: Key, draws: int) -> dict[str, np.ndarray]:
    """Draw the latents from the prior.

    Returns:
        Latent -> draws along a leading axis. Latents of members in minibatches are left out, since
        the prior of one batch is not that of all.
    """
    trace, latents = approximation.trace, approximation.latents

    def one(key: Key, arrays: dict[str, Array]) -> dict[str, Array]:
        sites = trace.run(arrays, {}, key, {})
        return {name: sites[name]["value"] for name in latents}

    found = jax.jit(jax.vmap(one, (0, None)))(jax.random.split(key, draws), approximation.arrays)
    return {
        name: np.asarray(values)
        for name, values in found.items()
        if values.shape[1:] == tuple(latents[name].shape)
    }
