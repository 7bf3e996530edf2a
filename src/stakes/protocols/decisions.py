"""Where decisions may lie, what they are judged by, and how a fit sets them."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Array, Distribution, Float, Key, Number, PerInstance, PyTree
from stakes.errors import InputError, NoClosedForm
from stakes.protocols.expectations import Expectation, Gain, UtilityTerm
from stakes.protocols.losses import Loss, Predicted
from stakes.varying import Columns, Need


class Space(Protocol):
    """Where decisions may lie. Inside, each is a number; users may see a label instead.

    Derive from this class to inherit the defaults, which suit numbers within limits that are the
    same for all cases. A decision with several parts has them along a leading axis.
    """

    labels: Sequence[Any] = ()
    """What users may call the actions; empty where decisions are any numbers of a kind."""
    names: tuple[str, ...] = ()
    """Names of the parts; empty where a decision is a single number."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """What differs from case to case."""
        return ()

    def at(self, columns: Columns) -> "Space":
        """The same for some cases, with their values in place."""
        return self

    def check(self, columns: Columns) -> None:
        """Refuse limits of some cases that could not be those of all."""
        return

    @property
    def actions(self) -> tuple[float, ...] | None:
        """All decisions, where there are few enough to try each; None otherwise."""
        return None

    @property
    def are_numbers(self) -> bool:
        """Whether users, too, see decisions as numbers."""
        return True

    @property
    def is_smooth(self) -> bool:
        """Whether decisions can follow a gradient."""
        return False

    @property
    def is_whole(self) -> bool:
        """Whether decisions are whole numbers."""
        return False

    @property
    def is_unlimited(self) -> bool:
        """Whether any number is allowed."""
        return False

    @property
    def is_bounded(self) -> bool:
        """Whether decisions have both a lower and an upper limit."""
        return False

    @property
    def parts(self) -> tuple["Space", ...]:
        """The space of each part of a decision."""
        return (self,)

    @property
    def axes(self) -> tuple[int, ...]:
        """Axes of decisions before those of the cases: the number of parts, where they have one."""
        return (len(self.names),) if self.names else ()

    def unpack(self, decision: Array) -> PyTree:
        """A decision as a loss sees it: a number for each case, or the parts of one."""
        return decision

    def pack(self, decision: PyTree, like: Array) -> Array:
        """A decision as a loss gives it, as an array with a number for each case."""
        return jnp.broadcast_to(decision, like.shape).astype(like.dtype)

    @abstractmethod
    def inside(self, decision: PerInstance) -> PerInstance:
        """The nearest decision in the space."""

    @abstractmethod
    def beside(self, decision: PerInstance) -> Float[Array, "place *instance"]:
        """Decisions of which one is best, if the cost is convex and least at this number."""

    def to_line(self, decision: PerInstance) -> PerInstance:
        """From the space to a line without limits, on which gradients can be followed."""
        raise InputError(f"Decisions in `{self!r}` cannot follow a gradient; use `method=EM()`.")

    def from_line(self, place: PerInstance) -> PerInstance:
        """Back from that line, inside the limits."""
        raise InputError(f"Decisions in `{self!r}` cannot follow a gradient; use `method=EM()`.")

    def to_labels(self, decisions: np.ndarray) -> np.ndarray:
        """Decisions as users see them."""
        return decisions

    def from_labels(self, where: str, decisions: object) -> np.ndarray:
        """From what users see to numbers; `where` is for messages."""
        return checks.array(where, decisions).astype(float)


Over: TypeAlias = Callable[[PerInstance, str], PerInstance]
"""(values, "sum", "least" or "most") -> that of the group of each case."""


class Groups(Protocol):
    """Which cases share a decision: by default none do, and each has its own."""

    @property
    def are_shared(self) -> bool:
        """Whether a decision may be that of several cases."""
        return False

    def counting(self, weight: PerInstance) -> "Groups":
        """The same, where cases of no weight do not matter."""
        return self

    def over(self, values: Array, how: str) -> PerInstance:
        """The "sum", or the "least" or "most" value, over the group of each case."""
        return values

    def mean(self, values: Array) -> PerInstance:
        """The mean over the group of each case."""
        return values

    def pool(self, criterion: "Criterion", risks: Array) -> PerInstance:
        """The risk of a decision for all that share it, from that for each."""
        return risks

    def gather(self, decision: Array) -> Float[Array, "*group"]:
        """From a decision for each case to one for each group."""
        return decision

    def spread(self, decision: Float[Array, "*group"]) -> PerInstance:
        """From a decision for each group to one for each of its cases."""
        return decision


class Criterion(Protocol):
    """What decisions are judged by in the end: the loss itself, or the utility."""

    loss: Loss | None = None
    """The loss behind it, where there is one."""

    @property
    def argument(self) -> str:
        """The argument of `Problem` by which it is given: "loss" or "utility"."""

    @property
    def title(self) -> str:
        """Its name in messages and reports."""

    @property
    def space(self) -> Space | None:
        """Where its decisions lie, where it knows that itself."""
        return None

    @property
    def convex(self) -> bool:
        """Whether its risk is surely convex in the decision."""
        return False

    @property
    def of_numbers(self) -> bool:
        """Whether it knows more of itself than a function does, of outcomes that are numbers."""
        return False

    @property
    def needs(self) -> tuple[Need, ...]:
        """What differs from case to case."""

    def at(self, columns: Columns) -> "Criterion":
        """The same for some cases, with their values in place."""

    def check(self, columns: Columns) -> None:
        """Refuse parameters of some cases that could not be those of all."""
        return

    def split_numbers(self) -> tuple["Criterion", tuple[float, ...]]:
        """The same without its numbers, and these: arguments of compiled programs."""
        return self, ()

    def with_numbers(self, numbers: Sequence[Number]) -> "Criterion":
        """With these numbers, which may be traced, where `split_numbers` took some."""
        return self

    @property
    def rule(self) -> str:
        """What its values must not be, such as "negative"."""

    @property
    def remedy(self) -> str:
        """What to do where they are."""

    @property
    def of_values(self) -> str:
        """What these values are, for messages."""
        return f"`{self.argument}={self.title}`"

    def values(self, outcome: PerInstance, decision: PerInstance) -> PerInstance:
        """What the rule is about: the loss, or the utility."""

    def breaks_rule(self, values: np.ndarray) -> np.ndarray:
        """Where values of outcomes and decisions on which it is tried break the rule."""

    def cost(self, outcome: PerInstance, decision: PerInstance) -> PerInstance:
        """What a decision should make small: the loss, or minus the utility."""

    def risk(
        self,
        expectation: Expectation,
        key: Key | None,
        outcome: Distribution,
        decision: PerInstance,
    ) -> PerInstance:
        """What a good decision makes small for one draw of θ: E ℓ, or -log E u."""

    def average(self, risks: Float[Array, "theta *instance"]) -> PerInstance:
        """The risk under all draws of θ together, from that under each."""

    def worth(self, risks: PerInstance) -> PerInstance:
        """A risk in the user's terms: the expected loss, or the expected utility."""

    def pool(self, risks: PerInstance, over: Over) -> PerInstance:
        """The risk of a decision that several cases share, from that for each."""

    def decision(self, predicted: Predicted) -> PerInstance:
        """Return the decision with the least risk by a formula, or raise `NoClosedForm`."""
        raise NoClosedForm(f"`{self.title}` has no closed form for its best decision.")

    def decision_by_draws(self, draws: Callable[[], Float[Array, "draw *instance"]]) -> PerInstance:
        """Return the decision with the least average cost over draws, or raise `NoClosedForm`."""
        raise NoClosedForm(f"`{self.title}` has no closed form for its best decision.")


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
    groups: Groups
    """Which cases share one."""
    needs: tuple[Need, ...] = ()
    """What differs from case to case."""
    build: "Callable[[Columns], Objective] | None" = None

    def at(self, columns: Columns) -> "Objective":
        """The same for some cases, with their values in place."""
        return self if self.build is None else self.build(columns)

    def counting(self, weight: Array) -> "Objective":
        """The same, where shared decisions are made for the cases that have weight."""
        return self._replace(groups=self.groups.counting(weight))


class DecisionRule(Protocol):
    """How decisions are set during a fit."""

    def objection(self, gain: Gain) -> str | None:
        """Why it cannot handle this gain; None where it can."""

    def decide(
        self, objective: Objective, key: Key, outcomes: Distribution, now: PerInstance
    ) -> PerInstance:
        """Decisions for outcomes stacked over draws of θ; `now` has the current ones."""
