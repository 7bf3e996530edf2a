"""A plan: a decision problem with everything chosen and checked before the first fit.

`prepare` traces model and guide, reads the data, and finds a transform, a method and an
expectation that fit together; what does not is refused here and not after minutes of fitting.
The scale M is the one thing that a plan lacks: `Plan.with_scale` finds it from plain VI.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks, predicting
from stakes._types import Array, Batch, Data, Key, Number, Params, PyTree
from stakes.bridge import NumPyroApproximation, Predictors, approximate
from stakes.decisions import DecisionTask, objective_of
from stakes.errors import InputError, listed, some, warn
from stakes.fitting import (
    EM,
    VI,
    FitSettings,
    Info,
    Joint,
    Method,
    ParametricStep,
    State,
    Step,
    begin_to_compile,
)
from stakes.host.workers import usable_cores
from stakes.predicting import FittedPosterior
from stakes.problem import Problem, checked_key
from stakes.protocols import Estimator, Expectation, Objective, Space, Transform
from stakes.study.cases import Cases
from stakes.study.data import CheckedData, Coords, InputData, read_data
from stakes.study.fit_choices import choose_expectation
from stakes.study.members import check_coords, predictor_for
from stakes.study.options import Keys, Options
from stakes.tables import Read
from stakes.varying import Columns

# Parameters and decisions of a problem for which programs are compiled before they are needed: with
# more, the fit itself takes the time, and would need the memory twice.
MOST_AHEAD = 100_000


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A decision problem with everything chosen, for `Fits` to carry out.

    Attributes:
        transform: from loss to utility, with M once it is known; None for a problem given by a
            utility.
        method: how decisions and variational parameters are optimised together.
        expectation: how the loss or utility is averaged over outcomes.
        estimator: of the utility term, where the transform puts a utility inside a logarithm.
        warm_start: whether calibrated fits start from plain VI's optimum.
        settings: of each fit, such as the number of steps.
        predictors: the model on any data, shared by all results of this plan.
        data: what the model was traced on.
        coords: labels of members, by plate.
    """

    problem: Problem
    approximation: NumPyroApproximation
    transform: Transform | None
    method: Method
    expectation: Expectation
    estimator: Estimator | None
    warm_start: bool
    settings: FitSettings
    predictors: Predictors
    data: CheckedData
    coords: Mapping[str, Any]

    @property
    def table(self) -> Read | None:
        """The table that was given as data, if one was."""
        return self.data.table

    def read(self, data: InputData, *, needs_outcome: bool = False) -> CheckedData:
        """Read other data: words and dates become the same numbers as in the fit.

        Args:
            data: a mapping or a table, as in the fit.
            needs_outcome: whether to refuse data without observed outcomes.
        """
        cases = self.approximation.trace
        return read_data(
            self.problem, data, needs_outcome=needs_outcome, fit=self.data, cases=cases
        )

    def cases(
        self,
        keys: Keys,
        read: CheckedData | None = None,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
    ) -> Cases:
        """Return the cases with other data, or those of the fit.

        Args:
            keys: random keys of the result that the cases belong to.
            read: the other data; None for the cases of the fit.
            new: plates of which all members are new.
            known: plates whose members are those of the fit.
            coords: labels of the plates' members, by plate.
        """
        approximation, predictor, labels = self.approximation, self.predictors.on(), self.coords
        if read is not None:
            predictor, labels = predictor_for(
                self.predictors, approximation, labels, read, new, known, coords
            )
        return Cases(
            problem=self.problem,
            predictor=predictor,
            expectation=self.expectation,
            keys=keys,
            coords=labels,
            held_out=read is not None,
            start=FittedPosterior(approximation, approximation.start),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all decisions."""
        return (*self.problem.space.axes, *self.approximation.instances.shape)

    def on(self, approximation: NumPyroApproximation) -> "Plan":
        """Return the plan for another approximation of the same model."""
        if approximation is self.approximation:
            return self
        predictors = Predictors(self.problem, approximation)
        return replace(self, approximation=approximation, predictors=predictors)

    def showing(self, *, progress: bool) -> "Plan":
        """Return the plan, its fits with progress bars or without."""
        return replace(self, settings=replace(self.settings, progress=progress))

    def why_not_divided(self) -> str | None:
        """Say why several processes could not make one fit together; None where they could."""
        if self.problem.per is not None:
            return (
                f"`Problem(per={self.problem.per!r})`: several processes cannot find decisions "
                f"that cases share. Fit in one process, without `on=`."
            )
        parts = self.approximation.subsamples
        has = f"those of {some(part.plate for part in parts)}" if parts else "none"
        return (
            None
            if len(parts) == 1
            else (
                f"Processes divide the rows of one plate that is taken in minibatches, "
                f"`numpyro.plate(name, size, subsample_size=...)`; this model has {has}."
            )
        )

    def divided_batch(self) -> int:
        """How many rows a minibatch has, of which several processes take equal parts."""
        reason = self.why_not_divided()
        if reason is not None:
            raise InputError(reason)
        return self.approximation.subsamples[0].batch_size

    def meanwhile(self, keys: Keys, *, plain: bool) -> Callable[[], None] | None:
        """Return what to compile beside the steps of plain VI, so that nothing waits for it later.

        That is the program that decides and, unless only the `plain` fit is wanted, the calibrated
        step. None for a large problem, whose fits take all cores, and where the programs depend on
        what plain VI finds.
        """
        size = math.prod(self.shape) + sum(map(np.size, jax.tree.leaves(self.approximation.start)))
        if usable_cores() < 2 or size > MOST_AHEAD or not self.expectation.is_sized:
            return None
        return lambda: self._begin_to_compile(keys, np.zeros(self.shape), plain)

    def _begin_to_compile(self, keys: Keys, decisions: np.ndarray, plain: bool) -> None:
        """Begin to compile what decides, and the calibrated step with any M."""
        approximation, start = self.approximation, self.approximation.start
        posterior, predictor = FittedPosterior(approximation, start), self.predictors.on()
        task, key = self.problem.task, keys.decisions
        predicting.begin_to_decide(task, posterior, predictor, self.expectation, key)
        if plain:
            return
        step = self.step(None if self.transform is None else 1.0)
        state = self.state(start, decisions)
        begin_to_compile(step, approximation, state, keys.calibrated, self.settings)

    def vi_step(self) -> Step:
        """Return the step of plain VI."""
        return VI().step(self.settings)

    def vi_state(self, params: Params) -> State:
        """Return the state that plain VI starts from, with these parameters."""
        return VI().init(params, self.settings)

    def sized(self, params: Params, key: Key) -> "Plan":
        """Return the plan with an expectation that fits what these parameters predict.

        An enumeration of counts, for example, has to reach as far as outcomes may spread.
        """
        posterior = FittedPosterior(self.approximation, params)
        some = self.problem.some_decisions
        outcomes = predicting.outcomes_by_batch(posterior, self.predictors.on(), key, some)
        return replace(self, expectation=self.expectation.size_for(outcomes))

    def with_scale(self, params: Params, decisions: np.ndarray, keys: Keys) -> "Plan":
        """Return the plan with M_q, the q-quantile of the losses of VI's own decisions.

        Where no outcome is observed, since decisions are about a latent, these are the losses that
        plain VI itself expects.
        """
        posterior = FittedPosterior(self.approximation, params)
        predictor, task, transform = self.predictors.on(), self.problem.task, self.transform
        seen = predicting.observations(posterior, predictor)
        if seen is None:
            if transform is None:
                return self
            costs = predicting.predictive_costs(task, posterior, predictor, decisions, keys.scale)
            return replace(self, transform=transform.fitted(costs))
        seen.check(task, decisions)
        action = self.problem.action
        if transform is not None:
            # What was observed happened at the decisions that were made, if they change outcomes.
            made = decisions if action is None else np.asarray(predictor.arrays[action], float)
            transform = transform.fitted(seen.costs(task, made))
        if action is not None:
            warn_of_unseen_decisions(self.problem, predictor.arrays, decisions)
        return replace(self, transform=transform)

    @property
    def scale(self) -> float | None:
        """M; None for a problem given by a utility."""
        return None if self.transform is None else self.transform.scale

    def step(self, scale: Number | None) -> Step:
        """A step of the calibrated fit, with this M."""
        bare, numbers = self.problem.task.split_numbers()

        def made(scale: Number | None, numbers: tuple[Number, ...]) -> Step:
            return self.method.step(
                self.objective(scale, task=bare.with_numbers(numbers)), self.settings
            )

        return ParametricStep(made, scale, numbers)

    def objective(
        self,
        scale: Number | None,
        columns: Columns | None = None,
        *,
        task: DecisionTask | None = None,
    ) -> Objective:
        """Return what the calibrated fit maximises beside the ELBO.

        Args:
            scale: M; it may be traced.
            columns: what differs from case to case, to have the objective for some cases alone.
            task: in place of the problem's, which is the same but for traced numbers.
        """
        task = task or self.problem.task
        gain = self.problem.gain(self.transform, scale, columns, task.criterion.loss)
        cases = task if columns is None else task.at(columns)
        cheap = self.expectation.for_steps()
        objective = objective_of(gain, cheap, self.estimator, cases.space, cases.groups)
        if not task.needs or columns is not None:
            return objective
        return objective._replace(needs=task.needs, build=partial(self.objective, scale, task=task))

    def state(self, params: Params, decisions: Array | np.ndarray) -> State:
        """Return the state that a calibrated fit starts from; it has a copy of the decisions."""
        return self.method.init(params, jnp.array(decisions), self.settings)

    @property
    def hands_over(self) -> bool:
        """Whether a fit may reuse the memory of its first state, if that has a copy of the
        parameters.

        An optimiser or a method of the user may have made arrays that are still in use elsewhere.
        """
        return self.settings.optimizer is None and isinstance(self.method, Joint | EM)


def prepare(
    key: Key,
    problem: Problem,
    data: InputData,
    options: Options,
    *,
    coords: Coords | None = None,
    progress: bool = False,
    approximation: NumPyroApproximation | None = None,
) -> Plan:
    """Trace model and guide, choose what was left open, and refuse what does not fit together.

    Args:
        key: for the start of the guide.
        problem: model, outcome, loss or utility, and guide.
        data: with the observed outcomes.
        options: what the user has chosen.
        coords: labels of the plates' members, by plate.
        progress: whether fits show progress bars.
        approximation: one of the same model and data, to save the tracing; programs that were
            compiled for it are used again.
    """
    key = checked_key(key)
    rule = "a `Problem(model, outcome=..., loss=...)`"
    checks.instance("`problem`", problem, Problem, rule)
    problem.task.check_compiles()
    checks.instance("`options=`", options, Options, "an `Options(...)`")
    progress = checks.flag("`progress=`", progress)
    if approximation is not None:
        rule = "the `approximation` of another plan"
        checks.instance("`approximation=`", approximation, NumPyroApproximation, rule)
    transform = options.transform_for(problem)
    read = read_data(problem, data, needs_outcome=True)
    if approximation is None:
        approximation = approximate(problem, read.data, key)
    check_shared(problem, approximation)
    coords = read.coords(approximation.trace, coords)
    check_coords(coords, approximation.instances, *approximation.latents.values())
    expectation, draws = choose_expectation(problem, transform, options, approximation, key)
    return Plan(
        problem=problem,
        approximation=approximation,
        transform=transform,
        method=options.method_for(problem),
        expectation=expectation,
        estimator=options.estimator,
        warm_start=options.warm_start,
        settings=options.fit_settings(draws=draws, progress=progress),
        predictors=Predictors(problem, approximation),
        data=read,
        coords=dict(coords or {}),
    )


def warn_of_unseen_decisions(problem: Problem, arrays: Data, decisions: np.ndarray) -> None:
    """Warn of best decisions that were never made: the model alone speaks for them.

    Args:
        problem: about decisions that change outcomes.
        arrays: the data, with the decisions that were made.
        decisions: the best ones under plain VI.
    """
    assert problem.action is not None
    made = np.asarray(arrays[problem.action], float)
    low, high = made.min(), made.max()
    beyond = beyond_made(problem.space, made, decisions)
    if not beyond.any():
        return
    where = f"outside those in the data, {low:.6g} to {high:.6g}"
    remedy = (
        f"Narrow the limits, `decision={{{problem.action!r}: Interval({low:.4g}, {high:.4g})}}`"
    )
    if problem.space.labels:
        never = problem.space.to_labels(np.unique(decisions[beyond]))
        where, remedy = (
            f"beyond those in the data: {listed(map(str, never))}",
            "Leave such actions out",
        )
    warn(
        f"{int(beyond.sum())} of {decisions.size} best decisions about {problem.action!r} lie "
        f"{where}: they rest on the model alone. {remedy}, or try such decisions "
        f"first."
    )


def beyond_made(space: Space, made: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    """Return which decisions lie beyond the least and the greatest ever made.

    For actions, return which of them were never taken.
    """
    if space.labels:
        return ~np.isin(decisions, made)
    found: np.ndarray = (decisions < made.min() - 1e-6) | (decisions > made.max() + 1e-6)
    return found


def check_shared(problem: Problem, approximation: NumPyroApproximation) -> None:
    """Refuse decisions that are shared across minibatches, each of which sees a part of them."""
    dims = approximation.instances.dims
    if problem.per == "row" and "row" in dims and len(dims) > 1:
        raise InputError(
            "`Problem(per='row')` is a decision for each outcome, but the model also has a plate "
            "of that name. Leave `per` out, or give the plate another name."
        )
    parts = [p.plate for p in approximation.subsamples if p.plate in dims]
    if problem.task.per is not None and parts:
        raise InputError(
            f"`Problem(per={problem.per!r})`: a shared decision needs all of its outcomes at once, "
            f"but the model takes {some(parts)} in minibatches. Leave `subsample_size` out."
        )


def hide_others(counted: Array, step: Step) -> Step:
    """Return the step with the other outcomes hidden from it."""

    def some(whole: Any, state: State, key: Key, batch: Batch, /) -> tuple[State, Info]:
        return step(whole.counting(counted), state, key, batch)

    return some


def stack_trees(trees: Sequence[PyTree]) -> PyTree:
    """Return trees of the same structure as one tree, with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
