"""Where a fit starts: guide and model run once, as one compiled program.

Run as they are, they would be some hundred programs, one for each operation.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import biject_to, constraints
from numpyro.infer import autoguide

from stakes._types import Array, Key, Model, Params
from stakes.bridge.checks import forget
from stakes.bridge.model_trace import ModelTrace
from stakes.bridge.sites import (
    Site,
    Sites,
    is_latent,
    log_prob_of,
    ordered_sum,
    samples_of,
    shapes_of,
    split_data,
    trace_of,
)
from stakes.host import compiling, programs

KEPT = ("name", "type", "is_observed", "infer", "cond_indep_stack", "args")
"""What an `AutoNormal` needs to know of a site, beside shape and support."""


class Setup(NamedTuple):
    """Guide and model, set up for their data."""

    start: Params
    """Where the parameters start, unconstrained."""
    transforms: dict[str, Any]
    """For each parameter, from unconstrained values to those that the program takes."""
    parameters: Sites
    """The `numpyro.param` sites, without their values."""
    guide_sites: Sites
    """The sites of the guide, run abstractly."""


def set_up(trace: ModelTrace, guide: Model, data: Mapping[str, Any], key: Key) -> Setup:
    """Find where the parameters start. An autoguide is set up, and keeps no data where it can.

    Other autoguides than `AutoNormal` are run as they are: those that put all latents into a vector
    would have them in another order in a compiled program, in which mappings are sorted.
    """
    if type(guide) is autoguide.AutoNormal or not isinstance(guide, autoguide.AutoGuide):
        try:
            ready = _compiled(trace, guide, data, key)
        except Exception:  # whatever it does that needs values; as it is, it says what is wrong
            ready = None
        if ready is not None:
            return ready
        forget(guide)
    parameters = _parameters(trace, guide, data, key)
    start = {name: _free(site) for name, site in parameters.items()}
    transforms = {name: _transform(site) for name, site in parameters.items()}
    return Setup(start, transforms, parameters, shapes_of(guide, data, key))


def _parameters(trace: ModelTrace, guide: Model, data: Mapping[str, Any], key: Key) -> Sites:
    guide_sites, model_sites = trace_of(guide, data, key), {}
    if trace.learned:
        model_sites = trace_of(handlers.replay(trace.model, guide_sites), data, key)
    both = {**model_sites, **guide_sites}
    return {name: site for name, site in both.items() if site["type"] == "param"}


def _transform(parameter: Site) -> Any:
    return biject_to(parameter["kwargs"].get("constraint", constraints.real))


def _free(parameter: Site) -> Any:
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf, jnp.result_type(float)),
        _transform(parameter).inv(parameter["value"]),
    )


def _compiled(trace: ModelTrace, guide: Model, data: Mapping[str, Any], key: Key) -> Setup | None:
    """None where the model has no finite density where the guide starts."""
    arrays, fixed = split_data(data)
    traced: dict[str, Any] = {}
    parameters: Sites = {}

    def run(arrays: dict[str, Array], key: Key) -> tuple[Any, Array]:
        parameters.update(_parameters(trace, guide, {**fixed, **arrays}, key))
        traced["start"] = {name: _free(site) for name, site in parameters.items()}
        traced["transforms"] = {name: _transform(site) for name, site in parameters.items()}
        if isinstance(guide, autoguide.AutoGuide):
            traced["guide"] = _state(guide)
        return _arrays_in(traced), _density(trace, guide, parameters, arrays, key)

    found, density = programs.Program(run, options=compiling.ONCE)(arrays, key)
    if not np.isfinite(density):
        return None
    values = _restored(traced, found)
    if isinstance(guide, autoguide.AutoGuide):
        vars(guide).update(values["guide"])
    start, transforms = values["start"], values["transforms"]
    guide_sites: Sites = {}

    def again(arrays: dict[str, Array], start: Params) -> None:
        given = {name: transforms[name](value) for name, value in start.items()}
        with handlers.substitute(data=given):
            guide_sites.update(trace_of(guide, {**fixed, **arrays}, key))

    jax.eval_shape(again, arrays, start)
    return Setup(start, transforms, parameters, guide_sites)


def _density(
    trace: ModelTrace, guide: Any, parameters: Sites, arrays: dict[str, Array], key: Key
) -> Array:
    """Of the model where an `AutoNormal` starts; zero where that is not known."""
    if type(guide) is not autoguide.AutoNormal or trace.subsamples:
        return jnp.zeros(())
    values = {
        name: biject_to(site["fn"].support)(parameters[f"{name}_{guide.prefix}_loc"]["value"])
        for name, site in guide.prototype_trace.items()
        if is_latent(site)
    }
    learned = {name: parameters[name]["value"] for name in trace.learned}
    sites = trace.run(arrays, values | learned, key, {})
    return ordered_sum(log_prob_of(site) for site in samples_of(sites))


def _state(guide: Any) -> dict[str, Any]:
    """What an autoguide has found out about the model, without data and functions of them."""
    unused = dict.fromkeys(("_potential_fn", "_potential_fn_gen", "_postprocess_fn"))
    sites = {name: _known(site) for name, site in guide.prototype_trace.items()}
    return {**vars(guide), **unused, "prototype_trace": sites}


def _known(site: Site) -> Site:
    known = {name: site[name] for name in KEPT if name in site}
    if site["type"] != "sample" or site["is_observed"]:
        return {**known, "args": site["args"] if site["type"] == "plate" else ()}
    fn = SimpleNamespace(support=site["fn"].support, event_dim=site["fn"].event_dim)
    return {**known, "args": (), "fn": fn}


def _arrays_in(value: Any) -> list[Array]:
    """Those that are traced, wherever they are; one that is in several places, once."""
    leaves = (leaf for part in _parts(value) for leaf in jax.tree.leaves(part))
    return list({id(leaf): leaf for leaf in leaves if _is_traced(leaf)}.values())


def _restored(value: Any, found: list[Array]) -> Any:
    """The same with values in place of traced arrays, in the order of `_arrays_in`."""
    arrays = dict(zip(map(id, _arrays_in(value)), found, strict=True))

    def of(part: Any) -> Any:
        leaves, tree = jax.tree.flatten(part)
        if not any(map(_is_traced, leaves)):
            return part  # as it is: some supports are told by their identity
        return jax.tree.unflatten(
            tree, [arrays[id(leaf)] if _is_traced(leaf) else leaf for leaf in leaves]
        )

    return _mapped(of, value)


def _parts(value: Any) -> list[Any]:
    parts: list[Any] = []
    _mapped(parts.append, value)
    return parts


def _mapped(function: Any, value: Any) -> Any:
    """Of all that is in mappings and namespaces, one after the other."""
    if type(value) is dict:
        return {name: _mapped(function, each) for name, each in value.items()}
    if type(value) is SimpleNamespace:
        return SimpleNamespace(**_mapped(function, vars(value)))
    return function(value)


def _is_traced(leaf: Any) -> bool:
    return isinstance(leaf, jax.core.Tracer)
