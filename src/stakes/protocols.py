"""The protocols of all choices: a value of your own that implements one serves as well.

A *loss* is what a decision costs; a *transform* turns it into a *gain*; an *expectation* averages
over outcomes; an *estimator* estimates the logarithm of an expected utility; a *decision rule* sets
decisions. A *method*, which optimises variational parameters and decisions, implements
`stakes.optimise.Method`.

Choices are values: frozen dataclasses, so that JAX can reuse the programs compiled for them.
Axes are named as in `Float[Array, "theta *instance"]`: draws of θ first, then one axis for each
plate of the outcome.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from stakes._types import Array, Bool, Distribution, Float, Key, Number
from stakes.errors import NoClosedForm
from stakes.varying import Columns, Need


class Loss(Protocol):
    """`loss(outcome, decision)`, elementwise, never negative: smaller is better.

    Any such function will do. A loss may also have some or all of the methods of `SolvedLoss`.
    """

    def __call__(
        self, outcome: Float[Array, "*instance"], decision: Float[Array, "*instance"], /
    ) -> Float[Array, "*instance"]:
        """ℓ(y, h)."""
        ...


class Predicted(Protocol):
    """A predicted outcome, as a loss uses it; each method may raise `NoClosedForm`."""

    def mean(self) -> Float[Array, "*instance"]:
        """E y."""
        ...

    def variance(self) -> Float[Array, "*instance"]:
        """E (y - E y)²."""
        ...

    def cdf(self, value: Float[Array, "*instance"]) -> Float[Array, "*instance"]:
        """P(y ≤ value)."""
        ...

    def below(self, value: Float[Array, "*instance"]) -> Float[Array, "*instance"]:
        """P(y < value)."""
        ...

    def tails(
        self, decision: Float[Array, "*instance"], above: float, below: float
    ) -> Float[Array, "*instance"]:
        """E above·(y-h)+ + below·(h-y)+: what falling short and going over cost."""
        ...

    def least_tails(self, above: float, below: float) -> Float[Array, "*instance"]:
        """The least value of `tails` over all decisions."""
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

    def best_in_log_tails(self, above: Number, below: Number) -> Float[Array, "*instance"]:
        """The decision at which `log_tails` is largest."""
        ...

    def most_log_tails(self, above: Number, below: Number) -> Float[Array, "*instance"]:
        """The largest value of `log_tails` over all decisions."""
        ...

    def best_in_log_kernel(self, width: Number) -> Float[Array, "*instance"]:
        """The decision at which `log_kernel` is largest."""
        ...

    def quantile(self, level: float) -> Float[Array, "*instance"]:
        """The least value whose distribution function reaches the level."""
        ...

    def log_mgf(self, t: float) -> Float[Array, "*instance"]:
        """log E exp(t y)."""
        ...


class SolvedLoss(Loss, Protocol):
    """A loss with formulas for its expectation and its best decision.

    Each method may be left out, or raise `NoClosedForm`: the value is then found numerically.
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

    def expected_regret(
        self, predicted: Predicted, decision: Float[Array, "*instance"]
    ) -> Float[Array, "*instance"]:
        """E ℓ(y, h) less its least value over all decisions."""
        ...

    def log_utility_regret(
        self, predicted: Predicted, decision: Float[Array, "*instance"], scale: Number
    ) -> Float[Array, "*instance"]:
        """The largest log E exp(-ℓ(y, h')/scale) over all decisions h', less that of h."""
        ...

    def exact_decision(self, predicted: Predicted) -> Float[Array, "*instance"]:
        """The decision with the least expected loss."""
        ...

    def exact_utility_decision(
        self, predicted: Predicted, scale: Number
    ) -> Float[Array, "*instance"]:
        """The decision with the largest E exp(-ℓ(y, h)/scale)."""
        ...

    def bayes_decision(self, draws: Float[Array, "draw *instance"]) -> Float[Array, "*instance"]:
        """The decision with the least average loss over draws of the outcome."""
        ...


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


class Expectation(Protocol):
    """E over outcomes y ~ p(y|θ), for each instance.

    Derive from this class to inherit the defaults, or from `stakes.expectation.ByPoints` for a
    weighted sum over points.
    """

    @abstractmethod
    def objection(
        self, outcome: Distribution, gain: Gain, decision: Float[Array, "*instance"]
    ) -> str | None:
        """Why it cannot handle this outcome and gain; None where it can."""
        ...

    @abstractmethod
    def expected(
        self,
        key: Key | None,
        outcome: Distribution,
        loss: Loss,
        decision: Float[Array, "*instance"],
    ) -> Float[Array, "*instance"]:
        """E ℓ(y, h)."""
        ...

    @abstractmethod
    def log_expected(
        self,
        key: Key | None,
        outcome: Distribution,
        utility: PositiveUtility,
        decision: Float[Array, "*instance"],
    ) -> Float[Array, "*instance"]:
        """log E u(y, h), computed in log space."""
        ...

    def expected_regret(
        self,
        key: Key | None,
        outcome: Distribution,
        loss: Loss,
        decision: Float[Array, "*instance"],
    ) -> Float[Array, "*instance"]:
        """E ℓ(y, h) less its least value over all decisions; may raise `NoClosedForm`."""
        raise NoClosedForm("Only a closed form knows the least expected loss.")

    def log_expected_regret(
        self,
        key: Key | None,
        outcome: Distribution,
        utility: "PositiveUtility",
        decision: Float[Array, "*instance"],
    ) -> Float[Array, "*instance"]:
        """The largest log E u(y, h') less log E u(y, h); may raise `NoClosedForm`."""
        raise NoClosedForm("Only a closed form knows the largest expected utility.")

    def relative_variance(
        self,
        key: Key | None,
        outcome: Distribution,
        utility: PositiveUtility,
        decision: Float[Array, "*instance"],
    ) -> Float[Array, "*instance"] | float:
        """Var(ū)/ū² of the estimate whose logarithm is `log_expected`; zero where exact."""
        return 0.0

    def table(
        self, key: Key | None, outcome: Distribution, decision: Float[Array, "*instance"]
    ) -> "Tabled":
        """Its values of one outcome, found once to try many decisions; may raise `NoClosedForm`."""
        raise NoClosedForm("Only an expectation over points has a table of them.")

    def pooled(
        self, outcomes: Distribution, drawn: Float[Array, "draw *instance"], most: int
    ) -> "Tabled":
        """Up to so many values of the whole mixture, to try many decisions roughly.

        Where there is mass, the draws tell; may raise `NoClosedForm`.
        """
        raise NoClosedForm("Only a density can be tabled for a mixture.")

    def sized(self, outcomes: Iterable[Distribution]) -> "Expectation":
        """The same, with what was left open chosen for these outcomes, stacked over draws of θ."""
        return self

    def widened(self, outcomes: Iterable[Distribution]) -> "Expectation":
        """The same, with room for these outcomes, too."""
        return self

    @abstractmethod
    def mixture(self, outcomes: Distribution) -> Predicted:
        """Outcomes stacked over draws of θ, as one predicted outcome."""
        ...

    @property
    def held(self) -> int:
        """How many values of y are held at once for each instance and draw of θ."""
        return 1

    @property
    def drawn(self) -> bool:
        """Whether it averages over random draws of y."""
        return False

    @property
    def cheap(self) -> bool:
        """Whether it costs no more than the loss itself: a small problem then takes more draws."""
        return False

    @property
    def summed(self) -> int:
        """How many values of y the methods of `mixture` sum over for each instance."""
        return 1

    @property
    def tried(self) -> int:
        """How many values of y are summed over, for each instance, to try one decision."""
        return self.summed


class Space(Protocol):
    """Where decisions may lie. Inside, each is a number; users may see a label instead."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """What differs from case to case."""
        ...

    @property
    def actions(self) -> tuple[float, ...] | None:
        """All decisions, where there are few enough to try each; None otherwise."""
        ...

    @property
    def is_smooth(self) -> bool:
        """Whether decisions can follow a gradient."""
        ...

    @property
    def bounded(self) -> bool:
        """Whether there is a least and a largest decision."""
        ...

    def at(self, columns: Columns) -> "Space":
        """The same for some cases, with their values in place."""
        ...

    def inside(self, decision: Float[Array, "*instance"]) -> Float[Array, "*instance"]:
        """The nearest decision in the space."""
        ...

    def beside(self, decision: Float[Array, "*instance"]) -> Float[Array, "place *instance"]:
        """Decisions of which one is best, where the cost is convex and least at this number."""
        ...

    def free(self, decision: Float[Array, "*instance"]) -> Float[Array, "*instance"]:
        """From the space to a line without limits, on which gradients can be followed."""
        ...

    def held(self, free: Float[Array, "*instance"]) -> Float[Array, "*instance"]:
        """Back from that line, inside the limits."""
        ...

    def labelled(self, decisions: np.ndarray) -> np.ndarray:
        """Decisions as users see them."""
        ...

    def coded(self, where: str, decisions: Any) -> np.ndarray:
        """From what users see to numbers; `where` is for messages."""


class Tabled(Expectation, Protocol):
    """An expectation over fixed values of one outcome: quick, and rough for some decisions."""

    @property
    @abstractmethod
    def few(self) -> bool:
        """Whether there are so few values that `places` has all of them."""
        ...

    @abstractmethod
    def places(self) -> Float[Array, "place *instance"]:
        """Where to begin a search: evenly over the values that matter and a little beyond."""

        ...


class Trial(NamedTuple):
    """A loss or utility, tried on outcomes and decisions."""

    name: str
    values: Float[Array, "*instance"]
    rule: str
    """What the values must not be, such as 'negative'."""
    broken: Bool[Array, "*instance"]
    """Where the values break the rule."""
    remedy: str


Over: TypeAlias = Callable[[Float[Array, "*instance"], str], Float[Array, "*instance"]]
"""(values, "sum" or "least") -> that of the group of each case."""


class Criterion(Protocol):
    """What decisions are judged by in the end: the loss itself, or the utility."""

    @property
    def title(self) -> str:
        """Its name in messages and reports."""
        ...

    @property
    def convex(self) -> bool:
        """Whether its risk is surely convex in the decision."""
        ...

    @property
    def needs(self) -> tuple[Need, ...]:
        """What differs from case to case."""
        ...

    def at(self, columns: Columns) -> "Criterion":
        """The same for some cases, with their values in place."""
        ...

    def trial(
        self, outcome: Float[Array, "*instance"], decision: Float[Array, "*instance"]
    ) -> Trial:
        """Try it on outcomes and decisions, to find mistakes before it is used."""
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
        """What a good decision makes small for one draw of θ: E ℓ, or -log E u."""
        ...

    def averaged(self, risks: Float[Array, "theta *instance"]) -> Float[Array, "*instance"]:
        """The risk under all draws of θ together, from that under each."""
        ...

    def worth(self, risks: Float[Array, "*instance"]) -> Float[Array, "*instance"]:
        """A risk in the user's terms: the expected loss, or the expected utility."""
        ...

    def pooled(self, risks: Float[Array, "*instance"], over: Over) -> Float[Array, "*instance"]:
        """The risk of a decision that several cases share, from that for each."""
        ...

    def decision(self, predicted: Predicted) -> Float[Array, "*instance"]:
        """The decision with the least risk by a formula; may raise `NoClosedForm`."""
        ...

    def drawn_decision(
        self, draws: Callable[[], Float[Array, "draw *instance"]]
    ) -> Float[Array, "*instance"]:
        """The decision with the least average cost over draws; may raise `NoClosedForm`."""
        ...


class Objective(NamedTuple):
    """What a calibrated fit maximises in addition to the ELBO.

    Where loss or space differ from case to case, `at` gives the objective for those of a batch.
    """

    gain: Gain
    expectation: Expectation
    worth: UtilityTerm
    """log ũ(θ, h): what decisions maximise."""
    term: UtilityTerm
    """What the bound has: the same, or less its maximum over h where the gain asks for regret."""
    space: Space
    """Where decisions may lie."""
    needs: tuple[Need, ...] = ()
    """What differs from case to case."""
    build: "Callable[[Columns], Objective] | None" = None

    def at(self, columns: Columns) -> "Objective":
        """The same for some cases, with their values in place."""
        return self if self.build is None else self.build(columns)


class DecisionRule(Protocol):
    """How decisions are set during a fit."""

    def objection(self, gain: Gain) -> str | None:
        """Why it cannot handle this gain; None where it can."""
        ...

    def decide(
        self,
        objective: Objective,
        key: Key,
        outcomes: Distribution,
        now: Float[Array, "*instance"],
    ) -> Float[Array, "*instance"]:
        """Decisions for outcomes stacked over draws of θ; `now` has the current ones."""
        ...
