"""What can be asked of any loss, whether it is one of ours or a function.

A loss needs no more than a call, and may have any of the methods of `SolvedLoss`, parameters that
differ from case to case, a space of its own, or an objection to some outcomes. `AnyLoss` is the one
place that looks which of these it has, so that nothing else has to ask.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np

from stakes._types import Array, Distribution, Key, Number
from stakes.errors import NoClosedForm, name_of
from stakes.losses.affine import at_mean
from stakes.protocols import Criterion, Expectation, Loss, Over, Predicted, Space
from stakes.varying import Columns, Need


class Dial(NamedTuple):
    """What a reader of the report may turn, where the page can decide again.

    Attributes:
        kind: `costs`, of a unit short and a unit too many, or `linex`.
    """

    kind: str
    values: tuple[float, ...]


def covariates_of(function: Callable[..., object]) -> tuple[str, ...]:
    """Arguments of a function that are given by name alone, and have no default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions written in C
        return ()
    kinds = inspect.Parameter
    return tuple(
        p.name for p in parameters if p.kind is kinds.KEYWORD_ONLY and p.default is kinds.empty
    )


@final
@dataclass(frozen=True, eq=False)
class WithCovariates:
    """A function of outcome, decision and covariates, for some cases."""

    function: Callable[..., Array]
    covariates: dict[str, Array]

    @classmethod
    def of(cls, function: Callable[..., Array], columns: Columns) -> "WithCovariates":
        """Put the values of some cases in place for the arguments given by name alone."""
        return cls(function, {name: columns[name] for name in covariates_of(function)})

    @property
    def __name__(self) -> str:
        return name_of(self.function)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        return self.function(outcome, decision, **self.covariates)


@final
@dataclass(frozen=True)
class AnyLoss(Criterion):
    """Any loss, as a criterion; a question without a formula raises `NoClosedForm`."""

    loss: Loss = field()

    argument = "loss"
    rule = "negative"
    remedy = "A loss has to be zero or more; add a constant to it."

    def _own(self, name: str) -> Any:
        """Return an attribute of the loss itself, or None if it has none of this name."""
        return getattr(self.loss, name, None)

    def _answer(self, question: str, what: str) -> Callable[..., Array]:
        """Return a method of the loss, or raise `NoClosedForm`.

        Args:
            question: the name of the method.
            what: the quantity that it knows, for the message.
        """
        answer: Callable[..., Array] | None = self._own(question)
        if answer is None:
            raise NoClosedForm(f"`{self.title}` has no closed form for its {what}.")
        return answer

    @property
    def title(self) -> str:
        """The name of the loss in messages and reports: of a function its name."""
        return name_of(self.loss)

    @property
    def space(self) -> Space | None:
        space: Space | None = self._own("space")
        return space

    @property
    def convex(self) -> bool:
        return bool(self._own("convex"))

    @property
    def needs(self) -> tuple[Need, ...]:
        """What differs from case to case: a function says so by arguments given by name alone."""
        needs: tuple[Need, ...] | None = self._own("needs")
        return covariates_of(self.loss) if needs is None else needs

    def at(self, columns: Columns) -> "AnyLoss":
        """Return the loss for some cases, with their values in place.

        A function gets them as arguments by name, a loss of ours in its parameters.
        """
        if not self.needs:
            return self
        at = self._own("at")
        return AnyLoss(WithCovariates.of(self.loss, columns) if at is None else at(columns))

    def check(self, columns: Columns) -> None:
        """Refuse parameters of some cases that could not be those of all, where the loss has a
        rule."""
        check = self._own("check")
        if check is not None and self.needs:
            check(columns)

    def split_numbers(self) -> tuple["AnyLoss", tuple[float, ...]]:
        split = self._own("split_numbers")
        if split is None:
            return self, ()
        loss, numbers = split()
        return AnyLoss(loss), numbers

    def with_numbers(self, numbers: Sequence[Number]) -> "AnyLoss":
        return AnyLoss(self._own("with_numbers")(numbers)) if numbers else self

    def objection(self, *, is_discrete: bool, classes: int | None) -> str | None:
        """Why it cannot judge an outcome with so many classes, if it is one; None where it can."""
        objection = self._own("objection")
        reason: str | None = objection and objection(is_discrete=is_discrete, classes=classes)
        return reason

    @property
    def knows_decision(self) -> bool:
        """Whether there is a formula for the best decision, given a distribution or draws."""
        return any(map(self._own, ("exact_decision", "bayes_decision")))

    @property
    def of_numbers(self) -> bool:
        """Whether it is more than a function: it then knows outcomes that are single numbers."""
        return self.knows_decision or any(
            self._own(name) is not None for name in ("convex", "expected")
        )

    @property
    def dial(self) -> Dial | None:
        """None where it has no parameter to turn."""
        dial: Dial | None = self._own("dial")
        return dial

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        """E ℓ(y, h), which is ℓ(E y, h) for a loss that is linear in the outcome."""
        if self._own("expected") is None and (linear := at_mean(self.loss, predicted, decision)):
            return linear.value
        return self._answer("expected", "expectation")(predicted, decision)

    def expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        """E ℓ(y, h) less its least value over all decisions."""
        return self._answer("expected_regret", "regret")(predicted, decision)

    def log_expected_utility(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        """log E exp(-ℓ(y, h)/scale)."""
        return self._answer("log_expected_utility", "expectation")(predicted, decision, scale)

    def log_utility_regret(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        """The largest log E exp(-ℓ(y, h')/scale) over all decisions h', less that of h."""
        return self._answer("log_utility_regret", "regret")(predicted, decision, scale)

    def exact_utility_decision(self, predicted: Predicted, scale: Number) -> Array:
        """The decision with the largest E exp(-ℓ(y, h)/scale)."""
        return self._answer("exact_utility_decision", "decision")(predicted, scale)

    def cost(self, outcome: Array, decision: Array) -> Array:
        return self.loss(outcome, decision)

    def values(self, outcome: Array, decision: Array) -> Array:
        return jnp.asarray(self.loss(outcome, decision))

    def breaks_rule(self, values: np.ndarray) -> np.ndarray:
        return values < 0

    def risk(
        self, expectation: Expectation, key: Key | None, outcome: Distribution, decision: Array
    ) -> Array:
        return expectation.expected(key, outcome, self.loss, decision)

    def average(self, risks: Array) -> Array:
        return risks.mean(axis=0)

    def worth(self, risks: Array) -> Array:
        return risks

    def pool(self, risks: Array, over: Over) -> Array:
        return over(risks, "sum")

    def decision(self, predicted: Predicted) -> Array:
        return self._answer("exact_decision", "decision")(predicted)

    def decision_by_draws(self, draws: Callable[[], Array]) -> Array:
        return self._answer("bayes_decision", "decision")(draws())
