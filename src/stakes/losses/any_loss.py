"""What can be asked of any loss, whether it is one of ours or a function."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax.numpy as jnp

from stakes._types import Array, Distribution, Key, Number
from stakes.errors import NoClosedForm, name_of
from stakes.protocols import Expectation, Loss, Over, Predicted, Space, Trial
from stakes.varying import Columns, Need


class Dial(NamedTuple):
    """What a reader of the report may turn, where the page can decide again."""

    kind: str
    """`costs`, of a unit short and a unit too many, or `linex`."""
    values: tuple[float, ...]


def covariates_of(function: Callable[..., Any]) -> tuple[str, ...]:
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
        return cls(function, {name: columns[name] for name in covariates_of(function)})

    @property
    def __name__(self) -> str:
        return name_of(self.function)

    def __call__(self, outcome: Array, decision: Array) -> Array:
        return self.function(outcome, decision, **self.covariates)


@final
@dataclass(frozen=True)
class AnyLoss:
    """Any loss, with all methods of a `SolvedLoss`: those it lacks raise `NoClosedForm`."""

    loss: Loss

    @property
    def title(self) -> str:
        return name_of(self.loss)

    @property
    def space(self) -> Space | None:
        """Where its decisions lie, where it knows that itself."""
        space: Space | None = getattr(self.loss, "space", None)
        return space

    @property
    def convex(self) -> bool:
        """Whether it is known to be convex in the decision, and with it its expectation."""
        return bool(getattr(self.loss, "convex", False))

    @property
    def needs(self) -> tuple[Need, ...]:
        """What differs from case to case: a function says so by arguments given by name alone."""
        needs: tuple[Need, ...] | None = getattr(self.loss, "needs", None)
        return covariates_of(self.loss) if needs is None else needs

    def at(self, columns: Columns) -> "AnyLoss":
        """The loss for some cases, with their values in place."""
        if not self.needs:
            return self
        at = getattr(self.loss, "at", None)
        return AnyLoss(WithCovariates.of(self.loss, columns) if at is None else at(columns))

    def check(self, columns: Columns) -> None:
        """Refuse parameters of some cases that could not be those of all."""
        check = getattr(self.loss, "check", None)
        if check is not None and self.needs:
            check(columns)

    @property
    def knows_decision(self) -> bool:
        return hasattr(self.loss, "exact_decision") or hasattr(self.loss, "bayes_decision")

    @property
    def of_numbers(self) -> bool:
        """Whether it is one that knows more of itself than a function does, of a single outcome."""
        return self.knows_decision or any(hasattr(self.loss, n) for n in ("convex", "expected"))

    @property
    def dial(self) -> Dial | None:
        """None where it has no parameter to turn."""
        dial = getattr(self.loss, "dial", None)
        return dial if isinstance(dial, Dial) else None

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        return self._answer("expected", "expectation")(predicted, decision)

    def expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        return self._answer("expected_regret", "regret")(predicted, decision)

    def log_expected_utility(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        return self._answer("log_expected_utility", "expectation")(predicted, decision, scale)

    def log_utility_regret(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        return self._answer("log_utility_regret", "regret")(predicted, decision, scale)

    def exact_decision(self, predicted: Predicted) -> Array:
        return self._answer("exact_decision", "decision")(predicted)

    def exact_utility_decision(self, predicted: Predicted, scale: Number) -> Array:
        return self._answer("exact_utility_decision", "decision")(predicted, scale)

    def cost(self, outcome: Array, decision: Array) -> Array:
        return self.loss(outcome, decision)

    def risk(
        self, expectation: Expectation, key: Key | None, outcome: Distribution, decision: Array
    ) -> Array:
        return expectation.expected(key, outcome, self.loss, decision)

    def averaged(self, risks: Array) -> Array:
        return risks.mean(axis=0)

    def worth(self, risks: Array) -> Array:
        return risks

    def pooled(self, risks: Array, over: Over) -> Array:
        return over(risks, "sum")

    def decision(self, predicted: Predicted) -> Array:
        return self.exact_decision(predicted)

    def drawn_decision(self, draws: Callable[[], Array]) -> Array:
        return self._answer("bayes_decision", "decision")(draws())

    def trial(self, outcome: Array, decision: Array) -> Trial:
        values = jnp.asarray(self.loss(outcome, decision))
        remedy = "A loss has to be zero or more; add a constant to it."
        return Trial(f"`loss={self.title}`", values, "negative", values < 0, remedy)

    def _answer(self, question: str, what: str) -> Callable[..., Array]:
        answer: Callable[..., Array] | None = getattr(self.loss, question, None)
        if answer is None:
            raise NoClosedForm(f"`{self.title}` has no closed form for its {what}.")
        return answer
