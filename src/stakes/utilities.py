"""From losses to utilities: the two transforms of the paper, and the user's own utility."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import jax.numpy as jnp
import numpy as np

from stakes.errors import InputError, StakesWarning
from stakes.typing import Array, Loss, Rate


@final
@dataclass(frozen=True)
class Utility:
    """A user's own utility `fn(outcome, decision)`, positive and elementwise: larger is better.

    `infimum` is the least value it approaches. Calibration is strongest at zero: adding a
    constant to a utility leaves its best decisions alone but weakens the calibration.

    >>> import jax.numpy as jnp, stakes
    >>> hit = stakes.Utility(lambda outcome, decision: jnp.exp(-((outcome - decision) ** 2)))
    >>> float(hit(1.0, 1.0))
    1.0
    """

    fn: Callable[[Array, Array], Array]
    infimum: float = 0.0

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise InputError(f"`Utility(fn=...)` must be callable; got {self.fn!r}.")
        if not 0 <= self.infimum < float("inf"):
            raise InputError(
                f"`Utility(infimum=...)` must be zero or positive, since the bound takes the "
                f"logarithm of the utility; got {self.infimum}. Add a constant to the utility."
            )
        if self.infimum > 0:
            warnings.warn(
                f"`Utility(infimum={self.infimum})`: an infimum above zero weakens the "
                f"calibration; subtract it from the utility for the full effect.",
                StakesWarning,
                stacklevel=3,
            )

    def __call__(self, outcome: Array, decision: Array) -> Array:
        return self.fn(outcome, decision)

    def log(self, outcome: Array, decision: Array) -> Array:
        # Far from the decision a utility may underflow to zero, where log has no slope.
        value = jnp.asarray(self.fn(outcome, decision))
        positive = value > 0
        return jnp.where(positive, jnp.log(jnp.where(positive, value, 1.0)), -jnp.inf)


@final
@dataclass(frozen=True)
class ExpUtility:
    """exp(-ℓ/M) of eq. 3, kept as its logarithm so that large losses do not underflow.

    Serves as the `utility=` of a problem too, in closed form where the loss has one.

    >>> import stakes
    >>> round(float(stakes.ExpUtility(stakes.Squared(), scale=2.0)(1.0, 3.0)), 4)
    0.1353
    """

    loss: Loss
    scale: Rate

    def __call__(self, outcome: Array, decision: Array) -> Array:
        return jnp.exp(self.log(outcome, decision))

    def log(self, outcome: Array, decision: Array) -> Array:
        return -self.loss(outcome, decision) / self.scale


@final
@dataclass(frozen=True)
class ScaledLoss:
    """M - ℓ of eq. 2, whose logarithm is linearized to -ℓ/M."""

    loss: Loss
    scale: Rate


@final
@dataclass(frozen=True)
class Linearized:
    """u = M - ℓ with log u linearized: U = -E ℓ / M (eqs. 2 and 7).

    M is the `quantile` of the training losses of uncalibrated VI, or `scale` where given.

    >>> import stakes
    >>> stakes.Linearized(scale=7).scale
    7
    """

    quantile: float = 0.9
    scale: float | None = None

    def __post_init__(self) -> None:
        _check_transform(self)

    def __call__(self, loss: Loss, scale: Rate) -> ScaledLoss:
        return ScaledLoss(loss, scale)


@final
@dataclass(frozen=True)
class Exponential:
    """u = exp(-ℓ / M) (eq. 3).

    M is the `quantile` of the training losses of uncalibrated VI, or `scale` where given.

    >>> import stakes
    >>> stakes.Exponential(quantile=0.7).quantile
    0.7
    """

    quantile: float = 0.9
    scale: float | None = None

    def __post_init__(self) -> None:
        _check_transform(self)

    def __call__(self, loss: Loss, scale: Rate) -> ExpUtility:
        return ExpUtility(loss, scale)


Transform = Linearized | Exponential
Gain = ScaledLoss | ExpUtility | Utility
"""What the utility term maximises: a linearized loss, or a utility inside a logarithm."""


def with_scale(transform: Transform, losses: np.ndarray) -> Transform:
    """The transform with M_q set to the quantile of these losses, unless M was given."""
    if transform.scale is not None:
        return transform
    with np.errstate(invalid="ignore"):
        scale = float(np.quantile(losses, transform.quantile))
    name = type(transform).__name__
    if not 0 < scale < float("inf"):
        raise InputError(
            f"`{name}(quantile={transform.quantile})`: this quantile of the VI losses is {scale}, "
            f"but M has to be positive and finite. Give it by hand: `{name}(scale=...)`."
        )
    return replace(transform, scale=scale)


def _check_transform(transform: Transform) -> None:
    name = type(transform).__name__
    if not 0 < transform.quantile <= 1:
        raise InputError(
            f"`{name}(quantile=...)` must lie in (0, 1]; got {transform.quantile}. "
            f"For a larger M give it by hand: `{name}(scale=...)`."
        )
    if transform.scale is not None and not 0 < transform.scale < float("inf"):
        raise InputError(
            f"`{name}(scale=...)` is M: it must be positive and finite; got {transform.scale}."
        )
