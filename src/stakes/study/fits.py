"""The fits of one guide in a study: plain VI, and calibrated from there, under each mask.

Under one mask, a fit is made alone: it can be resumed, take its rows from disk, and be made by
several processes. Under several, all masks are one compiled batch, and so is each strength of
calibration; the random numbers are the same, so that the fits differ by no luck.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import predicting
from stakes._types import Array, Key, Params, PyTree
from stakes.bridge import NumPyroApproximation
from stakes.decisions import SecondMinimum
from stakes.errors import warn
from stakes.fitting import (
    Fit,
    Hooks,
    State,
    Step,
    Stop,
    Together,
    not_begun,
    one_of,
    owned,
    resume_together,
    run,
    run_apart,
    start_history,
)
from stakes.host.interrupts import deferred_ctrl_c
from stakes.host.progress import waiting
from stakes.port import count_in, sweep
from stakes.predicting import FittedPosterior
from stakes.problem import Problem
from stakes.protocols import Expectation, Transform
from stakes.study.cases import Cases
from stakes.study.folds import Mask
from stakes.study.options import Journal
from stakes.study.plan import Plan, hide_others, stack_trees

if TYPE_CHECKING:
    from stakes.study.study import Study

# Outcomes times draws of θ times fits in one step: with more, a batch of fits takes minutes.
MOST_VALUES = 2**15
# The fewest draws of θ in each step of a batch.
FEWEST_DRAWS = 4


VI = "VI"
"""What a journal calls the plain fit to everything."""


class Strength(NamedTuple):
    """How strongly to calibrate: M is divided by the factor.

    Attributes:
        transform: from loss to utility; None for the default one.
        factor: a utility on a smaller scale M falls more steeply with the loss, and so moves the
            posterior more.
    """

    transform: Transform | None = None
    factor: float = 1.0


PAPER = Strength()
"""M as the paper has it, neither stronger nor weaker."""


class Reference(NamedTuple):
    """The start of calibrated fits.

    Attributes:
        plan: with M.
        decisions: plain VI's decisions.
    """

    plan: Plan
    decisions: np.ndarray


@final
class Fits:
    """Fits of one guide, by strategy and mask, each made once.

    Args:
        study: problem, data and masks.
        plan: the problem prepared with this guide.
        guide: None for the problem's own.
    """

    def __init__(self, study: "Study", plan: Plan, guide: Any) -> None:
        self.study, self.plan, self._guide = study, plan, guide
        self._plain: dict[Mask, Fit] = {}
        self._decisions: dict[Mask, np.ndarray] = {}
        self._calibrated: dict[Strength, dict[Mask, Fit]] = {}
        self._references: dict[Transform | None, Reference] = {}
        self._cases: dict[Expectation, Cases] = {}
        self._decided: np.ndarray | None = None

    def adopt(self, plain: Fit, decisions: np.ndarray, calibrated: Fit | None) -> None:
        """Take over what others have fitted to everything.

        Args:
            plain: the fit of plain VI.
            decisions: its decisions for the cases of the fit.
            calibrated: the calibrated fit; None where there is none.
        """
        everything = self.study.everything
        self._plain[everything], self._decided = plain, decisions
        if calibrated is not None:
            self._calibrated[PAPER] = {everything: calibrated}

    @property
    def _strengths(self) -> tuple[Strength, ...]:
        """All strengths of calibration that strategies will ask for, to be fitted together."""
        return tuple(self.study.strengths.get(self._guide, ()))

    def posterior(self, fit: Fit) -> FittedPosterior:
        """Return the posterior that a fit found."""
        return FittedPosterior(self.plan.approximation, fit.params)

    def plain(self, mask: Mask) -> Fit:
        """Return plain VI under a mask.

        If the mask of a fold has no fit yet, all masks are fitted together in one compiled program.
        """
        if mask not in self._plain:
            before, masks = self.study.work.before, self.study.masks
            if before is not None:
                others = before.fits(self._guide)
                self._plain |= dict(zip(masks, map(others.plain, before.masks), strict=True))
            elif mask is self.study.everything and self._was_alone:
                self._plain[mask] = self._plain_alone()
            else:
                made = {self.study.everything} if self._was_alone else set()
                masks = tuple(each for each in masks if each not in {*self._plain, *made})
                self._plain |= dict(zip(masks, self._plain_batch(masks), strict=True))
        return self._plain[mask]

    @property
    def _was_alone(self) -> bool:
        """Whether the plain fit to everything is made alone, or a journal has it from there."""
        journal, masks = self._journal, self.study.masks
        if journal is None or len(masks) == 1:
            return len(masks) == 1
        return journal.knows(VI) and not journal.knows(self._title(masks))

    @property
    def _is_alone(self) -> bool:
        """Whether calibrated fits to everything are made alone, with or without folds."""
        return self._journal is not None or not self.study.splits.masks

    @property
    def _journal(self) -> Journal | None:
        """The record of the fits, which has those of the problem's own guide alone."""
        return self.study.work.journal if self._guide is None else None

    def calibrated(self, strength: Strength, mask: Mask) -> Fit:
        """Return a calibrated fit under a mask, from plain VI under it.

        The fit to everything is made alone, so that a journal can keep it; the fits of folds are
        made together with those of all strengths that strategies have asked for.
        """
        table = self._calibrated.setdefault(strength, {})
        alone = self._is_alone and (strength == Strength() or not self.study.splits.masks)
        if mask not in table and mask is self.study.everything and alone:
            table[mask] = self._calibrated_alone(strength)
        elif mask not in table:
            strengths = dict.fromkeys([*self._strengths, strength])
            for transform in dict.fromkeys(each.transform for each in strengths):
                self._calibrated_batches(
                    transform, [each for each in strengths if each.transform == transform]
                )
        return table[mask]

    # What calibrated fits start from.

    @cached_property
    def sized(self) -> Plan:
        """The plan, with its expectation chosen for what plain VI predicts."""
        vi = self.plain(self.study.everything)
        return self.plan.sized(vi.params, self.study.keys.spread)

    def reference(self, transform: Transform | None = None) -> Reference:
        """Return the plan with M_q, and plain VI's decisions, from whose losses M_q is computed.

        M_q is the q-quantile of these losses over the training data, as below equation 2 of the
        paper.
        """
        if transform not in self._references:
            everything, keys, work = self.study.everything, self.study.keys, self.study.work
            vi = self.plain(everything)
            plan = replace(self.sized, transform=transform or self.plan.transform)
            alone = self._is_alone
            with waiting("deciding under plain VI", show=work.progress and alone):
                decisions = self._decisions_alone(plan) if alone else self.decisions(everything)
                plan = plan.with_scale(vi.params, decisions, keys)
            self._references[transform] = Reference(plan, decisions)
        return self._references[transform]

    def _decisions_alone(self, plan: Plan) -> np.ndarray:
        """Return plain VI's decisions, which a journal may have already."""
        journal = self._journal
        known = self._decided if journal is None else journal.decisions(plan.shape)
        if known is not None:
            return known
        posterior = self.posterior(self.plain(self.study.everything))
        decisions = self.cases(plan.expectation).decide(posterior)
        predictor, task, key = plan.predictors.on(), plan.problem.task, self.study.keys.decisions
        second = predicting.second_minimum(task, posterior, predictor, plan.expectation, key)
        if second is not None:
            warn_of_second_minimum(plan.problem, second)
        return decisions

    def cases(self, expectation: Expectation) -> Cases:
        """Return the cases of the fit, decided about with this expectation."""
        if expectation not in self._cases:
            predictor = self.plan.predictors.on()
            home = replace(self.study.home, expectation=expectation, predictor=predictor)
            self._cases[expectation] = home
        return self._cases[expectation]

    def decisions(self, mask: Mask) -> np.ndarray:
        """Return decisions of a plain fit, by as many draws as the fits of folds have."""
        if mask not in self._decisions:
            self._decisions[mask] = self._judged.decide(self.posterior(self.plain(mask)))
        return self._decisions[mask]

    @cached_property
    def _judged(self) -> Cases:
        """The cases of the fit, decided by as many draws as where strategies are judged."""
        return self.study.home.judged()

    # One mask: fits made alone.

    def _plain_alone(self) -> Fit:
        """Return plain VI of everything; programs for later are compiled beside its steps."""
        study, plan, begin = self.study, self.plan, self.plan.approximation.start
        meanwhile = None
        if study.work.processes is None:
            meanwhile = plan.meanwhile(study.keys, plain=not self._strengths)
        state = plan.vi_state(owned(begin))
        vi = self._alone(VI, plan.vi_step(), state, study.keys.vi, begin, meanwhile)
        vi.check(VI)
        return vi

    def _calibrated_alone(self, strength: Strength) -> Fit:
        """Return the calibrated fit to all outcomes, by default started from VI's optimum.

        Even from random λ, h starts at VI's decision: far from it, U has a flat tail.
        """
        study = self.study
        vi = self.plain(study.everything)
        with deferred_ctrl_c() as heard:
            plan, decisions = self.reference(strength.transform)
        if heard.asked() or vi.reason is Stop.INTERRUPTED:
            return self.not_made(Stop.INTERRUPTED, decisions)
        if self._journal is not None:
            self._journal.keep_decisions(decisions)
        begin = vi.params if plan.warm_start else plan.approximation.start
        scale = None if plan.scale is None else plan.scale / strength.factor
        step, state = plan.step(scale), plan.state(owned(begin), decisions)
        # A journal has one calibrated fit: that of the paper's strength.
        recorded = strength == Strength()
        key = study.keys.calibrated
        calibrated = self._alone("calibrated", step, state, key, begin, recorded=recorded)
        calibrated.check("calibrated")
        return calibrated

    def not_made(self, why: Stop, decisions: np.ndarray | None = None) -> Fit:
        """Return a calibrated fit of no steps: it was not wanted, or was interrupted before."""
        plan, vi = self.sized, self.plain(self.study.everything)
        begin = vi.params if plan.warm_start else plan.approximation.start
        decisions = np.zeros(plan.shape) if decisions is None else decisions
        fit = not_begun(plan.state(begin, decisions), why)
        if self.study.beyond is not None:
            self.study.beyond.begun(fit.params, begin)
        return fit

    def _alone(
        self,
        title: str,
        step: Step,
        state: State,
        key: Key,
        begin: Params,
        meanwhile: Callable[[], None] | None = None,
        recorded: bool = True,
    ) -> Fit:
        """Make one fit, from where its journal left it, and on the rows of a stream, if there is
        one.

        Args:
            title: the title of the fit, in the journal and on the screen.
            step: to repeat.
            state: to start from where the journal has no record.
            key: the key of all random numbers.
            begin: the parameters that `state` starts from.
            meanwhile: what to compile beside the first steps.
            recorded: whether the journal keeps this fit.
        """
        beyond, plan = self.study.beyond, self.plan
        journal, shared = self._journal if recorded else None, self._shared
        hooks, history = Hooks(), None
        if beyond is None or journal is not None:
            history = start_history(state, handed_over=plan.hands_over)
            if journal is not None:
                history = journal.history(title, history)
                hooks = replace(hooks, watch=partial(journal.watch, title))
            state = history.state
        go = partial(run, title, step, shared, state, key, plan.settings, history=history)
        if beyond is not None:
            return beyond.fit(go, shared, state, plan.settings, key, begin, hooks)
        return go(hooks=replace(hooks, meanwhile=meanwhile))

    @cached_property
    def _shared(self) -> NumPyroApproximation:
        """The approximation, its rows divided while several processes make the fits."""
        processes, beyond = self.study.work.processes, self.study.beyond
        if processes is None:
            return self.plan.approximation
        shares = None if beyond is None else tuple(map(int, beyond.copy.shares))
        return self.plan.approximation.divided(processes, shares)

    # Several masks: one compiled batch.

    def _plain_batch(self, masks: Sequence[Mask]) -> list[Fit]:
        """Make the plain fits of these masks as one compiled batch, which a journal can keep.

        A journal has the fit to everything by itself, too: that is what later programs read. To
        keep it, the batch is made here, also where there is a cluster.
        """
        count = len(masks)
        plan = self._with_fewer_draws(self.plan, count)
        start = plan.vi_state(plan.approximation.start)
        states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), start)
        title, journal = self._title(masks), self._journal
        step: Callable[[Any], Step] = lambda _: plan.vi_step()  # noqa: E731
        batch = self._batch(title, plan, step, states, self.study.keys.vi, masks)
        batch = _for_masks(batch, jnp.zeros(count), masks)
        if journal is None:
            [fits] = self._made(title, [batch])
            return fits
        fits, history = resume_together(
            batch, partial(journal.history, title), partial(journal.watch, title)
        )
        for fit in fits:
            fit.check_whole(title)
        if masks[-1] is self.study.everything:
            journal.watch(VI, one_of(history, count - 1, count, fits[-1].reason))
        return fits

    def _title(self, masks: Sequence[Mask]) -> str:
        """Return what a journal calls the plain fits of these masks."""
        return f"VI, {self._in_words(masks)}"

    def _calibrated_batches(
        self, transform: Transform | None, strengths: Sequence[Strength]
    ) -> None:
        """Make a fit for each strength and mask; all fits with one strength form one batch.

        Args:
            transform: the transform of all fits; None for the default one.
            strengths: the strengths, each with this transform.
        """
        plan, masks = self.reference(transform).plan, self.study.masks
        plan = self._with_fewer_draws(plan, len(masks) * len(strengths))
        plan = replace(plan, expectation=self._wide_enough(plan.expectation))
        scales: list[Any] = [None] * len(strengths)
        transform = transform or self.plan.transform  # without M, which each mask has of its own
        if transform is not None:
            own = np.array([*(self._scale(transform, mask) for mask in masks[:-1]), plan.scale])
            scales = [jnp.asarray(own / strength.factor, float) for strength in strengths]
        starts = stack_trees([self.plain(mask).params for mask in masks])
        decisions = jnp.asarray(np.stack([self.decisions(mask) for mask in masks]))
        states = jax.vmap(plan.state)(starts, decisions)
        title = f"calibrated, {self._in_words(masks)}"
        batch = self._batch(title, plan, plan.step, states, self.study.keys.calibrated, masks)
        batches = [
            _for_masks(batch, scale, masks)._replace(title=f"{title}, strength {strength.factor:g}")
            for strength, scale in zip(strengths, scales, strict=True)
        ]
        for strength, fits in zip(strengths, self._made(title, batches), strict=True):
            table = self._calibrated.setdefault(strength, {})
            # One that was made alone is kept: decisions rest on it already.
            for mask, fit in zip(masks, fits, strict=True):
                table.setdefault(mask, fit)

    def _in_words(self, masks: Sequence[Mask]) -> str:
        """Return how many fits there are, in words."""
        if self.study.everything not in masks:
            return f"{len(masks)} folds"
        return f"{len(masks) - 1} folds and all" if len(masks) > 1 else "all"

    def _scale(self, transform: Transform, mask: Mask) -> float:
        """Return M for a mask, from the losses of plain VI's decisions on the outcomes it shows."""
        seen = self.study.seen
        seen = seen._replace(counted=seen.counted & mask.seen)
        scale = transform.fitted(seen.costs(self.plan.problem.task, self.decisions(mask))).scale
        assert scale is not None
        return scale

    def _wide_enough(self, expectation: Expectation) -> Expectation:
        """Return the expectation with room for what every plain fit predicts."""
        predictor, key = self.study.home.predictor, self.study.keys.spread
        for mask in self.study.masks[:-1]:
            posterior = self.posterior(self.plain(mask))
            outcomes = predicting.outcomes_by_batch(posterior, predictor, key)
            expectation = expectation.widen_for(outcomes)
        return expectation

    def _with_fewer_draws(self, plan: Plan, fits: int) -> Plan:
        """Return the plan, with fewer draws of θ in a step where many fits take it at once.

        Each stage of a fit ends in an average over many steps, so that fewer draws cost little.
        """
        if self.study.options.draws is not None:
            return plan
        approximation = plan.approximation
        # Outcomes that a step sees: those of its minibatch, where the model takes some.
        batch = next(sweep(approximation.subsamples))
        values = fits * (count_in(approximation.instances, batch) or 1)
        draws = max(FEWEST_DRAWS, min(plan.settings.draws, MOST_VALUES // values))
        return replace(plan, settings=replace(plan.settings, draws=draws))

    def _batch(
        self,
        title: str,
        plan: Plan,
        step: Callable[[Any], Step],
        states: State,
        key: Key,
        masks: Sequence[Mask],
    ) -> Together:
        """Return a fit for each mask, all with the same random numbers.

        Args:
            title: the title of the batch, on the screen.
            plan: with the settings of the fits.
            step: makes the step of a fit, from a value that it has of its own, such as M.
            states: where the fits start, with a leading axis.
            key: the key of the random numbers.
            masks: what the fits may see.
        """

        def masked(own: tuple[PyTree, Array]) -> Step:
            value, mask = own
            return hide_others(mask, step(value))

        keys = jnp.broadcast_to(key[None], (len(masks),))
        return Together(title, masked, None, plan.approximation, states, keys, plan.settings)

    def _made(self, title: str, batches: Sequence[Together]) -> list[list[Fit]]:
        """Make all batches, here or on a cluster; refuse a fit that failed or was cut short."""
        made = run_apart(title, batches, self.study.work.client)
        for batch, fits in zip(batches, made, strict=True):
            for fit in fits:
                fit.check_whole(batch.title)
        return made


def _for_masks(batch: Together, values: Any, masks: Sequence[Mask]) -> Together:
    """Return the batch, with a value for the step of each fit, and its mask."""
    seen = np.stack([mask.seen for mask in masks])
    return batch._replace(each=(values, jnp.asarray(seen)))


def warn_of_second_minimum(problem: Problem, second: SecondMinimum) -> None:
    """Warn where decisions far apart are nearly equally good: chance may choose between them.

    Args:
        problem: whose loss or utility has two minima.
        second: what was found for the first batch of cases.
    """
    exists = np.asarray(second.exists)
    if not exists.any():
        return
    at = tuple(int(i) for i in np.argwhere(exists)[0])
    best, other = (float(np.asarray(each.place)[at]) for each in (second.best, second.other))
    worth = problem.criterion.worth
    here, there, between = (
        float(worth(value)[at]) for value in (second.best.value, second.other.value, second.between)
    )
    warn(
        f"Under `{problem.criterion.title}`, decisions far apart are nearly equally good in "
        f"{int(exists.sum())} of {exists.size} cases: {best:.4g} ({here:.4g} on average) and "
        f"{other:.4g} ({there:.4g}), for example, and {between:.4g} between them. A little more "
        f"data may reverse their order; look at both, "
        f"`result.expected([{best:.4g}, {other:.4g}])`."
    )
