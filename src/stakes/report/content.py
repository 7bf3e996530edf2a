"""From a calibration to the content of its report: plain values, a dataclass for each section.

The page shows nothing that is not here, so that what it says can be tested without HTML.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from stakes import checks
from stakes.errors import InputError
from stakes.fitting import Fit
from stakes.predicting import SampledPosterior
from stakes.problem import Problem
from stakes.report.actions import ActionTable, action_table
from stakes.report.convergence import Price, ScaleOfLosses, price, scale_of_losses
from stakes.report.decision_table import Decisions, decision_table
from stakes.report.expected import curve
from stakes.report.movement import Movement, moved_latents
from stakes.report.pictures import METHODS
from stakes.report.rows import Rows, answer, quality
from stakes.report.what_if import Curve, WhatIf, what_if
from stakes.report.worth import Quality, Recommendation
from stakes.study import (
    NOT_CALIBRATED,
    Calibration,
    Cases,
    Comparison,
    Summary,
)


@final
@dataclass(frozen=True)
class Verdict:
    """Did calibration help?

    Attributes:
        tone: `better`, `worse` or `unclear`.
        gain: whether decisions are judged by a utility, and not by their risk.
        comparison: None where data cannot judge decisions, or there is nothing to compare with.
    """

    sentence: str
    tone: str
    gain: bool
    setting: str
    notes: tuple[str, ...] = ()
    comparison: Comparison | None = None


@final
@dataclass(frozen=True)
class Origin:
    """Where the report comes from, and how to make it again.

    Attributes:
        provenance: what the result was made from, such as versions, seed and hashes.
        command: the command that makes this report again.
        program: the Python program that makes this report again.
    """

    provenance: Mapping[str, str] = field(default_factory=dict)
    command: str | None = None
    program: str | None = None

    def __post_init__(self) -> None:
        where = "`Origin({}=...)`".format
        rule = "a mapping from names to text"
        checks.instance(where("provenance"), self.provenance, Mapping, rule)
        for text in (*self.provenance.keys(), *self.provenance.values()):
            checks.text(where("provenance"), text)
        for name, written in (("command", self.command), ("program", self.program)):
            if written is not None:
                checks.text(where(name), written)


@final
@dataclass(frozen=True, eq=False)
class Report:
    """Everything on the page; a section is None where there is nothing to say.

    Attributes:
        title: of the page.
        loss: or utility, as users write it.
        verdict: whether calibration helped.
        decisions: the table of all decisions.
        what_if: None where the loss has no parameter to vary.
        movement: how calibration moved the posterior.
        fits: by name, with the traces of their bounds.
        scale: None for a problem given by a utility, and where plain VI is the only fit.
        price: None where plain VI is the only fit.
        origin: how to make the report again.
        answer: what to decide.
        quality: None where no outcomes were observed.
        choice: None where strategies were not compared.
        unit: what costs are counted in.
        actions: None where decisions are no actions of a table of costs, or no outcomes came.
        curve: None where decisions do not change outcomes.
    """

    title: str
    loss: str
    verdict: Verdict
    decisions: Decisions
    what_if: WhatIf | None
    movement: Movement
    fits: Mapping[str, Fit]
    scale: ScaleOfLosses | None
    price: Price | None
    origin: Origin
    answer: Recommendation
    quality: Quality | None
    choice: Summary | None = None
    unit: str | None = None
    actions: ActionTable | None = None
    curve: Curve | None = None


def summarise(
    result: Calibration,
    *,
    title: str,
    held_out: Cases | None = None,
    nuts: int | None = None,
    rows: Sequence[Rows] | None = None,
    choice: Summary | None = None,
    unit: str | None = None,
    origin: Origin | None = None,
) -> Report:
    """Everything that the report says about a calibration.

    Args:
        title: of the page.
        held_out: `result.assess(...)` of data with observed outcomes, to judge the decisions and
            the coverage by; by default the data of the fit.
        nuts: also compare with this many draws of NUTS.
        rows: the cases in the decision table, part by part, with what is decided about them and
            labels that tell them apart; the first part has the decisions to take. By default the
            cases of the fit, and those held out.
        choice: the choice among ways to decide, where there was one.
        unit: what costs are counted in, such as "€".
        origin: where the report comes from, and how to make it again.
    """
    where = "`summarise({}=...)`".format
    checks.instance(where("result"), result, Calibration, "what `calibrate(...)` returns")
    reason = unfit(result.problem)
    if reason is not None:
        raise InputError(reason)
    checks.text(where("title"), title)
    for name, given, kind, rule in (
        ("held_out", held_out, Cases, "what `result.assess(data)` returns"),
        ("choice", choice, Summary, "the `summary` of what `choose(...)` returns"),
        ("origin", origin, Origin, "an `Origin(...)` of the report"),
    ):
        if given is not None:
            checks.instance(where(name), given, kind, rule)
    if unit is not None:
        checks.text(where("unit"), unit)
    nuts = None if nuts is None else checks.whole(where("nuts"), nuts)
    parts = [Rows("fit", result.on_fit)] if rows is None else _checked(where("rows"), rows)
    if rows is None and held_out is not None:
        parts = [Rows("held out", held_out), *parts]
    cases = result.on_fit if held_out is None else held_out
    judged = next(part for part in parts if part.cases is cases)
    gain = result.problem.loss is None
    sampled = None if nuts is None else result.nuts(nuts)
    return Report(
        title=title,
        loss=result.problem.criterion.title,
        verdict=_verdict(cases, sampled, choice.not_tried if choice else ""),
        decisions=decision_table(parts, gain=gain),
        what_if=what_if(parts[0]),
        movement=moved_latents(result, sampled),
        fits=result.fits,
        scale=scale_of_losses(result),
        price=price(result, cases, covered=choice is None) if "LCVI" in result.fits else None,
        origin=origin or Origin(),
        answer=answer(parts[0], gain=gain, unit=unit),
        quality=quality(judged, choice, unseen=cases.held_out, gain=gain, unit=unit),
        choice=choice,
        unit=unit,
        actions=action_table(judged),
        curve=curve(result, parts[0]),
    )


def unfit(problem: Problem) -> str | None:
    """Return why there is no report about such decisions; None where there is."""
    return problem.why_not_single("A report")


def _checked(where: str, rows: object) -> list[Rows]:
    """Return the rows, or refuse what is no list of them."""
    if not isinstance(rows, Sequence) or not rows:
        raise checks.refused(where, "a list of `Rows(...)`, at least one", rows)
    for part in rows:
        checks.instance(where, part, Rows, "a list of `Rows(...)`")
    return list(rows)


def _verdict(cases: Cases, sampled: SampledPosterior | None, not_tried: str) -> Verdict:
    """Return the verdict of the comparison; without one where data cannot judge."""
    if cases.problem.why_not_judged is not None:
        return _unjudged(cases, not_tried)
    comparison = cases.comparison if sampled is None else cases.compared(sampled)
    return verdict(comparison) if "LCVI" in comparison.risk else _unjudged(cases, not_tried)


def verdict(comparison: Comparison) -> Verdict:
    """Return whether calibration helped, by what decisions cost."""
    low, high = comparison.interval
    tone = "better" if low > 0 else "worse" if high < 0 else "unclear"
    return Verdict(
        sentence=comparison.verdict,
        tone="unclear" if comparison.notes else tone,
        gain=comparison.gain,
        setting=" ".join(comparison.basis),
        notes=_unreliable(comparison.notes),
        comparison=comparison,
    )


def _unjudged(cases: Cases, not_tried: str) -> Verdict:
    """Return a verdict where data cannot judge, or there is nothing to compare with."""
    problem = cases.problem
    reason, setting = problem.why_not_judged, f"{problem!r}."
    sentence = not_tried or NOT_CALIBRATED
    if reason is not None:
        sentence = f"{reason} Plain VI decides: nothing shows that calibration helps."
        setting = f"{problem!r}; {cases.setting}."
    return Verdict(
        sentence=sentence,
        tone="unclear",
        gain=problem.loss is None,
        setting=setting,
        notes=_unreliable(cases.unconverged),
    )


def _unreliable(notes: Sequence[str]) -> tuple[str, ...]:
    """Return what it means to a reader that fits had not converged."""
    if not notes:
        return ()
    return (
        f"Do not rely on the figures on this page yet: a fit stopped before it had converged "
        f"({'; '.join(map(_in_words, notes))}). With more steps, decisions and costs may change. "
        f"Allow at least twice as many, with steps = … under [fit] in the spec or steps= in "
        f"Python, and run again.",
    )


def _in_words(note: str) -> str:
    """Return a note such as `VI: why it ended.` with the page's name of the method."""
    name = note.partition(" ")[0].rstrip(":")
    return METHODS.get(name, name) + note[len(name) :].rstrip(".")
