"""The aim of a decision: where it may lie, and what it is judged by."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes._types import Array
from stakes.errors import InputError
from stakes.host.programs import TRACING_ERRORS
from stakes.losses import Asked
from stakes.protocols import Criterion, Space, Trial
from stakes.sharing import Shared
from stakes.spaces import Real
from stakes.varying import CanVary, Columns, GroupOf, Need
from stakes.vectors import leading, seen


@final
@dataclass(frozen=True)
class Aim:
    """Where decisions may lie, and the loss or utility that they are judged by."""

    criterion: Criterion
    space: Space = Real()  # noqa: RUF009 (a frozen value)
    per: str | None = None
    """What shares a decision: a plate, groups by a data argument, or "all"; none for None."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """What differs from case to case."""
        shared = () if self.per is None else (GroupOf(self.per),)
        return tuple(dict.fromkeys((*self.criterion.needs, *self.space.needs, *shared)))

    def at(self, columns: Columns) -> "Aim":
        """The same for some cases, with their values in place."""
        if not self.needs:
            return self
        space = self.space.at(columns)
        if self.per is not None:
            space = Shared(space, columns[GroupOf(self.per)])
        return Aim(self.criterion.at(columns), space)

    def opened(self) -> tuple["Aim", tuple[float, ...]]:
        """The same without the numbers of its loss, and these: arguments of compiled programs."""
        if not isinstance(self.criterion, Asked) or not isinstance(self.criterion.loss, CanVary):
            return self, ()
        loss, numbers = self.criterion.loss.opened()
        return replace(self, criterion=Asked(loss)), numbers

    def filled(self, numbers: Sequence[Any]) -> "Aim":
        """With these numbers, which may be traced, where `opened` took some."""
        if not numbers:
            return self
        assert isinstance(self.criterion, Asked)
        assert isinstance(self.criterion.loss, CanVary)
        return replace(self, criterion=Asked(self.criterion.loss.filled(numbers)))

    def check_columns(self, columns: Columns) -> None:
        """Refuse limits or parameters of some cases that could not be those of all."""
        for part in (self.criterion, self.space):
            check = getattr(part, "check", None)
            if check is not None and part.needs:
                check(columns)

    def check_compiles(self) -> None:
        """Trace the loss or utility as a fit does, which gives it outcomes without their values."""
        like = jnp.zeros(())
        here = self.criterion.at(dict.fromkeys(self.needs, like))
        try:
            parts = jnp.zeros(leading(self.space))
            jax.eval_shape(here.cost, like, seen(self.space, parts))
        except TRACING_ERRORS as error:
            given = "loss" if isinstance(self.criterion, Asked) else "utility"
            raise InputError(
                f"`Problem({given}={self.criterion.title})` looks at the values of outcomes and "
                f"decisions, which JAX does not know while it compiles a fit. Use `jax.numpy` in "
                f"place of NumPy and `math`, and `jnp.where` in place of `if`, `min` and `max`."
            ) from error

    def check_cost(self, outcome: Array, decision: Array) -> None:
        """Try the loss or utility on outcomes and decisions, and refuse what does not fit."""
        _refuse(self.cost_fault(outcome, decision))

    def cost_fault(self, outcome: Array, decision: Array) -> str | None:
        """What is wrong with the loss or utility at these outcomes and decisions, if anything."""
        outcome, decision = jnp.asarray(outcome), jnp.asarray(decision)
        trial = self._trial(outcome, decision)
        return _undefined(trial, outcome, decision) or _forbidden(trial, outcome, decision)

    def check_observed(self, outcome: Array) -> None:
        """Try decisions on and far around the range of the observed outcomes.

        Refused is also a loss or utility by which decisions beyond all outcomes are best, however
        far we look.
        """
        trial = self._trial
        low, high = float(outcome.min()), float(outcome.max())
        likely = [self.everywhere(outcome, jnp.median(outcome)), self.everywhere(outcome, outcome)]
        inside = [self.everywhere(outcome, h) for h in np.linspace(low, high, 9)]
        if self.space.actions is not None:
            likely = inside = [self.everywhere(outcome, h) for h in self.space.actions]
        for decision in likely:
            _refuse(_undefined(trial(outcome, decision), outcome, decision))
        self._check_limits(outcome, low, high, min(self._mean(outcome, h) for h in inside))
        for decision in likely:
            _refuse(_forbidden(trial(outcome, decision), outcome, decision))
        for decision in inside:
            found = trial(outcome, decision)
            # Far from its outcome a utility may underflow to zero.
            found = found._replace(broken=found.broken & (found.values < 0))
            _refuse(_forbidden(found, outcome, decision))

    def _check_limits(self, outcome: Array, low: float, high: float, least: float) -> None:
        width = max(high - low, 1e-3 * max(abs(low), abs(high), 1.0))
        for end, sign, where, limit in (
            (low, -1, "falls", "lowest - decision"),
            (high, 1, "rises", "decision - highest"),
        ):
            far = [end + sign * width * 4.0**power for power in (3, 4, 5)]
            tried = [self.everywhere(outcome, h) for h in far]
            if bool(jnp.any(tried[-1] != jnp.asarray(far[-1], tried[-1].dtype))):
                continue  # there are limits
            costs = [self._mean(outcome, h) for h in tried]
            if least > costs[0] >= costs[1] >= costs[2]:
                raise InputError(
                    f"By `{self.criterion.title}` decisions get better without end as the decision "
                    f"{where}: the mean cost of the observed outcomes is {costs[2]:.4g} at "
                    f"{far[2]:.4g}, but {least:.4g} or more between {low:.4g} and {high:.4g}, "
                    f"where they lie. The decision needs limits: say `decision=Interval(low, "
                    f"high)`, or add what exceeding them costs, such as "
                    f"`1000 * jnp.maximum({limit}, 0)`."
                )

    def everywhere(self, outcome: Array, decision: Any) -> Array:
        """The same decision for all, as far as the space allows."""
        shape, dtype = (*leading(self.space), *outcome.shape), jnp.result_type(float)
        return self.space.inside(jnp.broadcast_to(jnp.asarray(decision, dtype), shape))

    def _trial(self, outcome: Array, decision: Array) -> Trial:
        return self.criterion.trial(outcome, seen(self.space, decision))

    def _mean(self, outcome: Array, decision: Array) -> float:
        costs = self.criterion.cost(outcome, seen(self.space, decision))
        return float(np.mean(np.asarray(costs, np.float64)))


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise InputError(fault)


def _undefined(trial: Trial, outcome: Array, decision: Array) -> str | None:
    """That there is not one finite value for each outcome and decision."""
    expected = jnp.broadcast_shapes(outcome.shape, decision.shape[-outcome.ndim or None :])
    if trial.values.shape != expected:
        return (
            f"{trial.name} must work elementwise and not sum or average: for outcomes and "
            f"decisions of shape {expected} it returned shape {trial.values.shape}."
        )
    remedy = "Keep it finite for every outcome that the model may predict."
    odd = ~jnp.isfinite(trial.values)
    return _forbidden(
        trial._replace(rule="not finite", broken=odd, remedy=remedy), outcome, decision
    )


def _forbidden(trial: Trial, outcome: Array, decision: Array) -> str | None:
    """Where the rule of the trial is broken first."""
    if not bool(trial.broken.any()):
        return None
    at = tuple(int(i) for i in np.argwhere(np.asarray(trial.broken))[0])
    here = jnp.broadcast_to(outcome, trial.values.shape)[at]
    parts = decision[(..., *at)] if decision.ndim >= len(at) else decision
    decided = ", ".join(f"{float(part):.6g}" for part in jnp.ravel(parts))
    return (
        f"{trial.name} is {trial.rule} ({float(trial.values[at])}) at outcome {float(here):.6g} "
        f"and decision {decided}. {trial.remedy}"
    )
