"""The fits of one guide to each fold and to everything, as one compiled batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import predicting
from stakes._types import Array, Key
from stakes.calibration import Keys, Plan, check_whole, seeing, stacked
from stakes.optimise import Fit, State, Step, run_together
from stakes.predicting import FittedPosterior, Observations
from stakes.protocols import Transform
from stakes.ways.ground import Ground

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

    @cached_property
    def plain(self) -> Sequence[Fit]:
        """Plain VI: one fit for each mask."""
        if self.found is not None:
            return self.found
        count = len(self.masks)
        plan = self.together_with(self.plan, count)
        start = plan.vi_state(plan.approximation.start)
        states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), start)
        return self._together(
            f"VI, {count - 1} folds and all",
            plan,
            lambda _: plan.vi_step(),
            jnp.zeros(count),
            self.masks,
            states,
            self.keys.vi,
        )

    @cached_property
    def decided(self) -> list[np.ndarray]:
        """Decisions of the plain fits for the cases of the fit."""
        cases = self.home.judged()
        return [cases.decide(self.posterior(fit)) for fit in self.plain]

    def posterior(self, fit: Fit) -> FittedPosterior:
        return FittedPosterior(self.plan.approximation, fit.params)

    def calibrated(self, strengths: Sequence[Strength]) -> dict[Strength, list[Fit]]:
        """One fit for each strength and mask, those of one kind of transform as one batch."""
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
        scales = None
        if transform is not None:
            own = np.array([self._scale(transform, at) for at in range(count)])
            scales = jnp.asarray(np.concatenate([own / factor for factor in factors]), float)
        starts = stacked([fit.params for fit in self.plain])
        decisions = jnp.asarray(np.stack(self.decided))
        states = jax.vmap(plan.state)(starts, decisions)
        several = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * len(factors)), states)
        fits = self._together(
            f"calibrated, {count - 1} folds and all, {len(factors)} strengths",
            plan,
            plan.step,
            scales,
            np.concatenate([self.masks] * len(factors)),
            several,
            self.keys.calibrated,
        )
        return {
            strength: fits[at * count : (at + 1) * count] for at, strength in enumerate(strengths)
        }

    def _scale(self, transform: Transform, at: int) -> float:
        """M, from the losses of plain VI's decisions for the outcomes that the fit saw."""
        seen = self.seen._replace(counted=self.seen.counted & self.masks[at])
        scale = transform.fitted(seen.costs(self.plan.problem.aim, self.decided[at])).scale
        assert scale is not None
        return scale

    def _wide_enough(self, plan: Plan) -> Any:
        """The plan's expectation, with room for what every plain fit predicts."""
        found = plan.expectation
        for fit in self.plain[:-1]:
            outcomes = predicting.outcomes_by_batch(
                self.posterior(fit), self.home.predictor, self.keys.spread
            )
            found = found.widened(outcomes)
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
        each: Any,
        masks: np.ndarray,
        states: State,
        key: Key,
    ) -> list[Fit]:
        """With the same random numbers for every fit, so that they differ by no luck."""
        given = (each, jnp.asarray(masks))

        def masked(own: tuple[Any, Array]) -> Step:
            value, mask = own
            return seeing(mask, step(value))

        keys = jnp.broadcast_to(key[None], (len(masks),))
        approximation, settings = plan.approximation, plan.settings
        fits = run_together(title, masked, given, approximation, states, keys, settings)
        for fit in fits:
            check_whole(title, fit)
        return fits


def _outcomes_in_step(plan: Plan) -> int:
    """Outcomes that a step sees: those of its minibatch, where the model takes some."""
    instances, parts = plan.approximation.instances, plan.approximation.subsamples
    batches = {part.plate: part.batch_size for part in parts}
    sizes = zip(instances.dims, instances.shape, strict=True)
    return int(np.prod([batches.get(plate, size) for plate, size in sizes])) or 1
