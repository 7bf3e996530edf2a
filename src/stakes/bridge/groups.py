"""Which member of a plate each outcome depends on, as in `effect[county]`.

Found by marking: members' latents are set to nan, and outcomes whose distribution turns into nan
depend on them, whatever way leads there. Members are marked by the binary digits of their numbers,
where a digit is one and where it is zero, so that a few runs of the model are enough.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch
from stakes.bridge.model_trace import ModelTrace
from stakes.bridge.predictor import Predictor
from stakes.bridge.sites import (
    possible,
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
    subsampled = {part.plate for part in trace.subsamples}
    inner = sorted(trace.plates_with_latents - subsampled - {*trace.instances.dims})
    members = {p: _members(predictor, p, inner) for p in inner if trace.plates[p] >= least}
    return {plate: of for plate, of in members.items() if (of != NO_MEMBER).all()}


def _members(predictor: Predictor, plate: str, inner: Sequence[str]) -> np.ndarray:
    sizes = predictor.trace.plates
    digits = max((sizes[plate] - 1).bit_length(), 1)
    is_set = (np.arange(sizes[plate]) >> np.arange(digits)[:, None]) & 1 == 1
    # Where no member of the other plates is marked, the model is the same for all plates.
    marks = {other: jnp.zeros((2, digits, sizes[other]), bool) for other in inner}
    marks[plate] = jnp.asarray(np.stack([is_set, ~is_set]))

    def question(batch: Batch) -> Array:
        return _marked(predictor.trace, predictor.arrays, batch, marks)

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


@functools.partial(Program, static=("trace",))
def _marked(
    trace: ModelTrace, arrays: dict[str, Array], batch: Batch, marks: dict[str, Array]
) -> Array:
    """Whether each outcome depends on any marked member: for each digit, set and not set."""

    def one(marked: dict[str, Array]) -> Array:
        site = trace.run_marked(arrays, marked, batch)[trace.outcome]
        fn = site["fn"]
        outcome, _ = whole_event(fn) if trace.together else unwrapped(fn)
        unknown = jnp.isnan(outcome.log_prob(possible(outcome)))
        return jnp.broadcast_to(unknown, fn.batch_shape if trace.together else fn.shape())

    return jax.vmap(jax.vmap(one))(marks)
