"""Choose among ways to a decision by what their decisions cost on outcomes they have not seen."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stakes import checks
from stakes._types import Key
from stakes.errors import InputError, NoScaleError, NumericalError, warn
from stakes.host.progress import begin, parts_of, waiting
from stakes.host.workers import checked_client
from stakes.problem import Problem
from stakes.study.cases import are_inside
from stakes.study.choice import Choice
from stakes.study.comparison import Diagnosis, Score
from stakes.study.data import Coords, InputData
from stakes.study.dependence import By
from stakes.study.folds import Folds
from stakes.study.options import Options
from stakes.study.screening import screen
from stakes.study.strategies.baselines import Same
from stakes.study.strategies.by_posterior import Calibrated, Plain
from stakes.study.strategies.corrected import Corrected
from stakes.study.strategies.strategy import FittedStrategy, Strategy
from stakes.study.study import Study, Work

if TYPE_CHECKING:
    import optax

# Strengths of calibration that are tried by default: none is the best for all problems.
STRENGTHS = (0.25, 1.0, 4.0, 16.0)


def choose(
    key: Key,
    problem: Problem,
    data: InputData,
    ways: Sequence[Strategy] | None = None,
    folds: Folds = 5,
    by: By = None,
    *,
    steps: int = 30_000,
    draws: int | None = None,
    optimizer: "optax.GradientTransformation | None" = None,
    options: Options | None = None,
    coords: Coords | None = None,
    progress: bool = True,
    on: object = None,
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
            decision for all. Calibration is then tried only where a better posterior would save
            more than 0.2 % of the expected cost; the choice says where it was not.
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
    chosen = Options(steps=steps, draws=draws, optimizer=optimizer).replaced_by(options, "choose")
    checks.instance("`problem`", problem, Problem, "a `Problem(model, outcome=..., loss=...)`")
    reason = problem.why_not_single("`choose(problem)`", parts=True)
    if reason is not None:
        raise InputError(reason)
    strategies = default_ways(problem) if ways is None else check_ways(ways)
    work = Work(
        progress=checks.flag("`progress=`", progress),
        client=None if on is None else checked_client(on),
    )
    study = Study(key, problem, data, chosen, folds=folds, by=by, coords=coords, work=work)
    optional = calibrations(problem) if ways is None else []
    enter(study, strategies, optional)
    return chosen_among(study, strategies, optional)


def enter(study: Study, strategies: Sequence[Strategy], optional: Sequence[Strategy] = ()) -> None:
    """Let strategies take part: refuse, before any fit, what one of them cannot handle.

    Args:
        study: with folds.
        strategies: to compare.
    """
    if study.problem.action is not None:
        raise InputError(
            f"`choose(...)` judges strategies by observed outcomes, but decisions about "
            f"{study.problem.action!r} change the outcome. Use `calibrate(...)`."
        )
    study.strengths.clear()
    for strategy in strategies:
        if strategy not in optional:
            strategy.check(study)


def chosen_among(
    study: Study, strategies: Sequence[Strategy], optional: Sequence[Strategy] = ()
) -> Choice:
    """Compare what the strategies decide; one whose numbers fail is left out, with a warning.

    Args:
        study: which the strategies have entered.
        strategies: from the simplest to the most elaborate.
    """
    not_tried = ""
    if optional and screen(study).rules_out:
        strategies = [each for each in strategies if each not in optional]
        not_tried = str(screen(study))
    else:
        for strategy in optional:
            strategy.check(study)
    scores, left_out = list[Score](), dict[str, str]()
    show = study.work.progress and study.work.client is not None
    with parts_of("strategies tried", len(strategies), show=show) as tick:
        for strategy in strategies:
            tick(strategy.name)
            try:
                scores.append(score(study, strategy))
            except (NumericalError, NoScaleError) as error:
                left_out[strategy.name] = str(error)
    if all(each.is_baseline for each in scores):
        reasons = "\n".join(f"  {name}: {why}" for name, why in left_out.items())
        raise NumericalError(f"`choose`: no strategy can decide.\n{reasons}")
    for name, why in left_out.items():
        warn(f"`choose` leaves out {name}: {why}")
    entered = tuple(each for each in strategies if each.name not in left_out)
    return Choice(study, entered, tuple(scores), left_out, not_tried)


def default_ways(problem: Problem) -> list[Strategy]:
    """Return strategies from the simplest to the most elaborate, and a baseline."""
    corrected = [] if Corrected.objection(problem) else [Corrected(Plain())]
    return [Plain(), *calibrations(problem), *corrected, Same()]


def calibrations(problem: Problem) -> list[Strategy]:
    """The strengths of calibration to try; a utility has no scale that could be another."""
    strengths = STRENGTHS if problem.loss is not None else (1.0,)
    return [Calibrated(strength=strength) for strength in strengths]


def check_ways(ways: object) -> list[Strategy]:
    """Return the strategies; refuse all but a list of different ones, of which one can decide."""
    listed = list(ways) if isinstance(ways, Sequence) and not isinstance(ways, str) else []
    if not listed:
        raise checks.refused("`ways=`", "a list of strategies, such as `[Plain(), Same()]`", ways)
    for way in listed:
        checks.choice("`ways=`: each", way, Strategy, "one such as `Plain()`")
    names = [way.name for way in listed]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"`ways=` has {', '.join(map(repr, twice))} more than once.")
    if all(way.is_baseline for way in listed):
        raise InputError(
            "`ways=` has only baselines, to compare with; add a strategy such as `Plain()`."
        )
    return listed


def score(study: Study, strategy: Strategy) -> Score:
    """Return what the strategy's decisions cost on outcomes that its fits had not seen."""
    begin(f"trying on rows left out in turn: {strategy.name}")
    fitted = [study.fitted(strategy, mask) for mask in study.masks]
    with waiting(f"deciding by {strategy.name}", show=study.work.progress):
        decisions, inside = _out_of_fold(study, fitted)
    judged = study.seen._replace(counted=study.splits.ever_judged)
    return Score(
        name=strategy.name,
        costs=judged.costs(study.problem.task, decisions),
        inside=inside,
        seconds=sum(each.seconds for each in fitted),
        diagnosis=Diagnosis.worst(each.diagnosis for each in fitted),
        is_baseline=strategy.is_baseline,
    )


def _out_of_fold(
    study: Study, fitted: Sequence[FittedStrategy]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Decisions for outcomes that were not seen; and whether these lay in the central 50 and 90 %.

    Case x (50 %, 90 %), for outcomes judged by; None for a strategy that predicts nothing.
    """
    outcomes, splits = study.seen.outcomes, study.splits
    decisions = np.zeros((*study.problem.space.axes, *outcomes.shape))
    inside = np.zeros((outcomes.size, 2), bool)
    predicts = True
    for mask, judged, strategy in zip(splits.masks, splits.judged, fitted, strict=False):
        cases = study.cases(mask)
        decisions[..., judged] = strategy.decide(cases)[..., judged]
        forecast = strategy.predict(cases)
        if forecast is None:
            predicts = False
            continue
        rows = judged.ravel()
        inside[rows] = are_inside(forecast.central, outcomes.ravel())[rows]
    return decisions, inside[splits.ever_judged.ravel()] if predicts else None
