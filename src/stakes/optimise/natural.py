"""Natural gradients of mean-field normal guides: steps measured in posterior standard deviations.

Adam takes steps of one size in every parameter, too long for a sharp posterior and too short for
a wide one. The Fisher information of a normal q is diagonal in its location m and log s, with
1/s² and 2, so the natural gradient costs nothing: s² ∂/∂m and ½ ∂/∂log s.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from stakes import checks
from stakes._types import Array, PyTree
from stakes.errors import InputError
from stakes.port import NormalPair

SDS, FAR = 2.0, 1.0
"""A location moves by at most so many standard deviations, or so far where that is further, since a
sharp posterior would otherwise creep towards a distant optimum; the logarithm of a scale moves by at
most the first. Both are then multiplied by the rate."""
MEMORY, SQUARED_MEMORY = 0.9, 0.99
"""What is kept of the mean of the steps, and of the mean square of Adam's gradients."""


class NaturalState(NamedTuple):
    """Means over the steps so far; those of squares are for parameters that Adam moves."""

    count: Array
    mean: PyTree
    square: PyTree


def natural_gradient(rate: float = 0.1, *, adam: float = 0.03) -> optax.GradientTransformation:
    """An optimiser for `AutoNormal` and `AutoDiagonalNormal` guides.

    Args:
        rate: of natural gradients; 1 would jump to the optimum of each latent given the others,
            were it not for noise. Each step follows the mean of the last ten or so.
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
    rate = checks.number("`natural_gradient(rate=...)`", rate, above=0, most=1)
    adam = checks.number("`natural_gradient(adam=...)`", adam, above=0)

    def init(params: PyTree) -> NaturalState:
        zeros = lambda: jax.tree.map(jnp.zeros_like, params)  # noqa: E731
        return NaturalState(jnp.zeros((), jnp.int32), zeros(), zeros())

    def update(
        gradient: PyTree,
        state: NaturalState,
        params: PyTree = None,
        *,
        normals: tuple[NormalPair, ...] = (),
        **extra: Any,
    ) -> tuple[PyTree, NaturalState]:
        if params is None:
            raise ValueError("natural_gradient needs the parameters: `update(gradient, state, p)`.")
        known = dict(_of_normals(gradient, params, normals))
        if not known:
            raise InputError(
                "`natural_gradient` is for mean-field normal guides: `AutoNormal` or "
                "`AutoDiagonalNormal`. Use one of them, or another optimiser."
            )
        count = state.count + 1

        def one(path: Any, slope: Array, mean: Array, square: Array) -> tuple[Array, Array, Array]:
            if path in known:
                step, back = known[path]
                mean = MEMORY * mean + (1 - MEMORY) * step
                return -rate * back * mean / (1 - MEMORY**count), mean, square
            mean = MEMORY * mean + (1 - MEMORY) * slope
            square = SQUARED_MEMORY * square + (1 - SQUARED_MEMORY) * jnp.square(slope)
            size = jnp.sqrt(square / (1 - SQUARED_MEMORY**count)) + 1e-8
            return -adam * mean / (1 - MEMORY**count) / size, mean, square

        rows = jax.tree_util.tree_map_with_path(one, gradient, state.mean, state.square)
        inside = jax.tree.structure(gradient)
        updates, mean, square = jax.tree.transpose(inside, jax.tree.structure((0, 0, 0)), rows)
        return updates, NaturalState(count, mean, square)

    return optax.GradientTransformationExtraArgs(init, update)


def _of_normals(
    gradient: PyTree, params: PyTree, normals: tuple[NormalPair, ...]
) -> Iterator[tuple[Any, tuple[Array, Array | float]]]:
    """For each location and scale, by its path: the natural gradient, and how a parameter follows.

    The parameters stand alone, or beside the decisions.
    """
    beside = isinstance(params, dict) and isinstance(params.get("params"), dict)
    before = (jax.tree_util.DictKey("params"),) if beside else ()
    here, slopes = (params["params"], gradient["params"]) if beside else (params, gradient)
    for pair in normals:
        scale, by_raw = jax.jvp(
            pair.positive, (here[pair.scale],), (jnp.ones_like(here[pair.scale]),)
        )
        by_log = scale / by_raw  # how the parameter moves with log s
        longest = jnp.maximum(SDS * scale, FAR)
        step = jnp.square(scale) * slopes[pair.loc]
        yield (*before, jax.tree_util.DictKey(pair.loc)), (jnp.clip(step, -longest, longest), 1.0)
        turn = jnp.clip(by_log * slopes[pair.scale] / 2, -SDS, SDS)
        yield (*before, jax.tree_util.DictKey(pair.scale)), (turn, by_log)
