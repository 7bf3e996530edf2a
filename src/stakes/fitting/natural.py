"""Natural gradients of mean-field normal guides: steps measured in posterior standard deviations.

Adam takes steps of one size in every parameter, too long for a sharp posterior and too short for
a wide one. The Fisher information of a normal q is diagonal in its location m and log s, with
1/s² and 2, so the natural gradient costs nothing: s² ∂/∂m and ½ ∂/∂log s.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from stakes import checks
from stakes._types import Array, PyTree
from stakes.errors import InputError
from stakes.port import NormalPair

if TYPE_CHECKING:
    import optax

Path: TypeAlias = tuple[object, ...]
"""Of a parameter in a tree."""

# A step moves a location by at most so many standard deviations, or so far where that is further,
# since a sharp posterior would otherwise creep towards a distant optimum; the logarithm of a scale
# by at most the first.
SDS, FAR = 0.2, 0.1
# Steps that a row which comes up rarely may make up for, when it does.
MOST_AT_ONCE = 5.0
# Where the gradients of single steps are cut off, in the same way, before their mean is taken.
WILD_SDS, WILD_FAR = 10.0, 1.0
# Nothing is cut off within so many times the noise of the last gradients.
WILD_NOISE = 10.0
# What is kept of the mean of the steps, and of the mean square of Adam's gradients, at each step.
MEMORY, SQUARED_MEMORY = 0.9, 0.99


class NaturalState(NamedTuple):
    """Means over the steps so far; those of squares are for parameters that Adam moves."""

    taken: Array
    mean: PyTree
    square: PyTree


def natural_gradient(rate: float = 0.1, *, adam: float = 0.03) -> "optax.GradientTransformation":
    """An optimiser for `AutoNormal` and `AutoDiagonalNormal` guides.

    Args:
        rate: of natural gradients; 1 would jump to the optimum of each latent given the others,
            were it not for noise. Where latents depend on one another, as group effects do on their
            common level, 0.5 takes fewer steps. Each step follows the mean of the last ten in which
            a row has come up; for rows that rarely come up, the default optimiser is better.
        adam: the step size of Adam, which moves decisions and parameters of the model.

    Examples:
        >>> import jax, jax.numpy as jnp, stakes
        >>> from stakes.port import NormalPair
        >>> fast = stakes.natural_gradient(0.1)  # calibrate(..., optimizer=fast)
        >>> at = {"z_loc": jnp.array(0.0), "z_scale": jnp.array(2.0)}
        >>> slope = {"z_loc": jnp.array(0.5), "z_scale": jnp.array(0.0)}
        >>> known = (NormalPair("z_loc", "z_scale", jax.nn.softplus),)  # a fit says this itself
        >>> step, _ = fast.update(slope, fast.init(at), at, normals=known)
        >>> round(float(step["z_loc"]), 4)  # -0.1 s² times the slope, with s = softplus(2)
        -0.2262
    """
    import optax

    rate = checks.number("`natural_gradient(rate=...)`", rate, above=0, most=1)
    adam = checks.number("`natural_gradient(adam=...)`", adam, above=0)

    def init(params: PyTree) -> NaturalState:
        mean, square = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
        return NaturalState(jnp.zeros((), jnp.int32), mean, square)

    def update(
        gradient: PyTree,
        state: NaturalState,
        params: PyTree = None,
        *,
        normals: tuple[NormalPair, ...] = (),
        **extra: object,
    ) -> tuple[PyTree, NaturalState]:
        if params is None:
            raise ValueError("natural_gradient needs the parameters: `update(gradient, state, p)`.")
        known = dict(natural_gradients(params, normals, rate))
        if not known:
            raise InputError(
                "`natural_gradient` is for mean-field normal guides: `AutoNormal` or "
                "`AutoDiagonalNormal`. Use one of them, or another optimiser."
            )
        taken = state.taken + 1

        def one(path: Path, slope: Array, mean: Array, square: Array) -> tuple[Array, Array, Array]:
            if path in known:
                natural = known[path]
                wild = natural.longest(WILD_SDS, WILD_FAR)
                mean = MEMORY * mean + (1 - MEMORY) * jnp.clip(natural.metric * slope, -wild, wild)
                longest = natural.longest(SDS, FAR)
                step = jnp.clip(rate * mean / (1 - MEMORY**taken), -longest, longest)
                return -natural.slope * step, mean, square
            mean = MEMORY * mean + (1 - MEMORY) * slope
            square = SQUARED_MEMORY * square + (1 - SQUARED_MEMORY) * jnp.square(slope)
            size = jnp.sqrt(square / (1 - SQUARED_MEMORY**taken)) + 1e-8
            return -adam * mean / (1 - MEMORY**taken) / size, mean, square

        rows = jax.tree_util.tree_map_with_path(one, gradient, state.mean, state.square)
        inside = jax.tree.structure(gradient)
        updates, mean, square = jax.tree.transpose(inside, jax.tree.structure((0, 0, 0)), rows)
        return updates, NaturalState(taken, mean, square)

    return optax.GradientTransformationExtraArgs(init, update)


class Natural(NamedTuple):
    """From the gradient by a location, or by the logarithm of a scale, to the natural one.

    Attributes:
        metric: what the gradient by the parameter is multiplied by.
        sd: where the parameter is a location.
        times: how many times a minibatch counts each of its rows, which come up once in so many
            steps.
        slope: how the parameter moves with the location, or with the logarithm of the scale.
    """

    metric: Array
    sd: Array | None
    times: Array | float
    slope: Array | float

    @property
    def comes_up_now_and_then(self) -> bool:
        return not isinstance(self.times, float) or self.times > 1

    def longest(self, sds: float, far: float) -> Array | float:
        return sds if self.sd is None else jnp.maximum(sds * self.sd, far)

    def tamed(self, gradient: Array, noise: Array) -> Array:
        """The gradient of a single step, cut off where it is wild, and not just as noisy as others.

        What cuts off noise shifts where a fit ends, unless the noise is symmetric.
        """
        wild = jnp.maximum(self.longest(WILD_SDS, WILD_FAR) / self.metric, WILD_NOISE * noise)
        return jnp.clip(gradient, -wild, wild)

    def step(self, gradient: Array, share: Array | float) -> Array:
        """By how much the parameter moves with such a gradient, if by a share of that."""
        longest = self.longest(SDS, FAR) / share
        if self.comes_up_now_and_then:
            longest = longest * jnp.minimum(self.times, MOST_AT_ONCE)
        return self.slope * jnp.clip(self.metric * gradient, -longest, longest)


def natural_gradients(
    params: PyTree, normals: tuple[NormalPair, ...], rate: float
) -> Iterator[tuple[Path, Natural]]:
    """For each location and scale, by its path. Parameters stand alone, or beside decisions.

    A minibatch counts its rows several times. With this rate, they are to go no further than to
    their optimum given all else.
    """
    beside = isinstance(params, dict) and isinstance(params.get("params"), dict)
    before = (jax.tree_util.DictKey("params"),) if beside else ()
    here = params["params"] if beside else params
    for pair in normals:
        raw = here[pair.scale]
        scale, by_raw = jax.jvp(pair.positive, (raw,), (jnp.ones_like(raw),))
        by_log = scale / by_raw
        beyond = jnp.maximum(rate * pair.times, 1.0)
        of_loc = Natural(jnp.square(scale) / beyond, scale, pair.times, 1.0)
        of_log_scale = Natural(by_log / (2 * beyond), None, pair.times, by_log)
        yield (*before, jax.tree_util.DictKey(pair.loc)), of_loc
        yield (*before, jax.tree_util.DictKey(pair.scale)), of_log_scale
