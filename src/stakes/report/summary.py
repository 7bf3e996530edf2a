"""From a calibration to the content of its report."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stakes import evaluation, numpyro_adapter
from stakes.comparison import Comparison
from stakes.errors import StakesWarning
from stakes.evaluation import Fitted, Observations
from stakes.fitting import Fit
from stakes.numpyro_adapter import Predictor
from stakes.report.content import (
    Convergence,
    Coverage,
    Decisions,
    Origin,
    Price,
    Report,
    Risk,
    ScaleOfLosses,
    Trace,
    Verdict,
)
from stakes.report.movement import movement
from stakes.report.predictions import decision_table, draws_for, predictive_quantiles, what_if
from stakes.result import Calibration
from stakes.stages import finite_mean
from stakes.typing import Data

POINTS = 250
"""Of each trace of a bound."""
MOST_BINS = 40
COVERED = (0.5, 0.9)


def summarise(
    result: Calibration,
    *,
    title: str,
    held_out: Data | None = None,
    new: Sequence[str] = (),
    known: Sequence[str] = (),
    labels: Mapping[str, Sequence[Any]] | None = None,
    nuts: int | None = None,
    provenance: Mapping[str, str] | None = None,
    command: str | None = None,
    program: str | None = None,
) -> Report:
    """Everything that the report says about a calibration.

    Args:
        title: of the page.
        held_out: data with observed outcomes to judge the decisions and the coverage by; the data
            of the fit where left out.
        new: plates of `held_out` with new members, as in `Calibration.compare`.
        known: plates of `held_out` with the members of the fit.
        labels: column name -> a value for each instance of the fit, to tell the rows of the
            decision table apart; the plates' labels where left out.
        nuts: also compare with this many draws of NUTS.
        provenance: what the result was made from, such as versions, seed and hashes.
        command: that makes this report again.
        program: in Python, that makes this report again.
    """
    judged_by = None if held_out is None else _HeldOut(held_out, tuple(new), tuple(known))
    comparison = result.compare(held_out, new=new, known=known, nuts=nuts)
    samples = None if nuts is None else result.nuts(nuts).samples
    draws = _draws(result, result.calibrated, None)
    table = decision_table(result, labels, _seen(result, None), draws)
    return Report(
        title=title,
        loss=result.problem.cost_name,
        verdict=verdict(comparison),
        decisions=table,
        what_if=what_if(result.problem.loss, draws),
        movement=movement(result, samples),
        convergence=convergence(result, table),
        price=_price(result, judged_by, draws),
        origin=Origin(dict(provenance or {}), command, program),
    )


class _HeldOut(NamedTuple):
    """Data to judge by, and which of its plates hold new members and which those of the fit."""

    data: Data
    new: tuple[str, ...]
    known: tuple[str, ...]


def verdict(comparison: Comparison) -> Verdict:
    low, high = comparison.interval
    tone = "better" if low > 0 else "worse" if high < 0 else "unclear"
    sign = -1.0 if comparison.gain else 1.0
    risks = [
        Risk(
            method,
            sign * value,
            comparison.reductions.get(method),
            comparison.intervals.get(method),
        )
        for method, value in comparison.risk.items()
    ]
    return Verdict(
        sentence=comparison.verdict,
        tone="unclear" if comparison.notes else tone,
        quantity="gain" if comparison.gain else "risk",
        risks=tuple(risks),
        instances=comparison.instances,
        held_out=comparison.held_out,
        setting=comparison.setting,
        notes=comparison.notes,
    )


def convergence(result: Calibration, table: Decisions) -> Convergence:
    traces = (_trace("VI", result.vi), _trace("LCVI", result.calibrated))
    return Convergence(traces, _scale_of_losses(result, table))


def _trace(method: str, fit: Fit) -> Trace:
    """The bound as means over stretches of steps, which shows the course and not the noise."""
    width = -(-fit.steps // POINTS)
    starts = np.arange(0, fit.steps, width)
    return Trace(
        method=method,
        steps=np.minimum(starts + width, fit.steps),
        bound=np.array([finite_mean(fit.bound[start : start + width]) for start in starts]),
        reason=str(fit.reason),
        converged=fit.converged,
        taken=fit.steps,
        skipped=fit.skipped,
        seconds=fit.seconds,
        end=finite_mean(_last_tenth(fit.bound)),
    )


def _scale_of_losses(result: Calibration, table: Decisions) -> ScaleOfLosses | None:
    transform, scale = result.transform, result.scale
    if transform is None or scale is None:
        return None
    seen = np.isfinite(table.observed)
    observed = Observations(table.observed[seen], np.ones(int(seen.sum()), bool))
    losses = observed.costs(result.problem, table.vi[seen])
    # A few losses far out would squeeze all others into one bin.
    end = max(float(np.quantile(losses, 0.99)), 1.2 * scale)
    bins = int(np.clip(2 * np.sqrt(len(losses)), 8, MOST_BINS))
    counts, edges = np.histogram(losses, bins, (min(0.0, float(losses.min())), end))
    return ScaleOfLosses(
        transform=type(transform).__name__,
        value=scale,
        share=float((losses <= scale * (1 + 1e-6)).mean()),
        edges=edges,
        counts=counts,
        beyond=int((losses > end).sum()),
    )


def _price(result: Calibration, judged_by: _HeldOut | None, draws: np.ndarray) -> Price:
    """`draws` are predictive ones of the calibrated fit, on its own data."""
    ends = [_last_tenth(fit.elbo) for fit in (result.vi, result.calibrated)]
    ends = [end[np.isfinite(end)] for end in ends]
    errors = [float(end.var() / max(len(end), 1)) for end in ends]
    seen = _seen(result, judged_by)
    shares = [
        _covered(_draws(result, result.vi, judged_by), seen),
        _covered(
            draws if judged_by is None else _draws(result, result.calibrated, judged_by), seen
        ),
    ]
    return Price(
        elbo_vi=finite_mean(ends[0]),
        elbo_calibrated=finite_mean(ends[1]),
        error=float(np.sqrt(sum(errors))),
        coverage=tuple(
            Coverage(level, float(shares[0][i]), float(shares[1][i]))
            for i, level in enumerate(COVERED)
        ),
        instances=int(seen.counted.sum()),
        held_out=judged_by is not None,
    )


def _covered(draws: np.ndarray, seen: Observations) -> np.ndarray:
    """Share of outcomes inside their interval, for each level."""
    levels = np.array(
        [(1 - level) / 2 for level in COVERED] + [(1 + level) / 2 for level in COVERED]
    )
    ends = predictive_quantiles(draws[:, seen.counted.ravel()], levels)
    lows, highs = ends[:, : len(COVERED)], ends[:, len(COVERED) :]
    outcomes = seen.outcomes[seen.counted][:, None]
    return ((lows <= outcomes) & (outcomes <= highs)).mean(axis=0)


def _draws(result: Calibration, fit: Fit, judged_by: _HeldOut | None) -> np.ndarray:
    """Of the outcome of each instance, draws along a leading axis."""
    count = draws_for(int(np.prod(_predictor(result, judged_by).instances.shape)))
    options: dict[str, Any] = {}
    if judged_by is not None:
        options = {"new": judged_by.new, "known": judged_by.known, "data": judged_by.data}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StakesWarning)  # the comparison has said it already
        found = result.predictive(fit=fit, draws=count, **options)
    return found[result.problem.outcome].values.reshape(count, -1)


def _seen(result: Calibration, judged_by: _HeldOut | None) -> Observations:
    posterior = Fitted(result.approximation, result.vi.params)
    seen = evaluation.observations(posterior, _predictor(result, judged_by))
    assert seen is not None  # or the comparison would have failed
    return seen


def _predictor(result: Calibration, judged_by: _HeldOut | None) -> Predictor:
    if judged_by is None:
        return numpyro_adapter.predictor(result.problem, result.approximation)
    checked = result.problem.check_data(judged_by.data, needs_outcome=True)
    return numpyro_adapter.predictor(
        result.problem, result.approximation, checked, new=judged_by.new
    )


def _last_tenth(values: np.ndarray) -> np.ndarray:
    return values[-max(1, len(values) // 10) :]
