"""What a traced NumPyro program contains: its sites, plates, parameters and densities.

Handlers here change what a program does at a site: take parameters or noise as given, count some
outcomes only, set marked members to nan. Functions read sites: their densities, shapes and dims.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions.discrete import ZeroInflatedProbs
from numpyro.distributions.util import lazy_property

from stakes import expectation as expectations
from stakes._types import Array, Bool, Data, Distribution, Key, Model, Params
from stakes.port import Instances, Subsample

Site = dict[str, Any]
Sites = dict[str, Site]


def layers_of(outcome: Distribution) -> Iterator[Distribution]:
    """A distribution, and what it wraps: masks, expansions and event dims, to its own."""
    while isinstance(
        outcome, dist.MaskedDistribution | dist.ExpandedDistribution | dist.Independent
    ):
        yield outcome
        outcome = outcome.base_dist
    yield outcome


def base_of(outcome: Distribution) -> Distribution:
    """The outcome's own distribution, whatever wraps it; safe where values are abstract."""
    return [*layers_of(outcome)][-1]


def is_masked(outcome: Distribution) -> bool:
    """Whether some values of a distribution do not count."""
    return any(isinstance(layer, dist.MaskedDistribution) for layer in layers_of(outcome))


def unwrapped(outcome: Distribution) -> tuple[Distribution, Array]:
    """The outcome's own distribution without expansion, event dims and mask; and the mask."""
    mask: Any = True
    for layer in layers_of(outcome):
        if isinstance(layer, dist.MaskedDistribution):
            mask = mask & jnp.asarray(layer._mask)
        elif isinstance(layer, dist.Independent):
            mask = jnp.asarray(mask)
            mask = mask.reshape(mask.shape + (1,) * layer.reinterpreted_batch_ndims)
    return base_of(outcome), jnp.asarray(mask)


def whole_event(outcome: Distribution) -> tuple[Distribution, Array]:
    """The distribution of a vector, without expansion and mask; and the mask."""
    mask: Any = True
    while isinstance(outcome, dist.MaskedDistribution | dist.ExpandedDistribution):
        if isinstance(outcome, dist.MaskedDistribution):
            mask = mask & jnp.asarray(outcome._mask)
        outcome = outcome.base_dist
    return outcome, jnp.asarray(mask)


class GivenParams(numpyro.primitives.Messenger):  # type: ignore[misc]
    """Set every `numpyro.param`; those of a subsampled plate are given as the rows in the batch.

    NumPyro would gather those rows itself from the full parameter, and the cost of differentiating
    that gather grows with all rows. Renaming the message's type keeps it from doing so.
    """

    def __init__(self, values: Params, plates: Mapping[str, dict[str, int]]) -> None:
        self.values, self.plates = values, plates
        super().__init__()

    def process_message(self, msg: Site) -> None:
        if msg["type"] == "param" and msg["name"] in self.values:
            msg["value"] = self.values[msg["name"]]
            if self.plates.get(msg["name"]):
                msg["type"] = "param of the batch"


class GivenNoise(numpyro.primitives.Messenger):  # type: ignore[misc]
    """Draw normals, and what is transformed from them, at given noise: site -> standard normal."""

    def __init__(self, noise: Mapping[str, Array]) -> None:
        self.noise = noise
        super().__init__()

    def process_message(self, msg: Site) -> None:
        if msg["type"] == "sample" and msg["name"] in self.noise:
            fn = base_of(msg["fn"])
            transforms = fn.transforms if isinstance(fn, dist.TransformedDistribution) else []
            normal = base_of(fn.base_dist) if transforms else fn
            msg["value"] = normal.loc + normal.scale * self.noise[msg["name"]]
            for transform in transforms:
                before = msg["value"]
                msg["value"], kept = transform.call_with_intermediates(before)
                msg["intermediates"].append([before, kept])


class GivenRows(numpyro.primitives.Messenger):  # type: ignore[misc]
    """Set some rows of what the model draws: name -> values, and which of them to take."""

    def __init__(self, rows: Mapping[str, tuple[Array, Array]]) -> None:
        self.rows = rows
        super().__init__()

    def postprocess_message(self, msg: Site) -> None:
        if msg["type"] == "sample" and msg["name"] in self.rows:
            values, known = self.rows[msg["name"]]
            msg["value"] = jnp.where(known, values, msg["value"])


class Times(numpyro.primitives.Messenger):  # type: ignore[misc]
    """Let members of a plate count so many times: they stand for more than are there."""

    def __init__(self, plate: str, times: Array | None) -> None:
        self.plate, self.times = plate, times
        super().__init__()

    def process_message(self, msg: Site) -> None:
        if self.times is None or msg["type"] != "sample" or self.plate not in site_plates(msg):
            return
        times = self.times
        if times.ndim:  # one number for each member
            [dim] = [frame.dim for frame in msg["cond_indep_stack"] if frame.name == self.plate]
            times = times.reshape((-1,) + (1,) * (-dim - 1))
        msg["scale"] = times if msg["scale"] is None else msg["scale"] * times


class Counting(numpyro.primitives.Messenger):  # type: ignore[misc]
    """Let only some instances of the outcome count; the others carry no weight.

    It has to be the outermost handler, so that it meets the outcome with all its plates.
    """

    def __init__(self, outcome: str, counted: Bool[Array, "*instance"] | None) -> None:
        self.outcome, self.counted = outcome, counted
        super().__init__()

    def process_message(self, msg: Site) -> None:
        if self.counted is not None and msg["type"] == "sample" and msg["name"] == self.outcome:
            msg.update(counting(msg, self.counted))


class Marking(numpyro.primitives.Messenger):  # type: ignore[misc]
    """A possible value for all that the model would draw, and nan for the marked members of plates
    and for all whose own distribution depends on them."""

    def __init__(self, marked: Mapping[str, Bool[Array, " member"]]) -> None:
        self.marked = marked
        super().__init__()

    def process_message(self, msg: Site) -> None:
        if msg["type"] != "sample" or msg["value"] is not None:
            return
        fn = msg["fn"]
        value = possible(fn)
        nan = jnp.isnan(fn.log_prob(value))
        for frame in msg["cond_indep_stack"]:
            if frame.name in self.marked:
                nan = nan | self.marked[frame.name].reshape((-1,) + (1,) * (-frame.dim - 1))
        nan = nan.reshape(nan.shape + (1,) * fn.event_dim)
        msg["value"] = jnp.where(nan, jnp.nan, value)


def counting(site: Site, counted: Bool[Array, "*instance"] | None) -> Site:
    """Return the outcome's site with weight for these cases only; as it is for None."""
    if counted is None:
        return site
    outcome, mask = unwrapped(site["fn"])
    fn = outcome.expand(site["fn"].shape()).mask(mask & counted)
    return {**site, "fn": fn, "scale": None if site["scale"] is None else _scale_of(site)}


def trace_of(program: Model, data: Data, key: Key) -> Sites:
    """Run a program on these data with this key, and return its sites."""
    return dict(handlers.trace(handlers.seed(program, key)).get_trace(**data))


def shapes_of(program: Model, data: Data, key: Key) -> Sites:
    """The sites of a program run abstractly: their types, shapes and plates, but no values."""
    arrays, constants = split_data(data)
    sites: Sites = {}

    def run(arrays: dict[str, Array]) -> None:
        sites.update(trace_of(program, {**constants, **arrays}, key))

    jax.eval_shape(run, arrays)
    return sites


def samples_of(sites: Sites) -> list[Site]:
    """Return the sample sites, in the order of the program."""
    return [site for site in sites.values() if site["type"] == "sample"]


def is_latent(site: Site) -> bool:
    """Whether a site is drawn, and not observed."""
    return site["type"] == "sample" and not site["is_observed"]


def ordered_sum(terms: Iterable[Array]) -> Array:
    """Sum terms in the order of the trace.

    NumPyro's own ELBO sums over a set, and so varies with the seed of Python's hash.
    """
    return functools.reduce(jnp.add, terms, jnp.zeros(()))


def scaled(site: Site, log_prob: Array) -> Array:
    """Return the sum of log densities, on the scale that minibatches give a site."""
    return jnp.sum(log_prob if site["scale"] is None else site["scale"] * log_prob)


def log_prob_of(site: Site) -> Array:
    """Return log p of a site, summed over its members.

    Counts with a negative binomial distribution have a formula of our own: see `stats.log_mass`.
    """
    kept = site["intermediates"]
    fn, value = site["fn"], site["value"]
    outcome, mask = unwrapped(fn)
    if _is_negative_binomial(outcome):
        each = _log_mass(outcome, mask, value) * _scale_of(site)
        # Without plates, there may be more observations than the distribution has axes for.
        return jnp.sum(jnp.broadcast_to(each, jnp.broadcast_shapes(each.shape, fn.shape())))
    return scaled(site, fn.log_prob(value, kept) if kept else fn.log_prob(value))


def log_q_of(site: Site) -> Array:
    """log q of one guide site, or its expectation where the site is Gaussian.

    At a reparameterised draw, log q of a Gaussian is minus its entropy plus noise that does not
    depend on λ: the gradients are the same, and the noise is gone.
    """
    fn = site["fn"]
    base = base_of(fn)
    if isinstance(base, dist.Normal) and not site["is_observed"] and not is_masked(fn):
        entropy = jnp.broadcast_to(base.entropy(), fn.shape())
        return scaled(site, -entropy.sum(axis=tuple(range(-fn.event_dim, 0))))
    return log_prob_of(site)


def prediction_of(
    site: Site, *, latent: bool = False, together: bool = False
) -> tuple[Distribution, Array]:
    """p(y_i|θ) for the instances in a batch, and how much each counts.

    A latent, or what follows from latents, is known for each θ.
    """
    if together:
        outcome, mask = whole_event(site["fn"])
        scale = 1.0 if site["scale"] is None else site["scale"]
        weight = jnp.broadcast_to(mask * scale, site["fn"].batch_shape)
        return outcome, weight.astype(jnp.result_type(float))
    if latent:
        value = jnp.asarray(site["value"], jnp.result_type(float))
        scale = _scale_of(site) if site["type"] == "sample" else 1.0
        return dist.Delta(value), jnp.broadcast_to(scale, value.shape).astype(value.dtype)
    outcome, mask = unwrapped(site["fn"])
    weight = jnp.broadcast_to(mask * _scale_of(site), site["fn"].shape())
    return outcome, weight.astype(jnp.result_type(float))


def log_likelihood_of(site: Site) -> Array:
    """Return what each case of the outcome site adds to log p; zero for masked ones."""
    outcome, mask = unwrapped(site["fn"])
    if _is_negative_binomial(outcome):
        each = _log_mass(outcome, mask, site["value"])
    else:
        each = jnp.where(mask, outcome.log_prob(site["value"]), 0.0)
    return jnp.broadcast_to(each * _scale_of(site), site["fn"].shape())


def _is_negative_binomial(outcome: Distribution) -> bool:
    """Also zero-inflated. NumPyro's formula takes three times as long as that of `stats`, and loses
    digits where counts are large."""
    if type(outcome).log_prob is ZeroInflatedProbs.log_prob:
        outcome = unwrapped(outcome.base_dist)[0]
    return type(outcome).log_prob is dist.GammaPoisson.log_prob


def _log_mass(outcome: Distribution, mask: Array, value: Array) -> Array:
    """Zero where the mask is; a zero stands in for what is no count, which may be nan."""
    is_count = outcome.support(value)
    counts = jnp.where(mask & is_count, value, 0)
    log_mass = jnp.where(is_count, expectations.stats.log_mass(outcome, counts), -jnp.inf)
    return jnp.where(mask, log_mass, 0.0)


def _scale_of(site: Site) -> Array:
    """The scale of a site, with an axis for each of its event's."""
    scale = jnp.asarray(1.0 if site["scale"] is None else site["scale"])
    return scale.reshape(scale.shape + (1,) * (site["fn"].event_dim if scale.ndim else 0))


def possible(fn: Distribution) -> Array:
    """A value that a distribution may take, whatever its parameters."""
    value: Array = fn.support.feasible_like(
        jnp.zeros(fn.shape(), int if fn.support.is_discrete else float)
    )
    return value


def survives_jit(fn: Distribution) -> bool:
    """Whether JAX's tree functions keep all of a distribution, so that `jit` can return it.

    One that a user wrote may have attributes that it does not list as `pytree_data_fields`.
    """
    try:
        leaves, tree = jax.tree.flatten(fn)
        kept = vars(jax.tree.unflatten(tree, leaves))
    except Exception:  # whatever a class does in its own functions
        return False
    own = {
        name: value
        for name, value in vars(fn).items()
        if not isinstance(getattr(type(fn), name, None), lazy_property)
    }
    inner = [value for value in own.values() if isinstance(value, dist.Distribution)]
    return own.keys() <= kept.keys() and all(map(survives_jit, inner))


def check_again(fn: Distribution) -> None:
    """Let a copy by JAX's tree functions check values as the original did.

    The copy has None where the original left it to the class whether it does.
    """
    parts = vars(fn)
    if parts.get("_validate_args", True) is None:
        del fn._validate_args
    for part in jax.tree.leaves([*parts.values()], is_leaf=_is_distribution):
        if _is_distribution(part):
            check_again(part)


def _is_distribution(value: object) -> bool:
    return isinstance(value, dist.Distribution)


def split_data(data: Data) -> tuple[dict[str, Array], dict[str, object]]:
    """Separate data into arrays and everything else.

    Returns:
        Arrays, which a compiled step takes as arguments; and what shapes may depend on, which is
        part of the compiled program.
    """
    arrays = {name: value for name, value in data.items() if isinstance(value, jax.Array)}
    return arrays, {name: value for name, value in data.items() if name not in arrays}


def subsamples_of(sites: Sites) -> tuple[Subsample, ...]:
    """Return the plates that a program takes in minibatches, with size and batch size."""
    plates = (site for site in sites.values() if site["type"] == "plate")
    parts = ((site["name"], site["args"][0], len(site["value"])) for site in plates)
    return tuple(Subsample(*part) for part in parts if part[1] != part[2])


def site_plates(site: Site) -> tuple[str, ...]:
    """Return the names of the plates that a site lies in."""
    return tuple(frame.name for frame in site["cond_indep_stack"])


def instances_of(
    name: str, site: Site, subsamples: tuple[Subsample, ...], *, together: bool = False
) -> Instances:
    """Return the shape of a site, with a dim for each axis: its plate, or a name of its own.

    Args:
        name: that of the site.
        site: from a run, which may have seen a minibatch.
        subsamples: plates in minibatches, whose full size counts.
        together: whether to count events, rather than the numbers in them.
    """
    shape = list(site["fn"].batch_shape if together else site["fn"].shape())
    dims = [f"{name}_dim_{axis}" for axis in range(len(shape))]
    full = {part.plate: part.size for part in subsamples}
    for frame in site["cond_indep_stack"]:
        axis = len(site["fn"].batch_shape) + frame.dim
        dims[axis] = frame.name
        shape[axis] = full.get(frame.name, shape[axis])
    return Instances(tuple(shape), tuple(dims))


def derived_of(sites: Sites, subsamples: tuple[Subsample, ...]) -> dict[str, Instances]:
    """Shape and dims of deterministic sites.

    NumPyro does not know which of their dims are event dims; where two axes may be that of a
    plate in minibatches, neither is taken for it.
    """
    found = {n: site for n, site in sites.items() if site["type"] == "deterministic"}
    return {name: _derived(name, site, subsamples) for name, site in found.items()}


def _derived(name: str, site: Site, subsamples: tuple[Subsample, ...]) -> Instances:
    """Return shape and dims of one deterministic site."""
    shape = list(jnp.shape(site["value"]))
    unnamed = [f"{name}_dim_{axis}" for axis in range(len(shape))]
    dims, full = list(unnamed), {part.plate: part.size for part in subsamples}
    for frame in site["cond_indep_stack"]:
        # Without event dims a plate has its own axis; with them, it lies further to the left.
        own = len(shape) + frame.dim
        fitting = [a for a in range(own + 1) if shape[a] == frame.size and dims[a] in unnamed]
        if len(fitting) == 1 or (fitting and frame.name not in full):
            axis = fitting[-1]
            dims[axis], shape[axis] = frame.name, full.get(frame.name, shape[axis])
    return Instances(tuple(shape), tuple(dims))


def plate_axes(site: Site, subsamples: tuple[Subsample, ...]) -> dict[str, int]:
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


def plate_sizes(sites: Sites) -> dict[str, int]:
    """Full sizes, not those of minibatches."""
    return {name: site["args"][0] for name, site in sites.items() if site["type"] == "plate"}
