"""From a loss to a gain: the two transforms of the paper."""

from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np

from stakes._types import Number
from stakes.errors import InputError
from stakes.protocols import Loss
from stakes.utilities import ExpUtility, ScaledLoss


@dataclass(frozen=True)
class _ByQuantile:
    """M is a quantile of the losses of plain VI's decisions, or given."""

    quantile: float = 0.9
    scale: float | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not 0 < self.quantile <= 1:
            raise InputError(
                f"`{name}(quantile=...)` must lie in (0, 1]; got {self.quantile}. "
                f"For a larger M give it by hand: `{name}(scale=...)`."
            )
        if self.scale is not None and not 0 < self.scale < float("inf"):
            raise InputError(
                f"`{name}(scale=...)` is M: it must be positive and finite; got {self.scale}."
            )

    def at(self, scale: float) -> Self:
        """With this M."""
        return replace(self, scale=scale)

    def fitted(self, losses: np.ndarray) -> Self:
        """With M_q set to the quantile of these losses, unless M was given."""
        if self.scale is not None:
            return self
        with np.errstate(invalid="ignore"):
            scale = float(np.quantile(losses, self.quantile))
        name = type(self).__name__
        if not 0 < scale < float("inf"):
            raise InputError(
                f"`{name}(quantile={self.quantile})`: this quantile of the VI losses is {scale}, "
                f"but M has to be positive and finite. Give it by hand: `{name}(scale=...)`."
            )
        return self.at(scale)


@final
@dataclass(frozen=True)
class Linearized(_ByQuantile):
    """u = M - ℓ with log u linearized: U = -E ℓ / M (eqs. 2 and 7).

    M is the `quantile` of the training losses of uncalibrated VI, or `scale` where given.

    >>> import numpy as np, stakes
    >>> stakes.Linearized(quantile=0.5).fitted(np.array([1.0, 2.0, 7.0])).scale
    2.0
    """

    def __call__(self, loss: Loss, scale: Number) -> ScaledLoss:
        return ScaledLoss(loss, scale)


@final
@dataclass(frozen=True)
class Exponential(_ByQuantile):
    """u = exp(-ℓ / M) (eq. 3).

    M is the `quantile` of the training losses of uncalibrated VI, or `scale` where given.

    >>> import stakes
    >>> utility = stakes.Exponential()(stakes.Absolute(), 2.0)
    >>> round(float(utility(1.0, 3.0)), 4)  # exp(-1)
    0.3679
    """

    def __call__(self, loss: Loss, scale: Number) -> ExpUtility:
        return ExpUtility(loss, scale)
