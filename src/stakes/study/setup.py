"""The fits of one guide to each fold and to everything: one compiled batch for each strength."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import predicting
from stakes._types import Array, Key
from stakes.fitting import Fit, State, Step, Together, run_apart
from stakes.port import count_in, sweep
from stakes.predicting import FittedPosterior, Observations
from stakes.protocols import Transform
from stakes.study.ground import Ground
from stakes.study.keys import Keys
from stakes.study.plan import Plan, check_whole, seeing

MOST_VALUES = 2**15
"""Outcomes times draws of θ times fits in one step: with more, a batch of fits takes minutes."""
FEWEST_DRAWS = 4


class Strength(NamedTuple):
    """How strongly to calibrate: M is divided by the factor."""

    transform: Transform | None
    """None for the default one."""
    factor: float


@final
@dataclass(frozen=True, eq=False)
class Setup:
    """A plan and what its fits may see: a mask of outcomes for each fold, then one of all."""

    plan: Plan
    masks: np.ndarray
    """fit x instance."""
    keys: Keys
    seen: Observations
    """All outcomes."""
    home: Ground
    """The cases of the fit."""
    fewer_draws: bool = True
    """Whether a step of many fits may take fewer draws than the plan says."""
    found: Sequence[Fit] | None = None
    """Fits of plain VI, where they were found for another loss."""
    on: Any = None
    """A client of the cluster that the fits are made on; None to make them here."""

    @cached_property
    def plain(self) -> Sequence[Fit]:
        """Plain VI: one fit for each mask."""
        if self.found is not None:
            return self.found
        count = len(self.masks)
        plan = self.together_with(self.plan, count)
        start = plan.vi_state(plan.approximation.start)
        states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), start)
        title = f"VI, {self._fits}"
        batch = self._together(title, plan, lambda _: plan.vi_step(), states, self.keys.vi)
        [fits] = self._apart(title, [self._each(batch, jnp.zeros(count))])
        return fits

    @cached_property
    def decided(self) -> list[np.ndarray]:
        """Decisions of the plain fits for the cases of the fit."""
        cases = self.home.judged()
        return [cases.decide(self.posterior(fit)) for fit in self.plain]

    @property
    def _fits(self) -> str:
        """How many there are, in words."""
        folds = len(self.masks) - 1
        return f"{folds} folds and all" if folds else "all"

    def posterior(self, fit: Fit) -> FittedPosterior:
        return FittedPosterior(self.plan.approximation, fit.params)

    def calibrated(self, strengths: Sequence[Strength]) -> dict[Strength, list[Fit]]:
        """One fit for each strength and mask; those of one strength are one batch."""
        found: dict[Strength, list[Fit]] = {}
        for transform in dict.fromkeys(each.transform for each in strengths):
            same = [each for each in strengths if each.transform == transform]
            found |= self._calibrated(transform or self.plan.transform, same)
        return found

    def _calibrated(
        self, transform: Transform | None, strengths: Sequence[Strength]
    ) -> dict[Strength, list[Fit]]:
        plan = replace(self.plan, transform=transform)
        plan, _ = plan.after_vi(self.plain[-1], self.keys, self.decided[-1])
        count, factors = len(self.masks), [each.factor for each in strengths]
        plan = self.together_with(plan, count * len(factors))
        plan = replace(plan, expectation=self._wide_enough(plan))
        scales: list[Any] = [None] * len(factors)
        if transform is not None:
            own = np.array([self._scale(transform, at) for at in range(count)])
            scales = [jnp.asarray(own / factor, float) for factor in factors]
        starts = jax.tree.map(
            lambda *leaves: jnp.stack(leaves), *[fit.params for fit in self.plain]
        )
        decisions = jnp.asarray(np.stack(self.decided))
        states = jax.vmap(plan.state)(starts, decisions)
        title = f"calibrated, {self._fits}"
        batch = self._together(title, plan, plan.step, states, self.keys.calibrated)
        batches = [
            self._each(batch, scale)._replace(title=f"{title}, strength {factor:g}")
            for factor, scale in zip(factors, scales, strict=True)
        ]
        return dict(zip(strengths, self._apart(title, batches), strict=True))

    def _scale(self, transform: Transform, at: int) -> float:
        """M, from the losses of plain VI's decisions for the outcomes that the fit saw."""
        seen = self.seen._replace(counted=self.seen.counted & self.masks[at])
        scale = transform.fitted(seen.costs(self.plan.problem.task, self.decided[at])).scale
        assert scale is not None
        return scale

    def _wide_enough(self, plan: Plan) -> Any:
        """The plan's expectation, with room for what every plain fit predicts."""
        found = plan.expectation
        for fit in self.plain[:-1]:
            outcomes = predicting.outcomes_by_batch(
                self.posterior(fit), self.home.predictor, self.keys.spread
            )
            found = found.widen_for(outcomes)
        return found

    def together_with(self, plan: Plan, fits: int) -> Plan:
        """The plan, with fewer draws of θ in a step where many fits take it at once.

        Each stage of a fit ends in an average over many steps, so that fewer draws cost little.
        """
        if not self.fewer_draws:
            return plan
        values = fits * _outcomes_in_step(plan)
        draws = max(FEWEST_DRAWS, min(plan.settings.draws, MOST_VALUES // values))
        return replace(plan, settings=replace(plan.settings, draws=draws))

    def _together(
        self,
        title: str,
        plan: Plan,
        step: Any,
        states: State,
        key: Key,
    ) -> Together:
        """A fit for each mask, with the same random numbers, so that they differ by no luck."""

        def masked(own: tuple[Any, Array]) -> Step:
            value, mask = own
            return seeing(mask, step(value))

        keys = jnp.broadcast_to(key[None], (len(self.masks),))
        return Together(title, masked, None, plan.approximation, states, keys, plan.settings)

    def _each(self, batch: Together, values: Any) -> Together:
        """The batch, with a value for the step of each fit, and its mask."""
        return batch._replace(each=(values, jnp.asarray(self.masks)))

    def _apart(self, title: str, batches: Sequence[Together]) -> list[list[Fit]]:
        found = run_apart(title, batches, self.on)
        for batch, fits in zip(batches, found, strict=True):
            for fit in fits:
                check_whole(batch.title, fit)
        return found


def _outcomes_in_step(plan: Plan) -> int:
    """Outcomes that a step sees: those of its minibatch, where the model takes some."""
    approximation = plan.approximation
    return count_in(approximation.instances, next(sweep(approximation.subsamples))) or 1
