"""NumPyro behind the port.

This and `numpyro_sites` and `numpyro_checks` alone know handlers, sites, plates and constraints.
"""

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import jax
from numpyro import handlers
from numpyro.infer import autoguide

from stakes.approximation import Draw, Instances, Subsample
from stakes.errors import InputError, some
from stakes.numpyro_checks import (
    as_guide,
    check_guide,
    check_latents,
    check_outcome_shape,
    check_same_batches,
    learned_by,
    model_sites,
)
from stakes.numpyro_sites import (
    GivenParams,
    Prediction,
    Site,
    Trace,
    instances_of,
    is_latent,
    log_prob_of,
    log_q_of,
    ordered_sum,
    parameters_of,
    plate_axes,
    prediction_of,
    samples_of,
    shapes_of,
    site_plates,
    split_data,
    start_of,
    subsamples_of,
    trace_of,
    transform_of,
)
from stakes.problem import Problem
from stakes.typing import Array, Batch, Key, Params


@final
@dataclass(frozen=True, eq=False)
class _Structure:
    """All that stays the same during a fit; compared by identity, so that jit can key on it."""

    model: Callable[..., Any]
    guide: Callable[..., Any]
    outcome: str
    constants: Mapping[str, Any]
    instances: Instances
    subsamples: tuple[Subsample, ...]
    transforms: Mapping[str, Any]
    parameter_plates: Mapping[str, dict[str, int]]
    latents: Mapping[str, Instances]
    """Shape and dims of each latent; in a predictor, of those known from the fit."""
    learned: tuple[str, ...]
    """The `numpyro.param` sites of the model itself."""
    start: Params
    """Where the guide starts for the key it was set up with."""
    elsewhere: dict[Any, "_Structure"] = field(default_factory=dict)
    """Of predictors for other cases, by what shapes depend on: jit knows them again."""


@final
@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["structure"]
)
@dataclass(frozen=True)
class NumPyroApproximation:
    """A NumPyro model and guide with their data. Build it with `approximate`."""

    arrays: dict[str, Array]
    structure: _Structure

    @property
    def instances(self) -> Instances:
        return self.structure.instances

    @property
    def subsamples(self) -> tuple[Subsample, ...]:
        return self.structure.subsamples

    @property
    def data(self) -> dict[str, Any]:
        return {**self.structure.constants, **self.arrays}

    def plates_of(self, parameter: str) -> dict[str, int]:
        return self.structure.parameter_plates.get(parameter, {})

    def init(self, key: Key) -> Params:
        """Where the guide starts. An autoguide draws its start anew from this key."""
        guide = self.structure.guide
        if isinstance(guide, autoguide.AutoGuide):
            guide.prototype_trace = None
        return start_of(parameters_of(self.structure.model, guide, self.data, key))

    def draw(self, params: Params, key: Key, batch: Batch) -> Draw:
        guide_sites = self._guide_sites(params, key, batch)
        model_key = jax.random.fold_in(key, 1)
        with self._given(params), handlers.substitute(data=dict(batch)):
            model = handlers.replay(self.structure.model, guide_sites)
            model_sites = trace_of(model, self.data, model_key)
        log_p = ordered_sum(log_prob_of(site) for site in samples_of(model_sites))
        log_q = ordered_sum(log_q_of(site) for site in samples_of(guide_sites))
        outcome, weight = prediction_of(model_sites[self.structure.outcome])
        return Draw(log_p - log_q, outcome, weight)

    def latents(
        self, params: Params, key: Key, batch: Batch, part: Array | int = 0
    ) -> dict[str, Array]:
        """One draw of every latent of the model, and the model's own parameters.

        `params` holds just the rows in the batch. What the guide draws outside the subsampled
        plates is the same for every `part`; what belongs to their members is drawn anew for each.
        """
        sites = self._guide_sites(params, key, batch)
        parts = {p.plate for p in self.structure.subsamples}
        if parts:
            shared = {
                s["name"]: s["value"]
                for s in samples_of(sites)
                if not parts.intersection(site_plates(s))
            }
            with handlers.substitute(data=shared):
                sites = self._guide_sites(params, jax.random.fold_in(key, part), batch)
        drawn = {name: sites[name]["value"] for name in self.structure.latents}
        transforms = self.structure.transforms
        learned = {name: transforms[name](params[name]) for name in self.structure.learned}
        return {**drawn, **learned}

    def _guide_sites(self, params: Params, key: Key, batch: Batch) -> Trace:
        with self._given(params), handlers.substitute(data=dict(batch)):
            return trace_of(self.structure.guide, self.data, key)

    def _given(self, params: Params) -> "GivenParams":
        values = {name: self.structure.transforms[name](value) for name, value in params.items()}
        return GivenParams(values, self.structure.parameter_plates)


@final
@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["approximation", "arrays"],
    meta_fields=["structure"],
)
@dataclass(frozen=True)
class Predictor:
    """The model on the cases to decide about: those of the fit, or new ones."""

    approximation: NumPyroApproximation
    arrays: dict[str, Array]
    structure: _Structure

    @property
    def instances(self) -> Instances:
        return self.structure.instances

    @property
    def subsamples(self) -> tuple[Subsample, ...]:
        return self.structure.subsamples

    def predict(self, latents: Mapping[str, Array], key: Key, batch: Batch) -> Prediction:
        """p(y|θ) for the cases in the batch; latents of new cases come from the model."""
        return prediction_of(self._outcome_site(latents, key, batch))

    def observed(self, latents: Mapping[str, Array], key: Key, batch: Batch) -> Array | None:
        """The outcomes that were observed for the cases in the batch, if any were."""
        site = self._outcome_site(latents, key, batch)
        return site["value"] if site["is_observed"] else None

    def _outcome_site(self, latents: Mapping[str, Array], key: Key, batch: Batch) -> Site:
        names = (*self.structure.latents, *self.structure.learned)
        known = {name: latents[name] for name in names}
        data = {**self.structure.constants, **self.arrays}
        with handlers.substitute(data={**known, **batch}):
            return trace_of(self.structure.model, data, key)[self.structure.outcome]


def approximate(problem: Problem, data: dict[str, Any], key: Key) -> NumPyroApproximation:
    """Trace the problem's model and guide once and check that everything fits together."""
    arrays, constants = split_data(data)
    sites = model_sites(problem, data, key)
    site = sites[problem.outcome]
    if not site["is_observed"]:
        raise InputError(
            f"`Problem(outcome={problem.outcome!r})` names a latent: the model does not observe "
            f"it. Pass `obs={problem.outcome}` to its `numpyro.sample`."
        )
    check_outcome_shape(problem.outcome, site)
    guide = as_guide(problem)
    subsamples = subsamples_of(sites)
    latents = {n: s for n, s in sites.items() if is_latent(s)}
    check_latents(guide, sites, latents, subsamples)
    parameters = parameters_of(problem.model, guide, data, key)
    guide_sites = shapes_of(guide, data, key)
    check_guide(problem, latents, guide_sites, subsamples)
    structure = _Structure(
        model=problem.model,
        guide=guide,
        outcome=problem.outcome,
        constants=constants,
        instances=instances_of(problem.outcome, site, subsamples),
        subsamples=subsamples,
        transforms={name: transform_of(param) for name, param in parameters.items()},
        parameter_plates={
            name: plate_axes(param, subsamples) for name, param in parameters.items()
        },
        latents={name: instances_of(name, site, subsamples) for name, site in latents.items()},
        learned=learned_by(sites, subsamples),
        start=start_of(parameters),
    )
    return NumPyroApproximation(arrays, structure)


def predictor(
    problem: Problem,
    approximation: NumPyroApproximation,
    data: dict[str, Any] | None = None,
    *,
    new: Iterable[str] = (),
) -> Predictor:
    """The model on the data of the fit, or on other cases.

    A plate whose size differs from the fit's holds new members, as do those named in `new`;
    their latents are drawn from the model given everything the fit knows. Other plates hold the
    members the fit has seen.
    """
    if data is None:
        return Predictor(approximation, approximation.arrays, approximation.structure)
    arrays, constants = split_data(data)
    seen = approximation.structure.elsewhere
    alike = _shape_key(arrays, constants, new)
    structure = seen.get(alike)
    if structure is None:
        structure = _predictor_structure(problem, approximation, data, new)
        if alike is not None:
            seen[alike] = structure
    return Predictor(approximation, arrays, structure)


def _shape_key(
    arrays: Mapping[str, Array], constants: Mapping[str, Any], new: Iterable[str]
) -> Hashable | None:
    """All that a model's structure may depend on: it cannot read the values of arrays.

    None where a constant cannot be told from another by its value. 1 and True are not the same.
    """
    shapes = frozenset((name, value.shape, value.dtype) for name, value in arrays.items())
    try:
        return shapes, frozenset((n, type(v), v) for n, v in constants.items()), frozenset(new)
    except TypeError:  # a list, say
        return None


def _predictor_structure(
    problem: Problem, approximation: NumPyroApproximation, data: dict[str, Any], new: Iterable[str]
) -> _Structure:
    fitted = approximation.structure
    key = jax.random.key(0)
    sites = model_sites(problem, data, key)
    site = sites[problem.outcome]
    if site["is_observed"]:
        check_outcome_shape(problem.outcome, site)
    fit_sites = shapes_of(fitted.model, approximation.data, key)
    sizes = {name: s["args"][0] for name, s in fit_sites.items() if s["type"] == "plate"}
    here = {name: s["args"][0] for name, s in sites.items() if s["type"] == "plate"}
    unknown = [name for name in new if name not in here]
    if unknown:
        raise InputError(f"`new=` names {some(unknown)}; the model's plates are {some(here)}.")
    fresh = {name for name, size in here.items() if sizes.get(name) != size} | set(new)
    known = {
        name: latent
        for name, latent in fitted.latents.items()
        if name in sites and not fresh.intersection(latent.dims)
    }
    subsamples = subsamples_of(sites)
    check_same_batches(fitted.subsamples, subsamples, fresh, known)
    for name, latent in known.items():
        here_shape = instances_of(name, sites[name], subsamples).shape
        if here_shape != latent.shape:
            raise InputError(
                f"The latent {name!r} has shape {latent.shape} in the fit and {here_shape} here, "
                f"but no plate says whose it is. Sample it inside a `numpyro.plate`."
            )
    return _Structure(
        model=problem.model,
        guide=fitted.guide,
        outcome=problem.outcome,
        constants=split_data(data)[1],
        instances=instances_of(problem.outcome, site, subsamples),
        subsamples=subsamples,
        transforms={},
        parameter_plates={},
        latents=known,
        learned=fitted.learned,
        start={},
    )


def same_members(predictor: Predictor) -> tuple[str, ...]:
    """Plates with local latents whose members are taken to be those of the fit."""
    latents = predictor.structure.latents.values()
    local = {dim for latent in latents for dim in latent.dims}
    return tuple(dim for dim in predictor.instances.dims if dim in local)


def nuts(
    approximation: NumPyroApproximation, key: Key, *, warmup: int, draws: int, progress: bool
) -> dict[str, Array]:
    """Draws from the posterior itself, the ideal that an approximation is compared to."""
    from numpyro.infer import MCMC, NUTS

    if approximation.structure.learned:
        raise InputError(
            f"NUTS does not learn the model's own parameters "
            f"{some(approximation.structure.learned)}; make them latents to compare with it."
        )
    if approximation.subsamples:
        plates = [part.plate for part in approximation.subsamples]
        raise InputError(
            f"NUTS needs the whole data at each step, but the model subsamples {some(plates)}. "
            f"Compare without it, or make the minibatch as large as the plate."
        )
    sampler = MCMC(
        NUTS(approximation.structure.model, target_accept_prob=0.95),
        num_warmup=warmup,
        num_samples=draws,
        progress_bar=progress,
    )
    sampler.run(key, **approximation.data)
    samples = sampler.get_samples()
    return {name: samples[name] for name in approximation.structure.latents}
