"""Linear response: covariances that independent normals miss, from the curvature of the bound.

Let L(λ) be the ELBO and m(λ) the means of the latents under q. If t·θ were added to log p(D, θ),
the exact posterior means would move by Σ t, with Σ the posterior covariance. The means of q move by

    (∂m/∂λ) H⁻¹ (∂m/∂λ)ᵀ t,    H = -∂²L/∂λ² at the optimum,

which estimates Σ with all covariances, although q has none. For a normal posterior it is exact
(Giordano, Broderick and Jordan 2018; Giordano, Ingram and Broderick 2024).
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from stakes._types import Array, Float, Key, Params
from stakes.errors import InputError, NumericalError
from stakes.fitting.noise import noise_for
from stakes.host.programs import Program
from stakes.port import Approximation, normals_of

DRAWS = 256
"""Draws of θ, the same for all directions: the error of a standard deviation is then about 2 %."""
AT_ONCE = 16
"""Directions in which the bound is differentiated at once."""
MOST_PARAMETERS = 4_000
"""Of the guide: their matrix of second derivatives then takes 64 MB in single precision."""


def check_linear_response(approximation: Approximation, params: Params) -> None:
    """Refuse a guide that has covariances of its own, minibatches, and too many parameters."""
    size = sum(int(np.size(leaf)) for leaf in params.values())
    reason = ""
    if not approximation.normals:
        reason = "needs a guide of independent normals, `AutoNormal` or `AutoDiagonalNormal`"
    elif approximation.subsamples:
        reason = "needs all rows at once, but the model takes minibatches"
    elif size > MOST_PARAMETERS:
        reason = f"inverts a matrix for {size:,} parameters of the guide, above {MOST_PARAMETERS:,}"
    if reason:
        raise InputError(f"`LinearResponse()` {reason}. Leave it out, or take another guide.")


def linear_response(
    approximation: Approximation, params: Params, key: Key
) -> Float[np.ndarray, "location location"]:
    """Return the covariance of the locations of all normals, at the optimum of plain VI.

    The model's own parameters stay where they are, as they do in plain VI.

    Args:
        approximation: one whose guide consists of independent normals, without minibatches.
        params: where plain VI has converged.
        key: of the draws of θ with which the bound is differentiated.

    Returns:
        The Cholesky factor of the covariance, in the order in which JAX ravels the parameters.

    Raises:
        NumericalError: where the bound is not curved downwards in all directions, since the fit has
            not reached an optimum.
    """
    check_linear_response(approximation, params)
    hessian = np.asarray(_curvature(approximation, params, key), np.float64)
    if not np.isfinite(hessian).all():
        raise NumericalError(
            "`LinearResponse()`: the second derivatives of the bound are not finite where plain VI "
            "has ended. Decide by plain VI."
        )
    names = {pair.loc: True for pair in approximation.normals}
    names |= {pair.scale: False for pair in approximation.normals}
    sizes = {name: int(np.size(params[name])) for name in sorted(params)}
    kept = np.concatenate([np.full(size, name in names) for name, size in sizes.items()])
    at = np.concatenate([np.full(size, names.get(name, False)) for name, size in sizes.items()])
    hessian, at = hessian[np.ix_(kept, kept)], at[kept]
    try:
        factor = np.linalg.cholesky((hessian + hessian.T) / 2)
    except np.linalg.LinAlgError:
        raise NumericalError(
            "`LinearResponse()`: the bound is not curved downwards in every direction, so that "
            "plain VI has not reached an optimum. Give it more `steps=`, or decide by plain VI."
        ) from None
    # The covariance is halfᵀ half.
    half = np.linalg.solve(factor, np.eye(len(factor))[:, at])
    upper = np.linalg.qr(half, mode="r")
    lower: np.ndarray = (upper * np.sign(np.diagonal(upper))[:, None]).T
    return lower


@Program
def _curvature(approximation: Approximation, params: Params, key: Key) -> Float[Array, "p p"]:
    """Minus the second derivatives of the ELBO by all parameters of guide and model."""
    flat, tree_of = ravel_pytree(params)
    noise = noise_for(normals_of(approximation), params, key, DRAWS)
    keys = jax.random.split(jax.random.fold_in(key, DRAWS), DRAWS)

    def elbo(flat: Array) -> Array:
        draw = partial(approximation.draw, tree_of(flat))
        drawn = jax.vmap(lambda key, noise: draw(key, {}, noise).log_ratio)(keys, noise)
        return drawn.mean()

    def along(direction: Array) -> Array:
        slope: Array = jax.jvp(jax.grad(elbo), (flat,), (direction,))[1]
        return slope

    curved: Array = jax.lax.map(along, jnp.eye(len(flat), dtype=flat.dtype), batch_size=AT_ONCE)
    return -curved
