"""Expectations over outcomes, and what a calibrated fit maximises of them."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from stakes._types import Array, Distribution, Float, Key, Number, PerInstance
from stakes.errors import NoClosedForm
from stakes.protocols.losses import Loss, Predicted

UtilityTerm: TypeAlias = Callable[[Key, Distribution, PerInstance], PerInstance]
"""(key, p(y|θ), decisions) -> log ũ(θ, h), or its estimate, for one draw of θ."""


class PositiveUtility(Protocol):
    """u(y, h) > 0, whose logarithm enters the bound: larger is better."""

    def log(self, outcome: PerInstance, decision: PerInstance, /) -> PerInstance:
        """log u(y, h)."""

    def log_expected(self, predicted: Predicted, decision: PerInstance) -> PerInstance:
        """log E u(y, h); may raise `NoClosedForm`."""

    def log_expected_regret(self, predicted: Predicted, decision: PerInstance) -> PerInstance:
        """The largest log E u(y, h') less log E u(y, h); may raise `NoClosedForm`."""

    def expected_log(
        self,
        expectation: "Expectation",
        key: Key | None,
        outcome: Distribution,
        decision: PerInstance,
    ) -> PerInstance:
        """E log u(y, h)."""


class Estimator(Protocol):
    """How the logarithm of an expected utility is estimated."""

    def term(self, utility: PositiveUtility, expectation: "Expectation") -> UtilityTerm:
        """An estimate of log E u(y, h) for one draw of θ."""


class Gain(Protocol):
    """What the utility term maximises: a linearized loss, or a utility inside a logarithm."""

    @property
    def loss(self) -> Loss | None:
        """The loss behind the gain; None if it has none."""

    @property
    def bayes_is_best(self) -> bool:
        """Whether the Bayes decision of that loss maximises the term."""

    @property
    def regret(self) -> bool:
        """Whether a decision is judged against the best one for each θ: log ũ(θ, h) - max log ũ."""

    def term(self, expectation: "Expectation", estimator: Estimator | None = None) -> UtilityTerm:
        """log ũ(θ, h), or its estimate, for one draw of θ."""

    def regret_term(self, expectation: "Expectation") -> UtilityTerm:
        """log ũ(θ, h) less its maximum over h, by a formula; may raise `NoClosedForm`."""

    def exact_decision(self, predicted: Predicted) -> PerInstance:
        """The decision that maximises the term for one θ; may raise `NoClosedForm`."""


class Transform(Protocol):
    """From a loss to a gain, on a scale M that is given or found from plain VI's losses."""

    @property
    def scale(self) -> float | None:
        """M; None until it is found."""

    def at(self, scale: float) -> "Transform":
        """The same transform with this M."""

    def fitted(self, losses: np.ndarray) -> "Transform":
        """The same transform, with M found from the losses of plain VI's decisions unless given."""

    def __call__(self, loss: Loss, scale: Number) -> Gain:
        """The gain on this scale, which may be traced."""


class Cost(NamedTuple):
    """How much work an expectation is: numbers of values of y, for each instance."""

    points: int = 1
    """Held at once for each draw of θ."""
    mixture: int = 1
    """Summed over by the methods of `mixture`."""
    trial: int = 1
    """Summed over to try one decision."""
    random: bool = False
    """Whether the values are random draws."""
    free: bool = False
    """Whether it costs no more than the loss itself: a small problem then takes more draws."""


class Spaced(Protocol):
    """A line on which the mass of an outcome lies evenly, around zero."""

    @property
    @abstractmethod
    def spread(self) -> PerInstance:
        """About a standard deviation of y."""

    @abstractmethod
    def inward(self, y: PerInstance) -> PerInstance:
        """From y to exp t, where t is a place on the line."""

    @abstractmethod
    def outward(self, grow: PerInstance) -> tuple[PerInstance, PerInstance]:
        """From exp t to y, and log |dy/dt|."""


class Expectation(Protocol):
    """E over outcomes y ~ p(y|θ), for each instance.

    Derive from this class to inherit the defaults, or from `stakes.expectation.ByPoints` for a
    weighted sum over points.
    """

    @abstractmethod
    def objection(self, outcome: Distribution, gain: Gain, decision: PerInstance) -> str | None:
        """Why it cannot handle this outcome and gain; None where it can."""

    @abstractmethod
    def expected(
        self, key: Key | None, outcome: Distribution, loss: Loss, decision: PerInstance
    ) -> PerInstance:
        """E ℓ(y, h)."""

    @abstractmethod
    def log_expected(
        self,
        key: Key | None,
        outcome: Distribution,
        utility: PositiveUtility,
        decision: PerInstance,
    ) -> PerInstance:
        """log E u(y, h), computed in log space."""

    def expected_regret(
        self, key: Key | None, outcome: Distribution, loss: Loss, decision: PerInstance
    ) -> PerInstance:
        """E ℓ(y, h) less its least value over all decisions; may raise `NoClosedForm`."""
        raise NoClosedForm("Only a closed form knows the least expected loss.")

    def log_expected_regret(
        self,
        key: Key | None,
        outcome: Distribution,
        utility: PositiveUtility,
        decision: PerInstance,
    ) -> PerInstance:
        """The largest log E u(y, h') less log E u(y, h); may raise `NoClosedForm`."""
        raise NoClosedForm("Only a closed form knows the largest expected utility.")

    def relative_variance(
        self,
        key: Key | None,
        outcome: Distribution,
        utility: PositiveUtility,
        decision: PerInstance,
    ) -> PerInstance | float:
        """Var(ū)/ū² of the estimate whose logarithm is `log_expected`; zero where exact."""
        return 0.0

    def table(self, key: Key | None, outcome: Distribution, decision: PerInstance) -> "Tabled":
        """Its values of one outcome, found once to try many decisions; may raise `NoClosedForm`."""
        raise NoClosedForm("Only an expectation over points has a table of them.")

    def pool(
        self, outcomes: Distribution, drawn: Float[Array, "draw *instance"], most: int
    ) -> "Tabled":
        """Up to so many values of the whole mixture, to try many decisions roughly.

        Where there is mass, the draws tell; may raise `NoClosedForm`.
        """
        raise NoClosedForm("Only a density can be tabled for a mixture.")

    def size_for(self, outcomes: Iterable[Distribution]) -> "Expectation":
        """The same, with what was left open chosen for these outcomes, stacked over draws of θ."""
        return self

    @property
    def is_sized(self) -> bool:
        """Whether nothing is left open, for `size_for` to choose once outcomes are known."""
        return type(self).size_for is Expectation.size_for

    def widen_for(self, outcomes: Iterable[Distribution]) -> "Expectation":
        """The same, with room for these outcomes, too."""
        return self

    def for_steps(self) -> "Expectation":
        """At the price of a step: with little bias, and less noise than that of draws of θ.

        Where the exact one costs no more, that is the same.
        """
        return self

    def spacing(self, outcome: Distribution) -> Spaced | None:
        """Where its points lie, if slopes by decisions are to be differences; None otherwise."""
        return None

    @abstractmethod
    def mixture(self, outcomes: Distribution) -> Predicted:
        """Outcomes stacked over draws of θ, as one predicted outcome."""

    @property
    def cost(self) -> Cost:
        """How much work it is, to choose sizes of batches and ways to search."""
        return Cost()


class Tabled(Expectation, Protocol):
    """An expectation over fixed values of one outcome: quick, and rough for some decisions."""

    @property
    @abstractmethod
    def few(self) -> bool:
        """Whether there are so few values that `places` has all of them."""

    @abstractmethod
    def places(self) -> Float[Array, "place *instance"]:
        """Where to begin a search: evenly over the values that matter and a little beyond."""
