"""NumPyro behind the port: the one module that knows handlers, sites, plates and constraints."""

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import Distribution, biject_to, constraints
from numpyro.infer import autoguide

from stakes.approximation import Draw, Instances, Subsample
from stakes.errors import InputError, some
from stakes.problem import Problem
from stakes.typing import Array, Batch, Key, Params

Site = dict[str, Any]
Trace = dict[str, Site]


class Prediction(NamedTuple):
    """p(y_i|θ) for the instances in a batch, and how much each counts."""

    outcome: Distribution
    weight: Array


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
        return _start(_parameters(self.structure.model, guide, self.data, key))

    def draw(self, params: Params, key: Key, batch: Batch) -> Draw:
        guide_sites = self._guide_sites(params, key, batch)
        model_key = jax.random.fold_in(key, 1)
        with self._given(params), handlers.substitute(data=dict(batch)):
            model = handlers.replay(self.structure.model, guide_sites)
            model_sites = _trace(model, self.data, model_key)
        log_p = _ordered_sum(_log_prob(site) for site in _samples(model_sites))
        log_q = _ordered_sum(_log_q(site) for site in _samples(guide_sites))
        outcome, weight = _prediction(model_sites[self.structure.outcome])
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
                s["name"]: s["value"] for s in _samples(sites) if not parts.intersection(_plates(s))
            }
            with handlers.substitute(data=shared):
                sites = self._guide_sites(params, jax.random.fold_in(key, part), batch)
        drawn = {name: sites[name]["value"] for name in self.structure.latents}
        transforms = self.structure.transforms
        learned = {name: transforms[name](params[name]) for name in self.structure.learned}
        return {**drawn, **learned}

    def _guide_sites(self, params: Params, key: Key, batch: Batch) -> Trace:
        with self._given(params), handlers.substitute(data=dict(batch)):
            return _trace(self.structure.guide, self.data, key)

    def _given(self, params: Params) -> "_GivenParams":
        values = {name: self.structure.transforms[name](value) for name, value in params.items()}
        return _GivenParams(values, self.structure.parameter_plates)


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
        return _prediction(self._outcome_site(latents, key, batch))

    def observed(self, latents: Mapping[str, Array], key: Key, batch: Batch) -> Array | None:
        """The outcomes that were observed for the cases in the batch, if any were."""
        site = self._outcome_site(latents, key, batch)
        return site["value"] if site["is_observed"] else None

    def _outcome_site(self, latents: Mapping[str, Array], key: Key, batch: Batch) -> Site:
        names = (*self.structure.latents, *self.structure.learned)
        known = {name: latents[name] for name in names}
        data = {**self.structure.constants, **self.arrays}
        with handlers.substitute(data={**known, **batch}):
            return _trace(self.structure.model, data, key)[self.structure.outcome]


def approximate(problem: Problem, data: dict[str, Any], key: Key) -> NumPyroApproximation:
    """Trace the problem's model and guide once and check that everything fits together."""
    arrays, constants = _split(data)
    sites = _model_sites(problem, data, key)
    site = sites[problem.outcome]
    if not site["is_observed"]:
        raise InputError(
            f"`Problem(outcome={problem.outcome!r})` names a latent: the model does not observe "
            f"it. Pass `obs={problem.outcome}` to its `numpyro.sample`."
        )
    _check_outcome_shape(problem.outcome, site)
    guide = _as_guide(problem)
    subsamples = _subsamples(sites)
    latents = {n: s for n, s in sites.items() if _is_latent(s)}
    _check_latents(guide, sites, latents, subsamples)
    parameters = _parameters(problem.model, guide, data, key)
    guide_sites = _shapes(guide, data, key)
    _check_guide(problem, latents, guide_sites, subsamples)
    structure = _Structure(
        model=problem.model,
        guide=guide,
        outcome=problem.outcome,
        constants=constants,
        instances=_instances(problem.outcome, site, subsamples),
        subsamples=subsamples,
        transforms={name: _transform(param) for name, param in parameters.items()},
        parameter_plates={
            name: _plate_axes(param, subsamples) for name, param in parameters.items()
        },
        latents={name: _instances(name, site, subsamples) for name, site in latents.items()},
        learned=_learned(sites, subsamples),
        start=_start(parameters),
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
    arrays, constants = _split(data)
    seen = approximation.structure.elsewhere
    alike = _shape_key(arrays, constants, new)
    if alike not in seen:
        seen[alike] = _predictor_structure(problem, approximation, data, new)
    return Predictor(approximation, arrays, seen[alike])


def _shape_key(
    arrays: Mapping[str, Array], constants: Mapping[str, Any], new: Iterable[str]
) -> Hashable:
    """All that a model's structure may depend on: it cannot read the values of arrays."""
    shapes = frozenset((name, value.shape, value.dtype) for name, value in arrays.items())
    return shapes, frozenset((name, repr(v)) for name, v in constants.items()), frozenset(new)


def _predictor_structure(
    problem: Problem, approximation: NumPyroApproximation, data: dict[str, Any], new: Iterable[str]
) -> _Structure:
    fitted = approximation.structure
    key = jax.random.key(0)
    sites = _model_sites(problem, data, key)
    site = sites[problem.outcome]
    if site["is_observed"]:
        _check_outcome_shape(problem.outcome, site)
    fit_sites = _shapes(fitted.model, approximation.data, key)
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
    subsamples = _subsamples(sites)
    _check_same_batches(fitted.subsamples, subsamples, fresh, known)
    for name, latent in known.items():
        here_shape = _instances(name, sites[name], subsamples).shape
        if here_shape != latent.shape:
            raise InputError(
                f"The latent {name!r} has shape {latent.shape} in the fit and {here_shape} here, "
                f"but no plate says whose it is. Sample it inside a `numpyro.plate`."
            )
    return _Structure(
        model=problem.model,
        guide=fitted.guide,
        outcome=problem.outcome,
        constants=_split(data)[1],
        instances=_instances(problem.outcome, site, subsamples),
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


def _base(outcome: Distribution) -> Distribution:
    """The outcome's own distribution, whatever wraps it; safe where values are abstract."""
    wrappers = dist.MaskedDistribution | dist.ExpandedDistribution | dist.Independent
    while isinstance(outcome, wrappers):
        outcome = outcome.base_dist
    return outcome


def _is_masked(outcome: Distribution) -> bool:
    wrappers = dist.MaskedDistribution | dist.ExpandedDistribution | dist.Independent
    while isinstance(outcome, wrappers):
        if isinstance(outcome, dist.MaskedDistribution):
            return True
        outcome = outcome.base_dist
    return False


def unwrapped(outcome: Distribution) -> tuple[Distribution, Array]:
    """The outcome's own distribution without expansion, event dims and mask; and the mask."""
    mask: Any = True
    while True:
        match outcome:
            case dist.MaskedDistribution():
                mask = mask & jnp.asarray(outcome._mask)
                outcome = outcome.base_dist
            case dist.ExpandedDistribution():
                outcome = outcome.base_dist
            case dist.Independent():
                mask = jnp.asarray(mask)
                mask = mask.reshape(mask.shape + (1,) * outcome.reinterpreted_batch_ndims)
                outcome = outcome.base_dist
            case _:
                return outcome, jnp.asarray(mask)


class _GivenParams(numpyro.primitives.Messenger):  # type: ignore[misc]
    """Set every `numpyro.param`; those of a subsampled plate come as the rows in the batch.

    NumPyro would gather those rows itself from the full parameter, and differentiating that
    gather costs as much as there are rows. Renaming the message's type keeps it from doing so.
    """

    def __init__(self, values: Params, plates: Mapping[str, dict[str, int]]) -> None:
        self.values, self.plates = values, plates
        super().__init__()

    def process_message(self, msg: Any) -> None:
        if msg["type"] == "param" and msg["name"] in self.values:
            msg["value"] = self.values[msg["name"]]
            if self.plates.get(msg["name"]):
                msg["type"] = "param of the batch"


def _trace(program: Callable[..., Any], data: Mapping[str, Any], key: Key) -> Trace:
    return dict(handlers.trace(handlers.seed(program, key)).get_trace(**data))


def _shapes(program: Callable[..., Any], data: Mapping[str, Any], key: Key) -> Trace:
    """The sites of a program run abstractly: their types, shapes and plates, but no values."""
    arrays, constants = _split(data)
    sites: Trace = {}

    def run(arrays: dict[str, Array]) -> None:
        sites.update(_trace(program, {**constants, **arrays}, key))

    jax.eval_shape(run, arrays)
    return sites


def _parameters(
    model: Callable[..., Any], guide: Callable[..., Any], data: Mapping[str, Any], key: Key
) -> Trace:
    """The `numpyro.param` sites of guide and model with the values they start from."""
    guide_sites = _trace(guide, data, key)
    learned = any(site["type"] == "param" for site in _shapes(model, data, key).values())
    model_sites = _trace(handlers.replay(model, guide_sites), data, key) if learned else {}
    both = {**model_sites, **guide_sites}
    return {name: site for name, site in both.items() if site["type"] == "param"}


def _transform(parameter: Site) -> Any:
    return biject_to(parameter["kwargs"].get("constraint", constraints.real))


def _start(parameters: Trace) -> Params:
    """Unconstrained."""
    return {
        name: jax.tree.map(
            lambda leaf: jnp.asarray(leaf, jnp.result_type(float)),
            _transform(site).inv(site["value"]),
        )
        for name, site in parameters.items()
    }


def _samples(sites: Trace) -> list[Site]:
    return [site for site in sites.values() if site["type"] == "sample"]


def _is_latent(site: Site) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _ordered_sum(terms: Iterable[Array]) -> Array:
    """In the order of the trace: NumPyro's own ELBO sums over a set, and so varies with the
    seed of Python's hash."""
    return functools.reduce(jnp.add, terms, jnp.zeros(()))


def _scaled(site: Site, log_prob: Array) -> Array:
    return jnp.sum(log_prob if site["scale"] is None else site["scale"] * log_prob)


def _log_prob(site: Site) -> Array:
    kept = site["intermediates"]
    fn, value = site["fn"], site["value"]
    return _scaled(site, fn.log_prob(value, kept) if kept else fn.log_prob(value))


def _log_q(site: Site) -> Array:
    """log q of one guide site, its Gaussian part by its expectation.

    At a reparameterised draw, log q of a Gaussian is minus its entropy plus noise that does not
    depend on λ: the gradients are the same, and the noise is gone.
    """
    fn = site["fn"]
    base = _base(fn)
    if isinstance(base, dist.Normal) and not site["is_observed"] and not _is_masked(fn):
        entropy = jnp.broadcast_to(base.entropy(), fn.shape())
        return _scaled(site, -entropy.sum(axis=tuple(range(-fn.event_dim, 0))))
    return _log_prob(site)


def _prediction(site: Site) -> Prediction:
    outcome, mask = unwrapped(site["fn"])
    scale = jnp.asarray(1.0 if site["scale"] is None else site["scale"])
    scale = scale.reshape(scale.shape + (1,) * (site["fn"].event_dim if scale.ndim else 0))
    shape = site["fn"].shape()
    weight = jnp.broadcast_to(mask * scale, shape).astype(jnp.result_type(float))
    return Prediction(outcome, weight)


def _split(data: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays, which a compiled step takes as arguments, and what shapes may depend on."""
    arrays = {name: value for name, value in data.items() if isinstance(value, jax.Array)}
    return arrays, {name: value for name, value in data.items() if name not in arrays}


def _model_sites(problem: Problem, data: Mapping[str, Any], key: Key) -> Trace:
    sites = _shapes(problem.model, data, key)
    if problem.outcome not in sites or sites[problem.outcome]["type"] != "sample":
        names = [name for name, site in sites.items() if site["type"] == "sample"]
        raise InputError(
            f"`Problem(outcome={problem.outcome!r})`: the model has no sample site "
            f"{problem.outcome!r}; it has {some(names)}."
        )
    base = _base(sites[problem.outcome]["fn"])
    if base.event_shape:
        raise InputError(
            f"`Problem(outcome={problem.outcome!r})` is {type(base).__name__}, a distribution over "
            f"vectors of shape {base.event_shape}; decisions are made about single numbers. "
            f"Observe its components as sites of their own."
        )
    return sites


def _check_outcome_shape(name: str, site: Site) -> None:
    came, expected = jnp.shape(site["value"]), site["fn"].shape()
    if came != expected:
        raise InputError(
            f"`data[{name!r}]`: the observed outcomes have shape {came}, but the model predicts "
            f"outcomes of shape {expected}; they would be broadcast against each other. Reshape "
            f"one of them."
        )


def _subsamples(sites: Trace) -> tuple[Subsample, ...]:
    plates = (site for site in sites.values() if site["type"] == "plate")
    parts = ((site["name"], site["args"][0], len(site["value"])) for site in plates)
    return tuple(Subsample(*part) for part in parts if part[1] != part[2])


def _plates(site: Site) -> tuple[str, ...]:
    return tuple(frame.name for frame in site["cond_indep_stack"])


def _instances(name: str, site: Site, subsamples: tuple[Subsample, ...]) -> Instances:
    shape = list(site["fn"].shape())
    dims = [f"{name}_dim_{axis}" for axis in range(len(shape))]
    full = {part.plate: part.size for part in subsamples}
    for frame in site["cond_indep_stack"]:
        axis = len(site["fn"].batch_shape) + frame.dim
        dims[axis] = frame.name
        shape[axis] = full.get(frame.name, shape[axis])
    return Instances(tuple(shape), tuple(dims))


def _plate_axes(site: Site, subsamples: tuple[Subsample, ...]) -> dict[str, int]:
    """Axis of each subsampled plate along which the parameter has a row per member."""
    event_dim = site["kwargs"].get("event_dim")
    if event_dim is None:
        return {}
    shape, full, axes = jnp.shape(site["value"]), {p.plate: p.size for p in subsamples}, {}
    for frame in site["cond_indep_stack"]:
        axis = len(shape) + frame.dim - event_dim
        if frame.name in full and axis >= 0 and shape[axis] == full[frame.name]:
            axes[frame.name] = axis
    return axes


def _as_guide(problem: Problem) -> Callable[..., Any]:
    guide = problem.guide if problem.guide is not None else autoguide.AutoNormal
    factory = guide.func if isinstance(guide, functools.partial) else guide
    if isinstance(factory, type) and issubclass(factory, autoguide.AutoGuide):
        return guide(problem.model)
    if isinstance(guide, autoguide.AutoGuide):
        guide.prototype_trace = None  # it may have seen other data
    return guide


def _learned(sites: Trace, subsamples: tuple[Subsample, ...]) -> tuple[str, ...]:
    params = {name: site for name, site in sites.items() if site["type"] == "param"}
    for name, site in params.items():
        if _plate_axes(site, subsamples):
            raise InputError(
                f"The model's own `numpyro.param({name!r})` has a row per member of a subsampled "
                f"plate. Make it a latent, or leave the plate whole."
            )
    return tuple(params)


def _check_guide(
    problem: Problem, latents: Trace, guide_sites: Trace, subsamples: tuple[Subsample, ...]
) -> None:
    parts = {part.plate for part in subsamples}
    strange = [part.plate for part in _subsamples(guide_sites) if part.plate not in parts]
    if strange:
        raise InputError(
            f"`Problem(guide=...)` subsamples {some(strange)}; the model subsamples {some(parts)}. "
            f"Use plates of the same name, so that both see the same members."
        )
    covered = {n: s for n, s in guide_sites.items() if _is_latent(s)}
    missing = [name for name in latents if name not in covered]
    if missing:
        raise InputError(
            f"`Problem(guide=...)` does not cover the latent {some(missing)}; it samples "
            f"{some(covered)}. Add a `numpyro.sample` of the same name for each."
        )
    extra = [n for n, s in covered.items() if n not in latents and not _is_auxiliary(s)]
    if extra:
        raise InputError(
            f"`Problem(guide=...)` samples {some(extra)}, which the model does not have; its "
            f"latents are {some(latents)}."
        )
    for name, site in latents.items():
        came, expected = jnp.shape(covered[name]["value"]), jnp.shape(site["value"])
        if came != expected:
            raise InputError(
                f"`Problem(guide=...)` samples {name!r} with shape {came}; in the model it has "
                f"shape {expected}. Use the same plates in both."
            )


def _is_auxiliary(site: Site) -> bool:
    return bool(site["infer"].get("is_auxiliary"))


def _check_latents(
    guide: Callable[..., Any], sites: Trace, latents: Trace, subsamples: tuple[Subsample, ...]
) -> None:
    if not latents:
        raise InputError(
            f"The model has no latent to infer: its sites are {some(sites)}, all observed."
        )
    for name, site in latents.items():
        if site["fn"].support.is_discrete:
            raise InputError(
                f"The model's latent {name!r} is discrete ({type(site['fn']).__name__}): no "
                f"gradient flows through it. Marginalise it out of the model."
            )
    if not isinstance(guide, autoguide.AutoContinuous):
        return
    plates = {part.plate for part in subsamples}
    for name, site in latents.items():
        local = plates.intersection(_plates(site))
        if local:
            raise InputError(
                f"`Problem(guide={type(guide).__name__})` gives each member of a minibatch the "
                f"same parameters, so it cannot hold {name!r}, which belongs to the subsampled "
                f"plate {some(local)}. Use `AutoNormal`, a guide of your own, or the whole plate."
            )


def _check_same_batches(
    fitted: tuple[Subsample, ...],
    here: tuple[Subsample, ...],
    fresh: set[str],
    known: Mapping[str, Instances],
) -> None:
    """A known latent is drawn for the members in a batch, so the batches have to be alike."""
    local = {dim for latent in known.values() for dim in latent.dims}
    before = {part.plate: part.batch_size for part in fitted}
    now = {part.plate: part.batch_size for part in here}
    for part in (*fitted, *here):
        if part.plate in local - fresh and before.get(part.plate) != now.get(part.plate):
            raise InputError(
                f"The plate {part.plate!r} came in minibatches of {before.get(part.plate)} in the "
                f"fit and of {now.get(part.plate)} here (None: whole). Give the model the same "
                f"`subsample_size`."
            )
