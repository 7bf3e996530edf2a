"""What decisions cost if each is made without its own outcome: for data too small to hold out.

Draws of a fit are reweighted for each case to a posterior that has not seen its outcome, by
Pareto-smoothed weights (Vehtari, Gelman and Gabry, *Practical Bayesian model evaluation using
leave-one-out cross-validation and WAIC*, 2017). Where these are not reliable, k̂ > 0.7, the fit is
made again without that case.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from stakes import predicting
from stakes._types import Key
from stakes.bridge import Weighed, seen_members
from stakes.errors import InputError, some
from stakes.fitting import Fit, State, Step, Together, run_together
from stakes.host.packages import how_to_install, missing
from stakes.predicting import FittedPosterior
from stakes.study.cases import Cases, check_decisions
from stakes.study.comparison import Comparison
from stakes.study.dependence import By, dependence_of
from stakes.study.plan import Plan, hide_others, stack_trees

# k̂ above which weights are not reliable, as Vehtari and others recommend.
BAD = 0.7
# Log weights that differ by no more, as by rounding, are equal and need no smoothing.
SAME = 1e-3
# Fits that run as one batch, to bound memory.
AT_ONCE = 64


def leave_one_out(
    cases: Cases, plan: Plan, fits: Mapping[str, Fit], *, draws: int, by: By
) -> Comparison:
    """Return the risk of each fit's decisions, each made without the outcome that it is judged by.

    Args:
        cases: on the data of the fit.
        plan: how the fits were made.
        fits: by the names that the cases have for their posteriors.
        draws: the number of draws of each fit, to be reweighted.
        by: as in `Calibration.compare`.
    """
    if plan.approximation.subsamples:
        raise InputError(
            "`leave_one_out()` needs the data as a whole, and the model takes them in minibatches. "
            "Leave `subsample_size` out, or hold out data: `compare(held_out)`."
        )
    dependence = dependence_of(by, cases.predictor)
    seen = cases.observations
    assert seen is not None  # of a fit, there are some
    counted = seen.counted
    decisions, bad = {}, {}
    for name, posterior in cases.posteriors.items():
        decisions[name], k_hat = _reweighted(cases, posterior, draws)
        bad[name] = np.flatnonzero((~(k_hat <= BAD) & counted).ravel())
    again = refit(plan, fits, bad, cases)
    _decide_again(cases, plan, again, decisions)
    costs = {name: seen.costs(plan.problem.task, found) for name, found in decisions.items()}
    return Comparison(
        costs=costs,
        gain=plan.problem.loss is None,
        setting=f"{counted.sum()} cases, each left out in turn; {_remark(bad)}; "
        f"{plan.problem.criterion.title}; {cases.setting}.",
        held_out=True,
        notes=(*cases.unconverged, *_unconverged(again)),
        dependence=dependence.among(counted),
    )


def _reweighted(
    cases: Cases, posterior: FittedPosterior, draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return decisions without each case's own outcome, and k̂ of each.

    The weights lead to the exact posterior, with the outcome and without it. The difference between
    the two decisions is added to the fit's own decision, which may be another than the exact one.
    """
    drawn = predicting.weighed(posterior, cases.keys.left_out, draws)
    without = weights_without_each(drawn)
    exact = smooth_weights(np.broadcast_to(_ratio(drawn), drawn.log_likelihood.shape))
    task, key = cases.problem.task, cases.keys.decisions
    columns = cases.predictor.columns(task.needs)
    own, with_it, without_it = (
        predicting.decide_weighted(task, cases.expectation, key, drawn, log_weights, columns)
        for log_weights in (
            np.zeros(without.log_weights.shape),
            exact.log_weights,
            without.log_weights,
        )
    )
    every = np.stack([own, with_it, without_it])
    # Where decisions have limits, they stay between the least and the largest of them.
    moved = np.clip(own + without_it - with_it, every.min(), every.max())
    if task.space.actions is not None:
        moved = without_it  # a difference between actions means nothing
    moved = np.array(task.at(columns).space.inside(jnp.asarray(moved)))
    check_decisions(moved)
    return moved, without.k_hat


def _decide_again(
    cases: Cases,
    plan: Plan,
    again: Mapping[str, Mapping[int, Fit]],
    decisions: Mapping[str, np.ndarray],
) -> None:
    """Replace the decisions of cases without which a fit was made again.

    Args:
        cases: on the data of the fit.
        plan: how the fits were made.
        again: name of a fit -> number of a case -> the fit without it.
        decisions: by name of a fit, changed in place.
    """
    seen = cases.observations
    assert seen is not None
    for name, fits in again.items():
        for row, fit in fits.items():
            others = seen.counted.copy()
            others.flat[row] = False
            # Of a member whose only outcome this is nothing is known: it is as good as new.
            approximation = plan.approximation.counting(jnp.asarray(others))
            members = seen_members(approximation, cases.keys.spread)
            predictor = plan.predictors.on(plan.approximation.data, rows=members)
            found = predicting.decide(
                plan.problem.task,
                FittedPosterior(plan.approximation, fit.params),
                predictor,
                cases.expectation,
                cases.keys.decisions,
            )
            decisions[name].flat[row] = found.flat[row]
        check_decisions(decisions[name])


def _remark(bad: Mapping[str, np.ndarray]) -> str:
    """Say in words for which cases a fit was repeated without the case."""
    if not any(map(len, bad.values())):
        return f"no weights with a k\u0302 above {BAD}"
    listed = "; ".join(
        f"{len(rows)} under {name}: {some(rows.tolist())}" for name, rows in bad.items()
    )
    return f"fitted again without each row with a k\u0302 above {BAD} ({listed})"


def _unconverged(again: Mapping[str, Mapping[int, Fit]]) -> tuple[str, ...]:
    """Return a note for each fit whose repetitions did not all converge."""
    found = []
    for name, fits in again.items():
        short = [fit for fit in fits.values() if not fit.converged]
        if short:
            found.append(f"{name} without a row, {len(short)} of {len(fits)}: {short[0].reason}.")
    return tuple(found)


class Weights(NamedTuple):
    """How much each draw counts for each case, once its own outcome is left out.

    Attributes:
        log_weights: draw x case; the weights of a case add up to one.
        k_hat: of each case: the shape of a Pareto tail fitted to its largest weights.
    """

    log_weights: np.ndarray
    k_hat: np.ndarray


def smooth_weights(log_weights: np.ndarray) -> Weights:
    """Return Pareto-smoothed weights, by arviz-stats.

    Args:
        log_weights: with draws along a leading axis; they need not add up to one.
    """
    if missing("arviz_stats"):
        raise InputError(
            f"Pareto-smoothed weights need arviz-stats, which is not installed: "
            f"{how_to_install('weights')}."
        )
    from arviz_stats.base import array_stats

    shape, columns = log_weights.shape, log_weights.reshape(len(log_weights), -1)
    found, k_hat = np.full(columns.shape, -np.log(len(columns))), np.zeros(columns.shape[1])
    # A density that is no number, or infinite, says nothing: such weights are never relied on.
    broken = (np.isnan(columns) | (columns == np.inf)).any(axis=0)
    k_hat[broken] = np.nan
    with np.errstate(invalid="ignore"):  # where all weights are zero
        differ = ~broken & ~(np.ptp(columns, axis=0) <= SAME)
    if differ.any():
        with np.errstate(divide="ignore", invalid="ignore"):  # k̂ is nan then, and no good
            smooth, k_hat[differ] = array_stats.psislw(-columns[:, differ].T)
        found[:, differ] = smooth.T
    return Weights(found.reshape(shape), k_hat.reshape(shape[1:]))


def weights_without_each(draws: Weighed) -> Weights:
    """Return weights that lead to the exact posterior given all outcomes but one, for each of
    these.

    p(θ | D without y_i) / q(θ) is proportional to p(D, θ) / q(θ) / p(y_i | θ).
    """
    return smooth_weights(_ratio(draws) - np.asarray(draws.log_likelihood, float))


def _ratio(draws: Weighed) -> np.ndarray:
    """Return log p(D, θ) - log q(θ) of each draw, with an axis for each of the cases'."""
    axes = (1,) * (draws.log_likelihood.ndim - 1)
    return np.asarray(draws.log_ratio, float).reshape(-1, *axes)


def refit(
    plan: Plan, fits: Mapping[str, Fit], rows: Mapping[str, np.ndarray], cases: Cases
) -> dict[str, dict[int, Fit]]:
    """Return each fit made again without each of its cases, from where it ended with them."""
    keys = {"VI": cases.keys.vi, "LCVI": cases.keys.calibrated}
    steps = {"VI": plan.vi_step(), "LCVI": plan.step(plan.scale)}
    start = {
        "VI": plan.vi_state(fits["VI"].params),
        "LCVI": plan.state(fits["LCVI"].params, cases.decide(cases.posteriors["LCVI"])),
    }
    return {
        name: _without(each, plan, steps[name], start[name], keys[name])
        for name, each in rows.items()
        if len(each)
    }


def _without(rows: np.ndarray, plan: Plan, step: Step, start: State, key: Key) -> dict[int, Fit]:
    """Return, for each of these cases, a fit without it; a compiled batch makes many at once.

    All use the random numbers of the fit to all cases, so that they differ only in the data.
    """
    shape, found = plan.approximation.instances.shape, dict[int, Fit]()
    for at in range(0, len(rows), AT_ONCE):
        these = rows[at : at + AT_ONCE]
        kept = np.ones((len(these), int(np.prod(shape))), bool)
        kept[np.arange(len(these)), these] = False
        batch = Together(
            f"leaving out each of {len(these)}",
            lambda kept: hide_others(kept, step),
            jnp.asarray(kept.reshape(-1, *shape)),
            plan.approximation,
            stack_trees([start] * len(these)),
            jnp.broadcast_to(key, (len(these),)),
            plan.settings,
        )
        for row, fit in zip(these, run_together(batch), strict=True):
            fit.check_whole(f"fit without row {row}")
            found[int(row)] = fit
    return found
