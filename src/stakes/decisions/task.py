"""The task of a decision: where it may lie, what it is judged by, and which cases share it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array
from stakes.errors import InputError
from stakes.host.compiling import ONCE
from stakes.host.programs import TRACING_ERRORS, Program
from stakes.protocols import Criterion, Groups, Space, Trial
from stakes.spaces import ALONE, Real, Shared
from stakes.varying import Columns, GroupOf, Need

TRIED, MOST_TRIED = 18, 2**22
"""Decisions for each case that are tried at once, and for all cases together."""


@final
@dataclass(frozen=True)
class DecisionTask:
    """Where decisions may lie, and the loss or utility that they are judged by."""

    criterion: Criterion
    space: Space = Real()  # noqa: RUF009 (a frozen value)
    per: str | None = None
    """What shares a decision: a plate, groups by a data argument, or "all"; none for None."""
    together: bool = False
    """Whether outcomes are vectors, along a last axis."""
    groups: Groups = ALONE
    """Which cases share a decision, once it is known which cases there are."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """What differs from case to case."""
        shared = () if self.per is None else (GroupOf(self.per),)
        return tuple(dict.fromkeys((*self.criterion.needs, *self.space.needs, *shared)))

    def at(self, columns: Columns) -> "DecisionTask":
        """The same for some cases, with their values in place."""
        if not self.needs:
            return self
        groups = ALONE if self.per is None else Shared(columns[GroupOf(self.per)])
        criterion, space = self.criterion.at(columns), self.space.at(columns)
        return DecisionTask(criterion, space, together=self.together, groups=groups)

    def split_numbers(self) -> tuple["DecisionTask", tuple[float, ...]]:
        """The same without the numbers of its loss, and these: arguments of compiled programs."""
        criterion, numbers = self.criterion.split_numbers()
        return replace(self, criterion=criterion), numbers

    def with_numbers(self, numbers: Sequence[Any]) -> "DecisionTask":
        """With these numbers, which may be traced, where `split_numbers` took some."""
        return replace(self, criterion=self.criterion.with_numbers(numbers))

    def check_columns(self, columns: Columns) -> None:
        """Refuse limits or parameters of some cases that could not be those of all."""
        self.criterion.check(columns)
        self.space.check(columns)

    def check_compiles(self) -> None:
        """Trace the loss or utility as a fit does, which gives it outcomes without their values."""
        if self.together:
            return  # how many numbers there are is not known yet
        struct: Any = jax.ShapeDtypeStruct
        like = struct((), jnp.result_type(float))

        def cost(outcome: Array, decision: Array) -> Array:
            here = self.criterion.at(dict.fromkeys(self.needs, outcome))
            return here.cost(outcome, self.space.unpack(decision))

        try:
            jax.eval_shape(cost, like, struct(self.space.axes, jnp.result_type(float)))
        except TRACING_ERRORS as error:
            raise InputError(
                f"`Problem({self.criterion.argument}={self.criterion.title})` looks at the values "
                f"of outcomes and decisions, which JAX does not know while it compiles a fit. Use "
                f"`jax.numpy` in place of NumPy and `math`, and `jnp.where` in place of `if`, "
                f"`min` and `max`."
            ) from error

    def check_cost(self, outcome: Any, decision: Any) -> None:
        """Try the loss or utility on outcomes and decisions, and refuse what does not fit."""
        _refuse(self.cost_fault(outcome, decision))

    def cost_fault(self, outcome: Any, decision: Any) -> str | None:
        """What is wrong with the loss or utility at these outcomes and decisions, if anything."""
        [tried] = self._tried(outcome, [decision])
        return _undefined(tried) or _forbidden(tried)

    def costs(self, outcome: Any, decision: Any) -> np.ndarray:
        """ℓ(y, h), or minus the utility, on the host."""
        [found] = self.costs_of(outcome, [decision])
        return found

    def costs_of(self, outcome: Any, decisions: Sequence[Any]) -> list[np.ndarray]:
        """The same for each of these decisions."""
        return [tried.costs.astype(np.float64) for tried in self._tried(outcome, decisions)]

    def check_observed(self, outcome: Any) -> None:
        """Try decisions on and far around the range of the observed outcomes.

        Refused is also a loss or utility by which decisions beyond all outcomes are best, however
        far we look.
        """
        outcome = np.asarray(outcome)
        low, high = float(outcome.min()), float(outcome.max())
        width = max(high - low, 1e-3 * max(abs(low), abs(high), 1.0))
        each_case = outcome.mean(axis=-1) if self.together else outcome
        places = np.linspace(low, high, 9) if self.space.actions is None else self.space.actions
        far = [width * 4.0**power for power in (3, 4, 5)]
        ends = [(low - away) for away in far] + [(high + away) for away in far]
        tried = self._tried(
            outcome,
            [self.everywhere(outcome, h) for h in (*places, *ends, np.median(outcome), each_case)],
        )
        count = len(places)
        inside, beyond, likely = tried[:count], tried[count : count + 6], tried[count + 6 :]
        if self.space.actions is not None:
            likely = inside
        for each in likely:
            _refuse(_undefined(each))
        least = min(each.mean for each in inside)
        for ended, there in ((ends[:3], beyond[:3]), (ends[3:], beyond[3:])):
            if np.all(there[-1].decision == np.asarray(ended[-1], there[-1].decision.dtype)):
                self._check_limit(ended[-1], there, low, high, least)
        for each in likely:
            _refuse(_forbidden(each))
        for each in inside:
            # Far from its outcome a utility may underflow to zero.
            trial = each.trial
            broken = trial.broken & (trial.values < 0)
            _refuse(_forbidden(each._replace(trial=trial._replace(broken=broken))))

    def _check_limit(
        self, end: float, there: list["Tried"], low: float, high: float, least: float
    ) -> None:
        where, limit = (
            ("falls", "lowest - decision") if end < low else ("rises", "decision - highest")
        )
        costs = [each.mean for each in there]
        if least > costs[0] >= costs[1] >= costs[2]:
            raise InputError(
                f"Under `{self.criterion.title}`, decisions get better without end as the decision "
                f"{where}: the mean cost of the observed outcomes is {costs[2]:.4g} at "
                f"{end:.4g}, but {least:.4g} or more between {low:.4g} and {high:.4g}, "
                f"where they lie. The decision needs limits: say `decision=Interval(low, "
                f"high)`, or add what exceeding them costs, such as "
                f"`1000 * jnp.maximum({limit}, 0)`."
            )

    def everywhere(self, outcome: Any, decision: Any) -> Any:
        """The same decision for all, as far as the space allows."""
        shape = (*self.space.axes, *self._shape(outcome))
        same: Any = np.broadcast_to(np.asarray(decision, jnp.result_type(float)), shape)
        return self.space.inside(same)

    def _shape(self, outcome: Any) -> tuple[int, ...]:
        """Of the cases."""
        return np.shape(outcome)[:-1] if self.together else np.shape(outcome)

    def _tried(self, outcome: Any, decisions: Sequence[Any]) -> list["Tried"]:
        """The loss or utility with each of these decisions, as one compiled program."""
        (program, about), (_, parameters) = self._trial, self.split_numbers()
        kind = jnp.result_type(float)
        places, lead = [np.asarray(h) for h in decisions], self.space.axes
        of_cases = (h.shape[len(lead) :] for h in places)
        shape = np.broadcast_shapes(self._shape(outcome), *of_cases)
        numbers = np.shape(outcome)[-1:] if self.together else ()
        outcome = np.broadcast_to(outcome, (*shape, *numbers))
        places = [np.broadcast_to(h, (*lead, *shape)) for h in places]
        # Always as many at once, the last one again and again, so that one program serves all.
        size = int(np.clip(MOST_TRIED // max(outcome.size, 1), 1, TRIED))
        tried: list[Any] = []
        for first in range(0, len(places), size):
            some = places[first : first + size]
            filled = np.stack([*some, *some[-1:] * (size - len(some))]).astype(kind)
            found = program(outcome.astype(kind), filled, parameters)
            tried += zip(some, *(np.asarray(each) for each in found), strict=False)
        return [
            Tried(about[-1]._replace(values=values, broken=broken), shape, outcome, decision, costs)
            for decision, values, broken, costs in tried
        ]

    @cached_property
    def _trial(self) -> tuple[Any, list[Trial]]:
        """The program that tries decisions, and what it is told about them as it is traced."""
        bare, _ = self.split_numbers()
        about: list[Trial] = []

        def all_at_once(outcome: Any, decisions: Any, parameters: Any) -> tuple[Array, ...]:
            criterion = bare.with_numbers(parameters).criterion

            def one(decision: Array) -> tuple[Array, ...]:
                parts = bare.space.unpack(decision)
                trial = criterion.trial(outcome, parts)
                about.append(trial)
                return trial.values, trial.broken, criterion.cost(outcome, parts)

            return jax.vmap(one)(decisions)

        return Program(all_at_once, numbers=("parameters",), options=ONCE), about


class Tried(NamedTuple):
    """A loss or utility at outcomes and a decision for each."""

    trial: Trial
    shape: tuple[int, ...]
    """Of the cases."""
    outcome: np.ndarray
    decision: np.ndarray
    costs: np.ndarray

    @property
    def mean(self) -> float:
        return float(np.mean(self.costs, dtype=float))


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise InputError(fault)


def _undefined(tried: Tried) -> str | None:
    """That there is not one finite value for each outcome and decision."""
    trial, expected = tried.trial, tried.shape
    if trial.values.shape != expected:
        return (
            f"{trial.name} must work elementwise and not sum or average: for outcomes and "
            f"decisions of shape {expected} it returned shape {trial.values.shape}."
        )
    remedy = "Keep it finite for every outcome that the model may predict."
    odd: Any = ~np.isfinite(trial.values)
    trial = trial._replace(rule="not finite", broken=odd, remedy=remedy)
    return _forbidden(tried._replace(trial=trial))


def _forbidden(tried: Tried) -> str | None:
    """Where the rule of the trial is broken first."""
    trial = tried.trial
    if not trial.broken.any():
        return None
    at: Any = tuple(int(i) for i in np.argwhere(trial.broken)[0])
    # A vector has its numbers along the last axis, a decision its parts along the first.
    happened, decided = (
        ", ".join(f"{float(number):.6g}" for number in np.ravel(numbers))
        for numbers in (tried.outcome[at], tried.decision[(..., *at)])
    )
    return (
        f"{trial.name} is {trial.rule} ({float(trial.values[at])}) at outcome {happened} "
        f"and decision {decided}. {trial.remedy}"
    )
