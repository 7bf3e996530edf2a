"""Checks, before a fit, that a model goes with its guide, its outcome and other data.

Each works on the sites of an abstract run, in which there are shapes but no values, and raises an
`InputError` that names the site, says the rule and what to do. What depends on values is checked in
`indices` and `support`.
"""

import copy
import functools

import jax.numpy as jnp
from numpyro.infer import autoguide

from stakes._types import Data, Distribution, Model
from stakes.arguments import arguments_of, without
from stakes.bridge.model_trace import ModelTrace
from stakes.bridge.sites import (
    Site,
    Sites,
    base_of,
    is_latent,
    is_masked,
    plate_axes,
    site_plates,
    subsamples_of,
    whole_event,
)
from stakes.errors import InputError, some, warn
from stakes.port import Subsample
from stakes.problem import Problem


def check_outcome(problem: Problem, sites: Sites) -> None:
    """Refuse a model without the outcome, or with one of a kind that is not decided about.

    A vector is decided about as a whole with `together=True`, and is refused without it: the shape
    of decisions would be that of its components, which the loss does not know apart.
    """
    if problem.about_latent and problem.outcome in sites:
        return
    if problem.outcome not in sites or sites[problem.outcome]["type"] != "sample":
        names = [name for name, site in sites.items() if site["type"] == "sample"]
        raise InputError(
            f"`Problem(outcome={problem.outcome!r})`: the model has no sample site "
            f"{problem.outcome!r}; it has {some(names)}."
        )
    fn = sites[problem.outcome]["fn"]
    base = base_of(fn)
    if problem.together:
        _check_event(problem.outcome, fn)
    elif base.event_shape:
        raise InputError(
            f"`Problem(outcome={problem.outcome!r})` is {type(base).__name__}, a distribution over "
            f"vectors of shape {base.event_shape}; decisions are made about single numbers. "
            f"Say `together=True` and give a loss that takes vectors, or observe its components as "
            f"sites of their own."
        )


def _check_event(name: str, fn: Distribution) -> None:
    """Refuse vectors with several axes, or with some of their numbers masked."""
    where = f"`Problem(outcome={name!r}, together=True)`"
    if fn.event_dim != 1:
        raise InputError(
            f"{where}: the events of {name!r} have {fn.event_dim} axes, and vectors have one. Give "
            f"its distribution `.to_event(1)`, or leave `together` out."
        )
    inner, _ = whole_event(fn)
    if is_masked(inner):
        raise InputError(f"{where}: some numbers of a vector are masked; mask whole vectors.")


def check_observed(
    problem: Problem, site: Site, data: Data, subsamples: tuple[Subsample, ...]
) -> None:
    """Refuse an outcome without observations, but for one that is latent and meant to be.

    Args:
        problem: whether its outcome is latent follows from the model's arguments.
        site: the outcome's.
        data: in which the observations may be missing; a warning says so where they could be meant.
        subsamples: plates in minibatches, of which a deterministic outcome may have none.
    """
    observed = site["type"] == "sample" and site["is_observed"]
    if problem.about_latent:
        if observed:
            raise InputError(
                f"`Problem(outcome={problem.outcome!r})`: the model observes it, but has no "
                f"argument of that name to carry the observations. Say which one does: "
                f"`observed=`."
            )
        parts = [p.plate for p in subsamples if p.plate in site_plates(site)]
        if site["type"] == "deterministic" and parts:
            raise InputError(
                f"`Problem(outcome={problem.outcome!r})` is deterministic and comes in minibatches "
                f"of {some(parts)}; leave `subsample_size` out."
            )
        left_out = [name for name in arguments_of(problem.model).open if data.get(name) is None]
        if left_out:
            warn(
                f"`Problem(outcome={problem.outcome!r})`: nothing is observed of it, so the "
                f"decision is about a latent. If {some(left_out)}, which is not in the data, "
                f"carries its observations, give them and say `observed=`."
            )
        return
    if not observed:
        raise InputError(
            f"`Problem(outcome={problem.outcome!r})` names a latent: the model does not observe "
            f"it. Pass `obs={problem.outcome}` to its `numpyro.sample`."
        )
    check_outcome_shape(problem.outcome, site)


def check_outcome_shape(name: str, site: Site) -> None:
    """Refuse observations in another shape than that of the predicted outcomes.

    NumPyro would broadcast one against the other, and count outcomes several times.
    """
    came, expected = jnp.shape(site["value"]), site["fn"].shape()
    if came != expected:
        raise InputError(
            f"`data[{name!r}]`: the observed outcomes have shape {came}, but the model predicts "
            f"outcomes of shape {expected}; they would be broadcast against each other. Reshape "
            f"one of them."
        )


def as_guide(problem: Problem) -> Model:
    """Return the guide of a problem, for its data alone.

    An autoguide class is called with the model; of an autoguide that is given ready-made, a copy is
    taken; a guide function is called without the columns that only the loss asks for.
    """
    guide = problem.guide if problem.guide is not None else autoguide.AutoNormal
    factory = guide.func if isinstance(guide, functools.partial) else guide
    if isinstance(factory, type) and issubclass(factory, autoguide.AutoGuide):
        return guide(problem.program)
    if isinstance(guide, autoguide.AutoGuide):
        return own_guide(guide)
    return without(guide, problem.beside_model)


def own_guide(guide: autoguide.AutoGuide) -> autoguide.AutoGuide:
    """Return a copy of an autoguide that has seen no data.

    An autoguide keeps what it finds out about its first data. Two fits with one guide would
    otherwise share the shapes of the first.
    """
    own = copy.copy(guide)
    for name, value in vars(guide).items():
        if isinstance(value, list):  # the parts of an `AutoGuideList`
            parts = [own_guide(p) if isinstance(p, autoguide.AutoGuide) else p for p in value]
            setattr(own, name, parts)
        elif isinstance(value, dict):
            setattr(own, name, dict(value))
    forget(own)
    return own


def forget(guide: Model) -> None:
    """Let an autoguide set itself up anew, with the next key and data.

    Of an `AutoGuideList` each part is set up anew, too.
    """
    if isinstance(guide, autoguide.AutoGuide):
        guide.prototype_trace = None
    if isinstance(guide, autoguide.AutoGuideList):
        for part in guide:
            forget(part)


def learned_by(sites: Sites, subsamples: tuple[Subsample, ...]) -> tuple[str, ...]:
    """Return the names of the model's own parameters, its `numpyro.param` sites.

    Those with a row for each member of a plate in minibatches are refused: a step would have to
    gather and scatter them inside of the model.
    """
    params = {name: site for name, site in sites.items() if site["type"] == "param"}
    for name, site in params.items():
        if plate_axes(site, subsamples):
            raise InputError(
                f"The model's own `numpyro.param({name!r})` has a row per member of a subsampled "
                f"plate. Make it a latent, or leave the plate whole."
            )
    return tuple(params)


def check_guide(
    problem: Problem, latents: Sites, guide_sites: Sites, subsamples: tuple[Subsample, ...]
) -> None:
    """Refuse a guide that does not cover the latents of the model, each in its shape.

    Auxiliary sites may be extra. Minibatches of the guide have to be those of the model, or the two
    would see different members.
    """
    parts = {part.plate for part in subsamples}
    strange = [part.plate for part in subsamples_of(guide_sites) if part.plate not in parts]
    if strange:
        raise InputError(
            f"`Problem(guide=...)` subsamples {some(strange)}; the model subsamples {some(parts)}. "
            f"Use plates of the same name, so that both see the same members."
        )
    covered = {n: s for n, s in guide_sites.items() if is_latent(s)}
    missing = [name for name in latents if name not in covered]
    if missing:
        raise InputError(
            f"`Problem(guide=...)` does not cover the latent {some(missing)}; it samples "
            f"{some(covered)}. Add a `numpyro.sample` of the same name for each."
        )
    extra = [n for n, s in covered.items() if n not in latents and not is_auxiliary(s)]
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


def is_auxiliary(site: Site) -> bool:
    """Whether a site of a guide is marked as auxiliary, and need not be in the model."""
    return bool(site["infer"].get("is_auxiliary"))


def check_latents(
    guide: Model, sites: Sites, latents: Sites, subsamples: tuple[Subsample, ...]
) -> None:
    """Refuse latents that cannot be fitted: none at all, or discrete ones.

    Refused is also an autoguide with one vector for all latents where some belong to a plate in
    minibatches: each batch would be given the parameters of the first.
    """
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
        local = plates.intersection(site_plates(site))
        if local:
            raise InputError(
                f"`Problem(guide={type(guide).__name__})` gives each member of a minibatch the "
                f"same parameters, so it cannot hold {name!r}, which belongs to the subsampled "
                f"plate {some(local)}. Use `AutoNormal`, a guide of your own, or the whole plate."
            )


def check_same_batches(fitted: tuple[Subsample, ...], trace: ModelTrace) -> None:
    """Refuse batches of another size than in the fit, where members are those of the fit.

    A latent known from the fit is drawn for the members in a batch, so the batches have to be
    alike.
    """
    before = {part.plate: part.batch_size for part in fitted}
    now = {part.plate: part.batch_size for part in trace.subsamples}
    matched = {dim for latent in trace.matched.values() for dim in latent.dims}
    for plate in (*before, *now):
        differ = plate in trace.known_plates and before.get(plate) != now.get(plate)
        # Those told by their labels may be fewer than a batch, not more.
        too_many = (
            plate in matched
            and plate in before
            and now.get(plate, trace.plates.get(plate, 0)) > before[plate]
        )
        if differ or too_many:
            raise InputError(
                f"The plate {plate!r} came {_in_batches(before.get(plate))} in the fit, and comes "
                f"{_in_batches(now.get(plate))} here. Give the model the same `subsample_size`."
            )


def _in_batches(size: int | None) -> str:
    """Return how a plate comes, in words."""
    return "whole" if size is None else f"in minibatches of {size}"
