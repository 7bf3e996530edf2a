"""Where decisions may lie, what they are judged by, and how a fit sets them."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from stakes._types import Array, Bool, Distribution, Float, Key
from stakes.protocols.expectations import Expectation, Gain, UtilityTerm
from stakes.protocols.losses import Predicted
from stakes.varying import Columns, Need


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
