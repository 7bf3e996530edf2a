"""Where a fit starts: guide and model run once, as one compiled program.

Run as they are, they would be some hundred programs, one for each operation, and setting up would
take longer than the fit of a small model. An `AutoNormal` keeps what it has found out about the
model, in its own attributes; here these come out of the compiled program, without data and without
functions of them.
"""

from collections import OrderedDict
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import biject_to, constraints
from numpyro.infer import autoguide

from stakes._types import Array, Data, Key, Model, Params
from stakes.bridge.compatibility import forget
from stakes.bridge.model_trace import ModelTrace
from stakes.bridge.returned import Returned
from stakes.bridge.sites import (
    Site,
    Sites,
    is_latent,
    log_prob_of,
    ordered_sum,
    samples_of,
    split_data,
    trace_of,
)
from stakes.host import compiling, programs

# What an `AutoNormal` needs to know of a site, beside shape and support.
KEPT = ("name", "type", "is_observed", "infer", "cond_indep_stack", "args")


class GuideSetup(NamedTuple):
    """Guide and model, set up for their data.

    Attributes:
        start: where the parameters start, unconstrained.
        transforms: for each parameter, from unconstrained values to those that the program takes.
        parameters: the `numpyro.param` sites of both; their values are there for their shapes
            alone.
        guide_sites: all sites of the guide, likewise.
    """

    start: Params
    transforms: dict[str, Any]
    parameters: Sites
    guide_sites: Sites


def set_up(trace: ModelTrace, guide: Model, data: Data, key: Key) -> GuideSetup:
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
    guide_sites, parameters = _sites(trace, guide, data, key)
    start = {name: _free(site) for name, site in parameters.items()}
    transforms = {name: _transform(site) for name, site in parameters.items()}
    return GuideSetup(start, transforms, parameters, guide_sites)


def _sites(trace: ModelTrace, guide: Model, data: Data, key: Key) -> tuple[Sites, Sites]:
    """Run guide and model, and return the sites of the guide and the parameters of both."""
    guide_sites, model_sites = trace_of(guide, data, key), {}
    if trace.learned:
        model_sites = trace_of(handlers.replay(trace.model, guide_sites), data, key)
    both = {**model_sites, **guide_sites}
    return guide_sites, {name: site for name, site in both.items() if site["type"] == "param"}


def _transform(parameter: Site) -> Any:
    """Return the map from unconstrained values to those that a parameter may have."""
    return biject_to(parameter["kwargs"].get("constraint", constraints.real))


def _free(parameter: Site) -> Any:
    """Return the unconstrained value of a parameter."""
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf, jnp.result_type(float)),
        _transform(parameter).inv(parameter["value"]),
    )


def _compiled(trace: ModelTrace, guide: Model, data: Data, key: Key) -> GuideSetup | None:
    """Set up guide and model in one compiled program.

    Return None where the model has no finite density where the guide starts: NumPyro then looks for
    another start itself.
    """
    arrays, fixed = split_data(data)
    traced: list[tuple[Sites, Sites]] = []

    def run(arrays: dict[str, Array], key: Key) -> tuple[Returned, Array]:
        traced.append(_sites(trace, guide, {**fixed, **arrays}, key))
        parameters = traced[-1][1]
        ready = [(name, _free(site), _transform(site)) for name, site in parameters.items()]
        state = _state(guide) if isinstance(guide, autoguide.AutoGuide) else {}
        return Returned.of((ready, state)), _density(trace, guide, parameters, arrays, key)

    returned, density = programs.Program(run, options=compiling.ONCE)(arrays, key)
    if not np.isfinite(density):
        return None
    ready, state = returned.value
    if state:
        vars(guide).update(state)
    guide_sites, parameters = traced[-1]
    return GuideSetup(
        start={name: start for name, start, _ in ready},
        transforms={name: transform for name, _, transform in ready},
        parameters=parameters,
        guide_sites=guide_sites,
    )


def _density(
    trace: ModelTrace, guide: Any, parameters: Sites, arrays: dict[str, Array], key: Key
) -> Array:
    """Return the log density of the model where an `AutoNormal` starts.

    Zero where that is not known: for other guides, and for minibatches.
    """
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


def _state(guide: autoguide.AutoGuide) -> dict[str, Any]:
    """What an autoguide has found out about the model, without data and functions of them."""
    unused = dict.fromkeys(("_potential_fn", "_potential_fn_gen", "_postprocess_fn"))
    sites = OrderedDict((name, _known(site)) for name, site in guide.prototype_trace.items())
    return {**vars(guide), **unused, "prototype_trace": sites}


class Latent(NamedTuple):
    """What an `AutoNormal` needs to know of a distribution."""

    support: Any
    event_dim: int


def _known(site: Site) -> Site:
    known = {name: site[name] for name in KEPT if name in site}
    if site["type"] != "sample" or site["is_observed"]:
        return {**known, "args": site["args"] if site["type"] == "plate" else ()}
    return {**known, "args": (), "fn": Latent(site["fn"].support, site["fn"].event_dim)}
