"""From a calibration to the content of its report."""

from collections.abc import Mapping, Sequence

import numpy as np

from stakes import checks
from stakes.errors import InputError
from stakes.fitting import Fit, finite_mean
from stakes.predicting import Observations
from stakes.problem import Problem
from stakes.report.actions import action_table
from stakes.report.answers import answer, quality
from stakes.report.content import (
    METHODS,
    Convergence,
    Coverage,
    Origin,
    Price,
    Report,
    Risk,
    ScaleOfLosses,
    Trace,
    Verdict,
)
from stakes.report.cost_dial import table_what_if
from stakes.report.expected import curve
from stakes.report.movement import movement
from stakes.report.predictions import decision_table, loss_to_vary, what_if
from stakes.report.rows import Labels, Rows
from stakes.report.worth import Worth
from stakes.study import (
    LEFT_OUT,
    Assessment,
    Calibration,
    Comparison,
    predictive_quantiles,
    why_not_judged,
)

POINTS = 250
"""In each trace of a bound."""
MOST_BINS = 40
COVERED = (0.5, 0.9)


def summarise(
    result: Calibration,
    *,
    title: str,
    held_out: Assessment | None = None,
    labels: Labels | None = None,
    nuts: int | None = None,
    provenance: Mapping[str, str] | None = None,
    command: str | None = None,
    program: str | None = None,
    rows: Sequence[Rows] | None = None,
    worth: Worth | None = None,
    unit: str | None = None,
) -> Report:
    """Everything that the report says about a calibration.

    Args:
        title: of the page.
        held_out: `result.assess(...)` of data with observed outcomes, to judge the decisions and
            the coverage by; by default the data of the fit.
        labels: column name -> a value for each instance of the fit, to tell the rows of the
            decision table apart; by default the plates' labels.
        nuts: also compare with this many draws of NUTS.
        provenance: what the result was made from, such as versions, seed and hashes.
        command: the command that makes this report again.
        program: the Python program that makes this report again.
        rows: the cases in the decision table, part by part, with what is decided about them; the
            first part has the decisions to take. By default the cases of the fit, and those held
            out.
        worth: what the decisions of the way that was chosen are worth.
        unit: what costs are counted in, such as "€".
    """
    where = "`summarise({}=...)`".format
    checks.instance(where("result"), result, Calibration, "what `calibrate(...)` returns")
    reason = unfit(result.problem)
    if reason is not None:
        raise InputError(reason)
    checks.text(where("title"), title)
    if held_out is not None:
        rule = "what `result.assess(data)` returns"
        checks.instance(where("held_out"), held_out, Assessment, rule)
    if labels is not None:
        checks.labels(where("labels"), labels)
    nuts = None if nuts is None else checks.whole(where("nuts"), nuts)
    if provenance is not None:
        checks.instance(where("provenance"), provenance, Mapping, "a mapping from names to text")
        for said in (*provenance.keys(), *provenance.values()):
            checks.text(where("provenance"), said)
    for name, written in (("command", command), ("program", program)):
        if written is not None:
            checks.text(where(name), written)
    if worth is not None:
        checks.instance(where("worth"), worth, Worth, "a `Worth(...)` of the report")
    if unit is not None:
        checks.text(where("unit"), unit)
    parts = _parts(result, held_out, labels) if rows is None else _checked(where("rows"), rows)
    judged = result.on_fit if held_out is None else held_out
    gain = result.problem.loss is None
    sampled = None if nuts is None else result.nuts(nuts)
    comparison = None
    if why_not_judged(result.problem) is None:
        comparison = judged.comparison if sampled is None else judged.compared(sampled)
    return Report(
        title=title,
        loss=result.problem.criterion.title,
        verdict=_verdict(judged, comparison),
        decisions=decision_table(parts, gain=gain),
        what_if=what_if(loss_to_vary(result.problem), parts[0].draws) or table_what_if(parts[0]),
        movement=movement(result, sampled),
        convergence=_convergence(result),
        price=_price(result, judged, covered=worth is None) if "LCVI" in result.fits else None,
        origin=Origin(dict(provenance or {}), command, program),
        answer=answer(parts[0], gain=gain, unit=unit),
        quality=quality(
            next(part for part in parts if part.cases is judged),
            worth,
            unseen=judged.held_out,
            gain=gain,
            unit=unit,
        ),
        worth=worth,
        unit=unit,
        actions=action_table(next(part for part in parts if part.cases is judged)),
        curve=curve(result, parts[0]),
    )


def unfit(problem: Problem) -> str | None:
    """Why there is no report about such decisions; None where there is."""
    return problem.why_not_single("A report")


def _parts(
    result: Calibration, held_out: Assessment | None, labels: Labels | None
) -> tuple[Rows, ...]:
    fit = Rows("fit", result.on_fit, labels=labels)
    return (fit,) if held_out is None else (Rows("held out", held_out), fit)


def _checked(where: str, rows: object) -> tuple[Rows, ...]:
    if not isinstance(rows, Sequence) or not rows:
        raise checks.refused(where, "a list of `Rows(...)`, at least one", rows)
    for part in rows:
        checks.instance(where, part, Rows, "a list of `Rows(...)`")
    return tuple(rows)


def _verdict(cases: Assessment, comparison: Comparison | None) -> Verdict:
    if comparison is None or "LCVI" not in comparison.risk:
        return unjudged(cases)
    return verdict(comparison)


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
        notes=_unreliable(comparison.notes),
    )


def unjudged(cases: Assessment) -> Verdict:
    """Where data cannot say how good decisions have been, or there is nothing to compare with."""
    problem = cases.problem
    reason, sentence, setting = why_not_judged(problem), LEFT_OUT, f"{problem!r}."
    if reason is not None:
        sentence = f"{reason} Plain VI decides: nothing shows that calibration helps."
        setting = f"{problem!r}; {cases.setting}."
    return Verdict(
        sentence=sentence,
        tone="unclear",
        quantity="gain" if problem.loss is None else "risk",
        risks=(),
        instances=int(np.prod(cases.instances.shape)),
        held_out=cases.held_out,
        setting=setting,
        notes=_unreliable(cases.unconverged),
    )


def _unreliable(notes: Sequence[str]) -> tuple[str, ...]:
    """What it means to a reader that fits had not converged."""
    if not notes:
        return ()
    return (
        f"Do not rely on the figures on this page yet. A fit looks step by step for what suits the "
        f"data best, and here it stopped before it had found that "
        f"({'; '.join(map(_in_words, notes))}): with more steps, decisions and costs may change. "
        f"Allow twice as many or more, with steps = … under [fit] in the spec or steps= in Python, "
        f"and run again.",
    )


def _in_words(note: str) -> str:
    """A note such as `VI: why it ended.`, with the page's name of the method."""
    name = note.partition(" ")[0].rstrip(":")
    return METHODS.get(name, name) + note[len(name) :].rstrip(".")


def _convergence(result: Calibration) -> Convergence:
    traces = tuple(_trace(method, fit) for method, fit in result.fits.items())
    return Convergence(traces, _scale_of_losses(result))


def _trace(method: str, fit: Fit) -> Trace:
    """The bound as means over stretches of steps, which show the course and not the noise."""
    width = -(-fit.steps // POINTS) or 1
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
        end=finite_mean(fit.last_tenth(fit.bound)),
    )


def _scale_of_losses(result: Calibration) -> ScaleOfLosses | None:
    transform, scale = result.transform, result.scale
    judged = why_not_judged(result.problem) is None
    if transform is None or scale is None or not judged or "LCVI" not in result.fits:
        return None
    losses = result.on_fit.comparison.costs["VI"]
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


def _price(result: Calibration, judged: Assessment, *, covered: bool) -> Price:
    """What calibration cost in fit; with coverage, where the table of ways does not have it."""
    ends = [fit.last_tenth(fit.elbo) for fit in result.fits.values()]
    ends = [end[np.isfinite(end)] for end in ends]
    errors = [float(end.var() / len(end)) if len(end) else float("nan") for end in ends]
    seen = judged.observations
    shares: list[tuple[float, float]] = []
    if seen is not None and covered:
        both = [_covered(drawn, seen).tolist() for drawn in (judged.vi_predicted, judged.predicted)]
        shares = list(zip(*both, strict=True))
    return Price(
        elbo_vi=finite_mean(ends[0]),
        elbo_calibrated=finite_mean(ends[1]),
        error=float(np.sqrt(sum(errors))),
        coverage=tuple(
            Coverage(level, vi, calibrated)
            for level, (vi, calibrated) in zip(COVERED, shares, strict=False)
        ),
        instances=0 if seen is None else int(seen.counted.sum()),
        held_out=judged.held_out,
    )


def _covered(draws: np.ndarray, seen: Observations) -> np.ndarray:
    """Share of outcomes inside their interval, for each level."""
    levels = np.array(
        [(1 - level) / 2 for level in COVERED] + [(1 + level) / 2 for level in COVERED]
    )
    ends = predictive_quantiles(draws[:, seen.counted.ravel()], levels)
    lows, highs = ends[:, : len(COVERED)], ends[:, len(COVERED) :]
    outcomes = seen.outcomes[seen.counted][:, None]
    shares: np.ndarray = ((lows <= outcomes) & (outcomes <= highs)).mean(axis=0)
    return shares
