"""From a problem and data to a plan: everything chosen and checked before the first fit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks, predicting
from stakes import expectation as expectations
from stakes._types import Array, Batch, Data, Distribution, Key, Number, Params
from stakes.aim import Aim
from stakes.arguments import Columns, columns_of
from stakes.bridge import NumPyroApproximation, Predictors, approximate
from stakes.calibration.data import Coords, given
from stakes.calibration.keys import Keys
from stakes.calibration.options import Options
from stakes.deciding import objective_of
from stakes.errors import InputError, NumericalError, some, warn
from stakes.losses import ZeroOne
from stakes.optimise import EM, VI, Fit, FitSettings, Info, Joint, Method, State, Step, Stop
from stakes.port import Instances
from stakes.predicting import FittedPosterior
from stakes.problem import Problem, checked_key
from stakes.protocols import (
    Criterion,
    Estimator,
    Expectation,
    Gain,
    Loss,
    Objective,
    Predicted,
    Transform,
    UtilityTerm,
)
from stakes.tables import Read
from stakes.utilities import Linearized
from stakes.varying import Columns as CaseColumns


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

    def vi_step(self) -> Step:
        return VI().step(self.settings)

    def vi_state(self, params: Params) -> State:
        return VI().init(params, self.settings)

    def sized(self, params: Params, key: Key) -> "Plan":
        """The plan, its expectation's open settings chosen for what these parameters predict."""
        posterior = FittedPosterior(self.approximation, params)
        some = self.problem.some_decisions
        outcomes = predicting.outcomes_by_batch(posterior, self.predictors.on(), key, some)
        return replace(self, expectation=self.expectation.sized(outcomes))

    def after_vi(
        self, vi: Fit, keys: Keys, decisions: np.ndarray | None = None
    ) -> tuple["Plan", np.ndarray]:
        """The plan with M_q from the losses of VI's own decisions; and these decisions."""
        plan = self.sized(vi.params, keys.spread)
        posterior = FittedPosterior(self.approximation, vi.params)
        predictor, aim = self.predictors.on(), self.problem.aim
        if decisions is None:
            expectation, key = plan.expectation, keys.decisions
            decisions = predicting.decide(aim, posterior, predictor, expectation, key)
            check_decisions(decisions)
        seen = predicting.observations(posterior, predictor)
        if seen is None:  # the decision is about a latent
            return self._after_vi_unobserved(plan, posterior, decisions, keys)
        likely = np.where(seen.counted, seen.outcomes, decisions)
        seen.aim(aim).check_cost(jnp.asarray(likely), jnp.asarray(decisions))
        transform = self.transform
        if transform is not None:
            # What was observed happened at the decisions that were made, if they change outcomes.
            action = self.problem.action
            made = decisions if action is None else np.asarray(predictor.arrays[action], float)
            transform = transform.fitted(seen.costs(aim, made))
        if self.problem.action is not None:
            _warn_of_unseen_decisions(self.problem, predictor.arrays, decisions)
        return replace(plan, transform=transform), decisions

    def _after_vi_unobserved(
        self, plan: "Plan", posterior: FittedPosterior, decisions: np.ndarray, keys: Keys
    ) -> tuple["Plan", np.ndarray]:
        """M_q from the losses that plain VI itself expects, where no outcome is observed."""
        transform = self.transform
        if transform is not None:
            aim, predictor = self.problem.aim, self.predictors.on()
            costs = predicting.predictive_costs(aim, posterior, predictor, decisions, keys.scale)
            transform = transform.fitted(costs)
        return replace(plan, transform=transform), decisions

    @property
    def scale(self) -> float | None:
        """M; None for a problem given by a utility."""
        return None if self.transform is None else self.transform.scale

    def step(self, scale: Number | None) -> Step:
        """A step of the calibrated fit, with this M."""
        return self.method.step(self.objective(scale), self.settings)

    def objective(self, scale: Number | None, columns: CaseColumns | None = None) -> Objective:
        """What the calibrated fit maximises beside the ELBO; where asked for, for some cases."""
        aim = self.problem.aim
        gain = self.problem.gain(self.transform, scale, columns)
        space = aim.space if columns is None else aim.at(columns).space
        found = objective_of(gain, self.expectation, self.estimator, space)
        if not aim.needs or columns is not None:
            return found
        return found._replace(needs=aim.needs, build=partial(self.objective, scale))

    def state(self, params: Params, decisions: Array | np.ndarray) -> State:
        return self.method.init(params, jnp.asarray(decisions), self.settings)


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
    problem.aim.check_compiles()
    checks.instance("`options=`", options, Options, "an `Options(...)`")
    progress = checks.flag("`progress=`", progress)
    if approximation is not None:
        rule = "the `approximation` of another plan"
        checks.instance("`approximation=`", approximation, NumPyroApproximation, rule)
    transform = _checked_transform(problem, options.transform)
    read = given(problem, data, needs_outcome=True)
    if approximation is None:
        approximation = approximate(problem, read.data, key)
    _check_shared(problem, approximation)
    coords = read.coords(approximation.cases, coords)
    check_coords(coords, approximation.instances, *approximation.latents.values())
    expectation = _checked_expectation(problem, transform, options, approximation, key)
    small = expectation.cheap and int(np.prod(approximation.instances.shape)) <= 1000
    return Plan(
        problem=problem,
        approximation=approximation,
        transform=transform,
        method=method_for(problem, options),
        expectation=expectation,
        estimator=options.estimator,
        warm_start=options.warm_start,
        # For small problems, more draws of θ cost next to nothing.
        settings=options.fit_settings(draws=32 if small else 10, progress=progress),
        predictors=Predictors(problem, approximation),
        columns={} if read.table is not None else columns_of(data),
        coords=dict(coords or {}),
        table=read.table,
    )


def _checked_transform(problem: Problem, transform: Transform | None) -> Transform | None:
    if problem.utility is not None:
        if transform is not None:
            raise InputError(
                f"`transform={transform}` turns a loss into a utility, but the problem is given by "
                f"a utility already; leave `transform` out."
            )
        return None
    return Linearized() if transform is None else transform


def method_for(problem: Problem, options: Options) -> Method:
    """The one asked for; otherwise `Joint()`, or `EM()` where decisions cannot be moved freely."""
    smooth = problem.space.is_smooth
    if options.method is None:
        return Joint() if smooth else EM()
    if not smooth and getattr(options.method, "by_gradient", False):
        raise InputError(
            f"`method={options.method}` does not fit: decisions in `{problem.space!r}` cannot "
            f"follow a gradient. Use `method=EM()`, or leave `method` out."
        )
    return options.method


def _check_shared(problem: Problem, approximation: NumPyroApproximation) -> None:
    """Refuse decisions that are shared across minibatches, each of which sees a part of them."""
    dims = approximation.instances.dims
    if problem.per == "row" and "row" in dims and len(dims) > 1:
        raise InputError(
            "`Problem(per='row')` is a decision for each outcome, but the model also has a plate "
            "of that name. Leave `per` out, or give the plate another name."
        )
    parts = [p.plate for p in approximation.subsamples if p.plate in dims]
    if problem.aim.per is not None and parts:
        raise InputError(
            f"`Problem(per={problem.per!r})`: a shared decision needs all of its outcomes at once, "
            f"but the model takes {some(parts)} in minibatches. Leave `subsample_size` out."
        )


def _check_classes(problem: Problem, outcome: Distribution) -> None:
    """Refuse a table of costs that is about other classes than the outcome has."""
    loss, counts = problem.loss, outcome.support.is_discrete
    if isinstance(loss, ZeroOne) and isinstance(loss.width, float) and not (loss.width or counts):
        raise InputError(
            f"`loss=ZeroOne()` is for classes: {problem.outcome!r} is a number, which no decision "
            f"hits exactly. Say how near is near enough: `ZeroOne(width=...)`."
        )
    classes = getattr(problem.loss, "classes", None)
    if not isinstance(classes, int) or getattr(problem.loss, "bins", None) is not None:
        return
    here = expectations.stats.few_values(outcome)
    if here != classes:
        found = "is a number" if here is None else f"has {here} classes"
        raise InputError(
            f"`loss={problem.criterion.title}`: the outcome {problem.outcome!r}, "
            f"{type(outcome).__name__}, {found}. A table has a cost for each class; where the "
            f"outcome is a number, say with `bins=` which values make a class."
        )


def _checked_expectation(
    problem: Problem,
    transform: Transform | None,
    options: Options,
    approximation: NumPyroApproximation,
    key: Key,
) -> Expectation:
    """Try loss, expectation and method before any fit, on observed outcomes and where it starts."""
    posterior = FittedPosterior(approximation, approximation.start)
    predictor = Predictors(problem, approximation).on()
    # The first two keys folded in are those of a split, from which the guide has started.
    theta_key, y_key = (jax.random.fold_in(key, number) for number in (2, 3))
    stacked, weight = predicting.outcomes(posterior, predictor, theta_key, 1)
    outcome = jax.tree.map(lambda leaf: leaf[0], stacked)
    drawn = jnp.asarray(outcome.expand(weight.shape).sample(y_key), jnp.result_type(float))
    seen = predicting.observations(posterior, predictor)
    columns = predictor.columns(problem.aim.needs)
    problem.aim.check_columns(columns)
    aim = problem.aim.at(columns)
    if seen is None:
        _try_cost(aim, drawn, drawn)
    else:
        # Masked outcomes may have been filled with anything.
        counted = seen.outcomes[seen.counted]
        typical = np.median(counted) if counted.size else 0.0
        _try_cost(aim, jnp.asarray(np.where(seen.counted, seen.outcomes, typical)), drawn)
    _check_classes(problem, outcome)
    gain = problem.gain(transform, 1.0, columns)
    where = f"What `transform={transform}` returns"
    checks.choice(where, gain, Gain, "a utility or a scaled loss", hashable=False)
    method = method_for(problem, options)
    reason = method.objection(gain)
    if reason is not None:
        raise InputError(f"`method={method}` does not fit: {reason}.")
    asked = _AllAsked(gain, options.estimator, aim.criterion)
    expectation = options.expectation
    if expectation is None:
        expectation = expectations.choose(outcome, asked, weight)
    else:
        expectations.check(expectation, outcome, asked, weight)
    asked.term(expectation)  # says what does not fit
    if problem.about_latent:
        _check_slope(problem, aim, drawn)
    return expectation


def _check_slope(problem: Problem, aim: Aim, drawn: Array) -> None:
    """Refuse, for a latent, a cost in steps: it would have no slope to follow."""
    decision = aim.space.inside(jnp.broadcast_to(jnp.median(drawn), drawn.shape))
    tried = drawn + jnp.linspace(-1, 1, 9).reshape(-1, *(1 for _ in drawn.shape))
    slope = jax.grad(lambda y: jnp.sum(aim.criterion.cost(y, decision)))(tried)
    if not bool(jnp.any(slope != 0)):
        raise InputError(
            f"By `{aim.criterion.title}` the cost of {problem.outcome!r}, which is latent, goes in "
            f"steps, and a fit has no slope to follow. Use a loss that rises gradually, such as "
            f"`Huber(...)`."
        )


def _try_cost(aim: Aim, seen: Array, drawn: Array) -> None:
    """Refuse a loss or utility that fails on observed outcomes; warn where others show a fault."""
    middle, width = jnp.median(seen), seen.max() - seen.min()
    aim.check_observed(seen)
    # What is drawn before a fit may be anywhere.
    likely = jnp.where(jnp.abs(drawn - middle) <= width, drawn, middle)
    fault = aim.cost_fault(likely, aim.space.inside(jnp.broadcast_to(middle, likely.shape)))
    if fault is not None:
        warn(f"At an outcome that was not observed, but may be predicted: {fault}")


@final
@dataclass(frozen=True)
class _AllAsked:
    """All that is asked of an expectation: the utility term in the fit, the risk for decisions."""

    gain: Gain
    estimator: Estimator | None
    criterion: Criterion

    @property
    def loss(self) -> Loss | None:
        return self.gain.loss

    @property
    def bayes_is_best(self) -> bool:
        return self.gain.bayes_is_best

    @property
    def regret(self) -> bool:
        return self.gain.regret

    def regret_term(self, expectation: Expectation) -> UtilityTerm:
        return self.gain.regret_term(expectation)

    def exact_decision(self, predicted: Predicted) -> Array:
        return self.gain.exact_decision(predicted)

    def term(self, expectation: Expectation, estimator: Estimator | None = None) -> UtilityTerm:
        term = self.gain.term(expectation, self.estimator)

        def both(key: Key, outcome: Distribution, decision: Array) -> Array:
            self.criterion.risk(expectation, key, outcome, decision)
            return term(key, outcome, decision)

        return both


def _warn_of_unseen_decisions(
    problem: Problem, arrays: Mapping[str, Any], decisions: np.ndarray
) -> None:
    """Of the best decisions, some may lie beyond all that were ever made."""
    assert problem.action is not None
    made = np.asarray(arrays[problem.action], float)
    low, high = made.min(), made.max()
    beyond = int(((decisions < low - 1e-6) | (decisions > high + 1e-6)).sum())
    if beyond:
        warn(
            f"{beyond} of {decisions.size} best decisions about {problem.action!r} lie outside "
            f"those in the data, {low:.6g} to {high:.6g}: there the model is all that speaks for "
            f"them. Narrow the limits, `decision={{{problem.action!r}: Interval({low:.4g}, "
            f"{high:.4g})}}`, or try such decisions first."
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
                f"{int(endless.sum())} of {decisions.size} decisions have no end: the more the "
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
