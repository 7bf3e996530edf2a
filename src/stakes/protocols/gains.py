"""From losses and utilities to what a calibrated fit maximises."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from stakes._types import Array, Distribution, Float, Key, Number
from stakes.protocols.losses import Loss, Predicted

if TYPE_CHECKING:
    from stakes.protocols.expectations import Expectation

UtilityTerm: TypeAlias = Callable[
    [Key, Distribution, Float[Array, "*instance"]], Float[Array, "*instance"]
]
"""(key, p(y|θ), decisions) -> log ũ(θ, h), or its estimate, for one draw of θ."""


class PositiveUtility(Protocol):
    """u(y, h) > 0, whose logarithm enters the bound: larger is better."""

    def log(
        self, outcome: Float[Array, "*instance"], decision: Float[Array, "*instance"], /
    ) -> Float[Array, "*instance"]:
        """log u(y, h)."""
        ...

    def log_expected(
        self, predicted: Predicted, decision: Float[Array, "*instance"]
    ) -> Float[Array, "*instance"]:
        """log E u(y, h); may raise `NoClosedForm`."""
        ...

    def log_expected_regret(
        self, predicted: Predicted, decision: Float[Array, "*instance"]
    ) -> Float[Array, "*instance"]:
        """The largest log E u(y, h') less log E u(y, h); may raise `NoClosedForm`."""
        ...

    def expected_log(
        self,
        expectation: "Expectation",
        key: Key | None,
        outcome: Distribution,
        decision: Float[Array, "*instance"],
    ) -> Float[Array, "*instance"]:
        """E log u(y, h)."""
        ...


class Estimator(Protocol):
    """How the logarithm of an expected utility is estimated."""

    def term(self, utility: PositiveUtility, expectation: "Expectation") -> UtilityTerm:
        """An estimate of log E u(y, h) for one draw of θ."""
        ...


class Gain(Protocol):
    """What the utility term maximises: a linearized loss, or a utility inside a logarithm."""

    @property
    def loss(self) -> Loss | None:
        """The loss behind it, where there is one."""
        ...

    @property
    def bayes_is_best(self) -> bool:
        """Whether the Bayes decision of that loss maximises the term."""
        ...

    @property
    def regret(self) -> bool:
        """Whether a decision is judged against the best one for each θ: log ũ(θ, h) - max log ũ."""
        ...

    def term(self, expectation: "Expectation", estimator: Estimator | None = None) -> UtilityTerm:
        """log ũ(θ, h), or its estimate, for one draw of θ."""
        ...

    def regret_term(self, expectation: "Expectation") -> UtilityTerm:
        """log ũ(θ, h) less its maximum over h, by a formula; may raise `NoClosedForm`."""
        ...

    def exact_decision(self, predicted: Predicted) -> Float[Array, "*instance"]:
        """The decision that maximises the term for one θ; may raise `NoClosedForm`."""
        ...


class Transform(Protocol):
    """From a loss to a gain, on a scale M that is given or found from plain VI's losses."""

    @property
    def scale(self) -> float | None:
        """M; None until it is found."""
        ...

    def at(self, scale: float) -> "Transform":
        """The same transform with this M."""
        ...

    def fitted(self, losses: np.ndarray) -> "Transform":
        """The same transform, with M found from the losses of plain VI's decisions unless given."""
        ...

    def __call__(self, loss: Loss, scale: Number) -> Gain:
        """The gain on this scale, which may be traced."""
        ...
