"""Natural gradients of mean-field normal guides: steps measured in posterior standard deviations.

Adam takes steps of one size in every parameter, too long for a sharp posterior and too short for
a wide one. The Fisher information of a normal q is diagonal in its location m and log s, with
1/s² and 2, so the natural gradient costs nothing: s² ∂/∂m and ½ ∂/∂log s.
"""

import jax
import jax.numpy as jnp
import optax

from stakes import checks
from stakes._types import PyTree
from stakes.errors import InputError
from stakes.optimise.settings import adam, check_optimizer

LOC, SCALE = "_auto_loc", "_auto_scale"
LONGEST = 2.0
"""Steps are cut off at this many standard deviations, before they are multiplied by the rate."""


def natural_gradient(
    rate: float = 0.1, *, otherwise: optax.GradientTransformation | None = None
) -> optax.GradientTransformation:
    """An optimiser for `AutoNormal` guides: natural gradients for them, Adam for all else.

    Args:
        rate: of the step; 1 would jump to the optimum of each latent given the others, were it
            not for noise.
        otherwise: for decisions and for parameters that are not of a normal autoguide.

    Examples:
        >>> import jax.numpy as jnp, stakes
        >>> fast = stakes.natural_gradient(0.1)  # calibrate(..., optimizer=fast)
        >>> at = {"z_auto_loc": jnp.array(0.0), "z_auto_scale": jnp.array(2.0)}
        >>> slope = {"z_auto_loc": jnp.array(0.5), "z_auto_scale": jnp.array(0.0)}
        >>> step, _ = fast.update(slope, fast.init(at), at)
        >>> round(float(step["z_auto_loc"]), 4)  # -0.1 s² times the slope, with s = softplus(2)
        -0.2262
    """
    rate = checks.number("`natural_gradient(rate=...)`", rate, above=0, most=1)
    if otherwise is not None:
        check_optimizer("`natural_gradient(otherwise=...)`", otherwise)
    rest = optax.with_extra_args_support(adam() if otherwise is None else otherwise)

    def update(
        gradient: PyTree, state: PyTree, params: PyTree = None, **extra: PyTree
    ) -> tuple[PyTree, PyTree]:
        if params is None:
            raise ValueError("natural_gradient needs the parameters: `update(gradient, state, p)`.")
        if not _has_normals(params):
            raise InputError(
                "`natural_gradient` finds no locations and scales of an `AutoNormal` guide among "
                "the parameters. Use that guide, or another optimiser."
            )
        updates, state = rest.update(gradient, state, params, **extra)
        return _replaced(updates, gradient, params, rate), state

    return optax.GradientTransformationExtraArgs(rest.init, update)


def _has_normals(params: PyTree) -> bool:
    if not isinstance(params, dict):
        return False
    here = any(name.endswith(LOC) and name.removesuffix(LOC) + SCALE in params for name in params)
    return here or any(_has_normals(part) for part in params.values())


def _replaced(updates: PyTree, gradient: PyTree, params: PyTree, rate: float) -> PyTree:
    """The updates, with those of normal locations and scales replaced by natural gradients."""
    if not isinstance(updates, dict):
        return updates
    out = {k: _replaced(v, gradient[k], params[k], rate) for k, v in updates.items()}
    for name in updates:
        if name.endswith(LOC) and (scale_name := name.removesuffix(LOC) + SCALE) in updates:
            # AutoNormal keeps its scale positive by a softplus.
            scale = jax.nn.softplus(params[scale_name])
            slope = jax.nn.sigmoid(params[scale_name]) / scale  # of log s
            loc_step = _cut(scale * gradient[name]) * scale
            scale_step = _cut(gradient[scale_name] / slope / 2) / slope
            out |= {name: -rate * loc_step, scale_name: -rate * scale_step}
    return out


def _cut(step: PyTree) -> PyTree:
    return jnp.clip(step, -LONGEST, LONGEST)
