"""Choose among ways to a decision by what their decisions cost on outcomes they have not seen."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import optax

from stakes import checks
from stakes._types import Data, Key
from stakes.errors import InputError, NoScaleError, NumericalError, warn
from stakes.host.progress import begin, parts_of, waiting
from stakes.host.workers import checked_client
from stakes.problem import Problem, checked_key
from stakes.study.bench import Bench
from stakes.study.choice import Choice, Entry
from stakes.study.data import Coords
from stakes.study.folds import Folds
from stakes.study.options import Options
from stakes.study.setup import Strength
from stakes.study.strategies.baselines import Same
from stakes.study.strategies.corrected import Corrected
from stakes.study.strategies.fitted import Calibrated, Plain
from stakes.study.strategies.way import Fitted, Way

STRENGTHS = (0.25, 1.0, 4.0, 16.0)


def choose(
    key: Key,
    problem: Problem,
    data: Data,
    ways: Sequence[Any] | None = None,
    folds: Folds = 5,
    by: Any = None,
    *,
    steps: int = 30_000,
    draws: int | None = None,
    optimizer: optax.GradientTransformation | None = None,
    options: Options | None = None,
    coords: Coords | None = None,
    progress: bool = True,
    on: Any = None,
) -> Choice:
    """Try several ways to a decision on outcomes they have not seen, and decide by the best.

    Every way is fitted without the outcomes of each fold in turn and judged by what its decisions
    would have cost there. Of the ways that are not reliably worse than the best, the first one
    listed is chosen, so list them from the simplest to the most elaborate. `Same` and `Given` are
    for comparison: they are chosen only if every other way is reliably worse.

    Args:
        key: a JAX random key; the same key gives the same choice.
        problem: model, outcome, loss or utility, and guide.
        data: the model's arguments by name, or a table, with the observed outcomes.
        ways: such as `[Plain(), Calibrated(), Corrected(Plain(), Shift()), Same()]`. By default
            plain VI, four strengths of calibration, a shift of plain VI's decisions, and the same
            decision for all.
        folds: the number of random folds; `Forward(...)` for rows in order of time; or the number
            of the fold for each outcome, from 0, with -1 for outcomes that are only fitted to.
        by: outcomes that belong together: a plate of the outcome, a data argument with a group for
            each outcome, or an array of these. They stay in one fold, and intervals allow for their
            dependence.
        steps: at most this many for each fit, as in `calibrate`.
        draws: of θ at each step.
        optimizer: any optax optimiser; by default that of `calibrate`.
        options: all options of the fits as one value, in place of these three.
        coords: labels of the plates' members, by plate.
        progress: whether to show progress bars on a terminal.
        on: a `dask.distributed.Client`: its workers make the fits, one strength of calibration or
            one fold of NUTS at a time. The numbers are the same as without.

    Examples:
        >>> import jax, numpyro, numpyro.distributions as dist, stakes
        >>> def coin(n, y=None):
        ...     p = numpyro.sample("p", dist.Beta(1, 1))
        ...     with numpyro.plate("toss", n):
        ...         numpyro.sample("y", dist.Bernoulli(p), obs=y)
        >>> problem = stakes.Problem(coin, outcome="y", loss=stakes.Squared())
        >>> data = {"n": 6, "y": jax.numpy.array([1, 1, 0, 1, 0, 1])}
        >>> ways = [stakes.Plain(), stakes.Same()]
        >>> choice = stakes.choose(jax.random.key(0), problem, data, ways, folds=2, steps=300)
        >>> choice.chosen
        'plain VI'
    """
    said = Options(steps=steps, draws=draws, optimizer=optimizer)
    if options is not None and said != Options():
        raise InputError("`choose(options=...)` replaces the other options: leave those out.")
    checks.instance("`problem`", problem, Problem, "a `Problem(model, outcome=..., loss=...)`")
    reason = problem.why_not_single("`choose(problem)`", parts=True)
    if reason is not None:
        raise InputError(reason)
    asked = default_ways(problem) if ways is None else check_ways(ways)
    bench = opened_bench(
        key,
        problem,
        data,
        asked,
        folds,
        by,
        options=said if options is None else options,
        coords=coords,
        progress=checks.flag("`progress=`", progress),
        on=None if on is None else checked_client(on),
    )
    return chosen_among(asked, bench)


def chosen_among(ways: Sequence[Any], bench: Bench) -> Choice:
    """A way whose numbers fail is left out, and told; the others are compared."""
    entries, left_out = list[Entry](), dict[str, str]()
    show = bench.progress and bench.client is not None
    with parts_of("ways tried", len(ways), show=show) as tick:
        for way in ways:
            tick(way.name)
            try:
                entries.append(_entry(bench, way))
            except (NumericalError, NoScaleError) as error:
                left_out[way.name] = str(error)
    if all(entry.way.is_yardstick for entry in entries):
        reasons = "\n".join(f"  {name}: {why}" for name, why in left_out.items())
        raise NumericalError(f"`choose`: no way can decide.\n{reasons}")
    for name, why in left_out.items():
        warn(f"`choose` leaves out {name}: {why}")
    return Choice(bench, tuple(entries), left_out)


def opened_bench(
    key: Key,
    problem: Problem,
    data: Data,
    ways: Sequence[Any],
    folds: Folds,
    by: Any,
    *,
    options: Options,
    coords: Coords | None,
    progress: bool,
    before: Bench | None = None,
    on: Any = None,
) -> Bench:
    """What the ways are fitted with; refuses, before any fit, what one of them cannot handle.

    One `before` is of the same model, data, key and folds, about another loss.
    """
    bench = Bench(
        checked_key(key),
        problem,
        data,
        options,
        strengths=_strengths(ways),
        folds=folds,
        by=by,
        coords=coords,
        progress=progress,
        before=before,
        on=on,
    )
    for way in ways:
        way.check(bench)
    return bench


def default_ways(problem: Problem) -> list[Any]:
    """From the simplest to the most elaborate, and what to compare with."""
    strengths = STRENGTHS if problem.loss is not None else (1.0,)
    calibrated = [Calibrated(strength=strength) for strength in strengths]
    corrected = [] if Corrected.objection(problem) else [Corrected(Plain())]
    return [Plain(), *calibrated, *corrected, Same()]


def check_ways(ways: object) -> list[Way]:
    """Refuse what is no list of different ways, one of which can decide."""
    listed = list(ways) if isinstance(ways, Sequence) and not isinstance(ways, str) else []
    if not listed:
        raise checks.refused("`ways=`", "a list of ways, such as `[Plain(), Same()]`", ways)
    for way in listed:
        checks.choice("`ways=`: each", way, Way, "one such as `Plain()`")
    names = [way.name for way in listed]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"`ways=` has {', '.join(map(repr, twice))} more than once.")
    if all(way.is_yardstick for way in listed):
        raise InputError(
            "`ways=` has nothing but what is there to compare with; add a way such as `Plain()`."
        )
    return listed


def _strengths(ways: Sequence[Any]) -> Mapping[Any, Sequence[Strength]]:
    """For each guide, the strengths of calibration that are asked for."""
    found: dict[Any, list[Strength]] = {}
    for way in ways:
        if isinstance(way, Calibrated):
            found.setdefault(way.guide, []).append(way.asked)
        for guide, asked in _strengths(way.bases).items():
            found.setdefault(guide, []).extend(asked)
    return found


def _entry(bench: Bench, way: Any) -> Entry:
    begin(f"trying on rows left out in turn: {way.name}")
    fitted = bench.fitted(way)
    with waiting(f"deciding by {way.name}", show=bench.progress):
        decisions, inside = _out_of_fold(bench, fitted)
    judged = bench.seen._replace(counted=bench.splits.ever_judged)
    costs = judged.costs(bench.problem.task, decisions)
    return Entry(way, fitted, costs, inside)


def _out_of_fold(bench: Bench, fitted: Fitted) -> tuple[np.ndarray, np.ndarray | None]:
    """Decisions for outcomes that were not seen; and whether these lay in the central 50 and 90 %.

    Instance x (50 %, 90 %), for outcomes judged by; None for a way that predicts nothing.
    """
    outcomes = bench.seen.outcomes
    decisions = np.zeros((*bench.problem.space.axes, *outcomes.shape))
    inside = np.zeros((outcomes.size, 2), bool)
    predicts = True
    for at, (judged, ground) in enumerate(zip(bench.splits.judged, bench.grounds, strict=True)):
        decisions[..., judged] = fitted.decide(at, ground)[..., judged]
        forecast = fitted.forecast(at, ground)
        if forecast is None:
            predicts = False
            continue
        rows, outcome = judged.ravel(), outcomes.ravel()[:, None]
        low, high = forecast.central[:, [1, 0]], forecast.central[:, [2, 3]]
        inside[rows] = ((low <= outcome) & (outcome <= high))[rows]
    return decisions, inside[bench.splits.ever_judged.ravel()] if predicts else None
