"""What each choice has to answer: a value of your own that answers the same serves as well.

A *loss* says what a decision costs, a *transform* makes a *gain* of it, an *expectation* takes it
over outcomes, an *estimator* takes the logarithm, a *decision rule* finds the best decision. How
variational parameters and decisions are optimised, a *method*, is `stakes.optimise.Method`.

Choices are values: frozen dataclasses, so that compiled programs can be found again by them.
Axes are named as in `Float[Array, "theta *instance"]`: draws of θ first, then one axis for each
plate of the outcome.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from stakes._types import Array, Bool, Distribution, Float, Key, Number


class Loss(Protocol):
    """`loss(outcome, decision)`, elementwise, never negative: smaller is better.

    Any such function will do. A loss that knows more about itself may answer the questions of
    `SolvedLoss`, too, some or all of them.
    """

    def __call__(
        self, outcome: Float[Array, "*instance"], decision: Float[Array, "*instance"], /
    ) -> Float[Array, "*instance"]: ...


class Predicted(Protocol):
    """What a loss may ask of a predicted outcome; each answer may be `NoClosedForm`, raised."""

    def mean(self) -> Float[Array, "*instance"]: ...

    def variance(self) -> Float[Array, "*instance"]: ...

    def tails(
        self, decision: Float[Array, "*instance"], above: float, below: float
    ) -> Float[Array, "*instance"]:
        """E above·(y-h)+ + below·(h-y)+: what falling short and going over cost."""
        ...

    def cumulant(self, t: float) -> Float[Array, "*instance"]:
        """log E exp(t (y - E y)): the log moment generating function about the mean."""
        ...

    def log_tails(
        self, decision: Float[Array, "*instance"], above: Number, below: Number
    ) -> Float[Array, "*instance"]:
        """log E exp(-above·(y-h)+ - below·(h-y)+)."""
        ...

    def log_kernel(
        self, decision: Float[Array, "*instance"], width: Number
    ) -> Float[Array, "*instance"]:
        """log E exp(-(y-h)²/width)."""
        ...

    def quantile(self, level: float) -> Float[Array, "*instance"]: ...

    def log_mgf(self, t: float) -> Float[Array, "*instance"]:
        """log E exp(t y)."""
        ...


class SolvedLoss(Loss, Protocol):
    """A loss that knows its own expectation and best decision.

    Each method may be left out, or raise `NoClosedForm`: the answer is then found numerically.
    """

    def expected(
        self, predicted: Predicted, decision: Float[Array, "*instance"]
    ) -> Float[Array, "*instance"]:
        """E ℓ(y, h)."""
        ...

    def log_expected_utility(
        self, predicted: Predicted, decision: Float[Array, "*instance"], scale: Number
    ) -> Float[Array, "*instance"]:
        """log E exp(-ℓ(y, h)/scale)."""
        ...

    def exact_decision(self, predicted: Predicted) -> Float[Array, "*instance"]:
        """The decision of least expected loss."""
        ...

    def bayes_decision(self, draws: Float[Array, "draw *instance"]) -> Float[Array, "*instance"]:
        """The decision of least average loss over draws of the outcome."""
        ...


UtilityTerm: TypeAlias = Callable[
    [Key, Distribution, Float[Array, "*instance"]], Float[Array, "*instance"]
]
"""(key, p(y|θ), decisions) -> log ũ(θ, h), or its estimate, for one draw of θ."""


class PositiveUtility(Protocol):
    """u(y, h) > 0, of which the bound takes the logarithm: larger is better."""

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

    def expected_log(
        self,
        expectation: "Expectation",
        key: Key | None,
        outcome: Distribution,
        decision: Float[Array, "*instance"],
    ) -> Float[Array, "*instance"]:
        """E log u(y, h)."""
        ...


@runtime_checkable
class Estimator(Protocol):
    """How the logarithm of an expected utility is estimated."""

    def term(self, utility: PositiveUtility, expectation: "Expectation") -> UtilityTerm: ...


class Gain(Protocol):
    """What the utility term maximises: a linearized loss, or a utility inside a logarithm."""

    @property
    def loss(self) -> Loss | None:
        """The loss behind it, where there is one."""
        ...

    @property
    def bayes_is_best(self) -> bool:
        """Whether the Bayes decision of that loss is what maximises the term."""
        ...

    def term(self, expectation: "Expectation", estimator: Estimator | None = None) -> UtilityTerm:
        """U(λ, h) for one draw of θ."""
        ...


@runtime_checkable
class Transform(Protocol):
    """From a loss to a gain, on a scale M that plain VI's losses suggest."""

    @property
    def scale(self) -> float | None:
        """M; None while it is to be found."""
        ...

    def at(self, scale: float) -> "Transform":
        """The same with this M."""
        ...

    def fitted(self, losses: np.ndarray) -> "Transform":
        """The same with M found from the losses of plain VI's decisions, unless it was given."""
        ...

    def __call__(self, loss: Loss, scale: Number) -> Gain:
        """The gain on this scale, which may be traced."""
        ...


@runtime_checkable
class Expectation(Protocol):
    """E over outcomes y ~ p(y|θ), for each instance.

    Derive from this class for the answers that have a default. `stakes.expectation.ByPoints` has
    all but one for an expectation that is a weighted sum over points.
    """

    def objection(
        self, outcome: Distribution, gain: Gain, decision: Float[Array, "*instance"]
    ) -> str | None:
        """Why this outcome and gain do not go with it; None where they do."""
        ...

    def expected(
        self,
        key: Key | None,
        outcome: Distribution,
        loss: Loss,
        decision: Float[Array, "*instance"],
    ) -> Float[Array, "*instance"]:
        """E ℓ(y, h)."""
        ...

    def log_expected(
        self,
        key: Key | None,
        outcome: Distribution,
        utility: PositiveUtility,
        decision: Float[Array, "*instance"],
    ) -> Float[Array, "*instance"]:
        """log E u(y, h), computed in log space."""
        ...

    def relative_variance(
        self,
        key: Key | None,
        outcome: Distribution,
        utility: PositiveUtility,
        decision: Float[Array, "*instance"],
    ) -> Float[Array, "*instance"] | float:
        """Var(ū)/ū² of the estimate that `log_expected` is the logarithm of; zero where exact."""
        return 0.0

    def sized(self, outcomes: Iterable[Distribution]) -> "Expectation":
        """With what was left open chosen for outcomes such as these, stacked over draws of θ."""
        return self

    def widened(self, outcomes: Iterable[Distribution]) -> "Expectation":
        """With room for these outcomes, too."""
        return self

    def mixture(self, outcomes: Distribution) -> Predicted:
        """Outcomes stacked over draws of θ as one, of which a loss may ask its questions."""
        ...

    @property
    def held(self) -> int:
        """Values of y held at once for each instance, for one draw of θ."""
        return 1

    @property
    def summed(self) -> int:
        """Values of y that an answer of `mixture` takes for each instance."""
        return 1


class Trial(NamedTuple):
    """A loss or utility, tried on outcomes and decisions."""

    name: str
    values: Float[Array, "*instance"]
    rule: str
    """What values must not be."""
    broken: Bool[Array, "*instance"]
    """Where they are."""
    remedy: str


class Criterion(Protocol):
    """What decisions are judged by in the end: the loss itself, or the utility."""

    @property
    def title(self) -> str:
        """What it calls itself."""
        ...

    def trial(
        self, outcome: Float[Array, "*instance"], decision: Float[Array, "*instance"]
    ) -> Trial:
        """Try it, to find what cannot be a loss or utility before it is used."""
        ...

    def cost(
        self, outcome: Float[Array, "*instance"], decision: Float[Array, "*instance"]
    ) -> Float[Array, "*instance"]:
        """What a decision should make small: the loss, or minus the utility."""
        ...

    def risk(
        self,
        expectation: Expectation,
        key: Key | None,
        outcome: Distribution,
        decision: Float[Array, "*instance"],
    ) -> Float[Array, "*instance"]:
        """The expected cost for one draw of θ."""
        ...

    def decision(
        self,
        predicted: Predicted,
        draws: Callable[[], Float[Array, "draw *instance"]],
    ) -> Float[Array, "*instance"]:
        """The decision of least risk: exact, or from draws; may raise `NoClosedForm`."""
        ...


class Objective(NamedTuple):
    """What a calibrated fit maximises beside the ELBO."""

    gain: Gain
    expectation: Expectation
    term: UtilityTerm


@runtime_checkable
class DecisionRule(Protocol):
    """How decisions are set in the course of a fit."""

    def objection(self, gain: Gain) -> str | None:
        """Why it cannot serve this gain; None where it can."""
        ...

    def decide(
        self,
        objective: Objective,
        key: Key,
        outcomes: Distribution,
        now: Float[Array, "*instance"],
    ) -> Float[Array, "*instance"]:
        """Decisions for outcomes stacked over draws of θ, from those of now."""
        ...
