"""The members of plates that the outcomes depend on.

**Marking** finds the member that each outcome depends on, as in `effect[county]`. The latents of
some members are set to nan; outcomes whose distribution becomes nan depend on them, by whatever
path. Members are marked by the binary digits of their numbers, once where a digit is one and once
where it is zero, so that a few runs of the model are enough.

**Gradients** find the members that the outcomes seen by a fit are informative about. Let A be a set
of members, and p_A the density of these outcomes and of the latents of A. A member is informed
about by A where p_A has a slope in its latents. A starts empty, and takes in all members that it
informs about until it grows no more. The posterior of members outside A is the prior, or the
guide's starting point. Where this holds with all outcomes, too, it is a property of the model and
nothing is lost.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Batch, Key, Params
from stakes.bridge.approximation import NumPyroApproximation
from stakes.bridge.model_trace import ModelTrace
from stakes.bridge.predictor import Predictor
from stakes.bridge.sites import counting, possible, unwrapped, whole_event
from stakes.host.compiling import ONCE
from stakes.host.programs import Program
from stakes.port import Instances, RowIndex, over_batches, params_in, sweep

# In place of the number of a member, where there is none.
NO_MEMBER = -1
# Draws of the latents: a slope that vanishes at one of them may be an accident.
DRAWS = 4


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
    """Return the number of the one member of a plate that each outcome depends on.

    An outcome that turns into nan where a digit is one, and not where it is zero, depends on
    members with that digit set. With both it depends on several members, with neither on none: -1
    then.
    """
    trace, sizes = predictor.trace, predictor.trace.plates
    digits = max((sizes[plate] - 1).bit_length(), 1)
    is_set = (np.arange(sizes[plate]) >> np.arange(digits)[:, None]) & 1 == 1
    # No member of the other plates is marked. They are there so that the model is traced once.
    marks = {other: jnp.zeros((2, digits, sizes[other]), bool) for other in inner}
    marks[plate] = jnp.asarray(np.stack([is_set, ~is_set]))

    def question(batch: Batch) -> Array:
        return _marked(trace, predictor.arrays, batch, marks)

    try:
        ones, zeros = over_batches(question, trace.instances, trace.subsamples, leading=(2, digits))
    except Exception:  # whatever a model does with nan; one can always say what belongs together
        return np.full(trace.instances.shape, NO_MEMBER)
    numbers = np.tensordot(1 << np.arange(digits), ones, axes=1)
    return np.where((ones != zeros).all(axis=0), numbers, NO_MEMBER)


@partial(Program, static=("trace",))
def _marked(
    trace: ModelTrace, arrays: dict[str, Array], batch: Batch, marks: dict[str, Array]
) -> Array:
    """Whether each outcome depends on any marked member: for each digit, set and not set."""

    def one(marked: dict[str, Array]) -> Array:
        sites = trace.run(arrays, {}, jax.random.key(0), batch, marked=marked)
        fn = sites[trace.outcome]["fn"]
        outcome, _ = whole_event(fn) if trace.together else unwrapped(fn)
        unknown = jnp.isnan(outcome.log_prob(possible(outcome)))
        return jnp.broadcast_to(unknown, fn.batch_shape if trace.together else fn.shape())

    return jax.vmap(jax.vmap(one))(marks)


def seen_members(approximation: NumPyroApproximation, key: Key) -> dict[str, np.ndarray]:
    """Plate -> the number of each member, -1 where the outcomes that count do not inform about it.

    Plates all of whose members are informed about are not there.
    """
    if approximation.counted is None:
        return {}
    some, all_ = (_informed(seeing, key) for seeing in (approximation, _seeing_all(approximation)))
    lost = {plate: all_[plate] & ~some[plate] for plate in some}
    return {
        plate: np.where(members, NO_MEMBER, np.arange(len(members)))
        for plate, members in lost.items()
        if members.any()
    }


def lost_parameters(approximation: NumPyroApproximation, key: Key) -> list[str]:
    """Parameters that the model learns, with elements that the outcomes that count do not inform.

    They have no distribution, so that nothing is known of such elements.
    """
    if approximation.counted is None or not approximation.trace.learned:
        return []
    some, all_ = (
        _informed_parameters(seeing, key) for seeing in (approximation, _seeing_all(approximation))
    )
    return sorted(name for name in some if (all_[name] & ~some[name]).any())


def _seeing_all(approximation: NumPyroApproximation) -> NumPyroApproximation:
    """Return the approximation with every outcome counted."""
    return approximation.counting(jnp.ones(approximation.instances.shape, bool))


def _informed_parameters(approximation: NumPyroApproximation, key: Key) -> dict[str, np.ndarray]:
    """Return, for each parameter of the model, the elements that outcomes inform about."""
    informed: dict[str, np.ndarray] = {}
    everyone = {plate: np.ones(size, bool) for plate, size in approximation.trace.plates.items()}
    for batch in sweep(approximation.trace.subsamples):
        _, active = _active(approximation, approximation.start, everyone, key, batch)
        informed = {n: informed.get(n, False) | np.asarray(slope) for n, slope in active.items()}
    return informed


def _informed(approximation: NumPyroApproximation, key: Key) -> dict[str, np.ndarray]:
    """Return, for each plate, the members that outcomes inform about, directly or indirectly."""
    trace = approximation.trace
    plates = {dim for latent in trace.latents.values() for dim in latent.dims} & set(trace.plates)
    informed = {plate: np.zeros(trace.plates[plate], bool) for plate in sorted(plates)}
    while True:
        before = {plate: members.copy() for plate, members in informed.items()}
        for batch in sweep(trace.subsamples):
            active, _ = _active(approximation, approximation.start, before, key, batch)
            for name, slopes in active.items():
                _mark(informed, trace.latents[name], np.asarray(slopes), batch)
        if all(np.array_equal(informed[plate], before[plate]) for plate in informed):
            return informed


def _mark(
    informed: dict[str, np.ndarray], latent: Instances, active: np.ndarray, batch: Batch
) -> None:
    """Note the members to which active elements of a latent belong."""
    for axis, dim in enumerate(latent.dims):
        if dim in informed:
            others = tuple(other for other in range(active.ndim) if other != axis)
            members = batch.get(dim, np.arange(active.shape[axis]))
            np.logical_or.at(informed[dim], members, active.any(axis=others))


@partial(Program, options=ONCE)
def _active(
    approximation: NumPyroApproximation,
    start: Params,
    informed: Mapping[str, np.ndarray],
    key: Key,
    batch: Batch,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return in which elements of latents, and of the model's parameters, the density has a slope.

    At some draws of the guide: an element is active where the slope differs from zero at any of
    them.
    """
    params = params_in(approximation, start, batch)

    def slopes(key: Key) -> tuple[dict[str, Array], dict[str, Array]]:
        learned = approximation.draw_latents(params, key, batch)
        latents = {name: learned.pop(name) for name in approximation.latents}
        slope = jax.grad(_log_density, argnums=(0, 1))
        found = slope(latents, learned, approximation, informed, key, batch)
        both: tuple[dict[str, Array], dict[str, Array]] = jax.tree.map(lambda x: x != 0, found)
        return both

    each = jax.vmap(slopes)(jax.random.split(key, DRAWS))
    any_draw: tuple[dict[str, Array], dict[str, Array]] = jax.tree.map(
        lambda active: active.any(axis=0), each
    )
    return any_draw


def _log_density(
    latents: dict[str, Array],
    learned: dict[str, Array],
    approximation: NumPyroApproximation,
    informed: Mapping[str, np.ndarray],
    key: Key,
    batch: Batch,
) -> Array:
    """Return log p_A: of the outcomes that count, and of the latents of members informed about so
    far.

    Densities of all other latents are left out, so that their slopes do not spread.
    """
    trace = approximation.trace
    sites = trace.run(approximation.arrays, {**latents, **learned}, key, batch)
    outcome = sites[trace.outcome]
    sites[trace.outcome] = counting(outcome, approximation.counted_in(batch))
    total = jnp.zeros(())
    for name, site in sites.items():
        if site["type"] == "sample":
            density = site["fn"].log_prob(site["value"])
            if name in latents:
                belongs = _belongs(trace.latents[name], informed, batch, density.ndim)
                density = jnp.where(belongs, density, 0.0)
            total += density.sum()
    return total


def _belongs(
    latent: Instances, informed: Mapping[str, np.ndarray], batch: Batch, axes: int
) -> Array:
    """Which elements of a latent are those of members informed about, in its density's shape."""
    belongs = jnp.array(True)
    for axis, dim in enumerate(latent.dims[:axes]):
        if dim in informed:
            members = RowIndex({dim: 0}, batch).gather(jnp.asarray(informed[dim]))
            belongs = belongs & members.reshape((-1,) + (1,) * (axes - 1 - axis))
    return belongs
