"""From a problem and data to a plan: everything chosen and checked before the first fit."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks, predicting
from stakes._types import Array, Batch, Data, Key, Number, Params
from stakes.arguments import Columns, columns_of
from stakes.bridge import Divided, NumPyroApproximation, Predictors, approximate, divided
from stakes.decisions import DecisionTask, SecondMinimum, objective_of
from stakes.errors import InputError, NumericalError, listed, some, warn
from stakes.fitting import (
    EM,
    VI,
    Fit,
    FitSettings,
    Info,
    Joint,
    Method,
    ParametricStep,
    State,
    Step,
    Stop,
    begin_to_compile,
)
from stakes.host.ahead import usable_cores
from stakes.port import Instances
from stakes.predicting import FittedPosterior
from stakes.problem import Problem, checked_key
from stakes.protocols import (
    Estimator,
    Expectation,
    Objective,
    Space,
    Transform,
)
from stakes.study.choices import (
    check_shared,
    checked_expectation,
    checked_transform,
    method_for,
)
from stakes.study.data import Coords, given
from stakes.study.keys import Keys
from stakes.study.options import Options
from stakes.tables import Read
from stakes.varying import Columns as CaseColumns

MOST_AHEAD = 100_000
"""Parameters and decisions of a problem for which programs are compiled before they are needed:
with more, the fit itself takes the time, and would need the memory twice."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A decision problem with everything chosen, for `calibrate` to carry out."""

    problem: Problem
    approximation: NumPyroApproximation
    transform: Transform | None
    """From loss to utility, with M once it is known; None for a problem given by a utility."""
    method: Method
    expectation: Expectation
    estimator: Estimator | None
    warm_start: bool
    settings: FitSettings
    predictors: Predictors
    """Of the approximation, for all results of this plan."""
    columns: Mapping[str, Columns]
    """Names of the columns of arguments that are tables."""
    coords: Mapping[str, Any]
    """Labels of members, by plate."""
    table: Read | None
    """The table that was given as data, if one was."""

    def on(self, approximation: NumPyroApproximation) -> "Plan":
        """The plan for another approximation, of the same model."""
        if approximation is self.approximation:
            return self
        predictors = Predictors(self.problem, approximation)
        return replace(self, approximation=approximation, predictors=predictors)

    def divided(self, count: int) -> Divided:
        """The approximation with its rows divided among so many processes."""
        if self.problem.per is not None:
            raise InputError(
                f"`Problem(per={self.problem.per!r})`: several processes cannot find decisions "
                f"that cases share. Fit in one process, without `on=`."
            )
        return divided(self.approximation, count)

    def meanwhile(self, keys: Keys, *, plain: bool) -> Callable[[], None] | None:
        """What may be compiled beside the steps of plain VI, so that nothing waits for it later.

        Decisions and calibrated fit, where the problem is small, and it is known before plain VI
        what they need.
        """
        shape = (*self.problem.space.axes, *self.approximation.instances.shape)
        size = math.prod(shape) + sum(map(np.size, jax.tree.leaves(self.approximation.start)))
        if usable_cores() < 2 or size > MOST_AHEAD or not self.expectation.is_sized:
            return None
        return lambda: self._begin_to_compile(keys, np.zeros(shape), plain)

    def _begin_to_compile(self, keys: Keys, decisions: np.ndarray, plain: bool) -> None:
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
        return VI().step(self.settings)

    def vi_state(self, params: Params) -> State:
        return VI().init(params, self.settings)

    def sized(self, params: Params, key: Key) -> "Plan":
        """The plan, its expectation's open settings chosen for what these parameters predict."""
        posterior = FittedPosterior(self.approximation, params)
        some = self.problem.some_decisions
        outcomes = predicting.outcomes_by_batch(posterior, self.predictors.on(), key, some)
        return replace(self, expectation=self.expectation.size_for(outcomes))

    def after_vi(
        self, vi: Fit, keys: Keys, decisions: np.ndarray | None = None
    ) -> tuple["Plan", np.ndarray]:
        """The plan with M_q from the losses of VI's own decisions; and these decisions."""
        plan = self.sized(vi.params, keys.spread)
        posterior = FittedPosterior(self.approximation, vi.params)
        predictor, task = self.predictors.on(), self.problem.task
        if decisions is None:
            expectation, key = plan.expectation, keys.decisions
            decisions = predicting.decide(task, posterior, predictor, expectation, key)
            check_decisions(decisions)
            second = predicting.second_minimum(task, posterior, predictor, expectation, key)
            if second is not None:
                _warn_of_second_minimum(self.problem, second)
        seen = predicting.observations(posterior, predictor)
        if seen is None:  # the decision is about a latent
            return self._after_vi_unobserved(plan, posterior, decisions, keys)
        seen.check(task, decisions)
        transform = self.transform
        if transform is not None:
            # What was observed happened at the decisions that were made, if they change outcomes.
            action = self.problem.action
            made = decisions if action is None else np.asarray(predictor.arrays[action], float)
            transform = transform.fitted(seen.costs(task, made))
        if self.problem.action is not None:
            _warn_of_unseen_decisions(self.problem, predictor.arrays, decisions)
        return replace(plan, transform=transform), decisions

    def _after_vi_unobserved(
        self, plan: "Plan", posterior: FittedPosterior, decisions: np.ndarray, keys: Keys
    ) -> tuple["Plan", np.ndarray]:
        """M_q from the losses that plain VI itself expects, where no outcome is observed."""
        transform = self.transform
        if transform is not None:
            task, predictor = self.problem.task, self.predictors.on()
            costs = predicting.predictive_costs(task, posterior, predictor, decisions, keys.scale)
            transform = transform.fitted(costs)
        return replace(plan, transform=transform), decisions

    @property
    def scale(self) -> float | None:
        """M; None for a problem given by a utility."""
        return None if self.transform is None else self.transform.scale

    def step(self, scale: Number | None) -> Step:
        """A step of the calibrated fit, with this M."""
        bare, numbers = self.problem.task.split_numbers()

        def made(scale: Number | None, numbers: tuple[Any, ...]) -> Step:
            return self.method.step(
                self.objective(scale, task=bare.with_numbers(numbers)), self.settings
            )

        return ParametricStep(made, scale, numbers)

    def objective(
        self,
        scale: Number | None,
        columns: CaseColumns | None = None,
        *,
        task: DecisionTask | None = None,
    ) -> Objective:
        """What the calibrated fit maximises beside the ELBO; where asked for, for some cases.

        With an `task` in place of the problem's, which is the same but for traced numbers.
        """
        task = task or self.problem.task
        gain = self.problem.gain(self.transform, scale, columns, task.criterion.loss)
        cases = task if columns is None else task.at(columns)
        objective = objective_of(gain, self.expectation, self.estimator, cases.space, cases.groups)
        if not task.needs or columns is not None:
            return objective
        return objective._replace(needs=task.needs, build=partial(self.objective, scale, task=task))

    def state(self, params: Params, decisions: Array | np.ndarray) -> State:
        """From these parameters and a copy of the decisions."""
        return self.method.init(params, jnp.array(decisions), self.settings)

    @property
    def hands_over(self) -> bool:
        """Whether nobody else has the arrays of a state, if it begins with a copy of parameters.

        An optimiser or a method of the user may have made arrays that are still in use elsewhere.
        """
        return self.settings.optimizer is None and isinstance(self.method, Joint | EM)


def prepare(
    key: Key,
    problem: Problem,
    data: Data,
    options: Options,
    *,
    coords: Coords | None = None,
    progress: bool = False,
    approximation: NumPyroApproximation | None = None,
) -> Plan:
    """Trace model and guide, choose what was left open, and find what does not fit together.

    An `approximation` of the same model and data saves the tracing, and programs compiled for it
    are reused.
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
    transform = checked_transform(problem, options.transform)
    read = given(problem, data, needs_outcome=True)
    if approximation is None:
        approximation = approximate(problem, read.data, key)
    check_shared(problem, approximation)
    coords = read.coords(approximation.trace, coords)
    check_coords(coords, approximation.instances, *approximation.latents.values())
    expectation, draws = checked_expectation(problem, transform, options, approximation, key)
    return Plan(
        problem=problem,
        approximation=approximation,
        transform=transform,
        method=method_for(problem, options),
        expectation=expectation,
        estimator=options.estimator,
        warm_start=options.warm_start,
        settings=options.fit_settings(draws=draws, progress=progress),
        predictors=Predictors(problem, approximation),
        columns={} if read.table is not None else columns_of(data),
        coords=dict(coords or {}),
        table=read.table,
    )


def _warn_of_unseen_decisions(
    problem: Problem, arrays: Mapping[str, Any], decisions: np.ndarray
) -> None:
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
    """Which decisions lie beyond all that were ever made; of actions, which never were."""
    if space.labels:
        return ~np.isin(decisions, made)
    found: np.ndarray = (decisions < made.min() - 1e-6) | (decisions > made.max() + 1e-6)
    return found


def _warn_of_second_minimum(problem: Problem, second: SecondMinimum) -> None:
    """Where decisions far apart are nearly equally good, chance may choose between them."""
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
        f"data may make the other one the best; look at both, "
        f"`result.expected([{best:.4g}, {other:.4g}])`."
    )


def seeing(counted: Array, step: Step) -> Step:
    """A step that sees these outcomes only."""

    def some(whole: Any, state: State, key: Key, batch: Batch, /) -> tuple[State, Info]:
        return step(whole.counting(counted), state, key, batch)

    return some


def check_decisions(decisions: np.ndarray) -> None:
    for end, where, too in ((-np.inf, "falls", "low"), (np.inf, "rises", "high")):
        endless = decisions == end
        if endless.any():
            raise NumericalError(
                f"{int(endless.sum())} of {decisions.size} decisions are infinite: the more the "
                f"decision {where}, the better, or at least never worse. Such a decision needs "
                f"limits: say in the loss or utility what too {too} a decision costs."
            )
    bad = ~np.isfinite(decisions)
    if bad.any():
        raise NumericalError(
            f"{int(bad.sum())} of {decisions.size} decisions are not finite, because the expected "
            f"loss or utility is not. Either the window of an enumeration is too small (give a "
            f"larger `Enumeration(points=...)`), or the expectation of the loss is infinite."
        )


def check_fit(name: str, fit: Fit) -> None:
    if fit.reason is Stop.NUMERICAL_FAILURE and fit.skipped >= fit.steps:
        raise NumericalError(
            f"The {name} fit found no finite bound and gradient at all in {fit.steps} steps. Check "
            f"the model's priors and the size of the data, give a smaller step "
            f"(`optimizer=optax.adam(1e-3)`) or, for counts, a larger `Enumeration(points=...)`."
        )


def check_whole(name: str, fit: Fit) -> None:
    """Refuse a fit that was cut short, where the figures of a whole one are to be kept."""
    check_fit(name, fit)
    if fit.reason is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    if fit.reason is Stop.NUMERICAL_FAILURE:
        raise NumericalError(f"The {name} fit {fit.reason} (after {fit.steps} steps).")


def check_coords(coords: Coords | None, *labelled: Instances) -> None:
    sizes = {d: n for each in labelled for d, n in zip(each.dims, each.shape, strict=True)}
    given = {} if coords is None else checks.labels("`coords=`", coords)
    for name, labels in given.items():
        if name not in sizes:
            raise InputError(f"`coords` labels {name!r}; the plates are {some(sizes)}.")
        if len(labels) != sizes[name]:
            raise InputError(
                f"`coords[{name!r}]` has {len(labels)} labels for {sizes[name]} members."
            )
