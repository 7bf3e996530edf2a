"""Section 5 of the paper: from a problem and data to calibrated decisions."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from stakes import checks
from stakes._types import Data, Key, Params
from stakes.bridge import Divided, NumPyroApproximation
from stakes.errors import InputError, warn
from stakes.fitting import (
    EM,
    Fit,
    FitSettings,
    Hooks,
    Method,
    State,
    Step,
    Stop,
    not_begun,
    owned,
    run,
    start_history,
)
from stakes.host.interrupts import deferred_ctrl_c
from stakes.host.progress import waiting
from stakes.problem import Problem, checked_key
from stakes.processes import Processes
from stakes.protocols import Estimator, Expectation, Transform
from stakes.study.data import Coords
from stakes.study.journal import Journal
from stakes.study.keys import Keys
from stakes.study.options import Options
from stakes.study.plan import check_fit, prepare
from stakes.study.result import Calibration
from stakes.study.streaming import Beyond, opened
from stakes.tables import Stream

if TYPE_CHECKING:
    import optax


def calibrate(
    key: Key,
    problem: Problem,
    data: Data,
    *,
    transform: Transform | None = None,
    method: Method | None = None,
    expectation: Expectation | None = None,
    estimator: Estimator | None = None,
    steps: int = 30_000,
    draws: int | None = None,
    independent: bool = False,
    optimizer: "optax.GradientTransformation | None" = None,
    all_steps: bool = False,
    warm_start: bool = True,
    options: Options | None = None,
    coords: Coords | None = None,
    progress: bool = True,
    journal: Journal | None = None,
    on: Processes | None = None,
) -> Calibration:
    """Fit plain VI, find M_q, transform the loss, and fit the calibrated posterior.

    Args:
        key: a JAX random key; the same key gives the same result.
        problem: model, outcome, loss or utility, and guide.
        data: the model's arguments by name; the one named like the outcome has the observations. Or
            a table whose columns have these names. Its index labels the rows, words become codes in
            alphabetical order, and decisions come back as a column with that index. For a column of
            dates, `day`, the argument `day_weekday` gets the weekday and `day_days` the days since
            the first one; likewise year, quarter, month, week, day, dayofyear and hour. A `Stream`
            is a table that may be larger than memory.
        transform: from loss to utility, `Linearized(quantile=0.9)` by default; not for a problem
            that is given by a utility.
        method: `Joint()`, the default, or `EM()`, the default for whole numbers and actions.
        expectation: how the loss or utility is averaged over outcomes; by default the first of the
            library's expectations that applies.
        estimator: of the utility term, where the transform puts a utility inside a logarithm.
        steps: at most this many, for each of the two fits. Fewer than the default are taken for a
            trial run, in which a fit that does not converge gives no warning.
        draws: of θ at each step; 10 by default, 32 for small problems.
        independent: draw each θ independently. By default draws from mean-field normal guides come
            in pairs and are evenly spread, which makes fits less noisy.
        optimizer: any optax optimiser; by default natural gradients, for guides made of normals,
            and Adam together, in steps that shrink where gradients are all noise. Step sizes are
            reduced tenfold, twice, as the bound levels off, and again until that gains nothing
            more.
        all_steps: take every step at the optimiser's own step size, for an optimiser with a
            schedule of `steps` steps. With a rate that falls to zero the bound always levels off,
            so such a fit is never called converged: look at its trace.
        warm_start: whether the calibrated fit starts from VI's optimum.
        options: all of these as one value, instead of them.
        coords: labels of the plates' members, by plate; `decide` recognises members by them.
        progress: whether to show a progress bar on a terminal.
        journal: keeps a record of both fits, from which they can be resumed.
        on: the processes that make both fits together, as `join` returned them. Each calls
            `calibrate` with the same arguments and gets the same result; rows are divided among
            them, and with the rows local parameters, decisions and their optimiser state.

    Examples:
        >>> import jax, numpyro, numpyro.distributions as dist, stakes
        >>> def coin(n, y=None):
        ...     p = numpyro.sample("p", dist.Beta(1, 1))
        ...     with numpyro.plate("toss", n):
        ...         numpyro.sample("y", dist.Bernoulli(p), obs=y)
        >>> problem = stakes.Problem(coin, outcome="y", loss=stakes.Squared())
        >>> data = {"n": 4, "y": jax.numpy.array([1, 1, 0, 1])}
        >>> result = stakes.calibrate(jax.random.key(0), problem, data, steps=300)
        >>> result.decisions.dims
        ('toss',)
    """
    said = Options(
        transform=transform,
        method=method,
        expectation=expectation,
        estimator=estimator,
        steps=steps,
        draws=draws,
        independent=independent,
        optimizer=optimizer,
        all_steps=all_steps,
        warm_start=warm_start,
    )
    if options is not None and said != Options():
        raise InputError("`calibrate(options=...)` replaces the other options: leave those out.")
    chosen = said if options is None else options
    result = calibrate_with(
        key, problem, data, chosen, coords=coords, progress=progress, journal=journal, on=on
    )
    _warn_of_unconverged(result, chosen)
    return result


def calibrate_with(
    key: Key,
    problem: Problem,
    data: Any,
    options: Options,
    *,
    coords: Coords | None = None,
    progress: bool = True,
    journal: Journal | None = None,
    on: Processes | None = None,
    plain: bool = False,
) -> Calibration:
    """`calibrate`, with its options as one value; or plain VI alone, without the calibrated fit."""
    keys = Keys.of(checked_key(key))
    if coords is not None:
        coords = checks.labels("`coords=`", coords)
    progress, plain = checks.flag("`progress=`", progress), checks.flag("`plain=`", plain)
    if journal is not None:
        checks.choice("`journal=`", journal, Journal, "None")
    if on is not None:
        checks.instance("`on=`", on, Processes, "what `stakes.join(...)` returns")
        progress = progress and on.speaks
    beyond, given = None, data
    if isinstance(data, Stream):
        with waiting("reading all rows", show=progress):
            given = opened(problem, data, FitSettings.chunk, keys.setup, on)
        if isinstance(given, Beyond):
            beyond, given, options = given, given.sample, _for_stream(options)
    with waiting("tracing the model", show=progress):
        plan = prepare(keys.setup, problem, given, options, coords=coords, progress=progress)
        plan = plan if beyond is None else beyond.of(plan, journal)
    approximation, settings = plan.approximation, plan.settings
    shared: NumPyroApproximation | Divided = approximation
    if on is not None:
        divided = plan.divided(on.count)
        shared = divided if beyond is None else beyond.share(divided)

    def fitted(
        title: str,
        step: Step,
        state: State,
        key: Key,
        start: Params,
        meanwhile: Callable[[], None] | None = None,
    ) -> Fit:
        hooks, history = Hooks(on=on), None
        if beyond is None or journal is not None:
            history = start_history(state, handed_over=plan.hands_over)
            if journal is not None:
                history = journal.history(title, history)
                hooks = replace(
                    hooks,
                    watch=partial(journal.watch, title),
                    due=getattr(journal, "due", lambda: True),
                    keeper=getattr(journal, "keeper", lambda title: None)(title),
                )
            state = history.state

        go = partial(run, title, step, shared, state, key, settings, history=history)
        if beyond is not None:
            return beyond.fit(go, shared, state, settings, key, start, hooks)
        return go(hooks=replace(hooks, meanwhile=meanwhile))

    # Plain VI, its decisions, and the scale of its losses.
    begin = approximation.start
    meanwhile = plan.meanwhile(keys, plain=plain) if on is None else None
    vi = fitted("VI", plan.vi_step(), plan.vi_state(owned(begin)), keys.vi, begin, meanwhile)
    check_fit("VI", vi)
    shape = (*problem.space.axes, *approximation.instances.shape)
    kept = journal.decisions(shape) if journal is not None else None
    with waiting("deciding under plain VI", show=progress), deferred_ctrl_c() as interruption:
        plan, decisions = plan.after_vi(vi, keys, kept)

    # The calibrated fit, from VI's optimum unless told otherwise. Even from random λ, h starts at
    # VI's decision: far from it, U has a flat tail.
    begin = vi.params if plan.warm_start else approximation.start
    asked = interruption.asked() if on is None else on.any(interruption.asked())
    stopped = vi.reason is Stop.INTERRUPTED or asked
    if journal is not None and not stopped:
        journal.keep_decisions(decisions)
    if stopped or plain:
        why = Stop.INTERRUPTED if stopped else Stop.LEFT_OUT
        calibrated = not_begun(plan.state(begin, decisions), why)
        if beyond is not None:
            beyond.begun(calibrated.params, begin)
    else:
        step = plan.step(plan.scale)
        state = plan.state(owned(begin), decisions)
        calibrated = fitted("calibrated", step, state, keys.calibrated, begin)
        check_fit("calibrated", calibrated)
    result = Calibration.of(plan, vi, calibrated, plan.coords, keys, beyond)
    if beyond is not None and on is not None and not problem.space.axes:
        # Each process decides about its rows; later they may not be together any more.
        with waiting("deciding about all rows", show=progress):
            _ = result.decisions, result.vi_decisions
    return result


def _for_stream(options: Options) -> Options:
    """Decisions of rows that come and go are made anew at each step."""
    method = EM() if options.method is None else options.method
    if not isinstance(method, EM):
        raise InputError(
            f"`method={method}` keeps a decision for each row, and the rows of a `Stream(...)` "
            f"come and go. Leave `method` out, or give `EM(...)`."
        )
    return replace(options, method=method)


def _warn_of_unconverged(result: Calibration, options: Options) -> None:
    trial = options.all_steps or options.steps < Options.steps
    bad = {Stop.NUMERICAL_FAILURE} if trial else {Stop.NUMERICAL_FAILURE, Stop.STEP_LIMIT}
    ended = [
        f"{name} {fit.reason} after {fit.steps:,} steps"
        for name, fit in result.fits.items()
        if fit.reason in bad
    ]
    if ended:
        warn(
            f"{' and '.join(ended)}, before it converged: with more steps the decisions may "
            f"change. Give more `steps=` or another `optimizer=`, and look at the `bound` of "
            f"`result.vi` and `result.calibrated`, one number for each step."
        )
