"""The task of a decision: where it may lie, what it is judged by, and which cases share it.

A task also tries its loss or utility on outcomes and decisions before any fit. A loss that sums
over cases, is not finite, looks at values that JAX does not know, or favours ever larger decisions
is refused, with the values that show it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from stakes._types import Array, Number
from stakes.errors import InputError
from stakes.host.compiling import ONCE
from stakes.host.programs import TRACING_ERRORS, Program
from stakes.protocols import Criterion, Groups, Space
from stakes.spaces import ALONE, Real, Shared
from stakes.varying import Columns, GroupOf, Need

# Decisions for each case that are tried at once, enough for all of `check_observed`; and for all
# cases together, as many numbers as fit into some megabytes.
AT_ONCE, MOST_AT_ONCE = 18, 2**22


@final
@dataclass(frozen=True)
class DecisionTask:
    """Where decisions may lie, and the loss or utility that they are judged by.

    Attributes:
        per: what shares a decision: a plate, groups by a data argument, or "all"; none for None.
        together: whether outcomes are vectors, along a last axis.
        groups: which cases share a decision, once it is known which cases there are.
    """

    criterion: Criterion
    space: Space = Real()  # noqa: RUF009 (a frozen value)
    per: str | None = None
    together: bool = False
    groups: Groups = ALONE

    @property
    def needs(self) -> tuple[Need, ...]:
        """What differs from case to case: arguments of the data, arrays, and groups."""
        shared = () if self.per is None else (GroupOf(self.per),)
        return tuple(dict.fromkeys((*self.criterion.needs, *self.space.needs, *shared)))

    def at(self, columns: Columns) -> "DecisionTask":
        """Return the task for some cases, with their values in place.

        Args:
            columns: a value for each of these cases, for everything in `needs`.
        """
        if not self.needs:
            return self
        groups = ALONE if self.per is None else Shared(columns[GroupOf(self.per)])
        criterion, space = self.criterion.at(columns), self.space.at(columns)
        return DecisionTask(criterion, space, together=self.together, groups=groups)

    def split_numbers(self) -> tuple["DecisionTask", tuple[float, ...]]:
        """The same without the numbers of its loss, and these: arguments of compiled programs."""
        criterion, numbers = self.criterion.split_numbers()
        return replace(self, criterion=criterion), numbers

    def with_numbers(self, numbers: Sequence[Number]) -> "DecisionTask":
        """With these numbers, which may be traced, where `split_numbers` took some."""
        return replace(self, criterion=self.criterion.with_numbers(numbers))

    def check_columns(self, columns: Columns) -> None:
        """Refuse limits or parameters of some cases that could not be those of all."""
        self.criterion.check(columns)
        self.space.check(columns)

    def check_compiles(self) -> None:
        """Refuse a loss or utility that looks at values, which a fit does not know while it
        compiles.

        It is traced for one outcome and one decision; a loss of vectors is not, since how many
        numbers there are is not known yet.
        """
        if self.together:
            return  # how many numbers there are is not known yet
        struct: Any = jax.ShapeDtypeStruct
        like = struct((), jnp.result_type(float))

        def cost(outcome: Array, decision: Array) -> Array:
            criterion = self.criterion.at(dict.fromkeys(self.needs, outcome))
            return criterion.cost(outcome, self.space.unpack(decision))

        try:
            jax.eval_shape(cost, like, struct(self.space.axes, jnp.result_type(float)))
        except TRACING_ERRORS as error:
            raise InputError(
                f"`Problem({self.criterion.argument}={self.criterion.title})` looks at the values "
                f"of outcomes and decisions, which JAX does not know while it compiles a fit. Use "
                f"`jax.numpy` in place of NumPy and `math`, and `jnp.where` in place of `if`, "
                f"`min` and `max`."
            ) from error

    def check_cost(self, outcome: ArrayLike, decision: ArrayLike) -> None:
        """Try the loss or utility on outcomes and decisions, and refuse what does not fit."""
        _refuse(self.cost_fault(outcome, decision))

    def cost_fault(self, outcome: ArrayLike, decision: ArrayLike) -> str | None:
        """What is wrong with the loss or utility at these outcomes and decisions, if anything."""
        [trial] = self._try(outcome, [decision])
        return trial.undefined() or trial.forbidden()

    def costs(self, outcome: ArrayLike, decision: ArrayLike) -> np.ndarray:
        """Return ℓ(y, h), or minus the utility, as a NumPy array.

        Args:
            outcome: observed, a number for each case.
            decision: one for each case, or for all.
        """
        [costs] = self.costs_of(outcome, [decision])
        return costs

    def costs_of(self, outcome: ArrayLike, decisions: Sequence[ArrayLike]) -> list[np.ndarray]:
        """The same for each of these decisions."""
        return [trial.costs.astype(np.float64) for trial in self._try(outcome, decisions)]

    def check_observed(self, outcome: ArrayLike) -> None:
        """Try decisions on and far around the range of the observed outcomes.

        Refused is also a loss or utility by which decisions beyond all outcomes are best, however
        far we look: three places, each four times as far out, at which the mean cost keeps falling.
        """
        outcome = np.asarray(outcome)
        low, high = float(outcome.min()), float(outcome.max())
        width = max(high - low, 1e-3 * max(abs(low), abs(high), 1.0))
        places = np.linspace(low, high, 9) if self.space.actions is None else self.space.actions
        far = [width * 4.0**power for power in (3, 4, 5)]
        ends = [low - away for away in far] + [high + away for away in far]
        each_case = outcome.mean(axis=-1) if self.together else outcome
        decisions = (*places, *ends, np.median(outcome), each_case)
        trials = self._try(outcome, [self.everywhere(outcome, h) for h in decisions])
        count = len(places)
        inside, beyond, likely = trials[:count], trials[count : count + 6], trials[count + 6 :]
        if self.space.actions is not None:
            likely = inside
        for trial in likely:
            _refuse(trial.undefined())
        least = min(trial.mean for trial in inside)
        for end, outwards in ((ends[2], beyond[:3]), (ends[5], beyond[3:])):
            farthest = outwards[-1].decision
            if np.all(farthest == np.asarray(end, farthest.dtype)):
                self._check_limit(end, [trial.mean for trial in outwards], low, high, least)
        for trial in likely:
            _refuse(trial.forbidden())
        for trial in inside:
            # Far from its outcome a utility may underflow to zero.
            _refuse(trial.forbidden(among=trial.values < 0))

    def _check_limit(
        self, end: float, costs: list[float], low: float, high: float, least: float
    ) -> None:
        """Refuse a cost that falls without end towards one side.

        Args:
            end: the place furthest out.
            costs: at three places on the way there.
            low: the least observed outcome.
            high: the largest one.
            least: the least cost between these two.
        """
        falls = end < low
        where, limit = ("falls", "lowest - decision") if falls else ("rises", "decision - highest")
        if least > costs[0] >= costs[1] >= costs[2]:
            raise InputError(
                f"Under `{self.criterion.title}`, the cost falls without end as the decision "
                f"{where}: over the observed outcomes its mean is {costs[2]:.4g} for a decision of "
                f"{end:.4g}, and at least {least:.4g} for decisions from {low:.4g} to {high:.4g}, "
                f"where the outcomes lie. The decision needs limits. Say `decision=Interval(low, "
                f"high)`, or add to the loss what a decision beyond them costs, such as "
                f"`1000 * jnp.maximum({limit}, 0)`."
            )

    def everywhere(self, outcome: ArrayLike, decision: ArrayLike) -> Array:
        """Return the same decision for all cases, as far as the space allows."""
        shape = (*self.space.axes, *self._shape(outcome))
        same: Any = np.broadcast_to(np.asarray(decision, jnp.result_type(float)), shape)
        return self.space.inside(same)

    def _shape(self, outcome: ArrayLike) -> tuple[int, ...]:
        """Of the cases."""
        return np.shape(outcome)[:-1] if self.together else np.shape(outcome)

    def _try(self, outcome: ArrayLike, decisions: Sequence[ArrayLike]) -> list["Trial"]:
        """Evaluate the loss or utility with each of these decisions, by one compiled program.

        The program takes as many decisions each time, the last one repeated, so that it is compiled
        once.
        """
        _, parameters = self.split_numbers()
        kind, axes = jnp.result_type(float), self.space.axes
        places = [np.asarray(decision) for decision in decisions]
        of_cases = (place.shape[len(axes) :] for place in places)
        shape = np.broadcast_shapes(self._shape(outcome), *of_cases)
        numbers = np.shape(outcome)[-1:] if self.together else ()
        outcome = np.broadcast_to(np.asarray(outcome), (*shape, *numbers))
        places = [np.broadcast_to(place, (*axes, *shape)) for place in places]
        # Always as many at once, the last one again and again, so that one program serves all.
        size = int(np.clip(MOST_AT_ONCE // max(outcome.size, 1), 1, AT_ONCE))
        trials: list[Trial] = []
        for first in range(0, len(places), size):
            some = places[first : first + size]
            filled = np.stack([*some, *some[-1:] * (size - len(some))]).astype(kind)
            results = map(np.asarray, self._program(outcome.astype(kind), filled, parameters))
            trials += (
                Trial(self.criterion, shape, outcome, place, values, costs)
                for place, values, costs in zip(some, *results, strict=False)
            )
        return trials

    @cached_property
    def _program(self) -> Callable[..., tuple[Array, Array]]:
        """Values and costs for several decisions at once."""
        bare, _ = self.split_numbers()

        def all_at_once(
            outcome: Array, decisions: Array, parameters: Sequence[Number]
        ) -> tuple[Array, Array]:
            criterion = bare.with_numbers(parameters).criterion

            def one(decision: Array) -> tuple[Array, Array]:
                parts = bare.space.unpack(decision)
                return criterion.values(outcome, parts), criterion.cost(outcome, parts)

            return jax.vmap(one)(decisions)

        return Program(all_at_once, numbers=("parameters",), options=ONCE)


class Trial(NamedTuple):
    """A loss or utility, tried on outcomes and a decision for each.

    Attributes:
        shape: of the cases.
        values: the loss or the utility itself, which has a rule to keep.
        costs: what decisions should make small: the loss, or minus the utility.
    """

    criterion: Criterion
    shape: tuple[int, ...]
    outcome: np.ndarray
    decision: np.ndarray
    values: np.ndarray
    costs: np.ndarray

    @property
    def mean(self) -> float:
        return float(np.mean(self.costs, dtype=float))

    def undefined(self) -> str | None:
        """Return in words that there is not one finite value for each outcome and decision."""
        if self.values.shape != self.shape:
            return (
                f"{self.criterion.of_values} must work elementwise and not sum or average: for "
                f"outcomes and decisions of shape {self.shape} it returned shape "
                f"{self.values.shape}."
            )
        remedy = "Keep it finite for every outcome that the model may predict."
        return self._fault(~np.isfinite(self.values), "not finite", remedy)

    def forbidden(self, among: np.ndarray | bool = True) -> str | None:
        """Return in words where a value breaks the rule of the loss or utility first.

        Args:
            among: which of the values to look at.
        """
        broken = self.criterion.breaks_rule(self.values) & among
        return self._fault(broken, self.criterion.rule, self.criterion.remedy)

    def _fault(self, broken: np.ndarray, rule: str, remedy: str) -> str | None:
        if not broken.any():
            return None
        at: Any = tuple(int(i) for i in np.argwhere(broken)[0])
        # A vector has its numbers along the last axis, a decision its parts along the first.
        happened, decided = (
            ", ".join(f"{float(number):.6g}" for number in np.ravel(numbers))
            for numbers in (self.outcome[at], self.decision[(..., *at)])
        )
        return (
            f"{self.criterion.of_values} is {rule} ({float(self.values[at])}) at outcome "
            f"{happened} and decision {decided}. {remedy}"
        )


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise InputError(fault)
