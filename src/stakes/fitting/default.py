"""The optimiser of every fit that asks for no other: long steps while they lead somewhere.

Where the guide consists of normals, a step is the sum of two. The natural gradient goes far where
a posterior is wide and the slope steady, whatever the units of a latent; Adam goes on where the
posterior is still sharp and the optimum far, as at the beginning and in neural networks. Other
parameters, and decisions, are moved by Adam alone.

The sum is multiplied by how far the last steps point the same way. At an optimum noise is all that
is left of a gradient, and long steps would only carry it into the parameters; there the step
shrinks to a fifth, by itself and for each array of parameters apart. Adam alone is left as it is:
few parameters of an array may still have far to go, and nothing else would take them there.
"""

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from stakes import checks
from stakes._types import Array, PyTree
from stakes.fitting.natural import MEMORY, SQUARED_MEMORY, Path, natural_gradients
from stakes.port import NormalPair

if TYPE_CHECKING:
    import optax

# What the squared mean of the last steps is, in units of their mean square, if all is noise.
NOISE = (1 - MEMORY) / (1 + MEMORY)
# From here on a step has its full length.
SIGNAL = NOISE + 0.3
# The length of a step where all is noise, as a part of the full one.
LEAST = 0.2
# What is kept of the share of signal: longer than the mean of the steps, so that the length of a
# step hardly depends on its own noise, which would bias where a fit ends.
SLOW_MEMORY = 0.98

# The integers that hold the bits of bfloat16, which files have no type for.
PACKED = jnp.uint16
# Numbers in an array whose means are kept in half of the memory: each is rounded to eight bits, and
# where gradients stay the same a mean ends up to four per cent short of them.
MANY = 10_000_000


class AdaptiveState(NamedTuple):
    """Means over the steps so far, and one number for each array: its share of signal.

    That of arrays which Adam moves alone stays at one. Means of large arrays are `packed`.
    """

    taken: Array
    mean: PyTree
    square: PyTree
    signal: Array


def adaptive(rate: float = 0.5, *, adam: float = 0.03) -> "optax.GradientTransformation":
    """Natural gradients and Adam together, in steps that shrink where gradients are all noise.

    Parameters that are no locations or scales of normals are moved by Adam.

    Args:
        rate: of natural gradients, where the guide consists of normals.
        adam: the step size of Adam.

    Examples:
        >>> import jax.numpy as jnp
            >>> from stakes.fitting import adaptive
        >>> optimizer, at = adaptive(), {"x": jnp.array(1.0)}
        >>> step, _ = optimizer.update({"x": jnp.array(2.0)}, optimizer.init(at), at)
        >>> round(float(step["x"]), 4)  # the first step of Adam
        -0.03
    """
    import optax  # here, since it takes a while and deciding does without it

    rate = checks.number("`adaptive(rate=...)`", rate, above=0, most=1)
    adam = checks.number("`adaptive(adam=...)`", adam, above=0)

    def init(params: PyTree) -> AdaptiveState:
        mean = jax.tree.map(lambda leaf: jnp.zeros_like(leaf, _kept_as(leaf)), params)
        square = jax.tree.map(jnp.zeros_like, params)
        signal = jnp.ones(len(jax.tree.leaves(params)))
        return AdaptiveState(jnp.zeros((), jnp.int32), mean, square, signal)

    def update(
        gradient: PyTree,
        state: AdaptiveState,
        params: PyTree = None,
        *,
        normals: tuple[NormalPair, ...] = (),
        share_taken: Array | float = 1.0,
        **extra: object,
    ) -> tuple[PyTree, AdaptiveState]:
        if normals and params is None:
            raise ValueError("adaptive needs the parameters: `update(gradient, state, params)`.")
        known = dict(natural_gradients(params, normals, rate)) if normals else {}
        taken, signals = state.taken + 1, iter(state.signal)

        def one(path: Path, slope: Array, mean: Array, square: Array) -> tuple[Array, ...]:
            natural = known.get(path)
            kept_as, mean = mean.dtype, unpacked(mean, slope.dtype)
            if natural is not None:
                slope = natural.tamed(slope, jnp.maximum(jnp.sqrt(square) - jnp.abs(mean), 0.0))
            mean = MEMORY * mean + (1 - MEMORY) * slope
            square = SQUARED_MEMORY * square + (1 - SQUARED_MEMORY) * jnp.square(slope)
            here = mean / (1 - MEMORY**taken)
            by_adam = here / (jnp.sqrt(square / (1 - SQUARED_MEMORY**taken)) + 1e-8)
            step, signal = adam * by_adam, next(signals)
            if natural is None:
                return -step, packed(mean, kept_as), square, signal
            length = jnp.clip((signal - NOISE) / (SIGNAL - NOISE), LEAST, 1.0)
            share = jnp.mean(jnp.square(by_adam))
            signal = SLOW_MEMORY * signal + (1 - SLOW_MEMORY) * share
            if natural.comes_up_now_and_then:
                # What was found when a row last came up is as old as the steps since.
                still = MEMORY ** (natural.times - 1)
                here = still * here + (1 - still) * slope
            step = length * (step + natural.step(rate * here, share_taken))
            return -step, packed(mean, kept_as), square, signal

        rows = jax.tree_util.tree_map_with_path(one, gradient, state.mean, state.square)
        inside = jax.tree.structure(gradient)
        outside = jax.tree.structure((0, 0, 0, 0))
        updates, mean, square, signal = jax.tree.transpose(inside, outside, rows)
        return updates, AdaptiveState(taken, mean, square, jnp.stack(jax.tree.leaves(signal)))

    return optax.GradientTransformationExtraArgs(init, update)


def _kept_as(leaf: Array) -> jnp.dtype:
    dtype = jnp.result_type(leaf)
    return jnp.dtype(PACKED if dtype == jnp.float32 and jnp.size(leaf) >= MANY else dtype)


def packed(numbers: Array, kept_as: jnp.dtype) -> Array:
    """Return numbers as they are kept: bfloat16 as integers, which every file can hold."""
    if kept_as != PACKED:
        return numbers
    return jax.lax.bitcast_convert_type(numbers.astype(jnp.bfloat16), PACKED)


def unpacked(kept: Array, dtype: jnp.dtype) -> Array:
    """Return kept numbers in the type that is used for computing."""
    if kept.dtype != PACKED:
        return kept
    return jax.lax.bitcast_convert_type(kept, jnp.bfloat16).astype(dtype)
