"""Members of plates that no outcome says anything about, because a fit may not see their rows."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch, Key, Params
from stakes.bridge.approximation import NumPyroApproximation
from stakes.bridge.sites import counting
from stakes.host.compiling import ONCE
from stakes.host.programs import Program
from stakes.port import Instances, Rows, params_in, sweep

DRAWS = 4
"""Of the latents: a slope that vanishes at one of them may be an accident."""


def seen_members(approximation: NumPyroApproximation, key: Key) -> dict[str, np.ndarray]:
    """Plate -> the number of each member, -1 where the outcomes that count leave it out.

    Plates all of whose members are seen are not there.

    A member is left out where the density of the outcomes that count, and of the latents of members
    that are not left out, does not depend on its latents; but that of all outcomes does.
    """
    if approximation.counted is None:
        return {}
    everyone = jnp.ones(approximation.instances.shape, bool)
    here, all_told = (
        _seen(each, key) for each in (approximation, approximation.counting(everyone))
    )
    found = {plate: all_told[plate] & ~here[plate] for plate in here}
    return {
        plate: np.where(lost, -1, np.arange(len(lost)))
        for plate, lost in found.items()
        if lost.any()
    }


def lost_parameters(approximation: NumPyroApproximation, key: Key) -> list[str]:
    """Parameters that the model learns and of which the outcomes that count leave some untold.

    They have no distribution, so that nothing is known of what is left untold.
    """
    if approximation.counted is None or not approximation.trace.learned:
        return []
    everyone = jnp.ones(approximation.instances.shape, bool)
    here, all_told = (
        _parameters_told(each, key) for each in (approximation, approximation.counting(everyone))
    )
    return sorted(name for name in here if (all_told[name] & ~here[name]).any())


def _parameters_told(approximation: NumPyroApproximation, key: Key) -> dict[str, np.ndarray]:
    """For each parameter of the model, of which elements the outcomes say something."""
    told: dict[str, np.ndarray] = {}
    seen = {plate: np.ones(size, bool) for plate, size in approximation.trace.plates.items()}
    for batch in sweep(approximation.trace.subsamples):
        felt = _told(approximation, approximation.start, seen, key, batch, False)
        told = {name: told.get(name, False) | np.asarray(each) for name, each in felt.items()}
    return told


def _seen(approximation: NumPyroApproximation, key: Key) -> dict[str, np.ndarray]:
    """Members that the outcomes say something about, directly or through those of other plates."""
    trace = approximation.trace
    plates = {dim for latent in trace.latents.values() for dim in latent.dims} & set(trace.plates)
    seen = {plate: np.zeros(trace.plates[plate], bool) for plate in sorted(plates)}
    while True:
        before = {plate: members.copy() for plate, members in seen.items()}
        for batch in sweep(trace.subsamples):
            told = _told(approximation, approximation.start, before, key, batch, True)
            for name, slopes in told.items():
                _mark(seen, trace.latents[name], np.asarray(slopes), batch)
        if all(np.array_equal(seen[plate], before[plate]) for plate in seen):
            return seen


def _mark(seen: dict[str, np.ndarray], latent: Instances, felt: np.ndarray, batch: Batch) -> None:
    """Note whose elements of a latent were felt."""
    for axis, dim in enumerate(latent.dims):
        if dim in seen:
            others = tuple(other for other in range(felt.ndim) if other != axis)
            members = batch.get(dim, np.arange(felt.shape[axis]))
            np.logical_or.at(seen[dim], members, felt.any(axis=others))


@partial(Program, static=("of_latents",), options=ONCE)
def _told(
    approximation: NumPyroApproximation,
    start: Params,
    seen: Mapping[str, Any],
    key: Key,
    batch: Batch,
    of_latents: bool,
) -> dict[str, Array]:
    """For each latent, or parameter, at which elements the density of what is known has a slope."""
    params = params_in(approximation, start, batch)

    def slopes(key: Key) -> dict[str, Array]:
        drawn = approximation.draw_latents(params, key, batch)
        latents = {name: drawn.pop(name) for name in approximation.latents}
        slope = jax.grad(_log_density, argnums=0 if of_latents else 1)
        found = slope(latents, drawn, approximation, seen, key, batch)
        return {name: slope != 0 for name, slope in found.items()}

    each = jax.vmap(slopes)(jax.random.split(key, DRAWS))
    return {name: felt.any(axis=0) for name, felt in each.items()}


def _log_density(
    latents: dict[str, Array],
    learned: dict[str, Array],
    approximation: NumPyroApproximation,
    seen: Mapping[str, Any],
    key: Key,
    batch: Batch,
) -> Array:
    """Of the outcomes that count and of the latents of members seen so far."""
    trace = approximation.trace
    sites = trace.run(approximation.arrays, {**latents, **learned}, key, batch)
    outcome = sites[trace.outcome]
    sites[trace.outcome] = counting(outcome, approximation.counted_in(batch))
    total = jnp.zeros(())
    for name, site in sites.items():
        if site["type"] == "sample":
            density = site["fn"].log_prob(site["value"])
            if name in latents:
                known = _known(trace.latents[name], seen, batch, density.ndim)
                density = jnp.where(known, density, 0.0)
            total += density.sum()
    return total


def _known(latent: Instances, seen: Mapping[str, Any], batch: Batch, axes: int) -> Array:
    """Which elements of a latent belong to members seen so far, in the shape of its density."""
    known = jnp.array(True)
    for axis, dim in enumerate(latent.dims[:axes]):
        if dim in seen:
            members = Rows({dim: 0}, batch).gather(seen[dim])
            known = known & members.reshape((-1,) + (1,) * (axes - 1 - axis))
    return known
