"""Which member of a plate each outcome depends on, as in `effect[county]`.

Found by marking: members' latents are set to nan, and outcomes whose distribution turns into nan
depend on them, whatever way leads there. Members are marked by the binary digits of their numbers,
where a digit is one and where it is zero, so that a few runs of the model are enough.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers

from stakes._types import Array, Batch
from stakes.bridge.model_trace import ModelTrace
from stakes.bridge.predictor import Predictor
from stakes.bridge.sites import (
    is_latent,
    possible,
    shapes_of,
    site_plates,
    trace_of,
    unwrapped,
    whole_event,
)
from stakes.host.programs import Program
from stakes.port import over_batches

NO_MEMBER = -1


def groups_of(predictor: Predictor, *, least: int = 1) -> dict[str, np.ndarray]:
    """Plate -> for each instance the number of the one member that its outcome depends on.

    Of plates that have latents and at least so many members. Left out are the outcome's own plates,
    those in minibatches, and those of which some outcome depends on no member or on several.
    """
    trace = predictor.trace
    inner = sorted(_plates_with_latents(predictor) - {*trace.instances.dims})
    found = {p: _members(predictor, p) for p in inner if trace.plates[p] >= least}
    return {plate: members for plate, members in found.items() if (members != NO_MEMBER).all()}


def _plates_with_latents(predictor: Predictor) -> set[str]:
    trace = predictor.trace
    data = {**trace.constants, **predictor.arrays}
    sites = shapes_of(trace.model, data, jax.random.key(0)).values()
    plates = {plate for site in sites if is_latent(site) for plate in site_plates(site)}
    return plates - {part.plate for part in trace.subsamples}


def _members(predictor: Predictor, plate: str) -> np.ndarray:
    size = predictor.trace.plates[plate]
    digits = max((size - 1).bit_length(), 1)
    is_set = (np.arange(size) >> np.arange(digits)[:, None]) & 1 == 1
    marks = jnp.asarray(np.stack([is_set, ~is_set]))

    def question(batch: Batch) -> Array:
        return _marked(predictor.trace, predictor.arrays, batch, plate, marks)

    try:
        whole = over_batches(
            question,
            predictor.trace.instances,
            predictor.trace.subsamples,
            leading=(2, digits),
        )
    except Exception:  # whatever a model does with nan; one can always say what belongs together
        return np.full(predictor.trace.instances.shape, NO_MEMBER)
    ones, zeros = whole
    numbers = np.tensordot(1 << np.arange(digits), ones, axes=1)
    return np.where((ones != zeros).all(axis=0), numbers, NO_MEMBER)


@functools.partial(Program, static=("trace", "plate"))
def _marked(
    trace: ModelTrace, arrays: dict[str, Array], batch: Batch, plate: str, marks: Array
) -> Array:
    """Whether each outcome depends on any marked member: for each digit, set and not set."""

    def one(marked: Array) -> Array:
        with Marking(plate, marked), handlers.substitute(data=dict(batch)):
            data = {**trace.constants, **arrays}
            site = trace_of(trace.model, data, jax.random.key(0))[trace.outcome]
        fn = site["fn"]
        outcome, _ = whole_event(fn) if trace.together else unwrapped(fn)
        unknown = jnp.isnan(outcome.log_prob(possible(outcome)))
        return jnp.broadcast_to(unknown, fn.batch_shape if trace.together else fn.shape())

    return jax.vmap(jax.vmap(one))(marks)


class Marking(numpyro.primitives.Messenger):  # type: ignore[misc]
    """A possible value for all that the model would draw, and nan for the marked members of a plate
    and for all whose own distribution depends on them."""

    def __init__(self, plate: str, marked: Array) -> None:
        self.plate, self.marked = plate, marked
        super().__init__()

    def process_message(self, msg: Any) -> None:
        if msg["type"] != "sample" or msg["value"] is not None:
            return
        fn = msg["fn"]
        value = possible(fn)
        nan = jnp.isnan(fn.log_prob(value))
        for frame in msg["cond_indep_stack"]:
            if frame.name == self.plate:
                nan = nan | self.marked.reshape((-1,) + (1,) * (-frame.dim - 1))
        nan = nan.reshape(nan.shape + (1,) * fn.event_dim)
        msg["value"] = jnp.where(nan, jnp.nan, value)
